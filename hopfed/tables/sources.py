"""Where tables come from: each source gives names of columns and blocks of rows, again and again.

A block is a list of arrays of Arrow, one for each column. Files larger than the memory are read a
block at a time; small ones are kept once they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.data.delimited import Delimited
from hopfed.data.files import opened
from hopfed.data.readers import read_numbers
from hopfed.errors import DataError, shown
from hopfed.tables.table import made_up
from hopfed.tables.vocabulary import KNOWN

KEPT = 1 << 28  # bytes of blocks that are kept, so that they are read once
ROWS = 1 << 16  # of a block, at most
TEXT = (".csv", ".tsv")
ARRAYS = (".npy", ".npz", ".h5", ".hdf5")
Block = list[Any]


@dataclass
class Source:
    """A table that can be read as often as is needed.

    Attributes
    ----------
    what : it is called in an error.
    names : of its columns; made up where it has none.
    read : begins to read: yields blocks.
    ids : names of rows that it brings with it, beside its columns.
    notes : what was odd about its names.
    array : the numbers, where the source is an array without names.
    """

    what: str
    names: tuple[str, ...]
    read: Callable[[], Iterator[Block]]
    ids: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)
    array: Any = None
    _kept: list[Block] | None = None

    def blocks(self) -> Iterator[Block]:
        """Yield all rows, a block at a time."""
        if self._kept is not None:
            yield from self._kept
            return
        held: list[Block] | None = []
        size = 0
        for block in self.read():
            size += sum(array.nbytes for array in block)
            if held is not None and size <= KEPT:
                held.append(block)
            else:
                held = None
            yield block
        self._kept = held

    def row_of(self, column: int, fits: Callable[[str], bool]) -> int:
        """Row, from 1, in which a column first holds a word that `fits`; 0 if none does."""
        from hopfed.tables.contents import distinct

        before = 0
        for block in self.blocks():
            words, places = distinct(block[column])
            fit = np.array([fits(word) for word in words] + [fits("")])
            at = np.flatnonzero(fit[places])
            if len(at):
                return before + int(at[0]) + 1
            before += len(places)
        return 0


def source_of(given: Any) -> Source:
    """Return what can be read of a path, a frame, an array or lists.

    Raises
    ------
    DataError : of a kind that is not known.
    """
    if isinstance(given, str | Path):
        return _of_path(Path(given))
    if isinstance(given, dict):
        return _of_mapping(given)
    return _of_array(given, "examples")


def _of_path(path: Path) -> Source:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = path.with_suffix("").suffix.lower()
    if suffix in TEXT:
        return _of_text(path)
    if suffix in ARRAYS:
        return _of_array(read_numbers(path), str(path))
    with opened(path):  # that there is no such file is said first
        known = ", ".join((*ARRAYS[:3], *TEXT))
        raise DataError(f"{path}: unknown format {path.suffix!r}; use one of {known}")


def _of_text(path: Path) -> Source:
    text = Delimited.of(path, KNOWN)

    def blocks() -> Iterator[Block]:
        for batch in text.blocks():
            yield batch.columns

    if text.header is None:
        return Source(str(path), made_up(text.width), blocks)
    names, notes = unique(text.header)
    return Source(str(path), names, blocks, notes=notes)


def _of_mapping(given: dict[Any, Any]) -> Source:
    """A dictionary: names of columns and their cells."""
    import pyarrow as pa

    names, notes = unique([str(name) for name in given])
    arrays = [as_arrow(cells) for cells in given.values()]
    lengths = sorted({len(array) for array in arrays})
    if len(lengths) != 1:
        raise DataError(f"examples: columns must be of equal length, got {lengths}")
    del pa
    return Source("examples", names, lambda: iter([arrays]), notes=notes)


def _of_array(given: Any, what: str) -> Source:
    array = given if hasattr(given, "shape") else rows_of(given, what)
    if array.ndim >= 2:
        array = array.reshape(array.shape[0], -1) if array.ndim > 2 else array
    width = array.shape[1] if array.ndim == 2 else 1

    def blocks() -> Iterator[Block]:
        for start in range(0, len(array), ROWS):
            part = array[start : start + ROWS]
            yield [as_arrow(part[:, j]) for j in range(width)]

    return Source(what, made_up(width), blocks, array=array)


def rows_of(given: Any, what: str) -> np.ndarray:
    """Return lists of rows as an array: of numbers, or of objects where there are words."""
    try:
        rows = [list(row) for row in given]
    except TypeError:
        raise DataError(
            f"{what}: neither a path nor rows of a table: {type(given).__name__}"
        ) from None
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1:
        odd = next(i for i, row in enumerate(rows) if len(row) != len(rows[0]))
        raise DataError(
            f"{what}: columns changed from {len(rows[0])} to {len(rows[odd])} at row {odd + 1}"
        )
    array = np.array(rows, dtype=object)
    words = any(isinstance(cell, str) for cell in array.flat)
    return array if words or None in rows else np.array(rows)


def as_arrow(cells: Any) -> Any:
    """Return one column as an array of Arrow; objects of several kinds as their words."""
    import pyarrow as pa

    if isinstance(cells, np.ma.MaskedArray):
        return pa.array(cells.data, mask=np.ma.getmaskarray(cells))
    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array([None if cell is None else str(cell) for cell in cells])


def unique(names: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return names that all differ, and a line where some were alike or empty.

    Examples
    --------
    >>> unique(["a", "", "a"])
    (('a', 'column 2', 'a (2)'), ["two columns are called 'a': the later one is 'a (2)' here"])
    """
    found: dict[str, None] = {}
    notes = []
    for j, name in enumerate(names, start=1):
        fresh, k = name or f"column {j}", 1
        while fresh in found:
            k += 1
            fresh = f"{name} ({k})"
        if k > 1:
            notes.append(
                f"two columns are called '{shown(name, 60)}': the later one is "
                f"'{shown(fresh, 60)}' here"
            )
        found[fresh] = None
    return tuple(found), notes
