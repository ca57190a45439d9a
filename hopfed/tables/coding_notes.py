"""Lines about what was chosen for the columns of a table, and could have been meant otherwise."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from hopfed.errors import shown
from hopfed.tables.coding import Code
from hopfed.tables.contents import Contents
from hopfed.tables.options import Choices
from hopfed.tables.refusals import NO_ANSWERS
from hopfed.tables.table import listed
from hopfed.tables.vocabulary import MISSING, canonical, several_answers, spelt

MANY, OFTEN = 20, 0.1  # categories, and for each row, from which they may be names
HUNDRED, SELDOM = 100, 0.05  # a smaller code of no answer is in few of the rows
FAR = 0.5  # of the range of the other numbers, by which a code of no answer lies beside it


@dataclass(frozen=True)
class Decided:
    """A column, and how it is coded.

    Attributes
    ----------
    name : of the column.
    contents : what it holds in all sources.
    code : how its cells become +-1.
    numbers : that are entries, where all of them are numbers.
    free : whether nobody said anything of it.
    """

    name: str
    contents: Contents
    code: Code
    numbers: frozenset[float]
    free: bool


def notes_of(columns: Sequence[Decided], choices: Choices, minus: bool) -> list[str]:
    """What to tell the owner of a table, a line each.

    Parameters
    ----------
    columns : that are used.
    choices : what was told.
    minus : whether -1 occurs, so that 0 is missing.
    """
    return [
        *_categories([c for c in columns if c.code.kind == "category"], choices),
        *_answers([c for c in columns if c.code.kind == "answers"], choices),
        *_spellings([c for c in columns if c.code.levels]),
        *_unheld(columns, choices),
        *_ticked(columns, choices),
        *_twos(columns),
        *(_zeros(columns, choices) if minus else []),
        *_far(columns, choices),
    ]


def _categories(made: Sequence[Decided], choices: Choices) -> list[str]:
    """Which columns became categories, and which may rather name persons or places."""
    if not made:
        return []
    two = [c for c in made if len(c.code.levels) == 2]
    more = [c for c in made if c.code.width > 1]
    lines = []
    if more:
        width = sum(c.code.width for c in more)
        lines.append(
            f"{len(more)} column(s) of categories became {width} of +-1, one for each category: "
            f"{listed([c.name for c in more])}"
        )
    if two:
        lines.append(
            f"two categories each, of which the second is +1: {listed([c.name for c in two])}"
        )
    for c in made:
        levels, rows = len(c.code.levels), c.contents.rows
        several = several_answers(c.code.levels) if c.free else None
        if several is not None:
            mark, answers = several
            lines.append(
                f"'{shown(c.name, 60)}' holds {levels} combinations of {len(answers)} answers "
                f"({listed(answers)}) with '{mark}' between them, each a category; for a column of "
                f"yes and no for each answer: {choices.calling('answers', c.name)}"
            )
        if levels > MANY and levels > OFTEN * rows and c.free:
            lines.append(
                f"'{shown(c.name, 60)}' holds {levels} different words in {rows:,} rows; "
                f"if they name persons or places: {choices.naming(c.name)}"
            )
    return lines


def _answers(made: Sequence[Decided], choices: Choices) -> list[str]:
    """Which columns hold several answers in a cell, and that a blank is not taken for none."""
    lines = [
        f"'{shown(c.name, 60)}' holds {len(c.code.levels)} answers with '{c.code.mark}' between "
        f"them, each a column of yes and no: {listed(c.code.levels)}"
        for c in made
    ]
    blank = [c.name for c in made if c.contents.words.get("", 0) and not c.code.words]
    if blank:
        own = shlex.quote(f"{shown(blank[0], 60)}==-1")
        way = f"--words {own}" if choices.options else "words={'': -1}"
        lines.append(f"blanks in {listed(blank)} are missing: if they mean none, say so ({way})")
    return lines


def _spellings(made: Sequence[Decided]) -> list[str]:
    """Categories that differ in case or spaces alone, as of people who write as they like."""
    lines = []
    for c in made:
        alike: dict[str, list[str]] = {}
        for level in c.code.levels:
            alike.setdefault("".join(level.lower().split()), []).append(level)
        groups = [listed(group) for group in alike.values() if len(group) > 1]
        if groups:
            more = f" and {len(groups) - 5:,} more" if len(groups) > 5 else ""
            lines.append(
                f"'{shown(c.name, 60)}' holds {'; '.join(groups[:5])}{more}, each by itself: if "
                "they are the same but for case and spaces, write them alike"
            )
    return lines


def _unheld(columns: Sequence[Decided], choices: Choices) -> list[str]:
    """Words that were told and that no cell holds."""
    held = {canonical(word) for c in columns for word in c.contents.words}
    never = sorted(w for w in choices.entries() - MISSING if canonical(w) not in held)
    if not never or any(c.contents.many for c in columns):
        return []
    return [f"no cell holds {listed(never)}, of which {choices.called('words')} says what it means"]


def _ticked(columns: Sequence[Decided], choices: Choices) -> list[str]:
    """Columns that hold one word where they are not blank, as of boxes that are ticked."""
    held = {
        c.name: c.code.levels[0]
        for c in columns
        if c.code.kind == "category" and len(c.code.levels) == 1 and c.contents.words.get("", 0)
    }
    if not held:
        return []
    alone, word = list(held), next(iter(held.values()))
    way = choices.meaning({word: 1, "": -1}, alone[0])
    return [f"one word and blanks in {listed(alone)}: if blanks mean no, say so: {way}"]


def _twos(columns: Sequence[Decided]) -> list[str]:
    two = [c.name for c in columns if c.code.words == (("1", -1), ("2", 1))]
    return [f"2 is +1 and 1 is -1 in {listed(two)}"] if two else []


def _zeros(columns: Sequence[Decided], choices: Choices) -> list[str]:
    never = [c.name for c in columns if c.numbers == {0.0, 1.0}]
    if not never:
        return []
    way = choices.meaning({"0": -1}, never[0])
    return [
        f"0 is missing, as -1 occurs in others, in {listed(never)}; where 0 means no, say so: {way}"
    ]


def _far(columns: Sequence[Decided], choices: Choices) -> list[str]:
    """Codes such as -99 and 999 far from the other numbers of a column that is cut."""
    lines = []
    for c in columns:
        codes = far_codes(c.numbers) if c.code.kind == "number" and not c.contents.many else []
        numbers, counts = c.contents.values()
        often = dict(zip(numbers.tolist(), counts / max(counts.sum(), 1), strict=True))
        codes = [v for v in codes if not 0 < v < HUNDRED or often.get(v, 0) <= SELDOM]
        if codes:
            way = choices.meaning({spelt(v): 0 for v in codes}, c.name)
            lines.append(
                f"'{shown(c.name, 60)}' holds {' and '.join(map(spelt, codes))}, far from its "
                f"other numbers: if that stands for no answer, say so ({way})"
            )
    return lines


def far_codes(numbers: frozenset[float]) -> list[float]:
    """Return numbers that stand for no answer as a rule, and lie far from all of the others.

    A number between a code and the others, near to both, is a step to it: 8 to 7 from 9 to 15.

    Parameters
    ----------
    numbers : of a column.

    Examples
    --------
    >>> far_codes(frozenset([18, 54, 90, 999, -99])), far_codes(frozenset([18, 54, 90, 99]))
    ([-99, 999], [])
    >>> far_codes(frozenset(range(7, 16)))
    []
    """
    codes = {v for v in numbers if abs(v) in NO_ANSWERS}
    near = numbers - codes
    if not codes or len(near) < 2:
        return []
    far = FAR * (max(near) - min(near))
    while joined := {v for v in codes if min(abs(v - w) for w in near) <= far}:
        near, codes = near | joined, codes - joined  # what is near to one of them is none
    return sorted(codes)
