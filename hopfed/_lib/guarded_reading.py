"""Open files, explain their faults in a line, and read those that may crash in a child process.

The HDF5 library does not return from some damaged files and crashes on others
(https://github.com/HDFGroup/hdf5/issues/1707), as do readers of ORC and of SPSS, and Python cannot
interrupt them by signals. So a fork of this process, if the system has forks, reads the file first;
if that succeeds, this process reads it again.
"""

from __future__ import annotations

import faulthandler
import gc
import math
import os
import re
import signal
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hopfed._lib.memory_limits import require_memory, used_data
from hopfed.errors import DataError, HopfedError, safe_line

SECONDS = 2  # processor time, in addition to the time for the bytes
SPEED = 10_000_000  # bytes per second, of a slow filter on a slow machine
STILL = 60  # seconds of real time, in addition to the time for the bytes, to wait for a disk
BUSY = 20  # ratio of real time to processor time, at most
ROOM = 1 << 30  # bytes of memory, in addition to the memory for the bytes
OURS = (AssertionError, AttributeError, ImportError, NameError)  # never of a damaged file

_most = 0  # in a child process, bytes up to which its memory limit may be raised


@contextmanager
def open_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for guarded reading of bytes; a folder, a pipe or a device is refused at once."""
    try:  # a pipe is not opened: that would wait for its writer
        held = os.stat(path)
        file = open(path, "rb") if stat.S_ISREG(held.st_mode) else None  # noqa: SIM115
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be opened: {_reason(error)}") from None
    if file is None:
        kind = "a folder" if stat.S_ISDIR(held.st_mode) else "a pipe or a device"
        raise DataError(f"{path}: {kind}, not a file")
    with file:
        if held.st_size == 0:
            raise DataError(f"{path}: cannot be read: the file is empty")
        yield file


@contextmanager
def guard_reading(path: str | Path, said: str = "cannot be read") -> Iterator[None]:
    """Guard the reading of a file: turn any error of a malformed file into a line that names it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (HopfedError, *OURS):
        raise
    except BaseException as error:  # a library that is written in Rust panics
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DataError(f"{path}: {said}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """First line of an error, which may quote the file."""
    said = safe_line(next(iter(str(error).splitlines()), "")) or type(error).__name__
    return f"{said} is missing" if isinstance(error, KeyError) else said


@contextmanager
def open_hdf5(path: str | Path) -> Iterator[Any]:
    """Open an HDF5 file for guarded reading, without a lock: files are replaced, never changed.

    If this process already has the file open, the library requires the earlier choice of locking.
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


def try_in_child(work: Callable[[], object], size: int) -> None:
    """Guard reading: do `work` on a file of `size` bytes in a child process; raise its error here.

    Raises RuntimeError if the child did not finish, or sent no answer.
    """
    if not hasattr(os, "fork"):
        return
    # The child does not need the other threads that Python warns of. The filter is not removed:
    # with two threads, each could restore the filter of the other.
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=re.escape(__name__))
    ours, theirs = Pipe(duplex=False)
    with ours, theirs:
        try:
            process = os.fork()
        except OSError:  # such as too little memory for a second process
            return
        if process == 0:
            try:
                _answer(work, size, theirs)
            finally:
                os._exit(0)
        theirs.close()
        status, answer = 0, ()
        try:
            answer = ours.recv()
        except EOFError:
            pass
        except BaseException:  # such as KeyboardInterrupt
            os.kill(process, signal.SIGKILL)
            raise
        finally:
            with suppress(ChildProcessError):  # in a program that ignores SIGCHLD
                status = os.waitpid(process, 0)[1]
    if not answer:
        raise RuntimeError(_cause(status))
    if answer[0] is not None:
        raise answer[0]


def raise_limits(size: int) -> None:
    """In a child process that guards reading, raise its time and memory limits for `size` bytes."""
    if not _most:
        return
    import resource

    for timer, speed in ((signal.ITIMER_PROF, SPEED), (signal.ITIMER_REAL, SPEED / BUSY)):
        signal.setitimer(timer, signal.getitimer(timer)[0] + size / speed)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (min(soft + size, _most), hard))


def read_dataset(dataset: Any, name: str) -> Any:
    """Return a dataset of an open HDF5 file, by guarded reading, as an array or a scalar."""
    item = dataset.dtype.itemsize
    needed = item * (2 * math.prod(dataset.shape) + math.prod(dataset.chunks or (1,)))
    require_memory(needed, name)
    raise_limits(needed)
    held = dataset[()]
    return np.asarray(held, held.dtype.newbyteorder("=")) if dataset.shape else held


def _answer(work: Callable[[], object], size: int, pipe: Any) -> None:
    """Do the work in the child, within limits, and send its error, or None."""
    import resource

    global _most
    try:
        for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGPROF", "SIGUSR1", "SIGUSR2"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        gc.disable()  # do not clean up the parent's objects, such as temporary folders
        faulthandler.disable()
        silent = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(silent, stream)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, STILL)
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        _most = 1 << 62 if soft == resource.RLIM_INFINITY else soft
        first = used_data() + ROOM if sys.platform == "linux" else _most
        resource.setrlimit(resource.RLIMIT_DATA, (min(first, _most), hard))
        raise_limits(size)
        work()
        pipe.send((None,))
    except Exception as error:
        pipe.send((error,))


def _cause(status: int) -> str:
    """Describe why a child sent no answer."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number == signal.SIGALRM:
        return f"reading the file stood still for {STILL:g} s; try again"
    if number == signal.SIGPROF:
        return "the file is damaged: reading it does not come to an end"
    ended = f" with {signal.Signals(number).name}" if number else ""
    return f"the file is damaged: its reader ended{ended}"
