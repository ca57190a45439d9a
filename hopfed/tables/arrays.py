"""Arrays in files, of which some rows are read at a time: .npy, .npz, HDF5 and Zarr.

What a header says is checked against the bytes of the file and the memory that is free before
anything is allocated. Python objects, links, and values in other files are refused.
"""

from __future__ import annotations

import json
import math
import stat
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.guarded_reading import opened_hdf5, raise_limits, survive
from hopfed._lib.memory_limits import SMALL, require_memory
from hopfed.errors import DataError, shown
from hopfed.tables.files import needed, opened, reading, size_of

ENDINGS = (".npy", ".npz", ".h5", ".hdf5", ".zarr")
PREFERRED = ("examples", "X", "x", "data")  # names tried first in files that hold several arrays
DENSEST = 2_000  # bytes for each byte of a file; deflate reaches about 1,000
ROOM = 1 << 30  # bytes that are tried of an array in HDF5
METADATA = (".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json")
LITTLE = 1 << 16  # bytes that a chunk takes in any case
LARGE = 1 << 26  # bytes of HDF5 that are tried at a time
NAME = 100  # bytes that the name takes of a column that has none


@dataclass(frozen=True)
class Stored:
    """An array in a file, which is opened to read the rows of a slice; best whole chunks."""

    label: str
    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[slice], Any]
    chunks: tuple[int, ...] = (1,)

    def __getitem__(self, which: slice) -> np.ndarray:
        """Read some rows, in this machine's byte order."""
        first, last, _ = which.indices(self.shape[0])
        entries = 2 * (last - first) * math.prod(self.shape[1:]) + math.prod(self.chunks)
        require_memory(self.dtype.itemsize * entries, self.label)
        with reading(self.label):
            part = np.asarray(self.read(slice(first, last)))
            if part.dtype.kind == "b" and part.view(np.uint8).max(initial=0) > 1:
                raise ValueError("holds truth values other than 0 and 1")
        return np.asarray(part, part.dtype.newbyteorder("="))


def stored(path: Path) -> Stored:
    """Open the table of a file: of several arrays the one of a preferred name, or the only one."""
    suffix = path.suffix.lower()
    with reading(path):
        held: Any = {".npy": _npy, ".npz": _npz, ".zarr": zarr_array}.get(suffix, _hdf5)(path)
        if suffix == ".zarr":
            held = Stored(str(path), held.shape, held.dtype, held.__getitem__, held.chunks)
        if not held.shape:
            raise DataError(f"{path}: examples must be rows of a table, got 0 axes")
        if held.dtype.kind not in "biufUS" or not held.dtype.itemsize:
            raise DataError(f"{path}: arrays of {held.dtype} are not read, only numbers and words")
        size = _folder(path) if suffix == ".zarr" else size_of(path)
        # An axis of length 0 hides no other: an array of no rows is as wide as it says.
        entries = math.prod(max(n, 1) for n in held.shape)
        needed = max(entries * held.dtype.itemsize, NAME * math.prod(held.shape[1:]))
        if min(held.shape) < 0 or needed > max(DENSEST * size, SMALL):
            raise ValueError(f"a table of {held.shape} cannot be in a file of {size:,} bytes")
    return held


def _pick(path: Path, names: Sequence[str]) -> str:
    """The name of the table that is meant: one of PREFERRED, or the only one."""
    chosen = next((name for name in PREFERRED if name in names), None)
    if chosen is None and len(names) != 1:
        found = shown(", ".join(names[:10])) if names else "none"
        raise DataError(f"{path}: name the table of examples 'examples'; tables found: {found}")
    return chosen or names[0]


def _array(label: str, file: Any, length: int, read: Callable[[int, int], Any]) -> Stored:
    """An array of NumPy whose header is next in a file of some bytes; `read(start, count)` more."""
    form = np.lib.format
    first = form.read_magic(file) == (1, 0)
    header = form.read_array_header_1_0 if first else form.read_array_header_2_0
    shape, fortran, dtype = header(file)
    if dtype.hasobject:
        raise ValueError("Object arrays are refused: they can run code")
    at, row = file.tell(), dtype.itemsize * math.prod(shape[1:])
    due = dtype.itemsize * math.prod(shape)
    if due != length - at:
        raise ValueError(f"{due} bytes are due after the header, there are {length - at}")

    def rows(which: slice) -> np.ndarray:
        count, order = which.stop - which.start, "F" if fortran else "C"
        values: Any = np.frombuffer(read(at + which.start * row, count * row), dtype)
        return values.reshape(count, *shape[1:], order=order)

    return Stored(label, tuple(map(int, shape)), dtype, rows, shape if fortran else (1,))


