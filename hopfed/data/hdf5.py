"""Tables in HDF5 files: the shape and type that a dataset states are checked before it is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib import hdf5_files
from hopfed._lib.guarded_reading import COPIES, blocks, filled, in_child_process, raise_limits
from hopfed._lib.memory_limits import SMALL, require_memory
from hopfed.data.files import opened, pieces, reading, size_of
from hopfed.errors import DataError, shown

DENSEST = 2_000  # bytes for each byte of a file; deflate reaches about 1,000


def read_table(path: str | Path, preferred: tuple[str, ...]) -> np.ndarray:
    """Read the table of an HDF5 file: the first of `preferred` that it has, or its only one.

    Links are not followed, neither to other files nor inside this one, and a dataset whose values
    are in other files is refused.

    Parameters
    ----------
    path : of the file.
    preferred : names of datasets.

    Raises
    ------
    DataError : one line: not an HDF5 file, truncated, no table or several, one that is not of
        numbers, or larger than the memory that is free.

    Examples
    --------
    >>> import tempfile, h5py
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with h5py.File(f"{folder}/a.h5", "w") as file:
    ...         file["examples"] = np.eye(2)
    ...     read_table(f"{folder}/a.h5", ("examples",)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    with closing(_in_child(path, preferred, lambda d: blocks(d, str(path)))) as parts:
        return filled(parts)


def table_form(path: str | Path, preferred: tuple[str, ...]) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and type of the table that `read_table` reads.

    Parameters
    ----------
    path, preferred : as of `read_table`.

    Examples
    --------
    >>> import tempfile, h5py
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with h5py.File(f"{folder}/a.h5", "w") as file:
    ...         file["examples"] = np.eye(3)
    ...     table_form(f"{folder}/a.h5", ("examples",))
    ((3, 3), dtype('float64'))
    """
    with closing(_in_child(path, preferred, lambda d: iter([(d.shape, d.dtype)]))) as parts:
        shape, dtype = next(parts)
    return tuple(shape), dtype


def table_parts(path: str | Path, preferred: tuple[str, ...], rows: int) -> Iterator[np.ndarray]:
    """Yield the table that `read_table` reads some rows at a time, for one larger than memory.

    Parameters
    ----------
    path, preferred : as of `read_table`.
    rows : about so many at a time, whole chunks of them.

    Examples
    --------
    >>> import tempfile, h5py
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with h5py.File(f"{folder}/a.h5", "w") as file:
    ...         file["examples"] = np.eye(3)
    ...     [part.shape for part in table_parts(f"{folder}/a.h5", ("examples",), 2)]
    [(2, 3), (1, 3)]
    """

    def slices(dataset: Any) -> Iterator[np.ndarray]:
        chunk = dataset.chunks or (1,)
        size = max(rows // chunk[0], 1) * chunk[0]  # each chunk is unpacked once
        item, width = dataset.dtype.itemsize, math.prod(dataset.shape[1:])
        needed = item * (COPIES * min(size, len(dataset)) * width + math.prod(chunk))
        require_memory(needed, str(path))
        raise_limits(needed + item * math.prod(dataset.shape))
        native = dataset.dtype.newbyteorder("=")
        for start in range(0, len(dataset), size):
            yield np.asarray(dataset[start : start + size], native)

    return _in_child(path, preferred, slices)


def _in_child(
    path: str | Path, preferred: tuple[str, ...], read: Callable[[Any], Iterator[Any]]
) -> Any:
    """Generator of what a child process reads of the table of a file."""
    import h5py

    def found() -> Iterator[Any]:
        tables: list[str] = []

        def collect(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset) and item.shape is not None and item.ndim >= 2:
                tables.append(name)

        with hdf5_files.opened(path) as file:
            file.visititems(collect)
            dataset = file[pick(path, tables, preferred)]
            _check(path, dataset, size)
            yield from read(dataset)

    with opened(path) as raw:
        size = size_of(raw)
    what = f"cannot be read as {Path(path).suffix[1:]}"
    return pieces(in_child_process(found, size), lambda: reading(path, what))


def pick(path: str | Path, names: list[str], preferred: tuple[str, ...]) -> str:
    """Return the name of the table that is meant.

    Parameters
    ----------
    path : of the file, for the message.
    names : of its tables.
    preferred : the first of these that is among them is meant.

    Raises
    ------
    DataError : there are several, none of a preferred name, or none at all.

    Examples
    --------
    >>> pick("a.h5", ["labels", "examples"], ("examples",))
    'examples'
    """
    for name in preferred:
        if name in names:
            return name
    if len(names) == 1:
        return names[0]
    found = shown(", ".join(names[:10])) if names else "none"
    raise DataError(f"{path}: name the table of examples 'examples'; tables found: {found}")


def _check(path: str | Path, dataset: Any, size: int) -> None:
    """Refuse a dataset that is not a table of numbers of this file, or cannot be in its `size`."""
    if dataset.is_virtual or dataset.external:
        raise ValueError("its values are in other files")
    if dataset.dtype.kind not in "biuf":
        raise DataError(f"{path}: examples must be numbers, got {dataset.dtype}")
    check_stated(dataset, size)


def check_stated(dataset: Any, size: int) -> None:
    """Refuse, as a ValueError, an array that cannot be in `size` bytes.

    An axis of length 0 hides no other: an array of no rows is as wide as it says.

    Parameters
    ----------
    dataset : with a shape and a dtype.
    size : bytes on the disk.

    Examples
    --------
    >>> check_stated(np.broadcast_to(np.int8(1), (1 << 20, 1 << 10)), 1000)
    Traceback (most recent call last):
        ...
    ValueError: a table of (1048576, 1024) cannot be in a file of 1,000 bytes
    """
    stated = math.prod(max(n, 1) for n in dataset.shape) * dataset.dtype.itemsize
    if stated > max(DENSEST * size, SMALL):
        raise ValueError(f"a table of {dataset.shape} cannot be in a file of {size:,} bytes")
