"""What the columns of a table hold: their words, how often, and whether they are numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopfed.data.arrow_cells import Cells, as_numbers, measured, number
from hopfed.data.dialects import PLAIN, Dialect
from hopfed.tables.options import Choices
from hopfed.tables.thousands import Points
from hopfed.tables.vocabulary import GONE, MISSING, canonical

MOST = 1000  # different words of a column that are kept
COMBINED = 100_000  # the same where each is a combination of answers
EVEN = 0.1  # of the rows, by which another value must come nearer to halving than the median


@dataclass
class Contents:
    """What the rows of a column that were read so far hold.

    Attributes
    ----------
    words : its different words as they stand, and how often each occurs; a missing entry is "".
    many : there are more than `most` of them, and `words` are the first.
    numeric : so far all words are numbers or missing.
    different : whether no two of the first rows were alike, or missing.
    rows : that were looked at.
    kept : the numbers themselves, once there are many and if they are asked for.
    missing : words that stand for no entry.
    cut : whether its numbers are cut; then a word may say on which side of a cut it is.
    most : different words that are kept.
    points : what points in its numbers may be, in a text file where that is a question.
    """

    words: Counter[str] = field(default_factory=Counter)
    many: bool = False
    numeric: bool = True
    different: bool = True
    rows: int = 0
    kept: list[np.ndarray] | None = None
    missing: frozenset[str] = MISSING
    cut: bool = False
    most: int = MOST
    points: Points | None = None

    @classmethod
    def of(cls, choices: Choices, name: str, dialect: Dialect = PLAIN) -> Contents:
        """Return what is known of the column `name` before its first row, given `choices`.

        Parameters
        ----------
        choices : what was told.
        name : of the column.
        dialect : how its file is written.
        """
        gone = {word for word, sign in choices.signs(name).items() if sign == GONE}
        cut = choices.cut(name) is not None
        missing = MISSING | gone if gone else MISSING  # one set for all columns, as a rule
        most = COMBINED if choices.of(name) == "answers" else MOST
        points = Points.of(dialect, name)
        return cls(kept=[] if cut else None, missing=missing, cut=cut, most=most, points=points)

    def number(self, word: str) -> float | None:
        """Return the number that a word of this column stands for, None for any other word."""
        return measured(word) if self.cut else number(word)

    def add(self, cells: Cells) -> None:
        """Look at some more rows."""
        if self.points is not None:
            self.points = self.points.after_cells(cells.array)
        if self.many:
            self._add_numbers(cells.array)
            self.rows += len(cells)
            return
        words, places = cells.words, cells.places
        counts = np.bincount(places[places >= 0], minlength=len(words))
        if self.rows == 0:
            self.different = len(words) == len(cells)
        elif self.different:
            self.different = len(words) == len(cells) and not any(w in self.words for w in words)
        for word, count in zip(words, counts.tolist(), strict=True):
            self.words[word] += count
        gone = len(cells) - int(counts.sum())
        if gone:
            self.words[""] += gone
        self.rows += len(cells)
        if self.numeric and any(
            self.number(w) is None and canonical(w) not in self.missing for w in words
        ):
            self.numeric = False
        if len(self.words) > self.most:
            self.many = True
            if self.numeric and self.kept is not None:
                self.kept.append(self._numbers())

    def _numbers(self) -> np.ndarray:
        """The numbers among the words, each as often as it occurs."""
        counts = self._counts()
        return np.repeat(np.array([*counts], float), np.array([*counts.values()], int))

    def _counts(self) -> Counter[float]:
        """How often each number occurs among the words; one that stands for no entry is none."""
        found: Counter[float] = Counter()
        for word, count in self.words.items():
            value = self.number(word)
            if value is not None and canonical(word) not in self.missing:
                found[value] += count
        return found

    def _add_numbers(self, array: Any) -> None:
        if not self.numeric:
            return
        values = as_numbers(array, self.missing, self.cut)
        if values is None:
            self.numeric = False
        elif self.kept is not None:
            self.kept.append(values[~np.isnan(values)])

    @classmethod
    def together(cls, parts: Sequence[Contents]) -> Contents:
        """Return what one column holds in several tables.

        Parameters
        ----------
        parts : one for each table.
        """
        words: Counter[str] = Counter()
        known = [part for part in parts if part.words.keys() - {""}] or parts
        for part in parts:
            words.update(part.words)
        kept = [array for part in parts for array in part.all_kept()]
        many = len(words) > parts[0].most or any(part.many for part in parts)
        return cls(
            words,
            many,
            all(part.numeric for part in parts),
            all(part.different for part in known),  # an owner may lack the column
            sum(part.rows for part in parts),
            kept if many and parts[0].kept is not None else None,
            parts[0].missing,
            parts[0].cut,
            parts[0].most,
            Points.together(part.points for part in parts),
        )

    def all_kept(self) -> list[np.ndarray]:
        """Numbers that it holds, if they are asked for."""
        if self.kept is None or not self.numeric:
            return []
        return self.kept if self.many else [np.repeat(*self.values())]

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers that it holds, ascending, and how often each occurs."""
        if self.many and self.kept is not None:
            return np.unique(np.concatenate(self.kept), return_counts=True)
        found = self._counts()
        values = np.array(sorted(found), float)
        return values, np.array([found[v] for v in values], int)

    def threshold(self, how: str) -> float:
        """Value above which a number of the column is +1.

        Where many rows hold the same number, the median may be the largest of all, above which
        there is nothing, or divide them far worse than another value does: then the value is taken
        that comes nearest to halving the rows. No quantile is the largest number either, unless
        it is the only one.

        Parameters
        ----------
        how : "mean", "median", "quantile:Q", or a number.

        Examples
        --------
        >>> held = Contents(Counter({"1": 2, "2": 1, "9": 1}))
        >>> held.threshold("median"), held.threshold("mean"), held.threshold("quantile:0.5")
        (1.5, 3.25, 1.5)
        >>> Contents(Counter({"3": 1, "4": 2, "5": 9})).threshold("median")
        4.0
        """
        values, counts = self.values()
        if how == "mean":
            return float(np.average(values, weights=counts)) if len(values) else math.nan
        kind, _, share = how.partition(":")
        if kind not in ("median", "quantile"):
            return float(how)
        if not len(values):
            return math.nan
        q = 0.5 if kind == "median" else float(share)
        # The ends of an interval of ranks, as NumPy's quantile has them.
        at = q * (counts.sum() - 1)
        ends = np.searchsorted(np.cumsum(counts), [math.floor(at), math.ceil(at)], side="right")
        low, high = values[ends]
        cut = float(low + (high - low) * (at - math.floor(at)))
        return _dividing(values, counts, q, cut, exact=kind == "quantile")


def _dividing(values: np.ndarray, counts: np.ndarray, q: float, cut: float, exact: bool) -> float:
    """The cut, or the value that parts rows better: always below the largest of several.

    Parameters
    ----------
    values, counts : different numbers, ascending, and how often each occurs.
    q : share of the rows that is to lie at or below.
    cut : the quantile.
    exact : whether it is kept where another value comes nearer to that share.
    """
    below = np.cumsum(counts)[:-1]
    if not len(below):
        return cut
    misses = np.abs(below - q * counts.sum())
    missed = abs(counts[values <= cut].sum() - q * counts.sum())
    if cut < values[-1] and (exact or missed <= misses.min() + EVEN * counts.sum()):
        return cut
    return float(values[misses.argmin()])
