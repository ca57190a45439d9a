"""Arrays in files, read a part at a time: .npy, .npz, HDF5 and Zarr.

What a header says is checked against the bytes of the file and the memory that is free before
anything is allocated. Python objects, links, and values in other files are refused.
"""

from __future__ import annotations

import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.guarded_reading import opened_hdf5, raise_limits, survive
from hopfed._lib.memory_limits import SMALL, require_memory
from hopfed.errors import BackendError, DataError, shown
from hopfed.tables.files import UNPACKED, opened, pieces, reading, size_of

ENDINGS = (".npy", ".npz", ".h5", ".hdf5", ".zarr")
PREFERRED = ("examples", "X", "x", "data")  # names tried first in files that hold several arrays
DENSEST = 2_000  # bytes for each byte of a file; deflate reaches about 1,000
ROOM = 1 << 30  # bytes that any packed array may hold, and that are tried of one in HDF5
METADATA = (".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json")
LITTLE = 1 << 16  # bytes that a chunk takes in any case
LARGE = 1 << 26  # bytes of an array from which it is read in parts
NAME = 100  # bytes that the name takes of a column that has none


@dataclass(frozen=True)
class Stored:
    """An array in a file of `size` bytes; `read` yields some rows at a time, whole chunks."""

    shape: tuple[int, ...]
    dtype: np.dtype
    size: int
    read: Callable[[int], Iterator[np.ndarray]]
    chunk: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes of the array, exactly: no product overflows."""
        return math.prod(self.shape) * self.dtype.itemsize

    def rows(self, step: int) -> Iterator[np.ndarray]:
        """Yield rows, some whole chunks at a time, in this machine's byte order."""
        for part in self.read(max(step // self.chunk, 1) * self.chunk):
            yield np.asarray(part, part.dtype.newbyteorder("="))

    def whole(self, label: str) -> np.ndarray:
        """Return the array."""
        require_memory(2 * self.nbytes, label)
        parts = list(self.rows(max(self.shape[0], 1) if self.shape else 1))
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


def stored(path: Path) -> Stored:
    """Open the table of a file: of several arrays the one of a preferred name, or the only one."""
    suffix = path.suffix.lower()
    with reading(path, f"cannot be read as {suffix[1:]}"):
        held = {".npy": _npy, ".npz": _npz, ".zarr": _zarr}.get(suffix, _hdf5)(path)
        if not held.shape:
            raise DataError(f"{path}: examples must be rows of a table, got 0 axes")
        columns = math.prod(held.shape[1:])
        if NAME * columns > max(DENSEST * held.size, SMALL):
            raise ValueError(f"{columns:,} columns are too many for a file of {held.size:,} bytes")
    return held


def _pick(path: Path, names: Sequence[str]) -> str:
    """The name of the table that is meant: one of PREFERRED, or the only one."""
    chosen = next((name for name in PREFERRED if name in names), None)
    if chosen is None and len(names) != 1:
        found = shown(", ".join(names[:10])) if names else "none"
        raise DataError(f"{path}: name the table of examples 'examples'; tables found: {found}")
    return chosen or names[0]


# NumPy's own


def _array(
    begin: Callable[[], AbstractContextManager[Any]], length: int, size: int, label: Path | str
) -> Stored:
    """An array whose header and values come from a stream of some bytes, in a file of `size`."""
    with begin() as file:
        shape, fortran, dtype = _header(file, length)

    def values(file: Any, count: int) -> np.ndarray:
        row = dtype.itemsize * math.prod(shape[1:])
        data = file.read(count * row)
        if len(data) < count * row:
            raise EOFError(f"ends {count * row - len(data)} bytes early")
        flat = np.frombuffer(data, np.uint8)
        if dtype.kind == "b" and flat.size and flat.max() > 1:
            raise ValueError("holds truth values other than 0 and 1")
        found = flat.view(dtype).reshape(
            (count, *shape[1:])[: len(shape)], order="F" if fortran else "C"
        )
        if dtype.kind == "U":
            found.tolist()  # fails where a letter is none
        return found

    def read(step: int) -> Iterator[np.ndarray]:
        with begin() as file:
            _header(file, length)
            rows = shape[0] if shape else 1
            step = max(rows, 1) if fortran else step
            for start in range(0, max(rows, 1), step):
                yield values(file, min(step, rows - start))
            if file.read(1):  # which checks the sum of a packed one as well
                raise ValueError("holds more than the header says")

    return Stored(shape, dtype, size, lambda step: pieces(read(step), label))


def _header(file: Any, length: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read the header of an array of some bytes; the file stands at the values afterwards."""
    form = np.lib.format
    version = form.read_magic(file)
    readers = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"arrays of version {version[0]}.{version[1]} are not read")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("Object arrays are refused: they can run code")
    if dtype.kind not in "biufUS" or not dtype.itemsize:
        raise ValueError(f"arrays of {dtype} are not read, only numbers, truth values and words")
    if min(shape, default=0) < 0:
        raise ValueError(f"there is no array of shape {shape}")
    due, follow = math.prod(shape) * dtype.itemsize, length - file.tell()
    if due != follow:
        raise ValueError(f"{due} bytes are due after the header, there are {follow}")
    return tuple(map(int, shape)), fortran, dtype


def _npy(path: Path) -> Stored:
    size = size_of(path)
    return _array(lambda: opened(path), size, size, path)


def _npz(path: Path) -> Stored:
    """The table of an archive, which is unpacked as it is read."""

    @contextmanager
    def begin(name: str) -> Iterator[Any]:
        with opened(path) as raw, zipfile.ZipFile(raw) as archive, archive.open(name) as file:
            yield file

    with opened(path) as raw, zipfile.ZipFile(raw) as archive:
        members = archive.infolist()
    tables, size = {}, size_of(path)
    for member in members:
        name, most = (
            member.filename.removesuffix(".npy"),
            max(UNPACKED * member.compress_size, ROOM),
        )
        if name == member.filename:
            continue
        if not name.isprintable():
            raise ValueError("a name in it is no text")
        if member.file_size > most:
            raise ValueError(f"it unpacks to more than {most:,} bytes: save it unpacked (.npy)")
        start = partial(begin, member.filename)
        tables[name] = _array(start, member.file_size, size, f"{path}: {name}")
    return tables[_pick(path, [name for name, held in tables.items() if len(held.shape) > 1])]


# HDF5 and Zarr


def _hdf5(path: Path) -> Stored:
    """A table in HDF5, whose library crashes on some damaged files: a child process tries it."""
    import h5py

    size = size_of(path)

    @contextmanager
    def begin() -> Iterator[Any]:
        tables: list[str] = []

        def collect(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset) and item.shape is not None and item.ndim >= 2:
                tables.append(name)

        with opened_hdf5(path) as file:
            file.visititems(collect)  # follows no links
            table = file[_pick(path, tables)]
            if table.is_virtual or table.external:
                raise ValueError("its values are in other files")
            yield table

    def tried() -> None:
        held = _dataset(path, begin, size)
        if held.nbytes <= ROOM:
            row = math.prod(held.shape[1:]) * held.dtype.itemsize
            for _ in held.read(max(held.chunk, LARGE // max(row, 1))):
                pass

    survive(tried, size)
    return _dataset(path, begin, size)


def _dataset(path: Path, begin: Callable[[], AbstractContextManager[Any]], size: int) -> Stored:
    """A dataset that may be a table in a file of `size`; it is not read yet."""
    with begin() as table:
        shape, dtype, chunks = tuple(table.shape), table.dtype, table.chunks or (1,)
    if dtype.kind not in "biuf":
        raise DataError(f"{path}: examples must be numbers, got {dtype}")
    # An axis of length 0 hides no other: an array of no rows is as wide as it says.
    if math.prod(max(n, 1) for n in shape) * dtype.itemsize > max(DENSEST * size, SMALL):
        raise ValueError(f"a table of {shape} cannot be in a file of {size:,} bytes")

    def read(step: int) -> Iterator[np.ndarray]:
        needed = 2 * min(step, shape[0]) * math.prod(shape[1:]) + math.prod(chunks)
        require_memory(dtype.itemsize * needed, str(path))
        raise_limits(dtype.itemsize * (needed + math.prod(shape)))
        with begin() as table:
            for start in range(0, max(shape[0], 1), step):
                yield np.asarray(table[start : min(start + step, shape[0])])

    guarded = partial(pieces, path=path, said=f"cannot be read as {path.suffix[1:]}")
    return Stored(shape, dtype, size, lambda n: guarded(read(n)), max(int(chunks[0]), 1))


def _zarr(path: Path) -> Stored:
    held = zarr_array(path)
    return _dataset(path, lambda: nullcontext(held), _folder(path))


def zarr_array(path: Path) -> Any:
    """Open the table of a zarr store, whose files are plain and no larger than they may be."""
    if not path.exists():
        raise DataError(f"{path}: no such file")
    try:
        import zarr
    except ImportError:
        raise BackendError("zarr is not installed: pip install 'hopfed[table]'") from None
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
    if not path.is_dir():
        raise ValueError("it is no folder")
    total = 0
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            place = os.path.join(folder, name)
            held = os.lstat(place)
            if not (stat.S_ISREG(held.st_mode) or stat.S_ISDIR(held.st_mode)):
                raise ValueError("it holds links, pipes or devices")
            total += held.st_size
            if name in METADATA:
                said = json.dumps(json.loads(Path(place).read_text("utf-8")), ensure_ascii=False)
                if "pickle" in said.lower():
                    raise ValueError("its codec pickle can run code")
    return total
