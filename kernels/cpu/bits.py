"""Compiled loops over packed words: transposition, column counts."""

from __future__ import annotations

import numpy as np

from hopfed.kernels.cpu.compiled import inner, kernel
from hopfed.kernels.cpu.vectors import popcount

MASKS = np.array(
    [
        0x00000000FFFFFFFF,
        0x0000FFFF0000FFFF,
        0x00FF00FF00FF00FF,
        0x0F0F0F0F0F0F0F0F,
        0x3333333333333333,
        0x5555555555555555,
    ],
    np.uint64,
)


@inner
def transpose_block(block, at):
    """Transpose 64 x 64 bits from block[at] in place: swap quadrants of halving size."""
    size = 32
    for level in range(6):
        mask = MASKS[level]
        shift = np.uint64(size)
        for start in range(at, at + 64, 2 * size):
            for k in range(start, start + size):
                swap = ((block[k] >> shift) ^ block[k + size]) & mask
                block[k + size] ^= swap
                block[k] ^= swap << shift
        size //= 2


@inner
def load_block(words, first, column, block, at):
    """Copy 64 words of a column from row `first` to block[at:]; zeros beyond the last row."""
    rows = min(64, words.shape[0] - first)
    for k in range(rows):
        block[at + k] = words[first + k, column]
    for k in range(rows, 64):
        block[at + k] = 0


@kernel
def transpose_columns(words, start, stop, out, block):
    """Write the transpose of word columns start..stop-1 into rows 64*start.. of `out`.

    block : (64,) uint64, work space.
    """
    for column in range(start, stop):
        columns = min(64, out.shape[0] - 64 * column)
        for b in range(out.shape[1]):
            load_block(words, 64 * b, column, block, 0)
            transpose_block(block, 0)
            for k in range(columns):
                out[64 * column + k, b] = block[k]


@kernel
def count_columns(words, start, stop, counts, block):
    """Add the number of set bits of word columns start..stop-1 to `counts`; block as above."""
    for column in range(start, stop):
        columns = min(64, len(counts) - 64 * column)
        for first in range(0, words.shape[0], 64):
            load_block(words, first, column, block, 0)
            transpose_block(block, 0)
            for k in range(columns):
                counts[64 * column + k] += np.int64(popcount(block[k]))
