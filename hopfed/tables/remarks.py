"""What is worth a line before any work: of columns and how they were read, and of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.errors import shown
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import column_moments, is_blank, parts
from hopfed.spectral.skips import Skip, skips
from hopfed.tables.coding import Coding
from hopfed.tables.held import Column
from hopfed.tables.options import Choices
from hopfed.tables.table import listed
from hopfed.tables.words import NO_ANSWERS, several_answers, spelt

HUNDRED, SELDOM = 100, 0.05  # a smaller code of no answer is in few of the rows
FAR = 0.5  # of the range of the other numbers, by which a code of no answer lies beside it
TOGETHER = 1 << 22  # entries of pairs of columns that are compared at once
ROUNDING = 1e-9  # of sums of normal draws, for each root of their number
ZERO_IS_MISSING = "0 is missing, as -1 occurs; where 0 means no, say so: words={'0': -1}"
TICKED = "one word and blanks"  # begins a line about boxes that are ticked


def remarks(columns: Sequence[Column], choices: Choices, minus: bool, made_up: bool) -> list[str]:
    """What was chosen for columns and could have been meant otherwise, a line each."""
    give = choices.give
    made = [c for c in columns if c.code.kind == "category"]
    more = [c.name for c in made if c.code.width > 1]
    width = sum(c.code.width for c in made if c.code.width > 1)
    two = [c.name for c in made if len(c.code.levels) == 2]
    ticked = [c for c in made if len(c.code.levels) == 1 and c.blanks]
    twos = [c.name for c in columns if c.code.words == (("1", -1), ("2", 1))]
    zeros = [c.name for c in columns if minus and 0.0 in c.numbers]
    unsaid = sorted({word for c in columns for word in c.unsaid})
    lines = []
    if more:
        lines.append(
            f"{len(more)} column(s) of categories became {width} of +-1, one for each category: "
            f"{listed(more)}"
        )
    if two:
        lines.append(f"two categories each, of which the second is +1: {listed(two)}")
    lines += [line for c in columns if c.code.levels for line in _of_levels(c, choices)]
    for word in unsaid:
        held = [c.name for c in columns if word in c.unsaid]
        lines.append(f"'{word}' is taken for no answer in {listed(held)}")
    if ticked:
        way = give(words={ticked[0].name: {ticked[0].code.levels[0]: 1, "": -1}})
        names = listed([c.name for c in ticked])
        lines.append(f"{TICKED} in {names}: if blanks mean no, say so: {way}")
    if twos:
        lines.append(f"2 is +1 and 1 is -1 in {listed(twos)}")
    if zeros:
        where = "" if made_up else f" in {listed(zeros)}"
        own = [c.name for c in columns if c.numbers == {0.0, 1.0} and not made_up]
        no = give(words={own[0]: {"0": -1}} if own else {"0": -1})
        lines.append(
            f"0 is missing{where}, as -1 occurs; where 0 means no, say so: {no}; where 0 means no "
            f"and -1 no answer: {give(words={'-1': 0, '0': -1})}"
        )
    return lines + [line for c in columns for line in _far(c, choices)]


def _of_levels(c: Column, choices: Choices) -> list[str]:
    """Answers, and categories that are combinations of such."""
    lines, levels = [], c.code.levels
    mark, answers = several_answers(levels) if c.free else ("", ())
    if c.code.kind == "answers":
        lines.append(
            f"'{c.shown}' holds {len(levels)} answers with '{c.code.mark}' between them, "
            f"each a column of yes and no: {listed(levels)}"
        )
        if c.blanks and not c.code.words:
            way = choices.give(words={c.name: {"": -1}})
            lines.append(f"blanks in '{c.shown}' are missing: if they mean none, say so ({way})")
    elif mark:
        lines.append(
            f"'{c.shown}' holds {len(levels)} combinations of {len(answers)} answers "
            f"({listed(answers)}) with '{mark}' between them, each a category; for a column of "
            f"yes and no for each answer: {choices.give(words={c.name: 'answers'})}"
        )
    return lines


def _far(c: Column, choices: Choices) -> list[str]:
    """Codes such as -99 and 999 far from the other numbers of a column that is cut."""
    if c.code.kind != "number" or c.held.many:
        return []
    values, counts = c.held.values()
    often = dict(zip(values.tolist(), counts / max(counts.sum(), 1), strict=True))
    codes = [v for v in far_codes(c.numbers) if not 0 < v < HUNDRED or often.get(v, 0) <= SELDOM]
    way = choices.give(words={c.name: {spelt(v): 0 for v in codes}})
    line = (
        f"'{c.shown}' holds {' and '.join(map(spelt, codes))}, far from its other numbers: if that "
        f"stands for no answer, say so ({way})"
    )
    return [line] if codes else []


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


# Rows


def oddities(rows: Rows | Reread, coding: Coding) -> list[str]:
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


def _blank_rows(rows: Rows | Reread) -> tuple[int, int]:
    """Number of rows without any entry, and the first of them."""
    if isinstance(rows, Reread):
        return rows.totals.blank
    blank = is_blank(rows)
    return int(blank.sum()), int(blank.argmax())


def copies(rows: Rows | Reread, of: np.ndarray) -> list[tuple[int, int]]:
    """Return columns that are equal up to their sign: each with the first that it equals."""
    m = rows.shape[0]
    if isinstance(rows, Reread):
        marks = np.abs(rows.totals.marks)[of]
    else:
        marks = np.abs(kernels.rmatmat(rows, stream(0, "copies").standard_normal(m)))[of]
    order = np.argsort(marks, kind="stable")
    near = np.flatnonzero(np.diff(marks[order]) <= ROUNDING * np.sqrt(m))
    if not len(near):
        return []
    pairs = np.sort(np.stack([of[order[near]], of[order[near + 1]]], axis=1), axis=1)
    same = np.ones((len(pairs), 2), bool)  # as they are, and of opposite sign
    for part in parts(rows):
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
