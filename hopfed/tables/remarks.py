"""What is worth a line before any work: of what was chosen for columns, and of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import like, to_host
from hopfed._lib.random import stream
from hopfed.errors import shown
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import read_before
from hopfed.spectral.rows import column_moments, is_blank
from hopfed.spectral.skips import Skip, skips
from hopfed.tables.coding import Coding
from hopfed.tables.options import Choices
from hopfed.tables.table import listed
from hopfed.tables.words import NO_ANSWERS, several_answers, spelt

if TYPE_CHECKING:
    from hopfed.tables.choosing import Column

ROUNDING = 1e-9  # of sums of normal draws, for each root of their number
ZERO_IS_MISSING = "0 is missing, as -1 occurs; where 0 means no, say so: words={'0': -1}"
FAR = 0.5  # of the range of the other numbers, by which a code of no answer lies beside it
TICKED = "one word and blanks"  # begins a line about boxes that are ticked


def remarks(columns: Sequence[Column], choices: Choices, minus: bool, made_up: bool) -> list[str]:
    """What was chosen for columns and could have been meant otherwise, a line each."""
    give, lines = choices.give, list[str]()
    made = [c for c in columns if c.code.kind == "category"]
    more = [c for c in made if c.code.width > 1]
    width = sum(c.code.width for c in more)
    became = f"{len(more)} column(s) of categories became {width} of +-1, one for each category: "
    _say(lines, became, more)
    two = [c for c in made if len(c.code.levels) == 2]
    _say(lines, "two categories each, of which the second is +1: ", two)
    for c in columns:
        lines += _of_levels(c, choices)
    for word in sorted({word for c in columns for word in c.unsaid}):
        held = [c for c in columns if word in c.unsaid]
        _say(lines, f"'{word}' is taken for no answer in ", held)
    ticked = [c for c in made if len(c.code.levels) == 1 and c.blanks]
    for c in ticked[:1]:
        way = give(words={c.name: {c.code.levels[0]: 1, "": -1}})
        _say(lines, f"{TICKED} in ", ticked, f": if blanks mean no, say so: {way}")
    twos = [c for c in columns if c.code.words == (("1", -1), ("2", 1))]
    _say(lines, "2 is +1 and 1 is -1 in ", twos)
    zeros = [c for c in columns if minus and 0.0 in c.numbers]
    if zeros:
        where = "" if made_up else f" in {listed([c.name for c in zeros])}"
        own = [c.name for c in columns if c.numbers == {0.0, 1.0} and not made_up]
        no = give(words={own[0]: {"0": -1}} if own else {"0": -1})
        lines.append(
            f"0 is missing{where}, as -1 occurs; where 0 means no, say so: {no}; where 0 means no "
            f"and -1 no answer: {give(words={'-1': 0, '0': -1})}"
        )
    for c in columns:
        codes = far_codes(c.numbers) if c.code.kind == "number" else []
        if codes:
            way = give(words={c.name: {spelt(v): 0 for v in codes}})
            lines.append(
                f"'{c.shown}' holds {' and '.join(map(spelt, codes))}, far from its other numbers: "
                f"if that stands for no answer, say so ({way})"
            )
    return lines


def _say(lines: list[str], text: str, columns: Sequence[Column], end: str = "") -> None:
    """Add a line about some columns, if there are any."""
    if columns:
        lines.append(f"{text}{listed([c.name for c in columns])}{end}")


def _of_levels(c: Column, choices: Choices) -> list[str]:
    """Lines about answers, and categories that are combinations of such."""
    levels, lines = c.code.levels, list[str]()
    if c.code.kind == "answers":
        lines.append(
            f"'{c.shown}' holds {len(levels)} answers with '{c.code.mark}' between them, "
            f"each a column of yes and no: {listed(levels)}"
        )
        if c.blanks and not c.code.words:
            way = choices.give(words={c.name: {"": -1}})
            lines.append(f"blanks in '{c.shown}' are missing: if they mean none, say so ({way})")
        return lines
    mark, answers = several_answers(levels) if c.free and levels else ("", ())
    if mark:
        lines.append(
            f"'{c.shown}' holds {len(levels)} combinations of {len(answers)} answers "
            f"({listed(answers)}) with '{mark}' between them, each a category; for a column of "
            f"yes and no for each answer: {choices.give(words={c.name: 'answers'})}"
        )
    return lines


def far_codes(numbers: set[float]) -> list[float]:
    """Return numbers that stand for no answer as a rule, and lie far from all of the others."""
    codes = {v for v in numbers if abs(v) in NO_ANSWERS}
    near = numbers - codes
    if not codes or len(near) < 2:
        return []
    far = FAR * (max(near) - min(near))
    while joined := {v for v in codes if min(abs(v - w) for w in near) <= far}:
        near, codes = near | joined, codes - joined  # what is near to one of them is none
    return sorted(codes)


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
        pairs = [f"'{shown(columns[i], 60)}' and '{shown(columns[j], 60)}'" for i, j in alike]
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


def copies(rows: Rows, of: np.ndarray) -> list[tuple[int, int]]:
    """Return columns that are equal up to their sign: each with the first that it equals.

    Such have the same products with two draws, which others have by a chance of 1e-17.
    """
    if (read := read_before(rows)) is not None:
        marks = read.marks
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
