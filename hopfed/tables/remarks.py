"""What is worth a line before any work: of what was chosen for columns, and of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import like, to_host
from hopfed._lib.random import stream
from hopfed.errors import shown
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import read_before
from hopfed.spectral.rows import Skip, column_moments, is_blank, skips
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


def remarks(columns: Sequence[Column], choices: Choices, minus: bool) -> Iterator[str]:
    """What was chosen for columns and could have been meant otherwise, a line each."""
    give, made = choices.give, [c for c in columns if c.code.kind == "category"]
    more = [c for c in made if c.code.width > 1]
    two = [c for c in made if len(c.code.levels) == 2]
    width = sum(c.code.width for c in more)
    became = f"{len(more)} column(s) of categories became {width} of +-1, one for each category: "
    ticked = [c for c in made if len(c.code.levels) == 1 and c.held.words[""]]
    tick = give(words={c.name: {c.code.levels[0]: 1, "": -1} for c in ticked[:1]})
    zeros = [c for c in columns if minus and 0.0 in c.numbers]
    own = [c.name for c in columns if c.numbers == {0.0, 1.0}]
    no = give(words={own[0]: {"0": -1}} if own else {"0": -1})
    none = give(words={"-1": 0, "0": -1})
    lines = {
        became: more,
        "two categories each, of which the second is +1: ": two,
        f"{TICKED}, which are missing (if they mean no: {tick}), in ": ticked,
        "2 is +1 and 1 is -1 in ": [c for c in columns if c.code.words == (("1", -1), ("2", 1))],
        f"0 is missing, as -1 occurs; where 0 means no, say so: {no}; where 0 means no and -1 no "
        f"answer: {none}; in ": zeros,
    }
    for word in sorted({word for c in columns for word in c.unsaid}):
        lines[f"'{word}' is taken for no answer in "] = [c for c in columns if word in c.unsaid]
    for line, held in lines.items():
        if held:
            yield line + listed([c.name for c in held])
    for c in columns:
        levels = c.code.levels
        if c.code.kind == "answers":
            yield (
                f"'{c.shown}' holds {len(levels)} answers with '{c.code.mark}' between them, "
                f"each a column of yes and no: {listed(levels)}"
            )
            if c.held.words[""] and not c.code.words:
                way = give(words={c.name: {"": -1}})
                yield f"blanks in '{c.shown}' are missing: if they mean none, say so ({way})"
        elif c.free and levels and (mark := several_answers(levels)[0]):
            yield (
                f"'{c.shown}' holds {len(levels)} combinations of answers with '{mark}' between "
                "them, each a category; for a column of yes and no for each answer: "
                f"{give(words={c.name: 'answers'})}"
            )
        elif c.code.kind == "number" and (codes := far_codes(c.numbers)):
            way = give(words={c.name: dict.fromkeys(map(spelt, codes), 0)})
            yield (
                f"'{c.shown}' holds {' and '.join(map(spelt, codes))}, far from its other numbers: "
                f"if that stands for no answer, say so ({way})"
            )


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
        value = next((w for w, s in code.words if s == skip.sign), f"{skip.sign:+d}")
        if code.kind == "number":
            value = f"{'>' if skip.sign > 0 else '<='} {code.threshold:g}"
        elif code.levels:
            value = "yes" if skip.sign > 0 else "no"
        blank = tuple(dict.fromkeys(coding.names[j] for j in of[skip.blank].tolist()))
        line = f"blank wherever {listed([name])} is {shown(value, 60)}: {listed(blank)}"
        lines.setdefault(blank, line)
    return list(lines.values())


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
