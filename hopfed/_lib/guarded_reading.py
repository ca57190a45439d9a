"""Open HDF5 files, and try a file that may crash or hang a library in a child process first.

The HDF5 library does not return from some damaged files and crashes on others
(https://github.com/HDFGroup/hdf5/issues/1707), as do readers of ORC and of SPSS, and no signal of
Python reaches them. So a fork of this process, which takes some milliseconds to start, reads the
file once; where that ends well, this process reads it again. Where there is no fork, as on Windows,
nothing is tried.
"""

from __future__ import annotations

import faulthandler
import gc
import math
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory, used_data

SECONDS = 2  # of processor time, beside that for the bytes
SPEED = 10_000_000  # bytes in a second, of a slow filter on a slow machine
STILL = 60  # seconds beside these, in which it may wait for a disk
BUSY = 20  # times as long as with a processor of its own, at most
ROOM = 1 << 30  # bytes of memory, beside that for the bytes

# Of a process that tries: limit -> what it may be raised to, and bytes that raise it by one.
_raisable: dict[int, tuple[int, int]] = {}


@contextmanager
def opened_hdf5(path: str | Path) -> Iterator[Any]:
    """Open an HDF5 file for reading, also while this process has it open by itself.

    There is no lock, as files are replaced and never changed. But the library wants the choice of
    whoever has the file open already: that of h5py, or locks in any case.
    """
    import h5py

    file: Any = None
    for locking in (False, None, True):
        try:
            file = h5py.File(path, "r", locking=locking)
            break
        except OSError as error:
            if locking or "flag values don't match" not in str(error):
                raise
    with file:
        yield file


def survive(work: Callable[[], object], size: int) -> None:
    """Do `work` on a file of `size` bytes in a child process, and raise its error here.

    RuntimeError where the child came to no end, or to one that is no answer.
    """
    if not hasattr(os, "fork"):
        return
    # The child does not need the other threads that Python warns of. The filter stays: what two
    # threads put back could be that of the other.
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=re.escape(__name__))
    ours, theirs = Pipe(duplex=False)
    with ours, theirs:
        try:
            process = os.fork()
        except OSError:  # as where a second process of this size might not fit
            return
        if process == 0:
            try:
                _answer(work, size, theirs)
            finally:
                os._exit(0)
        theirs.close()
        status, answered, error = 0, False, None
        try:
            error, answered = ours.recv(), True
        except EOFError:
            pass
        except BaseException:  # such as KeyboardInterrupt
            os.kill(process, signal.SIGKILL)
            raise
        finally:
            with suppress(ChildProcessError):  # where a program ignores what becomes of children
                status = os.waitpid(process, 0)[1]
    if not answered:
        raise RuntimeError(_cause(status))
    if error is not None:
        raise error


def raise_limits(size: int) -> None:
    """Raise the limits of time and memory of the process that tries by what `size` bytes need."""
    if not _raisable:
        return
    import resource

    for which, (most, per) in _raisable.items():
        soft, hard = resource.getrlimit(which)
        resource.setrlimit(which, (min(soft + -(-size // per), most), hard))
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    signal.setitimer(signal.ITIMER_REAL, left + BUSY * size / SPEED)


def whole(dataset: Any, name: str) -> Any:
    """Return the array, or the scalar, that a dataset of an open HDF5 file holds."""
    item = dataset.dtype.itemsize
    needed = item * (2 * math.prod(dataset.shape) + math.prod(dataset.chunks or (1,)))
    require_memory(needed, name)
    raise_limits(needed)
    held = dataset[()]
    return np.asarray(held, held.dtype.newbyteorder("=")) if dataset.shape else held


def _answer(work: Callable[[], object], size: int, pipe: Any) -> None:
    """Do the work in the child, within limits, and send its error, None if there is none."""
    import resource

    try:
        for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGXCPU", "SIGUSR1", "SIGUSR2"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, STILL)
        gc.disable()  # what the parent left, such as its temporary folders, is not ours to end
        faulthandler.disable()
        silent = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(silent, stream)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        limits = [(resource.RLIMIT_CPU, SECONDS, SPEED)]
        if sys.platform == "linux":
            limits.append((resource.RLIMIT_DATA, used_data() + ROOM, 1))
        for which, first, per in limits:
            soft, hard = resource.getrlimit(which)
            most = 1 << 62 if soft == resource.RLIM_INFINITY else soft
            resource.setrlimit(which, (min(first, most), hard))
            _raisable[which] = most, per
        raise_limits(size)
        work()
        pipe.send(None)
    except Exception as error:
        pipe.send(error)


def _cause(status: int) -> str:
    """Why a child gave no answer."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number == signal.SIGALRM:
        return f"reading the file stood still for {STILL:g} s; try again"
    if number == signal.SIGXCPU:
        return "the file is damaged: reading it does not come to an end"
    ended = f" with {signal.Signals(number).name}" if number else ""
    return f"the file is damaged: its reader ended{ended}"
