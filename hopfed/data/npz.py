"""Arrays in .npy and .npz files: their headers are checked before anything is allocated.

NumPy's own `load` allocates what a header asks for. Here a header must fit the bytes that follow
it and the memory that is free; Python objects, records and encrypted members are refused.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.data.files import UNPACKED, opened, pieces, reading, size_of

KINDS = "biufUS"  # truth values, numbers and words
EXPANSION = 1032  # bytes that one byte of deflate can stand for, at most
ROOM = 1 << 30  # bytes that any packed array may hold
DIRECTORY = 1 << 24  # bytes of the list of members, at most
_STEP = 1 << 22  # bytes read at a time
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True)
class Header:
    """What the header of an array says.

    Attributes
    ----------
    shape, dtype : of the array.
    fortran : whether the first axis runs fastest.

    Examples
    --------
    >>> Header((2**40, 2**40), np.dtype(np.float64), fortran=False).nbytes == 2**83
    True
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the array, exactly: no product overflows."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy(path: str | Path) -> np.ndarray:
    """Read the array of an .npy file.

    Parameters
    ----------
    path : of the file.

    Raises
    ------
    DataError : one line: not such a file, truncated, of objects or records, or too large.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", np.eye(2))
    ...     read_npy(f"{folder}/a.npy").tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    with opened(path) as file, reading(path, "cannot be read as npy"):
        header = _whole_header(file)
        require_memory(header.nbytes, str(path))
        return _body(file, header)


def npy_header(path: str | Path) -> Header:
    """Return shape and type of the array of an .npy file, checked against the size of the file.

    Parameters
    ----------
    path : of the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", np.eye(2))
    ...     npy_header(f"{folder}/a.npy").shape
    (2, 2)
    """
    with opened(path) as file, reading(path, "cannot be read as npy"):
        return _whole_header(file)


def npy_rows(path: str | Path, rows: int) -> Iterator[np.ndarray]:
    """Yield an array in C order of an .npy file some rows at a time, for one larger than memory.

    Parameters
    ----------
    path : of the file.
    rows : at a time.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", np.eye(3))
    ...     [part.shape for part in npy_rows(f"{folder}/a.npy", 2)]
    [(2, 3), (1, 3)]
    """

    def parts() -> Iterator[np.ndarray]:
        with opened(path) as file:
            header = _whole_header(file)
            for start in range(0, header.shape[0], rows):
                few = min(rows, header.shape[0] - start)
                yield _values(file, Header((few, *header.shape[1:]), header.dtype, header.fortran))

    return pieces(parts(), lambda: reading(path, "cannot be read as npy"))


def _whole_header(file: BinaryIO) -> Header:
    """Header of an .npy file of the length that it says."""
    header = _header(file)
    follow = size_of(file) - file.tell()
    if header.nbytes != follow:
        raise ValueError(f"{header.nbytes} bytes are due after the header, there are {follow}")
    return header


class Npz(Mapping[str, np.ndarray]):
    """The arrays of an .npz file by name, each read when it is asked for.

    Parameters
    ----------
    path : of the file.

    Raises
    ------
    DataError : one line: the file, or the array that is asked for, cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/a.npz", x=np.eye(2), words=["a", "b"])
    ...     with Npz(f"{folder}/a.npz") as arrays:
    ...         print(list(arrays), arrays.header("x").shape, arrays["words"].tolist())
    ['x', 'words'] (2, 2) ['a', 'b']
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
            header = _header(member)
            self._check_length(member, name, header)
            require_memory(header.nbytes, f"{self.path}: {name}")
            return _body(member, header)

    def rows(self, name: str, rows: int) -> Iterator[np.ndarray]:
        """Yield an array in C order some rows at a time, unpacked as it is read.

        Parameters
        ----------
        name : of the array.
        rows : at a time.
        """
        return pieces(self._parts(name, rows), lambda: reading(f"{self.path}: {name}"))

    def _parts(self, name: str, rows: int) -> Iterator[np.ndarray]:
        with self._archive.open(self._members[name]) as member:
            header = _header(member)
            self._check_length(member, name, header)
            for start in range(0, header.shape[0], rows):
                few = min(rows, header.shape[0] - start)
                yield _values(member, Header((few, *header.shape[1:]), header.dtype, False))
            if member.read(1):
                raise ValueError("holds more than the header says")

    def _check_length(self, member: Any, name: str, header: Header) -> None:
        info = self._members[name]
        follow = info.file_size - member.tell()
        if header.nbytes != follow:
            fault = f"{header.nbytes} bytes are due after the header, there are {follow}"
            raise ValueError(fault)
        most = max(UNPACKED * info.compress_size, ROOM)
        if header.nbytes > most:
            raise ValueError(f"it unpacks to more than {most:,} bytes: save it unpacked (.npy)")


