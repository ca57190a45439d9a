"""Limits of the threads of BLAS, which a process has one of."""

import threading

from threadpoolctl import threadpool_info

from hopfed._lib.arrays import blas_threads


def threads():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def test_threads_that_leave_in_any_order_give_back_what_was_there():
    """The last of three that overlapped restored the limit of the first: one thread for good."""
    before, seen = threads(), []
    enter, leave = ([threading.Event() for _ in range(3)] for _ in range(2))

    def hold(k):
        with blas_threads(1):
            enter[k].set()
            leave[k].wait()
            seen.append(threads())

    held = [threading.Thread(target=hold, args=(k,)) for k in range(3)]
    for thread, entered in zip(held, enter, strict=True):
        thread.start()
        entered.wait()
    for k in (0, 2, 1):
        leave[k].set()
        held[k].join()
    assert seen == [{1}] * 3
    assert threads() == before


def test_an_outer_limit_holds_again_after_an_inner_one():
    before = threads()
    with blas_threads(2):
        outer = threads()
        with blas_threads(1), blas_threads(1), blas_threads(None):
            assert threads() == {1}
        assert threads() == outer
    assert threads() == before
