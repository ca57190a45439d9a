"""Output files: checked before any work starts, and written completely or not at all.

A file is never changed in place: a new file beside it is renamed in one step.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2s
from mmap import ACCESS_READ, mmap
from pathlib import Path

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, RunFileError

RUN = (".h5", ".hdf5")

_PROBE = 1 << 16  # bytes written to test whether a folder is writable


def check_suffix(argument: str, path: str | Path, suffixes: tuple[str, ...]) -> None:
    """Raise ArgumentError unless an output file ends in one of `suffixes`, given in lower case."""
    if Path(path).suffix.lower() not in suffixes:
        kinds = " or ".join([*filter(None, [", ".join(suffixes[:-1])]), suffixes[-1]])
        raise ArgumentError(argument, f"a {kinds} file", path)


def check_run(argument: str, path: str | Path) -> None:
    """Raise ArgumentError for an output not named as a run file, or that exists and is none."""
    check_suffix(argument, path, RUN)
    fits = not is_filled(path) or is_run(path)
    require(fits, argument, "a new file, or a run file of hopfed", path)


def check_writable(path: str | Path, argument: str = "out") -> None:
    """Raise ArgumentError if an output cannot be written, tested by a temporary file beside it."""
    try:
        target = follow_links(path)
        found = _status(target)
        kind = stat.S_IFMT(found.st_mode) if found is not None else stat.S_IFREG
        other = "a folder" if kind == stat.S_IFDIR else "a device, a pipe or a socket"
        require(kind == stat.S_IFREG, argument, f"a file, not {other}", path)
        open_to_us = found is None or os.access(target, os.W_OK)
        require(open_to_us, argument, "writable (the file is read-only)", path)
        require(target.parent.is_dir(), argument, "in a folder that exists", target.parent)
        with tempfile.TemporaryFile(dir=target.parent) as probe:
            probe.write(bytes(_PROBE))
            probe.flush()
    except OSError as error:
        raise ArgumentError(argument, f"writable ({error.strerror})", path) from None


def follow_links(path: str | Path) -> Path:
    """Return the `path` of an output file with links followed; the target need not exist."""
    return Path(os.path.realpath(path))


@contextmanager
def replacing(path: str | Path, *, private: bool = False, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside an output file's `path`, and rename it to `path` on success.

    A link is followed. An existing file keeps its mode, a new file gets its mode from the umask;
    `private` sets 0600. If `durable`, the file is on the disk when this returns, even if the
    machine fails afterwards.
    """
    try:
        target = follow_links(path)
        found = _status(target)
        temporary = _beside(target, secrets.token_hex(4))
        try:
            mode = 0o600 if private else 0o666
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
            if found is not None and not private:
                os.chmod(temporary, found.st_mode & 0o777)  # without setuid and setgid bits
            yield temporary
            if durable:
                _synchronise(temporary)
            os.replace(temporary, target)
            if durable:
                _synchronise(target.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise RunFileError(f"{path}: cannot be written: {error.strerror or error}") from error


def remove_leftovers(path: str | Path) -> None:
    """Remove temporary files beside an output that killed processes left in :func:`replacing`."""
    target = follow_links(path)
    for left in target.parent.glob(_beside(target, "*").name):
        left.unlink(missing_ok=True)


def is_run(path: str | Path) -> bool:
    """Whether a file, which an output may replace, is a run file of hopfed, intact or not."""
    with (
        suppress(OSError, ValueError),
        open(path, "rb") as file,
        mmap(file.fileno(), 0, access=ACCESS_READ) as held,
    ):
        return held[:4] == b"\x89HDF" and held.find(b"hopfed_format") > 0
    return False


def is_filled(path: str | Path) -> bool:
    """Whether an output file exists already and is not empty."""
    return os.path.exists(path) and os.path.getsize(path) > 0


def _status(path: Path) -> os.stat_result | None:
    """State of the file at `path`; None where no file is."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return path.stat()
    return None


def _beside(target: Path, mark: str) -> Path:
    """Temporary path of `target`, of bounded length even if the name of `target` is long."""
    digest = blake2s(os.fsencode(target.name), digest_size=16).hexdigest()
    return target.with_name(f".{digest}-{mark}{target.suffix if len(target.suffix) < 9 else ''}")


def _synchronise(path: Path) -> None:
    """Wait until the data of a file or a folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
