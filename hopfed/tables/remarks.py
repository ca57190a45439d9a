"""What is worth a line of the rows of a table before any work: one list."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import like, to_host
from hopfed._lib.random import stream
from hopfed.errors import shown
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import column_moments, is_blank
from hopfed.spectral.skips import Skip, skips
from hopfed.tables.coding import Coding
from hopfed.tables.table import listed

ROUNDING = 1e-9  # of sums of normal draws, for each root of their number
ZERO_IS_MISSING = "0 is missing, as -1 occurs; where 0 means no, say so: words={'0': -1}"


def oddities(rows: Rows | Reread, coding: Coding) -> list[str]:
    """Return a line for columns without any entry, for those of one value, and for copies."""
    columns = coding.columns
    sums, seen = column_moments(rows)
    empty, constant = seen == 0, (np.abs(sums) == seen) & (seen > 0)
    lines = []
    if isinstance(rows, Reread):
        none, first = rows.totals.blank
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
        pairs = [f"'{columns[i]}' and '{columns[j]}'" for i, j in alike]
        more = f", and {len(pairs) - 5:,} more" if len(pairs) > 5 else ""
        lines.append(f"equal or opposite in every row: {'; '.join(pairs[:5])}{more}")
    return lines + ([] if isinstance(rows, Reread) else skipped(skips(rows, coding.steps), coding))


def skipped(found: Iterable[Skip], coding: Coding) -> list[str]:
    """Return a line for each set of columns that are blank wherever another one holds a value."""
    of = np.repeat(np.arange(len(coding.codes)), [code.width for code in coding.codes])
    lines: dict[tuple[str, ...], str] = {}
    for skip in found:
        k = int(of[skip.column])
        blank = tuple(dict.fromkeys(coding.names[j] for j in of[skip.blank].tolist()))
        value = _value(coding, k, skip.column - int((of < k).sum()), skip.sign)
        line = f"blank wherever {listed([coding.names[k]])} {value}: {listed(blank)}"
        lines.setdefault(blank, line)
    return list(lines.values())


def _value(coding: Coding, k: int, place: int, sign: int) -> str:
    """What a column holds whose column `place` of +-1 has a sign: "is no"."""
    code = coding.codes[k]
    if code.kind == "number":
        return f"is {'>' if sign > 0 else '<='} {code.threshold:g}"
    if code.kind == "words":
        return f"is {shown(next((w for w, s in code.words if s == sign), f'{sign:+d}'), 60)}"
    if code.kind == "ordinal":
        return f"is {'above' if sign > 0 else 'at'} {shown(code.levels[place], 60)}"
    verb = {"answers": ("holds", "does not hold")}.get(code.kind, ("is", "is not"))
    if code.kind == "category" and code.width == 1:
        return f"is {shown(code.levels[sign > 0], 60)}"
    return f"{verb[sign < 0]} {shown(code.levels[place], 60)}"


def copies(rows: Rows | Reread, of: np.ndarray) -> list[tuple[int, int]]:
    """Return columns that are equal up to their sign: each with the first that it equals.

    Such have the same products with two draws, which others have by a chance of 1e-17.
    """
    if isinstance(rows, Reread):
        marks = rows.totals.marks
    else:
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
