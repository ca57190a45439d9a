"""Worker processes: how they begin, and how they end with their parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from typing import Any

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt
LARGEST = 1 << 25  # bytes of an allocation that its heap may serve
PATIENCE = 5.0  # seconds for the threads of a pool to end


def begin_worker() -> None:
    """Prepare a worker: one thread per kernel, silent on Ctrl-C, gone when its parent is."""
    os.environ["HOPFED_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_memory()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def keep_memory() -> None:
    """Let a matrix of some megabytes be made where the last one was; glibc only, a hint elsewhere.

    It gives their memory back to the system each time, and faults it in page by page for the next
    one: a sixth of the time of rounds at N = 1,000 with two workers.
    """
    with suppress(OSError, AttributeError, TypeError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(MMAP_THRESHOLD, LARGEST)
        set_option(TRIM_THRESHOLD, (1 << 31) - 1)


def end_pool(pool: ProcessPoolExecutor, others: Collection[Any]) -> None:
    """Give up what a pool still does, end the children except `others`, and wait for its threads.

    One of these threads pickles calls that wait, another closes pipes: neither may go on while the
    caller takes modules away or the interpreter ends.
    """
    manager = getattr(pool, "_executor_manager_thread", None)
    pool.shutdown(wait=False, cancel_futures=True)
    for process in set(multiprocessing.active_children()) - set(others):
        process.terminate()
    if manager is not None:
        manager.join(PATIENCE)


def _follow(parent: Any) -> None:
    parent.join()
    os._exit(1)
