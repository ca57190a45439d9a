"""Archetypes as tables for other programs: a row for each archetype, the columns of the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfed.archetypes.rows import unknown_columns
from hopfed.archetypes.storage import arrays_of, as_run, names_of, summary_of
from hopfed.errors import BackendError
from hopfed.runs import Run, plain
from hopfed.tables import writers
from hopfed.tables.writers import PLAIN, Column, Dialect

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes


def to_frame(found: Archetypes) -> Any:
    """Means, or signs, as a pandas frame (K, N), indexed by number (from 1) and share of the rows.

    A column without any entry, of which nothing is known, is NaN.
    """
    try:
        import pandas as pd
    except ImportError:
        raise BackendError("frames need pandas: pip install pandas") from None
    index = pd.MultiIndex.from_arrays(
        [np.arange(1, len(found) + 1), found.shares], names=["archetype", "share"]
    )
    return pd.DataFrame(_entries(found), index=index, columns=list(names_of(found)))


def to_csv(found: Archetypes, path: str | Path) -> None:
    """Write number, share and means of each archetype to a .csv file, whole or not at all."""
    writers.write(path, table_of(found), endings=(".csv",))


def write(
    found: Archetypes, path: str | Path, run: Run | None = None, dialect: Dialect = PLAIN
) -> None:
    """Write archetypes in the format that the ending of a name says."""
    held, report = run or as_run(found), report_of(found)
    writers.write(path, table_of(found), run=held, report=report, dialect=dialect)


def table_of(found: Archetypes) -> list[Column]:
    """Columns of the table: number, share, and the mean, or sign, of every column of the data."""
    head: list[Column] = [
        ("archetype", np.arange(1, len(found) + 1)),
        ("share", np.asarray(found.shares, np.float64)),
    ]
    return head + list(zip(names_of(found), _entries(found).T, strict=True))


def only_signs(found: Archetypes) -> bool:
    """Whether means say no more than signs."""
    return found.signs_only or bool(np.isnan(found.means).all())


def _entries(found: Archetypes) -> np.ndarray:
    """Means of the columns, or their signs where only these are known; NaN where nothing is."""
    entries = np.array(found.patterns if only_signs(found) else found.means, np.float64)
    entries[:, unknown_columns(found)] = np.nan
    return entries


def report_of(found: Archetypes) -> dict[str, Any]:
    """All that is known of archetypes as JSON holds it: words, names, shares, means, errors.

    "plus" is what +1 stands for in each column, where a table said it: a word, "> 2.5", or "" where
    the name of the column says it. A column without any entry has the pattern 0, and no mean.
    """
    arrays: dict[str, Any] = {
        name.partition("/")[2]: x for name, x in arrays_of(found).items() if x.dtype != "S"
    }
    arrays.pop("names", None)
    if only_signs(found):  # the means are made of one quality
        arrays.pop("means")
    if found.errors is not None:
        arrays["errors"] = found.errors
    void = unknown_columns(found)
    if void.any():
        arrays["patterns"] = np.where(void, 0, found.patterns)
        arrays |= {n: np.where(void, np.nan, arrays[n]) for n in ("means", "errors") if n in arrays}
    if found.coding is not None:
        arrays["plus"] = [code.plus for code in found.coding.codes for _ in range(code.width)]
    made: dict[str, Any] = plain(summary_of(found) | {"columns": list(names_of(found))} | arrays)
    return made
