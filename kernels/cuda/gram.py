"""Gram matrices of packed rows, with gaps or without, on a device, exact in int32.

There are two methods: "bits" (the 1-bit matrix instruction with AND, which is native on Hopper,
where XOR takes two of them) and "int8" (blocks of columns unpacked to bytes, cuBLAS on tensor
cores). The first took a quarter of the time of the second on an H200; chips with a capability
outside `BITS`, which lack or emulate the instruction, and rows with gaps use the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.kernels.bits import WORD
from hopfed.kernels.cuda.bits import row_counts, unpack_into
from hopfed.kernels.cuda.device import device_of

METHODS = ("bits", "int8")
TILE = (256, 128)  # rows on the left and on the right of a block, as in gram.cu
SHARED = 3 * sum(TILE) * 80  # bytes of the words that a block holds
PANEL = 4096  # rows of a tile of the int8 products
COLUMNS = 1 << 14  # columns unpacked at a time
BITS = range(80, 100)  # compute capabilities of chips with the 1-bit instruction


def inner_products(signs: Any, seen: Any, n: int, method: str | None = None) -> Any:
    """On a GPU, the Gram matrix: inner products of all pairs of rows of n columns, (M, M) int32."""
    device, m = device_of("signs", signs), len(signs)
    if m == 0 or n == 0:
        return device.xp.zeros((m, m), np.int32)
    if seen is None and (method == "bits" if method else device.capability in BITS):
        out = device.xp.empty((m, m), np.int32)
        args = signs, np.int64(m), row_counts(signs), np.int64(signs.shape[1]), np.int64(n), out
        grid = -(-m // TILE[1]), -(-m // TILE[0])
        device.launch("gram", "gram_mma", grid, args, shared=SHARED)
        return out
    return _by_bytes(device, signs, seen, n)


def _by_bytes(device: Any, signs: Any, seen: Any, n: int) -> Any:
    """Unpack blocks of columns to bytes and multiply them: the lower half, then the upper one."""
    xp, (m, n_words) = device.xp, signs.shape
    # cuBLAS writes whole multiples of 4; sides are multiples of 16 for the tensor cores.
    side = -(-m // 16) * 16
    sums = xp.zeros((side, side), np.int32)
    columns = min(COLUMNS, WORD * n_words)
    block = xp.zeros((side, columns), np.int8)
    for start in range(0, n_words, columns // WORD):
        words = slice(start, min(start + columns // WORD, n_words))
        unpack_into(signs, seen, n, slice(0, m), words, block[:m])
        for i in range(0, side, PANEL):
            for j in range(0, i + 1, PANEL):
                left, right = block[i : i + PANEL], block[j : j + PANEL]
                part = sums[i : i + PANEL, j : j + PANEL]
                device.gemm(left, right, part, ta=False, tb=True, add=True)
    for i in range(0, side, PANEL):
        sums[:i, i : i + PANEL] = sums[i : i + PANEL, :i].T
    return xp.ascontiguousarray(sums[:m, :m])
