"""Worker processes: their start, and their end with the parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt
LARGEST = 1 << 25  # largest allocation in bytes that its heap serves
PATIENCE = 5.0  # seconds for the threads of a pool to end
LOOK = 1.0  # seconds between two checks whether a silent pool is broken


class Pool(ProcessPoolExecutor):
    """Pool of worker processes, each started when a call finds no idle process.

    Processes are spawned, not forked: a fork would inherit threads of BLAS and Numba in an unknown
    state. Ctrl-C waits until a process has started, since an interrupted start prints a traceback.
    """

    def __init__(self, workers: int):
        super().__init__(workers, multiprocessing.get_context("spawn"), initializer=_begin_worker)

    def submit(self, *arguments: Any, **options: Any) -> Future[Any]:
        """Submit a call; Ctrl-C, which only the main thread receives, takes effect after it."""
        if threading.current_thread() is not threading.main_thread():
            return super().submit(*arguments, **options)
        came: list[int] = []
        before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
        try:
            return super().submit(*arguments, **options)
        finally:
            signal.signal(signal.SIGINT, before)
            if came:
                signal.raise_signal(signal.SIGINT)


def _begin_worker() -> None:
    """Prepare a worker: one thread, Ctrl-C ignored, and an exit when its parent ends.

    Freed memory of some megabytes is kept: glibc would return it to the system and fault it in page
    by page for the next matrix, which takes a sixth of the time of rounds at N = 1,000.
    """
    os.environ["HOPFED_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError, TypeError):  # only glibc has this option
        set_option = ctypes.CDLL(None).mallopt
        set_option(MMAP_THRESHOLD, LARGEST)
        set_option(TRIM_THRESHOLD, (1 << 31) - 1)
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: Any) -> None:
    parent.join()
    os._exit(1)


def first_done(pool: Executor, futures: Collection[Future[Any]]) -> set[Future[Any]]:
    """Wait until a worker process has done one of `futures`, and return all that are done.

    A call submitted at the moment when a worker dies may never be marked as failed
    (https://github.com/python/cpython/issues/94777), so the pool is checked as well.
    """
    while True:
        broken = getattr(pool, "_broken", False)
        if done := wait(futures, LOOK, FIRST_COMPLETED).done:
            return done
        if broken:  # already before the wait, so all calls it knew of are marked by now
            raise BrokenProcessPool("a process of the pool ended")


def end_pool(pool: ProcessPoolExecutor, others: Collection[Any]) -> None:
    """Cancel the calls of a process pool, end its children except `others`; wait for its threads.

    The threads pickle calls and close pipes, which must not continue while the interpreter ends.
    """
    manager = getattr(pool, "_executor_manager_thread", None)
    pool.shutdown(wait=False, cancel_futures=True)
    for process in set(multiprocessing.active_children()) - set(others):
        process.terminate()
    if manager is not None:
        manager.join(PATIENCE)
