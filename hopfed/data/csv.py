"""Tables of numbers in text files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.data.arrow_cells import as_numbers, number
from hopfed.data.delimited import BLOCK, Delimited
from hopfed.data.files import opened, reading, size_of
from hopfed.errors import DataError, shown

_MISSING = frozenset({"", "?", "na"})  # cells, whatever their case, that stand for no entry
_PER_BYTE = 4, 16  # bytes of the table for one of the file, and of a block of text


def read_csv(path: str | Path, *, gaps: bool = False) -> np.ndarray:
    """Read a table of numbers, float64 (rows, columns).

    The first row is a header if none of its cells is a number and one holds text; it is left out.
    Every other row must be numbers, as many as the first has; nothing is a comment. Blank lines at
    both ends are left out. Cells may be in double quotes. Rows are counted from 1, without the
    header.

    Parameters
    ----------
    path : of the file.
    gaps : whether cells may be missing: blank, ?, NA or nan, in any case. They are NaN. A first row
        of such cells alone is not a header.

    Raises
    ------
    DataError : one line: not UTF-8 text, an empty row between others, a row of another length, or
        a cell that is not a number, named with row and column.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("first,second\\n0,1\\n1,1\\n")
    ...     read_csv(f"{folder}/a.csv").tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """
    import pyarrow as pa

    with opened(path) as file:
        size = size_of(file)
    require_memory(_PER_BYTE[0] * size + _PER_BYTE[1] * min(size, BLOCK), str(path))
    missing = _MISSING if gaps else frozenset[str]()
    text = Delimited.of(path, missing | {"nan"})
    parts: list[np.ndarray] = []
    with reading(path, "cannot be read as csv"):
        for block in text.blocks():
            values = as_numbers(pa.concat_arrays(block.columns), missing)
            if values is None:
                raise ValueError(_fault(block, sum(map(len, parts)), missing))
            parts.append(values.reshape(block.num_columns, block.num_rows).T)
        return np.concatenate(parts)


def _fault(block: Any, before: int, missing: frozenset[str]) -> str:
    """Name the first cell of a block that is no number."""
    for row, cells in enumerate(zip(*block.to_pydict().values(), strict=True), start=before + 1):
        for column, cell in enumerate(map(str.strip, cells), start=1):
            if cell.lower() in missing or cell.lower() == "nan" or number(cell) is not None:
                continue
            what = f"'{shown(cell, 40)}' is not a number" if cell else "there is no number"
            return f"row {row}, column {column}: {what}"
    raise DataError("a cell that is no number was lost")
