"""Tables with their gaps filled, in the words that they are written in.

Cells that are there stay as they are, to the letter. A cell that is missing gets the commonest word
of its column for the sign that is likelier; the likeliest level, in a column of categories; which
side of the cut it is on, in a column of numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hopfed import kernels
from hopfed.archetypes.assignment import Completion, complete
from hopfed.archetypes.rows import table_of
from hopfed.data.writers import Column
from hopfed.tables.coding import Code
from hopfed.tables.formats import source_of
from hopfed.tables.table import Table

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes


class Filled(NamedTuple):
    """A table whose gaps are filled.

    Attributes
    ----------
    columns : of the source, in its order, as names and Arrow arrays of cells.
    table : the source as it was read.
    completion : its rows of +-1, and how probable they are.
    gaps : (M, N) booleans, which of these were missing.
    """

    columns: list[Column]
    table: Table
    completion: Completion
    gaps: np.ndarray


def filled(found: Archetypes, source: Any) -> Filled:
    """Read a table, and fill its gaps.

    Parameters
    ----------
    found : the archetypes.
    source : as of `hopfed.read_table`.

    Raises
    ------
    DataError : there are no archetypes, or it is not such a table as they come from.

    Examples
    --------
    >>> from hopfed import recover
    >>> words = [["yes"] * 8, ["no"] * 8] * 50
    >>> names = [f"q{j}" for j in range(8)]
    >>> found = recover(dict(zip(names, zip(*words), strict=True)))
    >>> asked = {**{name: ["yes", "no", "yes"] for name in names}, "q3": ["", "no", "yes"]}
    >>> filled(found, asked).columns[3][1].to_pylist()
    ['yes', 'no', 'yes']
    """
    import pyarrow as pa

    table = table_of(found, source)
    whole = complete(found, table)
    opened = source_of(source)
    blocks = list(opened.blocks())
    place = {name: j for j, name in enumerate(opened.names)}
    columns: list[Column] = [
        (name, joined([block[j] for block in blocks])) for j, name in enumerate(opened.names)
    ]
    gaps, start = _gaps(table), 0
    for j, (name, code) in enumerate(zip(table.coding.names, table.coding.codes, strict=True)):
        span = slice(start, start + code.width)
        start += code.width
        gap = gaps[:, span.start]
        if gap.any():
            at = place.get(name, j)
            columns[at] = columns[at][0], _patched(columns[at][1], gap, whole.values[:, span], code)
    if table.ids is not None and not set(table.coding.ids) & place.keys():
        columns.insert(0, ("id", pa.array(table.ids.tolist())))
    return Filled(columns, table, whole, gaps)


def _gaps(table: Table) -> np.ndarray:
    """(M, N) booleans: which entries are missing."""
    if isinstance(table.rows, kernels.MaskedBits):
        gaps: np.ndarray = kernels.unpack(table.rows) == 0
        return gaps
    return np.zeros(table.shape, bool)


def joined(parts: list[Any]) -> Any:
    """Join pieces of a column to one array of Arrow, of texts where they differ in type.

    Parameters
    ----------
    parts : arrays of Arrow.
    """
    import pyarrow as pa

    if len({part.type for part in parts}) > 1:
        parts = [part.cast(pa.string()) for part in parts]
    return pa.chunked_array(parts).combine_chunks() if parts else pa.array([], pa.string())


def _patched(cells: Any, gap: np.ndarray, values: np.ndarray, code: Code) -> Any:
    """Cells (M,) with words in the gaps, for values (M, width) of +-1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = cells.cast(pa.string())
    if code.kind == "category":
        words = np.array(code.levels, dtype=object)
        fill = words[values.argmax(axis=1) if code.width > 1 else (values[:, 0] > 0).astype(int)]
    elif code.kind == "number":
        cut = f"{code.threshold:g}"
        fill = np.where(values[:, 0] > 0, f"> {cut}", f"<= {cut}")
    else:
        known = {sign: _word(texts, gap, values[:, 0] == sign, code, sign) for sign in (-1, 1)}
        fill = np.where(values[:, 0] > 0, known[1], known[-1])
    return pc.if_else(pa.array(gap), pa.array(fill.tolist(), pa.string()), texts)


def _word(texts: Any, gap: np.ndarray, side: np.ndarray, code: Code, sign: int) -> str:
    """Commonest word for a sign in a column; where it holds none, one of the coding."""
    import pyarrow as pa
    import pyarrow.compute as pc

    held = pc.value_counts(texts.filter(pa.array(side & ~gap))).to_pylist()
    if held:
        return str(max(held, key=lambda each: each["counts"])["values"])
    return next((word for word, value in code.words if value == sign), f"{sign:+d}")
