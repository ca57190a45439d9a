"""Compiled draws of the dynamics: Philox blocks to thresholds for the fields."""

from __future__ import annotations

import numpy as np
from numba import njit

from hopfed.kernels.cpu.compiled import inner
from hopfed.kernels.philox import philox4x32

# Inlined as source, so that LLVM sees one loop and computes eight Philox blocks at a time.
_philox = njit(philox4x32, inline="always")


@inner
def draw(k0, k1, stream, chain, sweep, first, lookup, bits, lanes, t, row, n):
    """Fill t[row, :n] with the thresholds of sites first.. of one chain in one sweep.

    first : a multiple of 8, the number of sites that share a Philox block.
    bits, lanes : scratch for at least n / 2 uint32, a multiple of 4, and its view as uint16.
    """
    blocks = (n + 7) // 8
    start = np.uint64(first // 8)
    for b in range(blocks):
        x0, x1, x2, x3 = _philox(start + np.uint64(b), sweep, chain, stream, k0, k1)
        bits[4 * b] = np.uint32(x0)
        bits[4 * b + 1] = np.uint32(x1)
        bits[4 * b + 2] = np.uint32(x2)
        bits[4 * b + 3] = np.uint32(x3)
    for i in range(n):
        t[row, i] = lookup[lanes[i]]