def _npy(path: Path) -> Stored:
    def read(start: int, count: int) -> bytes:
        with opened(path) as file:
            file.seek(start)
            return file.read(count)

    with opened(path) as file:
        return _array(str(path), file, size_of(path), read)


def _npz(path: Path) -> Stored:
    """The table of an archive, which is unpacked whole."""

    def read(name: str, start: int, _: int) -> memoryview:
        with opened(path) as raw, zipfile.ZipFile(raw) as archive:
            return memoryview(archive.read(name))[start:]

    tables: dict[str, Stored] = {}
    with opened(path) as raw, zipfile.ZipFile(raw) as archive:
        for member in archive.infolist():
            if (name := member.filename).endswith(".npy"):
                with archive.open(name) as file:
                    held = _array(str(path), file, member.file_size, partial(read, name))
                if len(held.shape) > 1:
                    tables[name.removesuffix(".npy")] = replace(held, chunks=held.shape)
    return tables[_pick(path, list(tables))]


def _hdf5(path: Path) -> Stored:
    """A table in HDF5, whose library crashes on some damaged files: a child process tries it."""
    import h5py

    def found() -> Stored:
        tables: list[str] = []

        def collect(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset) and item.shape is not None and item.ndim >= 2:
                tables.append(name)

        with opened_hdf5(path) as file:
            file.visititems(collect)  # follows no links
            name = _pick(path, tables)
            table = file[name]
            if table.is_virtual or table.external:
                raise ValueError("its values are in other files")
            reads = partial(read, name)
            return Stored(str(path), table.shape, table.dtype, reads, table.chunks or (1,))

    def read(name: str, which: slice) -> Any:
        with opened_hdf5(path) as file:
            return file[name][which]

    def tried() -> None:
        held = found()
        nbytes = math.prod(held.shape) * held.dtype.itemsize
        if held.dtype.kind in "biuf" and nbytes <= ROOM:
            raise_limits(4 * nbytes)
            step = max(held.chunks[0], LARGE * held.shape[0] // max(nbytes, 1), 1)
            for start in range(0, held.shape[0], step):
                held[start : start + step]

    survive(tried, size_of(path))
    return found()


def zarr_array(path: Path) -> Any:
    """Open the table of a zarr store, whose files are plain and no larger than they may be."""
    if not path.exists():
        raise DataError(f"{path}: no such file")
    zarr = needed("zarr", "stores of zarr", "table")
    _folder(path)
    try:
        held: Any = zarr.open(str(path), mode="r")
    except FileNotFoundError:
        raise ValueError("there is no array in it") from None
    if not hasattr(held, "shape"):
        held = held[_pick(path, [name for name, array in held.arrays() if array.ndim > 1])]
    if held.ndim < 2:
        raise DataError(f"{path}: examples must be rows of a table, got {held.ndim} axes")
    kept = math.prod(getattr(held, "shards", None) or held.chunks) * held.dtype.itemsize
    for place in Path(path, held.path).rglob("*"):
        plain = place.is_file() and place.name not in METADATA
        if plain and place.stat().st_size > 2 * kept + LITTLE:  # which unpacks to far more
            raise ValueError(f"{place.name} is larger than a chunk of {kept:,} bytes")
    return held


def _folder(path: Path) -> int:
    """Bytes of all files of a folder of nothing but files, whose codecs run no code."""
    total = 0
    for place in path.rglob("*"):
        held = place.lstat()
        if not (stat.S_ISREG(held.st_mode) or stat.S_ISDIR(held.st_mode)):
            raise ValueError("it holds links, pipes or devices")
        total += held.st_size
        if place.name in METADATA:
            said = json.dumps(json.loads(place.read_text("utf-8")), ensure_ascii=False)
            if "pickle" in said.lower():
                raise ValueError("its codec pickle can run code")
    return total
