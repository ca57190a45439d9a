"""Equal rows, of which each is held once, with how often it occurs.

Ten columns have at most 1,024 different rows, so whatever is summed over rows costs the same at any
number of them. Rows are equal where their marks are: a number for each, the same for the same
entries and gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.kernels.bits import with_gaps
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import Bits, array_beside, concatenate

TOGETHER = 1 << 22  # words that are mixed at a time
MERGED = 1 << 22  # entries of different rows that are held of a table that is read again
PAYS = 0.5  # different rows, as a part of all, up to which it pays to merge them
STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # shifts and factors of splitmix64


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows, and how often each occurs.

    Attributes
    ----------
    entries : (D, N) of -1, 0 (missing) and +1, or packed bits, on the host or a device; or rows
        that are read again.
    counts : (D,) float64 on the host, how often each occurs; None where that is once.
    """

    entries: Bits | Reread | Array = field(repr=False)
    counts: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def of(cls, rows: Rows | Bits | Reread | Array) -> Rows:
        """Merge equal rows where that pays.

        Of rows that are read again a block at a time is merged, as long as the different ones are
        few enough to be held.
        """
        if isinstance(rows, Rows):
            return rows
        if isinstance(rows, Reread):
            return cls._reread(rows)
        found = cls(rows).merged()
        return found if len(found.entries) <= PAYS * len(rows) else cls(rows)

    @classmethod
    def _reread(cls, rows: Reread) -> Rows:
        found = rows.total(_Merging.of, enough=_Merging.over).rows
        return cls(rows) if found is None or len(found.entries) > PAYS * len(rows) else found

    def __len__(self) -> int:
        """Number of all rows."""
        return len(self.entries) if self.counts is None else int(self.counts.sum())

    @property
    def weights(self) -> np.ndarray:
        """(D,) how often each occurs."""
        return np.ones(len(self.entries)) if self.counts is None else self.counts

    def _beside(self, other: Rows) -> Rows:
        entries = concatenate([self.entries, other.entries])
        return Rows(entries, np.concatenate([self.weights, other.weights]))

    def merged(self) -> Self:
        """The same with each row once."""
        marks = to_host(row_marks(self.entries))
        _, first, into = np.unique(marks, return_index=True, return_inverse=True)
        counts = np.bincount(into, self.weights)
        order = np.argsort(first)  # as they come
        where = like(first[order], array_beside(self.entries))
        return type(self)(self.entries[where], counts[order])

    def thinned(self, share: float, rng: np.random.Generator) -> Rows:
        """About this share of the rows, drawn without putting any back."""
        drawn = rng.binomial(self.weights.astype(np.int64), share)
        kept = np.flatnonzero(drawn)
        entries = self.entries[like(kept, array_beside(self.entries))]
        return Rows(entries, drawn[kept].astype(np.float64))


@dataclass(frozen=True, eq=False)
class _Merging:
    """Equal rows of the blocks so far; None once the different ones are too many to be held."""

    rows: Rows | None

    @classmethod
    def of(cls, part: Bits) -> _Merging:
        return cls._held(Rows(part).merged())

    @classmethod
    def _held(cls, rows: Rows) -> _Merging:
        return cls(rows if len(rows.entries) * rows.entries.shape[1] <= MERGED else None)

    def __add__(self, other: _Merging) -> _Merging:
        if self.rows is None or other.rows is None:
            return _Merging(None)
        return self._held(self.rows._beside(other.rows).merged())

    def over(self) -> bool:
        return self.rows is None


def row_marks(rows: Bits | Array) -> Array:
    """Return a number (M,) for each row, which equal rows share, where the rows are.

    Two rows that differ share one with a chance of about 2^-64.

    Parameters
    ----------
    rows : (M, N) of -1, 0 (missing) and +1, or packed bits, on the host or a device.
    """
    held = rows if isinstance(rows, Bits) else kernels.pack_masked(rows, rows == 0)
    if isinstance(held, PackedBits):  # all rows have the same entries
        signs, seen = held.words, with_gaps(held[:1]).seen.words
    else:
        signs, seen = held.signs.words, held.seen.words
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


def only(rows: Bits | Array, columns: np.ndarray) -> Bits | Array:
    """Return rows without the entries of some columns, which are missing then.

    Parameters
    ----------
    rows : as of `row_marks`, on the host or a device.
    columns : (N,) whether each is kept.
    """
    if not isinstance(rows, Bits):
        return rows * like(columns.astype(np.int8), rows)
    gaps = with_gaps(rows)
    words = like(kernels.pack(np.where(columns, 1, -1)[None]).words, gaps.seen.words)
    signs, seen = (replace(p, words=p.words & words) for p in (gaps.signs, gaps.seen))
    return MaskedBits(signs, seen)


def equals(rows: Rows | Bits | Array) -> Array:
    """Of how many rows an equal one came before, and how many have no equal, (2,) float64."""
    if isinstance(rows, Rows) and rows.counts is not None:
        counts = rows.merged().weights  # of rows without some of their columns more are equal
        return np.array([(counts - 1).sum(), (counts == 1).sum()], np.float64)
    marks = row_marks(rows.entries if isinstance(rows, Rows) else rows)
    xp = namespace(marks)
    marks = xp.sort(marks)
    same, none = marks[1:] == marks[:-1], marks[:1] != marks[:1]
    alone = ~(xp.concat([none, same]) | xp.concat([same, none]))
    return xp.stack([xp.sum(x, dtype=xp.float64) for x in (same, alone)])
