"""What the columns of a table hold: their words, how often, and whether they are numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hopfed.errors import shown
from hopfed.tables.options import Choices
from hopfed.tables.source import Source
from hopfed.tables.table import places_of
from hopfed.tables.words import (
    GONE,
    MISSING,
    UNSAID,
    Cells,
    as_numbers,
    canonical,
    meanings,
    number,
    unfit,
)

MOST = 1000  # different words of a column that are kept
COMBINED = 100_000  # the same where each is a combination of answers
EVEN = 0.1  # of the rows, by which another value must come nearer to halving than the median


@dataclass
class Held:
    """What the rows of a column that were read so far hold."""

    words: Counter[str] = field(default_factory=Counter)  # as they stand; "" of a missing entry
    first: dict[str, int] = field(default_factory=dict)  # row of each of them, from 1
    many: bool = False  # whether there are more than `most`, and `words` are the first
    numeric: bool = True  # whether so far all words are numbers or missing
    different: bool = True  # whether no two of the rows were alike, or missing
    rows: int = 0
    kept: list[np.ndarray] | None = None  # numbers, once there are many and if they are asked for
    missing: frozenset[str] = MISSING | UNSAID  # words that stand for no entry
    most: int = MOST  # different words that are kept
    why: str = ""  # it cannot be used, whatever the words are

    @classmethod
    def of(cls, choices: Choices, name: str) -> Held:
        """Return what is known of the column `name` before its first row, given `choices`."""
        gone = {word for word, sign in choices.signs(name).items() if sign == GONE}
        return cls(
            kept=None if choices.cut(name) is None else [],
            missing=cls.missing | gone if gone else cls.missing,  # one set for all, as a rule
            most=COMBINED if choices.of(name) == "answers" else MOST,
        )

    def add(self, cells: Cells) -> None:
        """Look at some more rows."""
        before, self.rows = self.rows, self.rows + len(cells)
        self.why = self.why or unfit(cells.array.type)
        if self.why:
            self.different = self.different and not before
        elif self.many:
            values = as_numbers(cells.array, self.missing) if self.numeric else None
            self.numeric = values is not None
            if values is not None and self.kept is not None:
                self.kept.append(values[~np.isnan(values)])
        else:
            self._add_words(cells, before)

    def _add_words(self, cells: Cells, before: int) -> None:
        pairs = zip(cells.words, cells.counts.tolist(), strict=True)
        held = [(w, n, k) for k, (w, n) in enumerate(pairs) if n]
        fresh = {word: k for word, _, k in held if word not in self.words}
        self.different = self.different and len(fresh) == len(cells)
        if fresh:
            rows = np.empty(len(cells.words) + 1, int)
            rows[cells.places[::-1]] = np.arange(self.rows, before, -1)  # the first comes last
            self.first |= {word: int(rows[k]) for word, k in fresh.items()}
            known = (number(w) is not None or canonical(w) in self.missing for w in fresh)
            self.numeric = self.numeric and all(known)
        for word, count, _ in [*held, ("", len(cells) - sum(n for _, n, _ in held), 0)]:
            if count:
                self.words[word] += count
        self.many = len(self.words) > self.most
        if self.many and self.numeric and self.kept is not None:
            self.kept.append(np.repeat(*self.values()))

    @classmethod
    def together(cls, parts: Sequence[Held]) -> Held:
        """Return what one column holds in several tables."""
        if len(parts) == 1:
            return parts[0]
        whole = cls(missing=parts[0].missing, most=parts[0].most)
        for part in parts:
            whole.words.update(part.words)
            whole.first = {**part.first, **whole.first}
            whole.rows += part.rows
            whole.why = whole.why or part.why
        known = [part for part in parts if part.words.keys() - {""}] or parts
        whole.numeric = all(part.numeric for part in parts)
        whole.different = all(part.different for part in known)  # an owner may lack the column
        whole.many = len(whole.words) > whole.most or any(part.many for part in parts)
        if whole.many and parts[0].kept is not None:
            each = [p.kept if p.many else [np.repeat(*p.values())] for p in parts if p.numeric]
            whole.kept = [array for arrays in each for array in arrays or ()]
        return whole

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers that it holds, ascending, and how often each occurs."""
        if self.many and self.kept:
            return np.unique(np.concatenate(self.kept), return_counts=True)
        found: Counter[float] = Counter()
        for word, count in self.words.items():
            value = number(word)
            if value is not None and canonical(word) not in self.missing:
                found[value] += count
        values = sorted(found)
        return np.array(values, float), np.array([found[v] for v in values], int)

    def commonest(self, most: int = 5) -> str:
        """Say what it mostly holds."""
        held = [(word, n) for word, n in self.words.most_common() if word.strip()]
        said = [f"{shown(word.strip(), 30)} ({n:,}x)" for word, n in held[:most]]
        return ", ".join(said + ["..."] * (self.many or len(held) > most))

    def threshold(self, how: str) -> float:
        """Value above which a number of the column is +1."""
        kind, _, share = how.partition(":")
        if kind not in ("median", "mean", "quantile"):
            return float(how)
        values, counts = self.values()
        if not len(values):
            return math.nan
        if kind == "mean":
            return float(np.average(values, weights=counts))
        q = float(share) if share else 0.5
        at = q * (counts.sum() - 1)  # the ends of an interval of ranks, as NumPy's quantile has it
        ends = np.searchsorted(np.cumsum(counts), [math.floor(at), math.ceil(at)], side="right")
        low, high = values[ends]
        cut = float(low + (high - low) * (at - math.floor(at)))
        below = np.cumsum(counts)[:-1]
        if not len(below):
            return cut
        misses = np.abs(below - q * counts.sum())
        missed = abs(counts[values <= cut].sum() - q * counts.sum())
        near = kind == "quantile" or missed <= misses.min() + EVEN * counts.sum()
        return cut if cut < values[-1] and near else float(values[misses.argmin()])


