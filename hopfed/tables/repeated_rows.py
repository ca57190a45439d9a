"""The same rows in several tables: a file that was given twice, or rows that two owners both have.

Rows of few columns are alike by chance. But rows of which there are exactly two in all tables
together fall on the tables as pairs of cards do, where the tables hold rows of one kind: with M_i
rows each, both are in one table with probability sum of (M_i / M)^2. Where far more of such pairs
than that are split between two tables, the tables share rows. Tables of rows of different kinds
split fewer pairs, not more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom

from hopfed.spectral.equal_rows import row_marks
from hopfed.spectral.reread_rows import Reread
from hopfed.tables.table import Table

LEVEL = 1e-6  # chance of a line about tables that share nothing
NAMED = 3  # pairs of tables that a line names


def repeated(tables: Sequence[Table], names: Sequence[str]) -> list[str]:
    """Return a line about rows that several tables hold; no line where there are none to be seen.

    Parameters
    ----------
    tables : with their rows in memory; others are not looked at.
    names : what to call each of them.

    Examples
    --------
    >>> from hopfed import read_table
    >>> rows = np.random.default_rng(0).integers(0, 2, (90, 60))
    >>> tables = [read_table(rows[:60]), read_table(rows[60:]), read_table(rows[30:])]
    >>> repeated(tables[:2], ["a", "b"])
    []
    >>> repeated(tables, ["a", "b", "c"])
    ['the same rows are in several files, and count twice: 30 of a and c, 30 of b and c']
    """
    held = [_marks(table) for table in tables]
    if len(held) < 2 or any(marks is None for marks in held):
        return []
    sizes = np.array([len(table) for table in tables])
    owner = np.repeat(np.arange(len(tables)), sizes)
    marks = np.concatenate([m for m in held if m is not None])
    order = np.argsort(marks, kind="stable")
    marks, owner = marks[order], owner[order]
    starts = np.flatnonzero(np.r_[True, marks[1:] != marks[:-1]])
    twice = starts[np.diff(np.r_[starts, len(marks)]) == 2]
    first, second = owner[twice], owner[twice + 1]
    split = first != second
    apart = 1 - ((sizes / sizes.sum()) ** 2).sum()
    if not len(twice) or binom.sf(split.sum() - 1, len(twice), apart) > LEVEL:
        return []
    pairs, counts = np.unique(
        np.stack([first[split], second[split]], axis=1), axis=0, return_counts=True
    )
    most = np.argsort(-counts, kind="stable")[:NAMED]
    said = [f"{counts[k]:,} of {names[pairs[k, 0]]} and {names[pairs[k, 1]]}" for k in most]
    more = f", and of {len(counts) - NAMED:,} pairs more" if len(counts) > NAMED else ""
    return [f"the same rows are in several files, and count twice: {', '.join(said)}{more}"]


def _marks(table: Table) -> np.ndarray | None:
    """A number (M,) for each row, equal where rows are; None where they are not in memory."""
    return None if isinstance(table.rows, Reread) else row_marks(table.rows)
