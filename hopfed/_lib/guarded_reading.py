"""Read files that may crash or hang a library in a child process, which can be ended.

The HDF5 library does not return from some damaged files and crashes on others
(https://github.com/HDFGroup/hdf5/issues/1707), and no signal of Python reaches it. So it reads in a
fork of this process, which takes some milliseconds to start, and what it reads comes back through a
pipe. Where there is no fork, as on Windows, this process reads.
"""

from __future__ import annotations

import faulthandler
import gc
import math
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory, used_data

SECONDS = 2  # of processor time, beside that for the bytes
SPEED = 10_000_000  # bytes in a second, of a slow filter on a slow machine
STILL = 60  # seconds in which it neither sends anything nor uses the processor
ROOM = 1 << 30  # bytes of memory, beside that for the bytes
BLOCK = 1 << 24  # bytes of an array that are sent together
COPIES = 4  # of a block, on its way

ATTEMPTS = 2  # a lock that another thread held at the moment of the fork is free at the next

_END = ...  # sent last; there is one in every process
_SIGNALS = ("SIGINT", "SIGTERM", "SIGALRM", "SIGXCPU", "SIGUSR1", "SIGUSR2")

# Of a process that reads: limit -> what it may be raised to, and bytes that raise it by one.
_raisable: dict[int, tuple[int, int]] = {}


class _StoodStillError(RuntimeError):
    """A child neither sent anything nor used the processor."""


def in_child_process(work: Callable[[], Iterator[Any]], size: int) -> Generator[Any, None, None]:
    """Run the generator `work` in a child process, and yield what it yields.

    Parameters
    ----------
    work : reads, and yields what can be pickled; the modules that it needs are loaded already.
    size : bytes that it has to look at; they decide how long it may take, with those that it names
        in calls of :func:`raise_limits`.

    Raises
    ------
    RuntimeError : it crashed, did not end in its time, or stood still. Errors of `work` come as
        they are.

    Examples
    --------
    >>> list(in_child_process(lambda: iter([1, 2]), size=0))
    [1, 2]
    """
    for attempt in range(ATTEMPTS):
        begun = False
        try:
            for value in _in_one_child(work, size):
                begun = True
                yield value
            return
        except _StoodStillError:
            if begun or attempt + 1 == ATTEMPTS:
                raise


def _in_one_child(work: Callable[[], Iterator[Any]], size: int) -> Generator[Any, None, None]:
    ours, theirs = Pipe(duplex=False)
    with ours, theirs:
        process = _fork()
        if process == 0:
            try:
                _send(work, size, theirs)
            finally:
                os._exit(0)
        theirs.close()
        if process is None:
            yield from work()
        else:
            yield from _received(ours, process)


def raise_limits(size: int) -> None:
    """Raise the limits of time and memory of the process that reads by what `size` bytes need.

    Parameters
    ----------
    size : bytes that are known to be in bounds.
    """
    if not _raisable:
        return
    import resource

    for which, (most, per) in _raisable.items():
        soft, hard = resource.getrlimit(which)
        resource.setrlimit(which, (min(soft + -(-size // per), most), hard))


def blocks(dataset: Any, what: str) -> Iterator[Any]:
    """Yield the shape and the type of a dataset, then its values some rows at a time.

    Parameters
    ----------
    dataset : of an open HDF5 file.
    what : it is called in an error.

    Raises
    ------
    DataError : it does not fit into the memory that is free.
    """
    shape, chunk, item = dataset.shape, dataset.chunks or (1,), dataset.dtype.itemsize
    width = item * math.prod(shape[1:]) if shape else 0
    rows = max(BLOCK // max(chunk[0] * width, 1), 1) * chunk[0]  # each chunk is unpacked once
    needed = item * math.prod(shape)
    needed += COPIES * min(rows * width, needed) + item * math.prod(chunk)
    require_memory(needed, what)
    raise_limits(needed)
    yield shape, dataset.dtype
    if 0 in (*shape, len(shape)):
        yield dataset[()]
        return
    for start in range(0, shape[0], rows):
        yield dataset[start : start + rows]


def filled(parts: Iterator[Any]) -> Any:
    """Return the array, or the scalar, that :func:`blocks` sends, in this machine's byte order.

    Parameters
    ----------
    parts : those of the array are the next ones.
    """
    shape, dtype = next(parts)
    if 0 in (*shape, len(shape)):
        return next(parts)
    array, start = np.empty(shape, dtype.newbyteorder("=")), 0
    while start < len(array):
        part = next(parts)
        array[start : start + len(part)] = part
        start += len(part)
    return array


def _fork() -> int | None:
    """Fork: return 0 in the child, its id in the parent, and None where no fork is possible."""
    if not hasattr(os, "fork"):
        return None
    # The child does not need the other threads that Python warns of. The filter is for this module
    # alone and stays: what two threads put back, each for itself, could be that of the other.
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=re.escape(__name__))
    try:
        return os.fork()
    except OSError:  # as where a second process of this size might not fit
        return None


def _received(pipe: Any, process: int) -> Iterator[Any]:
    """Yield what the child sends; in the end the child has ended, whatever happens."""
    ended = None
    try:
        error, value = _message(pipe, process)
        while error is None and value is not _END:
            yield value
            error, value = _message(pipe, process)
        if error is not None:
            raise error
    except EOFError:
        ended = _status(process)
        raise RuntimeError(f"the file is damaged: {_cause(ended)}") from None
    finally:
        if ended is None:
            os.kill(process, signal.SIGKILL)
            _status(process)


def _message(pipe: Any, process: int) -> Any:
    """Return what the child sends next.

    A limit on its processor time does not end a child that waits: for a disk that does not answer,
    or for a lock that another thread of the parent held at the moment of the fork.
    """
    used, since = None, time.monotonic()
    while not pipe.poll(min(1, STILL)):
        now = _processor_time(process)
        if now != used:
            used, since = now, time.monotonic()
        elif time.monotonic() - since > STILL:
            raise _StoodStillError(f"reading the file stood still for {STILL:g} s; try again")
    return pipe.recv()


def _processor_time(process: int) -> tuple[str, ...]:
    """Ticks of the processor that a child has used, where the system tells them."""
    try:
        said = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ()
    return tuple(said.rpartition(")")[2].split()[11:13])


def _send(work: Callable[[], Iterator[Any]], size: int, pipe: Any) -> None:
    """Do the work in the child, and send its values, and its error if there is one."""
    try:
        _prepare(size)
        for value in work():
            pipe.send((None, value))
        pipe.send((None, _END))
    except Exception as error:
        pipe.send((error, None))


def _prepare(size: int) -> None:
    """Drop the signal handlers and the streams of the parent, and set limits."""
    import resource

    for name in _SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
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


def _status(process: int) -> int:
    with suppress(ChildProcessError):  # where a program ignores what becomes of its children
        return os.waitpid(process, 0)[1]
    return 0


def _cause(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return "its reader ended"
    number = os.WTERMSIG(status)
    if number == signal.SIGXCPU:
        return "reading it does not come to an end"
    return f"its reader ended with {signal.Signals(number).name}"
