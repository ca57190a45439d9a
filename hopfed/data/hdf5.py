"""Tables in HDF5 files: what a dataset says of itself is checked before it is read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.data.files import opened, reading
from hopfed.errors import DataError, shown


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
    import h5py

    tables: list[str] = []

    def collect(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None and item.ndim >= 2:
            tables.append(name)

    broken = reading(path, f"cannot be read as {Path(path).suffix[1:]}")
    with opened(path), broken, h5py.File(path, "r", locking=False) as file:
        file.visititems(collect)
        dataset = file[pick(path, tables, preferred)]
        _check(path, dataset)
        array = np.empty(dataset.shape, dataset.dtype.newbyteorder("="))
        if array.size:
            dataset.read_direct(array)
        return array


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


def _check(path: str | Path, dataset: Any) -> None:
    """Refuse a dataset that is not a table of numbers of this file, or that does not fit."""
    if dataset.is_virtual or dataset.external:
        raise ValueError("its values are in other files")
    if dataset.dtype.kind not in "biuf":
        raise DataError(f"{path}: examples must be numbers, got {dataset.dtype}")
    require_memory(math.prod(dataset.shape) * dataset.dtype.itemsize, str(path))
    if dataset.chunks is not None:  # a chunk is unpacked as a whole
        require_memory(math.prod(dataset.chunks) * dataset.dtype.itemsize, str(path))
