"""Rows that a column or two set apart from the others of a batch: their sum is in its operator.

With the sums ``c_k`` of the columns and ``S_ik`` of their products, ``c_k - S_ik`` is twice the sum
of the rows whose column i is -1, at every k, and ``S_ik - S_jk`` is over the rows in which columns
i and j differ. Where that is one row, the operator holds the row itself, of however many rows the
operator is; where it is two, all that both have in common. So whoever has a value that nobody else
in the batch has is given away by exact counts, as in any table of frequencies.

That is looked for in single columns, and in pairs up to 4,096 columns. Three columns or more may
set a row apart just as well, and are not looked at: there are too many of them.
"""

from __future__ import annotations

import numpy as np

from hopfed import kernels
from hopfed.kernels import PackedBits

PAIRED = 4096  # columns of which pairs are looked at
BLOCK = 256  # columns at a time


def set_apart(rows: PackedBits, least: int) -> list[tuple[int, ...]]:
    """Columns, alone and in pairs, that set fewer than `least` rows apart, and at least one.

    Parameters
    ----------
    rows : (M, N) of a batch.
    least : rows that are not a few.

    Returns
    -------
    At most one pair for each column, its first; single columns come first.

    Examples
    --------
    >>> x = np.ones((6, 3))
    >>> x[0, 1] = x[:3, 2] = -1
    >>> set_apart(kernels.pack(x), 2), set_apart(kernels.pack(x), 3)
    ([(1,), (0, 1)], [(1,), (0, 1), (1, 2)])
    """
    M, N = rows.shape
    found: list[tuple[int, ...]] = [
        (int(i),) for i in np.flatnonzero(_few(kernels.column_sums(rows), M, least))
    ]
    if N > PAIRED:
        return found
    x = kernels.unpack(rows, dtype=np.float32)  # sums of up to 2^24 rows are exact
    for start in range(0, N, BLOCK):
        few = _few(x[:, start : start + BLOCK].T @ x, M, least)
        few &= np.arange(N) > np.arange(start, min(start + BLOCK, N))[:, None]
        some = np.flatnonzero(few.any(axis=1))
        found += [(start + int(i), int(few[i].argmax())) for i in some]
    return found


def _few(sums: np.ndarray, M: int, least: int) -> np.ndarray:
    """Where a sum of M numbers of +-1 is of few of one sign, and of some."""
    fewer = (M - np.abs(sums)) / 2
    found: np.ndarray = (fewer > 0) & (fewer < least)
    return found
