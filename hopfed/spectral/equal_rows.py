"""Which rows are equal: a number for each row, the same for the same entries and gaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, to_host
from hopfed._lib.random import stream
from hopfed.kernels import MaskedBits
from hopfed.kernels.masked import with_gaps
from hopfed.spectral.rows import Bits


def row_marks(rows: Bits | Array) -> np.ndarray:
    """Return a number (M,) for each row, which equal rows share.

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
    gaps = with_gaps(rows if isinstance(rows, Bits) else kernels.pack_masked(rows, rows == 0))
    found = np.zeros(rows.shape[0], np.uint64)
    rng = stream(0, "equal rows")
    for part in (gaps.signs, gaps.seen):
        words = to_host(part.words)
        drawn = rng.integers(1, 2**63, (words.shape[1],), dtype=np.uint64)
        factors = np.asarray(drawn) * np.uint64(2) + np.uint64(1)
        for j in range(words.shape[1]):
            found ^= found >> np.uint64(29)
            found += (words[:, j] ^ (words[:, j] >> np.uint64(31))) * factors[j]
            found *= np.uint64(0x9E3779B97F4A7C15)
    return found


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


def occurrences(rows: Bits | Array) -> np.ndarray:
    """Return how often each different row occurs, in no particular order.

    Parameters
    ----------
    rows : as of `row_marks`.

    Examples
    --------
    >>> sorted(occurrences(np.array([[1, 0], [-1, 1], [1, 0]])).tolist())
    [1, 2]
    """
    return np.asarray(np.unique(row_marks(rows), return_counts=True)[1])
