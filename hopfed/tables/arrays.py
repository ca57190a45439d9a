"""Arrays in files that are read a part at a time: .npy, .npz, HDF5 and Zarr."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from hopfed._lib.memory_limits import SMALL
from hopfed.data.chunks import Chunks
from hopfed.data.hdf5 import DENSEST, pick, table_form, table_parts
from hopfed.data.npz import Header, Npz, npy_header, npy_rows
from hopfed.data.readers import PREFERRED
from hopfed.errors import DataError
from hopfed.tables.sources import Numbers

PART = 1 << 24  # entries of a part
LARGE = 1 << 26  # bytes of an array from which it is read in parts
NAME = 100  # bytes that the name takes of a column that has none


def array_parts(path: Path, suffix: str) -> Numbers | None:
    """Return the numbers of a file, read a part at a time; None where they are better read whole.

    That is where they are few, words, of an odd size, or stored column by column.

    Parameters
    ----------
    path : of the file or, of Zarr, the folder.
    suffix : of its name, in lower case.

    Raises
    ------
    DataError : one line: no such file, damaged, no table in it, or one of far more columns than the
        file has bytes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", np.eye(3))
    ...     array_parts(Path(folder, "a.npy"), ".npy") is None
    True
    """
    if suffix == ".zarr":
        held = Chunks(path, PREFERRED)
        if len(held.shape) < 2:
            raise DataError(f"{path}: examples must be rows of a table, got {len(held.shape)} axes")
        check_width(held.shape, held.size, str(path))
        return _numbers(held.shape, lambda rows: held.parts(rows * math.prod(held.shape[1:])))
    if suffix == ".npy":
        header = npy_header(path)
        return _if_large(path, header, lambda rows: npy_rows(path, rows))
    if suffix == ".npz":
        with Npz(path) as archive:
            tables = [name for name in archive if len(archive.header(name).shape) > 1]
            name = pick(path, tables, PREFERRED)
            header = archive.header(name)

        def members(rows: int) -> Iterator[np.ndarray]:
            with Npz(path) as archive:
                yield from archive.rows(name, rows)

        return _if_large(path, header, members)
    if suffix in (".h5", ".hdf5"):
        shape, dtype = table_form(path, PREFERRED)
        header = Header(shape, dtype, fortran=False)
        return _if_large(path, header, lambda rows: table_parts(path, PREFERRED, rows))
    return None


def check_width(shape: tuple[int, ...], size: int, what: str) -> None:
    """Refuse an array whose names of columns would take far more memory than its file has bytes.

    Parameters
    ----------
    shape : (M, ...), of which every axis but the first is one of columns.
    size : bytes of the file.
    what : it is called in the error.

    Examples
    --------
    >>> check_width((0, 10**9), 128, "a.npy")
    Traceback (most recent call last):
        ...
    hopfed.errors.DataError: a.npy: 1,000,000,000 columns are too many for a file of 128 bytes
    """
    columns = math.prod(shape[1:])
    if NAME * columns > max(DENSEST * size, SMALL):
        raise DataError(f"{what}: {columns:,} columns are too many for a file of {size:,} bytes")


def _if_large(
    path: Path, header: Header, read: Callable[[int], Iterator[np.ndarray]]
) -> Numbers | None:
    """Numbers of an array whose rows lie one after the other, where it is large."""
    dtype = header.dtype
    check_width(header.shape, path.stat().st_size, str(path))
    packs = dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in (4, 8))
    if header.nbytes <= LARGE or not packs or header.fortran or len(header.shape) < 2:
        return None
    return _numbers(header.shape, read)


def _numbers(shape: tuple[int, ...], read: Callable[[int], Iterator[np.ndarray]]) -> Numbers:
    width = math.prod(shape[1:])
    size = max(1, PART // max(width, 1))

    def parts() -> Iterator[np.ndarray]:
        return (part.reshape(len(part), width) for part in read(size))

    return Numbers((shape[0], width), parts)
