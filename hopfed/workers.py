"""Worker processes: how they begin, and how they end with their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Collection
from typing import Any


def begin_worker() -> None:
    """Prepare a worker: one thread per kernel, silent on Ctrl-C, gone when its parent is."""
    os.environ["HOPFED_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def end_processes(others: Collection[Any]) -> None:
    """End the children of this process, except `others`."""
    for process in set(multiprocessing.active_children()) - set(others):
        process.terminate()


def _follow(parent: Any) -> None:
    parent.join()
    os._exit(1)
