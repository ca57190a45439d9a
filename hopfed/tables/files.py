"""Files to read: regular ones only, whose faults are one line; a folder or a pattern is many."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

from hopfed.errors import BackendError, DataError, HopfedError, shown

UNPACKED = 100  # bytes for each byte of a packed file; of honest tables mostly below 20
ROOM = 1 << 26  # bytes that any packed file may hold
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
PATTERN = "*?["  # one of these makes a path a pattern
OURS = (AssertionError, AttributeError, ImportError, NameError)  # of no damaged file


@contextmanager
def open_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; a folder, a pipe or a device is refused at once."""
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


def read_bytes(path: Path, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked, some at a time."""
    import pyarrow as pa

    ending, total = path.suffix.lower(), 0
    kinds: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    kinds[".zst"] = lambda file: pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
    with open_file(path) as file:
        most = max(UNPACKED * os.fstat(file.fileno()).st_size, ROOM)
        held: Any = kinds[ending](file) if ending in kinds else file
        if ending == ".zip":
            archive = zipfile.ZipFile(file)
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if len(names) != 1:
                raise ValueError(f"one file is needed in it, there are {len(names)}")
            held = archive.open(names[0])
        while data := bytes(held.read(size)):
            total += len(data)
            if total > most and ending in PACKED:
                raise ValueError(f"it unpacks to more than {most:,} bytes: unpack it first")
            yield data


@contextmanager
def guard_reading(path: str | Path, said: str = "cannot be read") -> Iterator[None]:
    """Turn whatever a truncated or malformed file raises into one line that names the file."""
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


def guard_blocks(made: Iterator[Any], path: str | Path) -> Iterator[Any]:
    """Yield what is made of a file piece by piece, each of them guarded by `reading`."""
    while True:
        with guard_reading(path):
            try:
                piece = next(made)
            except StopIteration:
                return
        yield piece


def size_of(path: Path) -> int:
    """Return the size of a file in bytes."""
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size


def _reason(error: BaseException) -> str:
    """First line of an error, which may quote the file."""
    said = shown(next(iter(str(error).splitlines()), "")) or type(error).__name__
    return f"{said} is missing" if isinstance(error, KeyError) else said


def import_extra(name: str, kinds: str, extra: str = "files") -> Any:
    """Return a module of an extra, or say what it is needed for."""
    try:
        return import_module(name)
    except ImportError:
        raise BackendError(f"{kinds} need {name}: pip install 'hopfed[{extra}]'") from None


def is_many(path: str | Path) -> bool:
    """Whether a path is one of many files: a folder, such as of zarr, or a pattern."""
    return any(c in str(path) for c in PATTERN) or Path(path).is_dir()


def files_of(path: str | Path) -> list[Path]:
    """Return the files that a path stands for, sorted by name; of a file or a zarr store itself."""
    folder = Path(path)
    if folder.is_dir() and folder.suffix.lower() != ".zarr":
        inside = sorted(p for p in folder.rglob("*") if p.is_file())
        found = [p for p in inside if not any(x[0] in "._" for x in p.relative_to(folder).parts)]
    elif is_many(path) and not folder.exists():
        folder = Path(*takewhile(lambda part: not any(c in part for c in PATTERN), folder.parts))
        named = sorted(glob(str(path), recursive=True))
        found = [file for each in named for file in files_of(each)]
    else:
        return [folder]
    if not found:
        raise DataError(f"{path}: no such file, or a folder without any")
    for file in found:
        if not file.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{file}: a link that leads out of {folder}: name the file itself")
    return found
