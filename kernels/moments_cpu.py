"""Compiled tile of a Gram matrix: exclusive-or and population count, blocked for registers."""

from __future__ import annotations

import numpy as np
from hopfed.kernels.compiled import inner, kernel
from hopfed.kernels.vectors import popcount

CHUNK = 256  # words of a row handled at a time: 128 rows of them fill a quarter megabyte


@inner
def _differ(a, b):
    """Number of bits in which two runs of words differ."""
    count = np.uint64(0)
    for w in range(len(a)):
        count += popcount(a[w] ^ b[w])
    return np.int32(count)


@inner
def _differ_2x4(a0, a1, b0, b1, b2, b3, out, i, j):
    """Subtract twice the differing bits of 2 x 4 pairs: six loads serve eight counts."""
    c00 = np.uint64(0)
    c01 = np.uint64(0)
    c02 = np.uint64(0)
    c03 = np.uint64(0)
    c10 = np.uint64(0)
    c11 = np.uint64(0)
    c12 = np.uint64(0)
    c13 = np.uint64(0)
    for w in range(len(a0)):
        x0, x1 = a0[w], a1[w]
        y0, y1, y2, y3 = b0[w], b1[w], b2[w], b3[w]
        c00 += popcount(x0 ^ y0)
        c01 += popcount(x0 ^ y1)
        c02 += popcount(x0 ^ y2)
        c03 += popcount(x0 ^ y3)
        c10 += popcount(x1 ^ y0)
        c11 += popcount(x1 ^ y1)
        c12 += popcount(x1 ^ y2)
        c13 += popcount(x1 ^ y3)
    out[i, j] -= 2 * np.int32(c00)
    out[i, j + 1] -= 2 * np.int32(c01)
    out[i, j + 2] -= 2 * np.int32(c02)
    out[i, j + 3] -= 2 * np.int32(c03)
    out[i + 1, j] -= 2 * np.int32(c10)
    out[i + 1, j + 1] -= 2 * np.int32(c11)
    out[i + 1, j + 2] -= 2 * np.int32(c12)
    out[i + 1, j + 3] -= 2 * np.int32(c13)


@kernel
def add_tile(a, i0, i1, b, j0, j1, n, out):
    """Add to out[i0:i1, j0:j1] the inner products of those rows of `a` and `b`, of n columns."""
    i2, j4 = i1 - (i1 - i0) % 2, j1 - (j1 - j0) % 4
    for i in range(i0, i1):
        for j in range(j0, j1):
            out[i, j] += n
    for lo in range(0, a.shape[1], CHUNK):
        hi = min(lo + CHUNK, a.shape[1])  # slicing single rows keeps the words contiguous for LLVM
        for i in range(i0, i2, 2):
            for j in range(j0, j4, 4):
                _differ_2x4(
                    a[i, lo:hi], a[i + 1, lo:hi],
                    b[j, lo:hi], b[j + 1, lo:hi], b[j + 2, lo:hi], b[j + 3, lo:hi], out, i, j,
                )  # fmt: skip
        for i in range(i0, i1):
            for j in range(j4 if i < i2 else j0, j1):
                out[i, j] -= 2 * _differ(a[i, lo:hi], b[j, lo:hi])


@kernel
def mirror_tile(out, i0, i1, j0, j1):
    """out[j0:j1, i0:i1] = out[i0:i1, j0:j1]^T."""
    for j in range(j0, j1):
        for i in range(i0, i1):
            out[j, i] = out[i, j]
