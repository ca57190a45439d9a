"""Blocks of two planes of bits as numbers, to be multiplied while they are in the cache.

Where a matrix has many columns, a product of numbers costs less for each than a selected sum
(`plane_products`), and to unpack a block costs as much as a few columns. Never is more unpacked.
"""

from __future__ import annotations

import numpy as np

from hopfed.kernels.cpu.compiled import kernel

MANY = 8  # columns from which numbers are multiplied; twice as many where one plane is
LONG, SHORT = 2_048, 128  # columns and rows of a block of which rows are summed up
TALL, NARROW = 256, 1_024  # rows and columns of one of which columns are
BITS = ((np.arange(256)[:, None] >> np.arange(8)) & 1).astype(np.uint8)  # of a byte, lowest first
TABLES = {np.dtype(kind): BITS.astype(kind) for kind in (np.float32, np.float64)}


@kernel
def unpack_block(signs, seen, signed, first, last, low, high, table, out):
    """Unpack rows first..last-1 and bytes low..high-1 of two planes, given as bytes.

    signed : whether to write -1, 0 and +1; what is seen, as 0 and 1, otherwise.
    table : (256, 8), the bits of every byte, of the type of `out`.
    out : at least (last - first, 8 (high - low)); the rest of it is left as it is.
    """
    for i in range(last - first):
        row = out[i]
        for b in range(low, high):
            there, at = table[seen[first + i, b]], 8 * (b - low)
            if signed:
                up = table[signs[first + i, b]]
                for j in range(8):
                    row[at + j] = up[j] + up[j] - there[j]
            else:
                for j in range(8):
                    row[at + j] = there[j]
