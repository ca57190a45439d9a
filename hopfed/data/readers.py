"""Binary examples from files: .npy, .npz, .csv and .h5; one file is one client."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hopfed import kernels
from hopfed.arrays import to_host
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import PackedBits
from hopfed.kernels.dispatch import on_device

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
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: unknown format {path.suffix!r}; use .npy, .npz, .csv or .h5")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    try:
        array = reader(path)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path}: cannot be read as {path.suffix[1:]}: {reason}") from error
    return as_examples(array, name=str(path))


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
        table = array.reshape(packed_shape(array))
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
    return array.shape[0], int(np.prod(array.shape[1:]))


def _first_bad(table: np.ndarray) -> str:
    """Name the first value that is not binary; a 0 in a table of -1 counts as one."""
    bad = ~np.isin(table, (-1, 0, 1))
    if not bad.any():
        bad = table == 0
    row, column = np.argwhere(bad)[0]
    value = table[row, column]
    what = "NaN" if value != value else f"{value:g}"
    rule = "values must be all +-1, all 0/1, or boolean"
    return f"{rule}, got {what} at row {row + 1}, column {column + 1}"


def _read_npz(path: Path) -> np.ndarray:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return archive[_pick(path, [k for k in archive.files if archive[k].ndim >= 2])]


def _read_h5(path: Path) -> np.ndarray:
    import h5py

    tables: list[str] = []

    def collect(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim >= 2:
            tables.append(name)

    with h5py.File(path, "r") as file:
        file.visititems(collect)
        return file[_pick(path, tables)][()]


def _pick(path: Path, names: list[str]) -> str:
    for name in PREFERRED:
        if name in names:
            return name
    if len(names) == 1:
        return names[0]
    found = ", ".join(names) if names else "none"
    raise DataError(f"{path}: name the table of examples 'examples'; tables found: {found}")


def _read_csv(path: Path) -> np.ndarray:
    with path.open(encoding="utf-8") as file:
        lines = [line for line in file if line.strip()]
    if not lines:
        raise DataError(f"{path}: the file is empty")
    delimiter = next((d for d in (",", ";", "\t") if d in lines[0]), None)
    header = not all(_is_number(cell) for cell in lines[0].split(delimiter))
    if header and len(lines) == 1:
        raise DataError(f"{path}: only a header line, no examples")
    return np.loadtxt(lines[header:], delimiter=delimiter, ndmin=2, dtype=np.float64)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


_READERS: dict[str, Callable[[Path], np.ndarray]] = {
    ".npy": lambda path: np.load(path, allow_pickle=False),
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".h5": _read_h5,
    ".hdf5": _read_h5,
}
