"""Equal rows, of which each is held once, with how often it occurs.

Ten columns have at most 1,024 different rows, so whatever is summed over rows costs the same at any
number of them. Rows are equal where their marks are: a number for each, the same for the same
entries and gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.kernels import Rows
from hopfed.kernels.bits import with_gaps

TOGETHER = 1 << 22  # words that are mixed at a time
MERGED = 1 << 22  # entries of different rows that are held of a table that is read again
PAYS = 0.5  # different rows, as a part of all, up to which it pays to merge them
STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # shifts and factors of splitmix64


def merged_where_it_pays(rows: Rows) -> Rows:
    """Rows with each of them once, where at most `PAYS` of them are different; else as they are."""
    if not rows.held:
        found = rows.total(_Merging.of, enough=_Merging.over).rows
    else:
        found = rows if rows.counts is not None else merged(rows)
    return rows if found is None or len(found) > PAYS * len(rows) else found


def merged(rows: Rows) -> Rows:
    """Rows with each of them once, as they come, and how often."""
    marks = to_host(row_marks(rows))
    _, first, into = np.unique(marks, return_index=True, return_inverse=True)
    order = np.argsort(first)
    kept = rows[like(first[order], rows.home)]
    return replace(kept, counts=np.bincount(into, rows.weights)[order])


def thinned(rows: Rows, share: float, rng: np.random.Generator) -> Rows:
    """About this share of rows that occur several times, without putting any back."""
    if (rows.weights != np.rint(rows.weights)).any():  # weights of a survey
        return rows[like(np.flatnonzero(rng.random(len(rows)) < share), rows.home)]
    drawn = rng.binomial(rows.weights.astype(np.int64), share)
    kept = np.flatnonzero(drawn)
    return replace(rows[like(kept, rows.home)], counts=drawn[kept].astype(np.float64))


@dataclass(frozen=True, eq=False)
class _Merging:
    """Equal rows of the blocks so far; None once the different ones are too many to be held."""

    rows: Rows | None

    @classmethod
    def of(cls, part: Rows) -> _Merging:
        return cls._held(merged(part))

    @classmethod
    def _held(cls, rows: Rows) -> _Merging:
        return cls(rows if len(rows) * rows.n <= MERGED else None)

    def __add__(self, other: _Merging) -> _Merging:
        if self.rows is None or other.rows is None:
            return _Merging(None)
        return self._held(merged(kernels.concatenate([self.rows, other.rows])))

    def over(self) -> bool:
        return self.rows is None


def row_marks(rows: Rows) -> Array:
    """Return a number (M,) for each row, which equal rows share, where the rows are."""
    # All rows of complete ones have the same entries.
    signs, seen = rows.signs, (rows if rows.gaps else with_gaps(rows[:1])).seen
    M, W = signs.shape
    xp, step = namespace(signs), max(1, TOGETHER // max(W, 1))
    factors = _mixed(xp.arange(1, 2 * W + 1, dtype=xp.uint64)) | np.uint64(1)

    def summed(words: Array, by: Array) -> Array:
        parts = [words[first : first + step] for first in range(0, max(len(words), 1), step)]
        return xp.concat([xp.sum(_mixed(part) * by, axis=1, dtype=xp.uint64) for part in parts])

    found = summed(signs, factors[:W])
    return found + summed(seen, factors[W:]) if M else found


def _mixed(words: Array) -> Array:
    """Words, each turned into another one, all bits of which depend on all bits (splitmix64)."""
    for shift, factor in STEPS:
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(31))


def only(rows: Rows, columns: np.ndarray) -> Rows:
    """Return rows without the entries of some columns, which are missing then."""
    gaps = with_gaps(rows)
    words = like(kernels.pack(np.where(columns, 1, -1)[None]).signs, gaps.home)
    return replace(gaps, signs=gaps.signs & words, seen=gaps.seen & words)


def equals(rows: Rows) -> Array:
    """Of how many rows an equal one came before, and how many have no equal, (2,) float64."""
    if rows.counts is not None:
        counts = merged(rows).weights  # of rows without some of their columns more are equal
        return np.array([(counts - 1).sum(), (counts == 1).sum()], np.float64)
    marks = row_marks(rows)
    xp = namespace(marks)
    marks = xp.sort(marks)
    same, none = marks[1:] == marks[:-1], marks[:1] != marks[:1]
    alone = ~(xp.concat([none, same]) | xp.concat([same, none]))
    return xp.stack([xp.sum(x, dtype=xp.float64) for x in (same, alone)])
