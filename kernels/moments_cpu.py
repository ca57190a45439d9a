"""Compiled tile of a Gram matrix: exclusive-or and population count, blocked for registers."""

from __future__ import annotations

import numpy as np
from hopfed.kernels.vectors import popcount
from numba import njit

CHUNK = 256  # words of a row handled at a time: 128 rows of them fill a quarter megabyte


@njit(cache=True, nogil=True)
def _differ(a, b):
    """Number of bits in which two runs of words differ."""
    count = np.uint64(0)
    for w in range(len(a)):
        count += popcount(a[w] ^ b[w])
    return np.int32(count)


@njit(cache=True, nogil=True)
def _differ_2x4(a0, a1, b0, b1, b2, b3, out0, out1):
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
    out0[0] -= 2 * np.int32(c00)
    out0[1] -= 2 * np.int32(c01)
    out0[2] -= 2 * np.int32(c02)
    out0[3] -= 2 * np.int32(c03)
    out1[0] -= 2 * np.int32(c10)
    out1[1] -= 2 * np.int32(c11)
    out1[2] -= 2 * np.int32(c12)
    out1[3] -= 2 * np.int32(c13)


@njit(cache=True, nogil=True)
def add_tile(a, b, n, out):
    """Add the inner products of the rows of `a` and of `b`, each of n columns, to `out`."""
    ma, mb = len(a), len(b)
    ia, ib = ma - ma % 2, mb - mb % 4
    out += np.int32(n)
    for lo in range(0, a.shape[1], CHUNK):
        hi = min(lo + CHUNK, a.shape[1])  # slicing single rows keeps the words contiguous for LLVM
        for i in range(0, ia, 2):
            for j in range(0, ib, 4):
                _differ_2x4(
                    a[i, lo:hi], a[i + 1, lo:hi],
                    b[j, lo:hi], b[j + 1, lo:hi], b[j + 2, lo:hi], b[j + 3, lo:hi],
                    out[i, j:], out[i + 1, j:],
                )  # fmt: skip
        for i in range(ma):
            for j in range(ib if i < ia else 0, mb):
                out[i, j] -= 2 * _differ(a[i, lo:hi], b[j, lo:hi])


@njit(cache=True, nogil=True)
def mirror_tile(tile, out):
    """Write the transpose of `tile` into `out`."""
    for j in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[j, i] = tile[i, j]
