"""Compiled scrambling of packed rows, with the draws of `cuda/shuffle.cu`.

Draws: key = seed; counter = (word / 2 or draw, row, 0, 1 for signs or 2 for permutations).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hopfed.kernels.cpu.compiled import kernel
from hopfed.kernels.cpu.vectors import popcount
from hopfed.kernels.philox import philox4x32

_philox = njit(philox4x32, inline="always")

HALF = np.uint64(32)
SIGNS, PERMUTATION = np.uint64(1), np.uint64(2)


@kernel
def flip_signs(words, start, stop, n, k0, k1):
    """Flip every entry of rows start..stop-1, of n columns, with probability 1/2."""
    n_words = words.shape[1]
    zero = np.uint64(0)
    for row in range(start, stop):
        for pair in range((n_words + 1) // 2):
            x0, x1, x2, x3 = _philox(np.uint64(pair), np.uint64(row), zero, SIGNS, k0, k1)
            words[row, 2 * pair] ^= x0 | x1 << HALF
            if 2 * pair + 1 < n_words:
                words[row, 2 * pair + 1] ^= x2 | x3 << HALF
        if n % 64:
            words[row, n_words - 1] &= (np.uint64(1) << np.uint64(n % 64)) - np.uint64(1)


@kernel
def permute_rows(words, start, stop, n, order, k0, k1):
    """Permute the bits of each of rows start..stop-1 by Fisher and Yates.

    Only which positions are set matters, so that a random subset of as many is drawn.

    order : (n,) uint32, work space.
    """
    zero = np.uint64(0)
    for row in range(start, stop):
        ones = np.int64(0)
        for w in range(words.shape[1]):
            ones += np.int64(popcount(words[row, w]))
            words[row, w] = zero
        for i in range(n):
            order[i] = i
        high = zero
        for i in range(ones):
            if i % 2 == 0:
                x0, x1, x2, x3 = _philox(
                    np.uint64(i // 2), np.uint64(row), zero, PERMUTATION, k0, k1
                )
                draw, high = x0 | x1 << HALF, x2 | x3 << HALF
            else:
                draw = high
            j = i + np.int64(draw % np.uint64(n - i))  # biased by less than n / 2^64
            chosen = order[j]
            order[j] = order[i]
            words[row, chosen // 64] |= np.uint64(1) << np.uint64(chosen % 64)
