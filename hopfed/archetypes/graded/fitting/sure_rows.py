"""Sums of rows over classes where most rows are of one class and no other: bits that are counted.

A row that is sure of its class needs no product with all of them.
"""

from __future__ import annotations

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array
from hopfed.spectral.rows import Bits, array_beside, seen_transposed_times, transposed_times

NONE = 1e-7  # weight of a row in a class that is lost in single precision
WORTH = 1 << 16  # entries for each class from which it pays to count


def sums_over(rows: Bits | Array, weights: Array) -> tuple[Array, Array]:
    """Signed sums and numbers (K, N) of the entries of rows with weights (M, K) in classes.

    Parameters
    ----------
    rows : (M, N), with gaps or without.
    weights : in single precision, between 0 and 1.

    Examples
    --------
    >>> rows = kernels.pack_masked(np.array([[1, 0], [-1, 1], [-1, -1]]))
    >>> signed, seen = sums_over(rows, np.array([[1, 0], [0, 1], [0, 0.5]], np.float32))
    >>> signed.tolist(), seen.tolist()
    ([[1.0, 0.0], [-1.5, 0.5]], [[1.0, 0.0], [1.5, 1.5]])
    """
    M, K = weights.shape
    here = isinstance(rows, Bits) and isinstance(array_beside(rows), np.ndarray)
    if here and K > 1 and M * rows.shape[1] >= WORTH * K:
        one = weights.argmax(axis=1)
        most = weights[np.arange(M), one]
        alone = (weights > NONE).sum(axis=1) == (most > NONE)
        sure = alone & ((most == 1) | (most <= NONE))
        if 2 * sure.sum() >= M:
            return _counted(rows, weights, np.where(sure & (most == 1), one, -1), ~sure)
    return transposed_times(rows, weights).T, seen_transposed_times(rows, weights).T


def _counted(
    rows: Bits, weights: np.ndarray, label: np.ndarray, unsure: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Count the rows of each label, and multiply those that are unsure."""
    N, K = rows.shape[1], weights.shape[1]
    signed, seen = np.zeros((K, N), np.float32), np.zeros((K, N), np.float32)
    for k in range(K):
        mine = rows[np.flatnonzero(label == k)]
        if len(mine):
            whole = isinstance(mine, kernels.PackedBits)
            signed[k] = kernels.column_sums(mine)
            seen[k] = len(mine) if whole else kernels.seen_counts(mine)
    if unsure.any():
        others, left = rows[np.flatnonzero(unsure)], weights[unsure]
        signed += transposed_times(others, left).T
        seen += seen_transposed_times(others, left).T
    return signed, seen
