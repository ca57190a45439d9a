"""Rows of tables by archetype and confidence, as a table to search, to sort and to download."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed.archetypes import display, storage
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.assignment import table_of
from hopfed.errors import shown
from hopfed.kernels import Rows
from hopfed.report.markup import Markup, rendered

MOST = 5_000  # rows in a page
BLOCK = 1 << 21  # entries that are filled at a time
GAPPY = 10  # columns with the most gaps that are named
LONGEST = 200  # characters of the name of a row
NONE = "none of these"


@dataclass(frozen=True)
class Answers:
    """What archetypes say of the rows of some tables, one table after the other.

    Of the M rows the nearest archetype (-1 for none of these) and its probability, and how many of
    the N entries are missing; names of the first rows, at most `MOST`; rows of each table; the
    share of the gaps that is expected to be right if the archetypes fill them, NaN where nothing
    can; and the archetypes, with their columns as the tables have them.
    """

    files: tuple[str, ...]
    names: tuple[str, ...]
    archetype: np.ndarray
    probability: np.ndarray
    gaps: np.ndarray
    column_gaps: np.ndarray
    sizes: tuple[int, ...]
    filled: float = field(default=np.nan)
    found: Archetypes | None = field(default=None, repr=False)

    def counts(self, K: int) -> np.ndarray:
        """Return rows of each table (L, K + 1) that are of none, and of each of K archetypes."""
        ends = np.cumsum(self.sizes)[:-1]
        parts = np.split(self.archetype + 1, ends)
        return np.array([np.bincount(part, minlength=K + 1) for part in parts])


def answers_of(found: Archetypes, files: Sequence[str | Path]) -> Answers:
    """Ask archetypes about the rows of tables, read as the one that they come from."""
    names: list[str] = []
    assigned, gaps, sizes = [], [], []
    column_gaps = np.zeros(found.patterns.shape[1], np.int64)
    right = 0.0
    for path in files:
        table = table_of(found, path)
        rows, ids = table.held, table.ids
        left = min(MOST - len(names), len(table))
        names += map(str, range(1, left + 1) if ids is None else ids[:left].tolist())
        assigned.append(found.assign(rows))
        m, n = rows.shape
        by_row, by_column = np.zeros(m, np.int64), np.zeros(n, np.int64)
        if rows.gaps:
            each = to_host(kernels.matmat(rows, np.ones(n), True))
            by_row = n - np.rint(each).astype(np.int64).reshape(m)
            by_column = m - to_host(kernels.seen_counts(rows)).astype(np.int64)
        gaps.append(by_row)
        column_gaps += by_column
        sizes.append(len(table))
        right += _right(found, rows) if by_row.any() and len(found) else np.nan * by_row.any()
    missing = int(column_gaps.sum())
    return Answers(
        tuple(Path(path).name for path in files),
        tuple(names),
        np.concatenate([a.archetype for a in assigned]),
        np.concatenate([a.probability for a in assigned]),
        np.concatenate(gaps),
        column_gaps,
        tuple(sizes),
        right / missing if missing else np.nan,
        found,
    )


def _right(found: Archetypes, rows: Rows) -> float:
    """Number of gaps that are expected to be filled rightly."""
    step = max(64, BLOCK // rows.shape[1])
    total = 0.0
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        gone = to_host(kernels.unpack(part)) == 0
        if gone.any():
            total += float(found.complete(part).probability[gone].sum(dtype=np.float64))
    return total


def rows_section(found: Archetypes, answers: Answers) -> Markup:
    """The section about rows: how many of each archetype, their gaps, and a table of them."""
    files, K = [shown(name, LONGEST) for name in answers.files], len(found)
    several, listed = len(files) > 1, len(answers.names)
    of_file = np.repeat(np.arange(len(files)), answers.sizes)[:listed]
    lines = [
        {
            "names": [*([files[of_file[i]]] if several else []), shown(name, LONGEST)],
            "k": int(answers.archetype[i]) + 1,
            "probability": f"{answers.probability[i]:.6g}",
            "gaps": int(answers.gaps[i]),
        }
        for i, name in enumerate(answers.names)
    ]
    heads = [*(["file"] if several else []), "id", "archetype", "probability", "gaps"]
    names = storage.names_of(found)
    order = np.argsort(-answers.column_gaps, kind="stable")[:GAPPY]
    gappy = [
        (shown(names[j], display.LONGEST), f"{answers.column_gaps[j]:,}")
        for j in order
        if answers.column_gaps[j]
    ]
    total, rows = len(answers.archetype), []
    # How many rows are of each archetype, table by table; rows of none come last.
    counted = np.roll(answers.counts(K), -1, axis=1).T
    for label, held in zip([*map(str, range(1, K + 1)), NONE], counted, strict=True):
        each = [f"{n:,}" for n in held] if several else []
        rows.append([label, f"{held.sum():,}", f"{held.sum() / max(total, 1):.1%}", *each])
    counts = {"heads": ["rows", "share", *(files if several else [])], "rows": rows}
    missing, said = int(answers.column_gaps.sum()), "The rows have no gaps."
    if missing:
        entries = total * len(answers.column_gaps)
        said = f"{missing:,} of {entries:,} entries are missing ({missing / entries:.1%})."
    if missing and np.isfinite(answers.filled):
        said += f" Filled by the archetypes, {answers.filled:.1%} of them are expected to be right."
    return rendered("rows", counts, said, gappy, heads, lines, total, K, NONE)
