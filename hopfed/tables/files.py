"""Files of tables: packed ones are unpacked within bounds; a folder or a pattern is many files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zipfile
from collections.abc import Iterator
from glob import glob
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

from hopfed._lib.guarded_reading import guard_reading, open_file
from hopfed.errors import BackendError, DataError

UNPACKED = 100  # bytes for each byte of a packed file; of honest tables mostly below 20
ROOM = 1 << 26  # bytes that any packed file may hold
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
PATTERN = "*?["  # one of these makes a path a pattern


def read_bytes(path: Path, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file of a table, unpacked, some at a time."""
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


def guard_blocks(made: Iterator[Any], path: str | Path) -> Iterator[Any]:
    """Yield blocks made of a file of a table, each of them guarded by `guard_reading`."""
    while True:
        with guard_reading(path):
            try:
                block = next(made)
            except StopIteration:
                return
        yield block


def size_of(path: Path) -> int:
    """Return the size of a file of a table in bytes."""
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size


def import_extra(name: str, kinds: str, extra: str = "files") -> Any:
    """Return a module for files, or raise an error that says which `kinds` of them need it."""
    try:
        return import_module(name)
    except ImportError:
        raise BackendError(f"{kinds} need {name}: pip install 'hopfed[{extra}]'") from None


def is_many(path: str | Path) -> bool:
    """Whether a table's path stands for many files: a folder, such as of zarr, or a pattern."""
    return any(c in str(path) for c in PATTERN) or Path(path).is_dir()


def files_of(path: str | Path) -> list[Path]:
    """Return the files of a table, of a folder or a pattern, sorted by name, or a single one."""
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
