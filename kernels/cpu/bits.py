"""Compiled loops over packed words: packing, transposition, column counts."""

from __future__ import annotations

import numpy as np

from hopfed.kernels.cpu.compiled import inner, kernel
from hopfed.kernels.cpu.vectors import popcount

LOW_BITS = np.uint64(0x0101010101010101)  # the lowest bit of each byte
GATHER = np.uint64(0x0102040810204080)  # brings those eight bits together in the top byte
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
def _pack_eights(eights, row, count, out):
    """Pack words of eight int8 (-1, 0 or 1) into bytes; say which values occurred."""
    zeros = np.uint64(0)
    minus = np.uint64(0)
    bad = np.uint64(0)
    for i in range(count):
        u = eights[row, i]
        sign = (u >> np.uint64(7)) & LOW_BITS
        ones = sign * np.uint64(255)  # every bit of the negative bytes
        bad |= (u ^ ones) & ~LOW_BITS  # 0 and 1 have no higher bit, -1 has them all
        bad |= ones & ~u
        minus |= sign
        zeros |= ~u & LOW_BITS
        out[row, i] = ((u & ~sign & LOW_BITS) * GATHER) >> np.uint64(56)
    return int(zeros != 0) | int(minus != 0) << 1 | int(bad != 0) << 2


@inner
def _pack_tail(x, row, start, out):
    """As `_pack_eights` for the columns beyond the last multiple of eight."""
    byte = 0
    seen = 0
    for j in range(x.shape[1] - start):
        v = x[row, start + j]
        if v == 1:
            byte |= 1 << j
        elif v == 0:
            seen |= 1
        elif v == -1:
            seen |= 2
        else:
            seen |= 4
    out[row, start // 8] = byte
    return seen


@kernel
def _pack_each(x, eights, out):
    m, n = x.shape
    whole = n // 8
    seen = 0
    for i in range(m):
        seen |= _pack_eights(eights, i, whole, out)
        if n > 8 * whole:
            seen |= _pack_tail(x, i, 8 * whole, out)
    return seen


def pack_rows(x: np.ndarray, words: np.ndarray) -> int:
    """Pack contiguous int8 rows into zeroed `words`; bits 0, 1, 2 tell of a 0, a -1, another."""
    if x.shape[1] % 8 == 0:
        return _pack_each(x, x.view(np.uint64), words.view(np.uint8))
    eights = np.ascontiguousarray(x[:, : x.shape[1] // 8 * 8]).view(np.uint64)
    return _pack_each(x, eights, words.view(np.uint8))


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
