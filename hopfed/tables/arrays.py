"""Arrays in files, read a part at a time: .npy, .npz, HDF5 and Zarr.

What a header says is checked against the bytes of the file and the memory that is free before
anything is allocated. Python objects are refused, as are links, and values in other files. The
HDF5 library does not return from some damaged files, and crashes on others: it reads in a child
process (`hopfed._lib.guarded_reading`).
"""

from __future__ import annotations

import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from hopfed._lib import hdf5_files
from hopfed._lib.guarded_reading import COPIES, in_child_process, raise_limits
from hopfed._lib.memory_limits import SMALL, require_memory
from hopfed.errors import BackendError, DataError, shown
from hopfed.tables.files import UNPACKED, opened, pieces, reading, size_of

ENDINGS = (".npy", ".npz", ".h5", ".hdf5", ".zarr")
PREFERRED = ("examples", "X", "x", "data")  # names tried first in files that hold several arrays
KINDS = "biufUS"  # truth values, numbers and words
EXPANSION = 1032  # bytes that one byte of deflate can stand for, at most
DENSEST = 2_000  # bytes for each byte of a file; deflate reaches about 1,000
ROOM = 1 << 30  # bytes that any packed array may hold
DIRECTORY = 1 << 24  # bytes of the list of members, at most
METADATA = (".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json")
LITTLE = 1 << 16  # bytes that a chunk takes in any case
LARGE = 1 << 26  # bytes of an array from which it is read in parts
NAME = 100  # bytes that the name takes of a column that has none