@dataclass
class Looked:
    """What the columns of a table hold; of one in partitions also what those of each hold."""

    what: str
    names: tuple[str, ...]
    held: list[Held]
    commas: bool | None  # whether it has decimal commas; None where points are decimal ones
    notes: list[str]
    parts: list[Looked] = field(default_factory=list)

    @classmethod
    def begun(cls, source: Source, choices: Choices) -> Looked:
        """Return what is known of a source before its first row."""
        held = [Held.of(choices, name) for name in source.names]
        return cls(source.what, source.names, held, source.pointed, source.notes)

    def add(self, cells: Sequence[Cells], left: Collection[str] = ()) -> None:
        """Look at a block of rows, but for the columns that are `left` out."""
        for name, column, some in zip(self.names, self.held, cells, strict=True):
            if name not in left:
                column.add(some)

    def ordered(self, first: Looked) -> Looked:
        """Return it with its columns in the order of those of the first."""
        places = places_of(self.names, first.names, self.what, first.what)
        return replace(self, names=first.names, held=[self.held[j] for j in places])

    @classmethod
    def together(cls, parts: Sequence[Looked], what: str) -> Looked:
        """Return what one table holds that is in partitions; errors call it `what`."""
        full = [part for part in parts if any(h.rows for h in part.held)] or parts[:1]
        full = [part.ordered(full[0]) for part in full]
        held = [Held.together(each) for each in zip(*(p.held for p in full), strict=True)]
        for column in held:
            column.different &= column.many or len(column.words) == column.rows
        return replace(full[0], what=what, held=held, parts=full)


class Column:
    """What a column of some tables holds, and what was told of it."""

    def __init__(self, place: int, name: str, parts: Sequence[Held], choices: Choices, free: bool):
        self.place, self.name, self.parts = place, name, parts
        self.free = free  # nobody said anything of it
        self.held = Held.together(parts)
        self.given = choices.signs(name)  # codes of the words that were given
        self.gone = {word: GONE for word, sign in self.given.items() if sign == GONE}
        self.unsaid: set[str] = set()  # words that are taken for no answer
        self.code: Any = None  # how it is coded, once that is decided
        self.tokens = self._tokens(self.held)  # words that may be entries
        self.shown = shown(name, 60)  # its name in a line
        self.blanks = self.held.words.get("", 0)

    def _tokens(self, held: Held) -> set[str]:
        """Words of a table, or of all, that may be entries."""
        found = {canonical(word) for word in held.words} - self.gone.keys()
        found = found - MISSING | ({"-"} & found if "+" in found else set())
        unsaid = found & UNSAID - self.given.keys()
        rest = found - unsaid
        if not unsaid or not rest or "present" in found:
            return found
        if None in map(number, rest) and meanings([rest]) is None:
            return found
        self.unsaid |= unsaid
        return rest

    def numbers_of(self, tokens: set[str]) -> set[float]:
        """The words that were not given as numbers, if all of them are."""
        values = {number(word) for word in tokens - self.given.keys()}
        return set() if None in values else {v for v in values if v is not None}

    @cached_property
    def numbers(self) -> set[float]:
        """Numbers that are entries, where all words are numbers; none of a column of too many."""
        return set() if self.held.many else self.numbers_of(self.tokens)

    @cached_property
    def each(self) -> list[set[str]]:
        """Words in each table that may be entries."""
        alone = len(self.parts) == 1
        return [self.tokens if alone else self._tokens(part) for part in self.parts]

    def meanings(self, told: Collection[str] = ()) -> dict[str, int] | None:
        """Code of each word that is not told, if those of each table are of one family."""
        return meanings([tokens.difference(told) for tokens in self.each])

    def rows_of(self, words: Collection[str]) -> int:
        """Number of rows that hold one of some words."""
        return sum(n for word, n in self.held.words.items() if canonical(word) in words)
