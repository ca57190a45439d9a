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
from hopfed.archetypes.rows import table_of
from hopfed.report.markup import folded, grid, text
from hopfed.spectral.rows import Bits

MOST = 5_000  # rows in a page
BLOCK = 1 << 21  # entries that are filled at a time
GAPPY = 10  # columns with the most gaps that are named
LONGEST = 200  # characters of the name of a row
NONE = "none of these"


@dataclass(frozen=True)
class Answers:
    """What archetypes say of the rows of some tables, one table after the other.

    Attributes
    ----------
    files : names of the tables.
    names : of the first rows, at most `MOST`.
    archetype : (M,) number of the archetype of each row, from 0; -1 for none of these.
    probability : (M,) of the nearest archetype.
    gaps : (M,) missing entries of each row.
    column_gaps : (N,) missing entries of each column.
    sizes : rows of each table.
    filled : share of the gaps that is expected to be right if the archetypes fill them; NaN where
        there is nothing to fill, or to fill it by.
    found : the archetypes that were asked, with their columns as the tables have them.

    Examples
    --------
    >>> one = Answers(("a.csv",), ("ann",), np.array([0]), np.ones(1), np.zeros(1, int),
    ...               np.zeros(3, int), (1,))
    >>> one.counts(2).tolist()
    [[0, 1, 0]]
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
    """Ask archetypes about the rows of tables, read as the one that they come from.

    Parameters
    ----------
    found : the archetypes.
    files : paths of the tables.

    Raises
    ------
    DataError : a table cannot be read, or has other columns.

    Examples
    --------
    >>> import tempfile
    >>> from hopfed import recover
    >>> from hopfed.hopfield.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(1)
    >>> x = draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", x[:5])
    ...     answers_of(recover(x, seed=1), [f"{folder}/x.npy"]).names
    ('1', '2', '3', '4', '5')
    """
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
        by_row, by_column = _gaps(rows)
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


def _gaps(rows: Bits) -> tuple[np.ndarray, np.ndarray]:
    """Missing entries of each row and of each column."""
    m, n = rows.shape
    if not isinstance(rows, kernels.MaskedBits):
        return np.zeros(m, np.int64), np.zeros(n, np.int64)
    by_row = np.rint(to_host(kernels.seen_matmat(rows, np.ones(n)))).astype(np.int64).reshape(m)
    by_column = to_host(kernels.seen_counts(rows)).astype(np.int64)
    return n - by_row, m - by_column


def _right(found: Archetypes, rows: Bits) -> float:
    """Number of gaps that are expected to be filled rightly."""
    step = max(64, BLOCK // rows.shape[1])
    total = 0.0
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        gone = to_host(kernels.unpack(part)) == 0
        if gone.any():
            total += float(found.complete(part).probability[gone].sum(dtype=np.float64))
    return total


def rows_section(found: Archetypes, answers: Answers) -> str:
    """Return the section about rows: how many of each archetype, their gaps, and a table of them.

    Parameters
    ----------
    found : the archetypes.
    answers : about the rows.

    Examples
    --------
    >>> from hopfed import recover
    >>> from hopfed.hopfield.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(1)
    >>> found = recover(draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0], seed=1)
    >>> one = Answers(("a.csv",), ("a<n",), np.array([0]), np.ones(1), np.zeros(1, int),
    ...               np.zeros(200, int), (1,))
    >>> "a&lt;n" in rows_section(found, one)
    True
    """
    return (
        f"<h3>Rows by archetype</h3>{_counts(found, answers)}{_missing(found, answers)}"
        f"{_table(found, answers)}"
    )


def _counts(found: Archetypes, answers: Answers) -> str:
    """How many rows are of each archetype, table by table."""
    counts, K = answers.counts(len(found)), len(found)
    labels = [str(k + 1) for k in range(K)] + [NONE]
    by_name = np.roll(counts, -1, axis=1).T  # rows of none come last
    total = max(int(counts.sum()), 1)
    lines: list[list[object]] = []
    for label, held in zip(labels, by_name, strict=True):
        each = [f"{n:,}" for n in held] if len(answers.files) > 1 else []
        lines.append([label, f"{held.sum():,}", f"{held.sum() / total:.1%}", *each])
    heads = ["rows", "share"]
    heads += [text(name, LONGEST) for name in answers.files] if len(answers.files) > 1 else []
    return (
        "<p>A row is of none of these if an archetype's own rows are hardly ever so unlike it.</p>"
        f"{grid('archetype', heads, lines)}"
    )


def _missing(found: Archetypes, answers: Answers) -> str:
    """How many entries are missing, where, and how well they can be filled."""
    missing = int(answers.column_gaps.sum())
    entries = len(answers.archetype) * len(answers.column_gaps)
    if not missing:
        return "<p>The rows have no gaps.</p>"
    said = f"{missing:,} of {entries:,} entries are missing ({missing / entries:.1%})."
    if np.isfinite(answers.filled):
        said += f" Filled by the archetypes, {answers.filled:.1%} of them are expected to be right."
    names = storage.names_of(found)
    order = np.argsort(-answers.column_gaps, kind="stable")[:GAPPY]
    lines = [
        (text(names[j], display.LONGEST), f"{answers.column_gaps[j]:,}")
        for j in order
        if answers.column_gaps[j]
    ]
    return f"<p>{said}</p>{folded('Columns with the most gaps', grid('column', ('gaps',), lines))}"


def _table(found: Archetypes, answers: Answers) -> str:
    """Table of rows with its search and download, which need scripts."""
    several, shown = len(answers.files) > 1, len(answers.names)
    heads = [*(["file"] if several else []), "id", "archetype", "probability", "gaps"]
    head = "".join(f'<th scope="col"><button>{name}</button></th>' for name in heads)
    of_file = np.repeat(np.arange(len(answers.files)), answers.sizes)[:shown]
    files = [text(name, LONGEST) for name in answers.files]
    lines = []
    for i, name in enumerate(answers.names):
        k = int(answers.archetype[i])
        cells = [f"<td>{files[of_file[i]]}</td>"] if several else []
        cells += [
            f"<td>{text(name, LONGEST)}</td>",
            f"<td>{k + 1}</td>" if k >= 0 else f'<td data-value="">{NONE}</td>',
            f"<td>{answers.probability[i]:.6g}</td><td>{answers.gaps[i]}</td>",
        ]
        lines.append(f'<tr data-k="{k + 1}">{"".join(cells)}</tr>')
    choices = "".join(f'<option value="{k + 1}">{k + 1}</option>' for k in range(len(found)))
    total = len(answers.archetype)
    left = ""
    if total > shown:
        left = (
            f"<p>The first {shown:,} of {total:,} rows are here; <code>hopfed assign</code> writes "
            "all of them to a file.</p>"
        )
    return (
        f'{left}<div class="rows"><div class="tools" hidden>'
        '<label>search <input type="search"></label>'
        '<label>archetype <select><option value="">all</option>'
        f'{choices}<option value="0">{NONE}</option></select></label>'
        '<button class="csv">download as .csv</button><output></output></div>'
        f'<div class="wide tall"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div></div>"
    )
