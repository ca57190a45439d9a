"""What is worth a line before any work, of the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import like, to_host
from hopfed._lib.random import stream
from hopfed.errors import shown
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import read_before
from hopfed.spectral.rows import Skip, column_moments, is_blank, skips
from hopfed.tables.coding import Coding
from hopfed.tables.table import listed

ROUNDING = 1e-9  # of sums of normal draws, for each root of their number
ZERO_IS_MISSING = "0 is missing, as -1 occurs; where 0 means no, say so: words={'0': -1}"


def oddities(rows: Rows, coding: Coding) -> list[str]:
    """Return a line for columns without any entry, for those of one value, and for copies."""
    columns = coding.columns
    sums, seen = column_moments(rows)
    empty, constant = seen == 0, (np.abs(sums) == seen) & (seen > 0)
    lines = []
    if (read := read_before(rows)) is not None:
        none, first = read.blank
    else:
        blank = is_blank(rows)
        none, first = int(blank.sum()), int(blank.argmax())
    if none:
        lines.append(f"without any entry: {none:,} row(s), the first of them row {first + 1:,}")
    said = {"without any entry": empty, "the same in every row, and of no use": constant}
    for line, which in said.items():
        if which.any():
            lines.append(f"{line}: {listed([columns[j] for j in np.flatnonzero(which).tolist()])}")
    alike = copies(rows, np.flatnonzero(~empty & ~constant))
    if alike:
        pairs = [f"'{shown(columns[i], 60)}' and '{shown(columns[j], 60)}'" for i, j in alike[:5]]
        more = f", and {len(alike) - 5:,} more" if len(alike) > 5 else ""
        lines.append(f"equal or opposite in every row: {'; '.join(pairs)}{more}")
    return lines + (skipped(skips(rows, coding.steps), coding) if rows.held else [])


def skipped(found: Iterable[Skip], coding: Coding) -> list[str]:
    """Return a line for each set of columns that are blank wherever another one holds a value."""
    of = np.repeat(np.arange(len(coding.codes)), [code.width for code in coding.codes])
    lines: dict[tuple[str, ...], str] = {}
    for skip in found:
        code, name = coding.codes[of[skip.column]], coding.columns[skip.column]
        value = code.said(skip.sign) or ("yes" if skip.sign > 0 else "no")
        blank = tuple(dict.fromkeys(coding.names[j] for j in of[skip.blank].tolist()))
        line = f"blank wherever {listed([name])} is {shown(value, 60)}: {listed(blank)}"
        lines.setdefault(blank, line)
    return list(lines.values())


def copies(rows: Rows, of: np.ndarray) -> list[tuple[int, int]]:
    """Return columns that are equal up to their sign: each with the first that it equals.

    Such have the same products with two draws, which others have by a chance of 1e-17. Of rows that
    are read again the sums of products say it, where these are kept.
    """
    if (read := read_before(rows)) is not None:
        if read.products is None:
            return []
        products, seen = np.abs(read.products[np.ix_(of, of)]), read.seen[of]
        equal = of[((products == seen) & (products == seen[:, None])).argmax(axis=1)]
        return [(i, j) for i, j in zip(equal.tolist(), of.tolist(), strict=True) if i != j]
    draws = stream(0, "copies").standard_normal((rows.shape[0], 2))
    marks = to_host(kernels.rmatmat(rows, like(draws, rows.signs)))
    marks = marks[of] * np.sign(marks[of, :1])
    order = np.argsort(marks[:, 0], kind="stable")
    apart = np.abs(np.diff(marks[order], axis=0)) > ROUNDING * np.sqrt(rows.shape[0])
    group = np.cumsum([False, *apart.any(axis=1)])[: len(of)]
    first = np.full(len(of), rows.shape[1])
    np.minimum.at(first, group, of[order])
    pairs = zip(first[group].tolist(), of[order].tolist(), strict=True)
    return sorted((i, j) for i, j in pairs if i != j)
