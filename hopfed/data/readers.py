"""Binary examples from files: .npy, .npz, .csv and .h5; one file is one client."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed.data.csv import read_csv
from hopfed.data.files import opened
from hopfed.data.hdf5 import pick, read_table
from hopfed.data.npz import Npz, read_npy
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import PackedBits
from hopfed.kernels.dispatch import on_device

_BLOCK = 1 << 20  # values looked at together
PREFERRED = ("examples", "X", "x", "data")  # names tried first in files that hold several arrays


def read_examples(path: str | Path) -> PackedBits:
    """Read the examples in `path` and pack them to bits; rows are examples.

    Arrays of more than two axes, such as images (M, height, width), are flattened row by row.

    Parameters
    ----------
    path : .npy, .npz, .csv or .h5.

    Raises
    ------
    DataError
        One line: the file is missing, empty, of unknown format, not rectangular, has NaN or
        fewer than two rows, or holds a value that is not binary (named with row and column,
        counted from 1).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savetxt(f"{folder}/answers.csv", [[0, 1, 1], [1, 1, 0]], fmt="%d", delimiter=",")
    ...     read_examples(f"{folder}/answers.csv").shape
    (2, 3)
    """
    return as_examples(read_numbers(path), name=str(path))


def read_numbers(path: str | Path) -> np.ndarray:
    """Read the numbers in `path` as they stand, (M, ...).

    Parameters
    ----------
    path : .npy, .npz, .csv or .h5.

    Raises
    ------
    DataError : the file is missing, empty, of unknown format, or not rectangular.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/means.npy", [[0.5, -0.5]])
    ...     read_numbers(f"{folder}/means.npy").tolist()
    [[0.5, -0.5]]
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        with opened(path):  # that there is no such file is said first
            raise DataError(f"{path}: unknown format {path.suffix!r}; use .npy, .npz, .csv or .h5")
    return reader(path)


def as_examples(array: np.ndarray, *, name: str = "examples") -> PackedBits:
    """Check that `array` holds at least two binary examples, and pack them.

    Parameters
    ----------
    array : (M, ...) of +-1, 0/1 or booleans; M at least 2.
    name : what to call it in an error.

    Raises
    ------
    DataError : not so; the first bad value is named with row and column.

    Examples
    --------
    >>> as_examples(np.array([[0, 1, 1], [1, 1, 0]])).shape
    (2, 3)
    """
    if isinstance(array, PackedBits):
        packed = array
    else:
        array = array if on_device(array) else np.asarray(array)
        if array.ndim < 2:
            raise DataError(f"{name}: examples must be rows of a table, got {array.ndim} axes")
        if array.dtype.kind not in "biuf":
            raise DataError(f"{name}: examples must be numbers, got {array.dtype}")
        table = array if on_device(array) else _native(array)
        table = table.reshape(packed_shape(array))
        if table.size:
            try:
                packed = kernels.pack(table)
            except ArgumentError as error:
                raise DataError(f"{name}: {_first_bad(to_host(table))}") from error
    if packed_shape(array)[0] < 2 or packed_shape(array)[1] < 1:
        rows, columns = packed_shape(array)
        raise DataError(f"{name}: at least two examples are needed, got {rows} x {columns}")
    return packed


def packed_shape(array: np.ndarray | PackedBits) -> tuple[int, int]:
    """Rows, and columns after flattening.

    Parameters
    ----------
    array : (M, ...), or packed.

    Examples
    --------
    >>> packed_shape(np.zeros((5, 28, 28)))
    (5, 784)
    """
    return array.shape[0], math.prod(array.shape[1:])


def _first_bad(table: np.ndarray) -> str:
    """Name the first value that is not binary; a 0 in a table of -1 counts as one."""
    rows = max(1, _BLOCK // max(table.shape[1], 1))
    for allowed in ((-1, 0, 1), (-1, 1)):
        for start in range(0, len(table), rows):
            bad = ~np.isin(table[start : start + rows], allowed)
            if bad.any():
                row, column = np.argwhere(bad)[0]
                value = table[start + row, column]
                what = "NaN" if value != value else f"{value:g}"
                rule = "values must be all +-1, all 0/1, or boolean"
                return f"{rule}, got {what} at row {start + row + 1}, column {column + 1}"
    raise AssertionError("all values are binary")


def _native(array: np.ndarray) -> np.ndarray:
    """Return numbers in the byte order and the sizes that the kernels know."""
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        with np.errstate(all="ignore"):  # what does not fit becomes infinity, and is refused
            return array.astype(np.float64)
    return np.asarray(array, dtype=array.dtype.newbyteorder("="))


def _read_npz(path: Path) -> np.ndarray:
    with Npz(path) as archive:
        tables = [name for name in archive if len(archive.header(name).shape) > 1]
        return archive[pick(path, tables, PREFERRED)]


_READERS: dict[str, Callable[[Path], np.ndarray]] = {
    ".npy": read_npy,
    ".npz": _read_npz,
    ".csv": read_csv,
    ".h5": lambda path: read_table(path, PREFERRED),
    ".hdf5": lambda path: read_table(path, PREFERRED),
}
