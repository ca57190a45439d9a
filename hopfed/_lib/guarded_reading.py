"""Try a file that may crash or hang a library in a child process first, which can be ended.

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
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Pipe
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


def survive(work: Callable[[], object], size: int) -> None:
    """Do `work` in a child process, to see that it ends."""
    if not hasattr(os, "fork"):
        return
    ours, theirs = Pipe(duplex=False)
    with ours, theirs:
        # The child does not need the other threads that Python warns of. The filter is for this
        # module alone and stays: what two threads put back could be that of the other.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=re.escape(__name__))
        try:
            process = os.fork()
        except OSError:  # as where a second process of this size might not fit
            return
        if process == 0:
            try:
                _send(work, size, theirs)
            finally:
                os._exit(0)
        theirs.close()
        status = None
        try:
            while not ours.poll(1) and status is None:  # another child may hold the pipe's end
                status = _status(process, os.WNOHANG)
            error = ours.recv() if ours.poll(0) else EOFError()
        except EOFError as ended:
            error = ended
        except BaseException:  # such as KeyboardInterrupt
            os.kill(process, signal.SIGKILL)
            raise
        finally:
            status = _status(process) if status is None else status
    if isinstance(error, EOFError) and not error.args:
        raise RuntimeError(_cause(status or 0))
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


def whole(dataset: Any, what: str) -> Any:
    """Return the array, or the scalar, that a dataset of an open HDF5 file holds."""
    item = dataset.dtype.itemsize
    needed = item * (2 * math.prod(dataset.shape) + math.prod(dataset.chunks or (1,)))
    require_memory(needed, what)
    raise_limits(needed)
    held = dataset[()]
    return np.asarray(held, held.dtype.newbyteorder("=")) if dataset.shape else held


def _send(work: Callable[[], object], size: int, pipe: Any) -> None:
    """Do the work in the child, and send its error, None if there is none."""
    try:
        _prepare(size)
        work()
        pipe.send(None)
    except Exception as error:
        pipe.send(error)


def _prepare(size: int) -> None:
    """Drop the signal handlers and the streams of the parent, and set limits."""
    import resource

    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGXCPU", "SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, STILL)
    gc.disable()  # what the parent left for it, such as its temporary folders, is not ours to end
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


def _status(process: int, how: int = 0) -> int | None:
    """How a child ended; None while it has not."""
    with suppress(ChildProcessError):  # where a program ignores what becomes of its children
        ended, status = os.waitpid(process, how)
        return status if ended else None
    return 0


def _cause(status: int) -> str:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number == signal.SIGALRM:
        return f"reading the file stood still for {STILL:g} s; try again"
    if number == signal.SIGXCPU:
        return "the file is damaged: reading it does not come to an end"
    ended = f" with {signal.Signals(number).name}" if number else ""
    return f"the file is damaged: its reader ended{ended}"