@dataclass(frozen=True)
class Stored:
    """An array in a file.

    Attributes
    ----------
    shape, dtype : of the array.
    size : bytes of the file.
    chunk : rows that are stored together.
    read : yields the rows from `start` to `stop`, `step` at a time.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    size: int
    chunk: int
    read: Callable[[int, int, int], Iterator[np.ndarray]]

    @property
    def nbytes(self) -> int:
        """Bytes of the array, exactly: no product overflows."""
        return math.prod(self.shape) * self.dtype.itemsize

    def rows(self, step: int, start: int = 0, stop: int | None = None) -> Iterator[np.ndarray]:
        """Yield rows, some whole chunks at a time, in this machine's byte order."""
        step = max(step // self.chunk, 1) * self.chunk
        stop = self.shape[0] if stop is None else stop
        for part in self.read(step, start, stop):
            yield np.asarray(part, part.dtype.newbyteorder("="))

    def whole(self, what: str) -> np.ndarray:
        """Return the array."""
        require_memory(2 * self.nbytes, what)
        if not self.shape:
            raise DataError(f"{what}: examples must be rows of a table, got 0 axes")
        parts = list(self.rows(max(self.shape[0], 1)))
        return np.concatenate(parts) if parts else np.empty(self.shape, self.dtype)


def stored(path: Path) -> Stored:
    """Open the table of a file: of several arrays the one of a preferred name, or the only one."""
    kinds = {".npy": _npy, ".npz": _npz, ".zarr": _zarr}
    suffix = path.suffix.lower()
    with reading(path, f"cannot be read as {suffix[1:]}"):
        held = kinds.get(suffix, _hdf5)(path)
        columns = math.prod(held.shape[1:])
        if NAME * columns > max(DENSEST * held.size, SMALL):
            raise ValueError(f"{columns:,} columns are too many for a file of {held.size:,} bytes")
    return held


def pick(path: str | Path, names: Sequence[str]) -> str:
    """Return the name of the table that is meant: one of PREFERRED, or the only one."""
    for name in PREFERRED:
        if name in names:
            return name
    if len(names) == 1:
        return names[0]
    found = shown(", ".join(names[:10])) if names else "none"
    raise DataError(f"{path}: name the table of examples 'examples'; tables found: {found}")


def check_stated(held: Any, size: int) -> None:
    """Refuse, as a ValueError, an array that cannot be in `size` bytes.

    An axis of length 0 hides no other: an array of no rows is as wide as it says.
    """
    stated = math.prod(max(n, 1) for n in held.shape) * held.dtype.itemsize
    if stated > max(DENSEST * size, SMALL):
        raise ValueError(f"a table of {held.shape} cannot be in a file of {size:,} bytes")


# NumPy's own


@dataclass(frozen=True)
class Header:
    """What the header of an array says; in `fortran` order the first axis runs fastest."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the array, exactly: no product overflows."""
        return math.prod(self.shape) * self.dtype.itemsize


def _header(file: Any) -> Header:
    """Read the header of an array; the file stands at the array afterwards."""
    form = np.lib.format
    readers = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    version = form.read_magic(file)
    if version not in readers:
        raise ValueError(f"arrays of version {version[0]}.{version[1]} are not read")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("Object arrays are refused: they can run code")
    if dtype.kind not in KINDS or not dtype.itemsize:
        raise ValueError(f"arrays of {dtype} are not read, only numbers, truth values and words")
    if min(shape, default=0) < 0:
        raise ValueError(f"there is no array of shape {shape}")
    return Header(tuple(map(int, shape)), dtype, bool(fortran))


def _values(data: Any, header: Header) -> np.ndarray:
    """The array in some bytes."""
    flat = np.frombuffer(data, np.uint8)
    if header.dtype.kind == "b" and flat.size and flat.max() > 1:
        raise ValueError("holds truth values other than 0 and 1")
    found = flat.view(header.dtype).reshape(header.shape, order="F" if header.fortran else "C")
    if header.dtype.kind == "U":
        found.tolist()  # fails where a letter is none
    return found


def _npy(path: Path) -> Stored:
    with opened(path) as file:
        header, at, size = _header(file), file.tell(), size_of(file)
        if header.nbytes != size - at:
            raise ValueError(
                f"{header.nbytes} bytes are due after the header, there are {size - at}"
            )
    shape, dtype = header.shape, header.dtype

    def read(step: int, start: int, stop: int) -> Iterator[np.ndarray]:
        row = header.nbytes // max(shape[0], 1)
        with opened(path) as file:
            file.seek(at if header.fortran else at + start * row)
            if header.fortran:
                whole = _values(_exactly(file, header.nbytes), header)
                yield from (whole[a : min(a + step, stop)] for a in range(start, stop, step))
                return
            for a in range(start, stop, step):
                few = min(step, stop - a)
                part = Header((few, *shape[1:]), dtype, fortran=False)
                yield _values(_exactly(file, few * row), part)

    return Stored(shape, dtype, size, 1, lambda *a: pieces(read(*a), lambda: reading(path)))


def _npz(path: Path) -> Stored:
    with Npz(path) as archive:
        name = pick(path, [name for name in archive if len(archive.header(name).shape) > 1])
        header, size = archive.header(name), path.stat().st_size

    def read(step: int, start: int, stop: int) -> Iterator[np.ndarray]:
        with Npz(path) as archive:
            if header.fortran or header.nbytes <= LARGE:
                whole = archive[name]
                yield from (whole[a : min(a + step, stop)] for a in range(start, stop, step))
                return
            before = 0
            for part in archive.rows(name, step):
                first, before = before, before + len(part)
                if before > start and first < stop:
                    yield part[max(start - first, 0) : stop - first]

    return Stored(header.shape, header.dtype, size, 1, read)


class Npz(Mapping[str, np.ndarray]):
    """The arrays of an .npz file by name, each read when it is asked for.

    Parameters
    ----------
    path : of the file.
    """

    def __init__(self, path: str | Path):
        self.path = path
        self._opened = opened(path)
        file = self._opened.__enter__()
        try:
            with reading(path, "cannot be read as npz"):
                _check_directory(file)
                self._archive = zipfile.ZipFile(file)
                self._members = _members(self._archive, size_of(file))
        except BaseException:
            self._opened.__exit__(None, None, None)
            raise

    def __enter__(self) -> Npz:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._archive.close()
        self._opened.__exit__(None, None, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def header(self, name: str) -> Header:
        """Return shape and type of the array `name`, which is not read."""
        with reading(f"{self.path}: {name}"), self._archive.open(self._members[name]) as member:
            return _header(member)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._members:
            raise KeyError(name)
        with reading(f"{self.path}: {name}"), self._archive.open(self._members[name]) as member:
            header = self._checked(member, name)
            require_memory(header.nbytes, f"{self.path}: {name}")
            found = _values(_exactly(member, header.nbytes), header)
            if member.read(1):  # which checks its sum as well
                raise ValueError("holds more than the header says")
            return np.array(found, found.dtype.newbyteorder("="))

    def rows(self, name: str, step: int) -> Iterator[np.ndarray]:
        """Yield an array in C order some rows at a time, unpacked as it is read."""
        return pieces(self._rows(name, step), lambda: reading(f"{self.path}: {name}"))

    def _rows(self, name: str, step: int) -> Iterator[np.ndarray]:
        with self._archive.open(self._members[name]) as member:
            header = self._checked(member, name)
            for start in range(0, header.shape[0], step):
                shape = (min(step, header.shape[0] - start), *header.shape[1:])
                part = Header(shape, header.dtype, fortran=False)
                yield _values(_exactly(member, part.nbytes), part)
            if member.read(1):
                raise ValueError("holds more than the header says")

    def _checked(self, member: Any, name: str) -> Header:
        header, info = _header(member), self._members[name]
        follow = info.file_size - member.tell()
        if header.nbytes != follow:
            raise ValueError(f"{header.nbytes} bytes are due after the header, there are {follow}")
        most = max(UNPACKED * info.compress_size, ROOM)
        if header.nbytes > most:
            raise ValueError(f"it unpacks to more than {most:,} bytes: save it unpacked (.npy)")
        return header


def _exactly(file: Any, count: int) -> bytes:
    data: bytes = file.read(count)
    if len(data) < count:
        raise EOFError(f"ends {count - len(data)} bytes early")
    return data


def _check_directory(file: BinaryIO) -> None:
    """Refuse a list of members that would itself take too much memory."""
    file.seek(max(0, size_of(file) - (1 << 16) - 22))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at >= 0 and int.from_bytes(tail[at + 12 : at + 16], "little") > DIRECTORY:
        raise ValueError("its list of members is too long")


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Members that are arrays, by the names that `numpy.savez` was given."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename:
            continue
        if not name.isprintable() or name in found:
            raise ValueError("a name in it is no text, or there twice")
        if info.flag_bits & 0x1:
            raise ValueError(f"{name} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} is compressed in a way that NumPy does not write")
        deflated = info.compress_type == zipfile.ZIP_DEFLATED
        most = EXPANSION * (info.compress_size + 1) if deflated else info.compress_size
        if info.file_size > most or info.compress_size > size:
            raise ValueError(f"{name} says that it has {info.file_size} bytes, which cannot be")
        found[name] = info
    return found


# HDF5 and Zarr


def _hdf5(path: Path) -> Stored:
    import h5py

    with opened(path) as raw:
        size = size_of(raw)

    def read(step: int, start: int, stop: int) -> Iterator[Any]:
        def found() -> Iterator[Any]:
            tables: list[str] = []

            def collect(name: str, item: object) -> None:
                if isinstance(item, h5py.Dataset) and item.shape is not None and item.ndim >= 2:
                    tables.append(name)

            with hdf5_files.opened(path) as file:
                file.visititems(collect)  # follows no links
                table = file[pick(path, tables)]
                if table.is_virtual or table.external:
                    raise ValueError("its values are in other files")
                yield _checked(path, table, size)
                yield from _slices(path, table, step, start, stop)

        work = in_child_process(found, size)
        return pieces(work, lambda: reading(path, f"cannot be read as {path.suffix[1:]}"))

    with closing(read(1, 0, 0)) as parts:  # type: ignore[type-var]
        shape, dtype, chunk = next(parts)

    def rows(step: int, start: int, stop: int) -> Iterator[np.ndarray]:
        with closing(read(step, start, stop)) as parts:  # type: ignore[type-var]
            next(parts)
            yield from parts

    return Stored(shape, dtype, size, chunk, rows)


def _checked(path: Path, table: Any, size: int) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, type and rows of a chunk of a dataset that may be a table."""
    if table.dtype.kind not in "biuf":
        raise DataError(f"{path}: examples must be numbers, got {table.dtype}")
    check_stated(table, size)
    return tuple(table.shape), table.dtype, int(table.chunks[0]) if table.chunks else 1


def _slices(path: Path, table: Any, step: int, start: int, stop: int) -> Iterator[np.ndarray]:
    item, width = table.dtype.itemsize, math.prod(table.shape[1:])
    needed = item * (COPIES * min(step, table.shape[0]) * width + math.prod(table.chunks or (1,)))
    require_memory(needed, str(path))
    raise_limits(needed + item * math.prod(table.shape))
    for a in range(start, stop, step):
        yield np.asarray(table[a : min(a + step, stop)])


def _zarr(path: Path) -> Stored:
    if not path.exists():
        raise DataError(f"{path}: no such file")
    try:
        import zarr
    except ImportError:
        raise BackendError("zarr is not installed: pip install 'hopfed[table]'") from None
    size = _folder(path)
    try:
        held: Any = zarr.open(str(path), mode="r")
    except FileNotFoundError:
        raise ValueError("there is no array in it") from None
    if not hasattr(held, "shape"):
        held = held[pick(path, [name for name, array in held.arrays() if array.ndim > 1])]
    if held.ndim < 2:
        raise DataError(f"{path}: examples must be rows of a table, got {held.ndim} axes")
    shape, dtype, chunk = _checked(path, held, size)
    stored = math.prod(getattr(held, "shards", None) or held.chunks) * dtype.itemsize
    for place in Path(path, held.path).rglob("*"):
        plain = place.is_file() and place.name not in METADATA
        if plain and place.stat().st_size > 2 * stored + LITTLE:  # which unpacks to far more
            raise ValueError(f"{place.name} is larger than a chunk of {stored:,} bytes")

    def read(step: int, start: int, stop: int) -> Iterator[np.ndarray]:
        guard = lambda: reading(path, "cannot be read as zarr")  # noqa: E731
        return pieces(_slices(path, held, step, start, stop), guard)

    return Stored(shape, dtype, size, max(chunk, 1), read)


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
