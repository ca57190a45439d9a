"""Which rows are equal: a number for each row, the same for the same entries and gaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.kernels.masked import with_gaps
from hopfed.spectral.rows import Bits

TOGETHER = 1 << 22  # words that are mixed at a time
STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # shifts and factors of splitmix64


def row_marks(rows: Bits | Array) -> Array:
    """Return a number (M,) for each row, which equal rows share, where the rows are.

    Two rows that differ share one with a chance of about 2^-64.

    Parameters
    ----------
    rows : (M, N) of -1, 0 (missing) and +1, or packed bits, on the host or a device.

    Examples
    --------
    >>> marks = row_marks(np.array([[1, 0], [-1, 1], [1, 0]]))
    >>> bool(marks[0] == marks[2]), bool(marks[0] == marks[1])
    (True, False)
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

    Examples
    --------
    >>> only(np.array([[1, -1]]), np.array([True, False])).tolist()
    [[1, 0]]
    """
    if not isinstance(rows, Bits):
        return rows * like(columns.astype(np.int8), rows)
    gaps = with_gaps(rows)
    words = like(kernels.pack(np.where(columns, 1, -1)[None]).words, gaps.seen.words)
    signs, seen = (replace(p, words=p.words & words) for p in (gaps.signs, gaps.seen))
    return MaskedBits(signs, seen)


def equals(rows: Bits | Array) -> Array:
    """Return of how many rows an equal one came before, and how many have no equal, (2,) float64.

    Parameters
    ----------
    rows : as of `row_marks`.

    Examples
    --------
    >>> equals(np.array([[1, 0], [-1, 1], [1, 0], [1, 0]])).tolist()
    [2.0, 1.0]
    """
    marks = row_marks(rows)
    xp = namespace(marks)
    marks = xp.sort(marks)
    same, none = marks[1:] == marks[:-1], marks[:1] != marks[:1]
    alone = ~(xp.concat([none, same]) | xp.concat([same, none]))
    return xp.stack([xp.sum(x, dtype=xp.float64) for x in (same, alone)])