def _check_directory(file: BinaryIO) -> None:
    """Refuse a list of members that would itself take too much memory."""
    size = size_of(file)
    file.seek(max(0, size - (1 << 16) - 22))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at >= 0 and len(tail) >= at + 16:
        listed = int.from_bytes(tail[at + 12 : at + 16], "little")
        if listed > DIRECTORY:
            raise ValueError(f"its list of members has {listed} bytes")


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Members that are arrays, by the names that `numpy.savez` was given."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename:
            continue
        if not name.isprintable():
            raise ValueError("a name in it is no text")
        if info.flag_bits & 0x1:
            raise ValueError(f"{name} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} is compressed in a way that NumPy does not write")
        most = info.compress_size
        if info.compress_type == zipfile.ZIP_DEFLATED:
            most = EXPANSION * (most + 1)
        if info.file_size > most or info.compress_size > size:
            raise ValueError(f"{name} says that it has {info.file_size} bytes, which cannot be")
        if name in found:
            raise ValueError(f"{name} is there twice")
        found[name] = info
    return found


def _header(file: Any) -> Header:
    """Read the header of an array; the file stands at the array afterwards."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"arrays of version {version[0]}.{version[1]} are not read")
    try:
        shape, fortran, dtype = _HEADERS[version](file)
    except (SyntaxError, TokenError) as error:  # it is parsed as Python
        raise ValueError(f"its header cannot be parsed: {error}") from None
    if dtype.hasobject:
        raise ValueError("Object arrays are refused: they can run code")
    if dtype.kind not in KINDS or not dtype.itemsize:
        raise ValueError(f"arrays of {dtype} are not read, only numbers, truth values and words")
    if min(shape, default=0) < 0:
        raise ValueError(f"there is no array of shape {shape}")
    return Header(tuple(map(int, shape)), dtype, bool(fortran))


def _body(file: Any, header: Header) -> np.ndarray:
    """Read the array that follows its header, and nothing may follow it."""
    array = _values(file, header)
    if file.read(1):  # for a member of an archive, this checks its sum as well
        raise ValueError("holds more than the header says")
    return array


def _values(file: Any, header: Header) -> np.ndarray:
    """Read as many values as a header says."""
    flat = np.empty(header.nbytes, dtype=np.uint8)
    view, at = memoryview(flat.data), 0
    while at < header.nbytes:
        got = file.readinto(view[at : at + _STEP])
        if not got:
            raise EOFError(f"ends {header.nbytes - at} bytes early")
        at += got
    if header.dtype.kind == "b" and flat.size and flat.max() > 1:
        raise ValueError("holds truth values other than 0 and 1")
    order = "F" if header.fortran else "C"
    if not header.nbytes:
        return np.empty(header.shape, header.dtype, order=order)  # type: ignore[call-overload]
    array = flat.view(header.dtype).reshape(header.shape, order=order)  # type: ignore[call-overload]
    array = np.asarray(array, dtype=header.dtype.newbyteorder("="))
    if array.dtype.kind == "U":
        points = array.ravel().view(np.uint32)
        if ((points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))).any():
            raise ValueError("holds words that are no text")
    return array
