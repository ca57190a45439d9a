"""What is worth a line of the rows of a table before any work: one list."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.errors import shown
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import read_before
from hopfed.spectral.rows import column_moments, is_blank
from hopfed.spectral.skips import Skip, skips
from hopfed.tables.coding import Coding
from hopfed.tables.table import listed

TOGETHER = 1 << 22  # entries of pairs of columns that are compared at once
ROUNDING = 1e-9  # of sums of normal draws, for each root of their number
ZERO_IS_MISSING = "0 is missing, as -1 occurs; where 0 means no, say so: words={'0': -1}"


def oddities(rows: Rows, coding: Coding) -> list[str]:
    """Return a line for columns without any entry, for those of one value, and for copies."""
    columns = coding.columns
    sums, seen = column_moments(rows)
    empty, constant = seen == 0, (np.abs(sums) == seen) & (seen > 0)
    lines = []
    none, first = _blank_rows(rows)
    if none:
        lines.append(f"without any entry: {none:,} row(s), the first of them row {first + 1:,}")
    for what, which in (
        ("without any entry", empty),
        ("the same in every row, and of no use", constant),
    ):
        if which.any():
            lines.append(f"{what}: {listed([columns[j] for j in np.flatnonzero(which).tolist()])}")
    alike = copies(rows, np.flatnonzero(~empty & ~constant))
    if alike:
        pairs = [f"'{columns[i]}' and '{columns[j]}'" for i, j in alike]
        more = f", and {len(pairs) - 5:,} more" if len(pairs) > 5 else ""
        lines.append(f"equal or opposite in every row: {'; '.join(pairs[:5])}{more}")
    return lines + (skipped(skips(rows, coding.steps), coding) if rows.held else [])


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


def _blank_rows(rows: Rows) -> tuple[int, int]:
    """Number of rows without any entry, and the first of them."""
    if (read := read_before(rows)) is not None:
        return read.blank
    blank = is_blank(rows)
    return int(blank.sum()), int(blank.argmax())


def copies(rows: Rows, of: np.ndarray) -> list[tuple[int, int]]:
    """Return columns that are equal up to their sign: each with the first that it equals."""
    m = rows.shape[0]
    if (read := read_before(rows)) is not None:
        marks = np.abs(read.marks)[of]
    else:
        marks = np.abs(kernels.rmatmat(rows, stream(0, "copies").standard_normal(m)))[of]
    order = np.argsort(marks, kind="stable")
    near = np.flatnonzero(np.diff(marks[order]) <= ROUNDING * np.sqrt(m))
    if not len(near):
        return []
    pairs = np.sort(np.stack([of[order[near]], of[order[near + 1]]], axis=1), axis=1)
    same = np.ones((len(pairs), 2), bool)  # as they are, and of opposite sign
    for part in rows.parts():
        turned = kernels.transpose(part)
        alive = np.flatnonzero(same.any(axis=1))
        size = max(1, TOGETHER // max(part.shape[0], 1))
        for some in (alive[start : start + size] for start in range(0, len(alive), size)):
            a, b = (kernels.unpack(turned[pairs[some, side]]) for side in (0, 1))
            same[some] &= np.stack([(a == b).all(axis=1), (a == -b).all(axis=1)], axis=1)
    found: dict[int, int] = {}
    for (i, j), alike in zip(pairs.tolist(), same.tolist(), strict=True):
        if any(alike):
            found[j] = min(found.get(i, i), found.get(j, j))
    return sorted((i, j) for j, i in found.items())
