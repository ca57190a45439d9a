"""Run the tiles of a kernel on all cores.

The compiled kernels release the GIL and are run from ordinary threads that live for one call.
Compared with Numba's own `parallel=True` this compiles several times faster, works after a fork,
and may be called from several threads at once (which makes Numba's default threading layer abort
the process).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

from hopfed.errors import ArgumentError

VARIABLE = "HOPFED_NUM_THREADS"


def thread_count() -> int:
    """Return the number of CPU threads of a kernel: HOPFED_NUM_THREADS, or the available cores."""
    asked = os.environ.get(VARIABLE, "")
    if asked:
        if not asked.isdecimal() or int(asked) < 1:
            raise ArgumentError(VARIABLE, "a positive integer", repr(asked))
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def for_each(task: Callable[[Any], object], items: Iterable[Any]) -> None:
    """Call `task` on every item, on `thread_count()` threads that each take the next item."""
    queue = list(items)
    n_threads = min(thread_count(), len(queue))
    if n_threads <= 1:
        for item in queue:
            task(item)
        return
    queue.reverse()  # list.pop() takes from the end and is atomic
    failures: list[BaseException] = []

    def work() -> None:
        while queue and not failures:
            try:
                item = queue.pop()
            except IndexError:  # another thread took the last one
                return
            try:
                task(item)
            except BaseException as error:  # raised in the caller below
                failures.append(error)

    helpers = [threading.Thread(target=work, daemon=True) for _ in range(n_threads - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]


def cut_range(n: int, size: int) -> list[tuple[int, int]]:
    """Cut `range(n)` for threads into consecutive (start, stop) pieces of at most `size`."""
    return [(start, min(start + size, n)) for start in range(0, n, size)]
