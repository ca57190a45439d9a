"""Compiled loops over two planes of bits: packing entries some of which are missing.

An entry is a byte: -1, 0, 1 or MISSING. Its lowest bit tells that it is -1 or 1, its highest that
it is -1 or missing, and those between are those of -1 or all 0.
"""

from __future__ import annotations

import numpy as np

from hopfed.kernels.cpu.compiled import inner, kernel

MISSING = -128
LOW_BITS = np.uint64(0x0101010101010101)  # the lowest bit of each byte
GATHER = np.uint64(0x0102040810204080)  # brings those eight bits together in the top byte
BETWEEN = np.uint64(0x7E7E7E7E7E7E7E7E)
ALL = np.uint64(255)


@inner
def _pack_eights(eights, row, count, zeros, signs, seen):
    """Pack words of eight entries into a byte of each plane; say which values occurred.

    zeros : a bit in every byte if a 0 is an entry, else 0.
    """
    zero = np.uint64(0)
    minus = np.uint64(0)
    bad = np.uint64(0)
    gone = np.uint64(0)
    for i in range(count):
        u = eights[row, i]
        odd = u & LOW_BITS
        high = (u >> np.uint64(7)) & LOW_BITS
        negative = odd & high
        neither = ~(odd | high) & LOW_BITS
        bad |= (u ^ negative * ALL) & BETWEEN
        zero |= neither
        minus |= negative
        gone |= high & ~odd
        signs[row, i] = ((odd ^ negative) * GATHER) >> np.uint64(56)
        if len(seen):
            seen[row, i] = ((odd | (neither & zeros)) * GATHER) >> np.uint64(56)
    return int(zero != 0) | int(minus != 0) << 1 | int(bad != 0) << 2 | int(gone != 0) << 3


@kernel
def _pack_each(eights, zeros, signs, seen):
    found = 0
    for i in range(len(eights)):
        found |= _pack_eights(eights, i, eights.shape[1], zeros, signs, seen)
    return found


def pack_planes(x: np.ndarray, zeros_count: bool, signs: np.ndarray, seen: np.ndarray) -> int:
    """Pack contiguous int8 rows into two planes of zeroed words.

    zeros_count : whether a 0 is an entry, and not a missing one.
    seen : of no rows where it is not wanted.
    Returns bits 0, 1, 2, 3, which tell of a 0, a -1, another value, a missing one.
    """
    n = x.shape[1]
    whole = -(-n // 8) * 8
    if whole != n:  # ones up to a whole byte, which tell of nothing, and are cleared again
        padded = np.ones((len(x), whole), np.int8)
        padded[:, :n] = x
        x = padded
    planes = signs.view(np.uint8), seen.view(np.uint8)
    found = _pack_each(x.view(np.uint64), LOW_BITS * np.uint64(zeros_count), *planes)
    if whole != n:
        for plane in planes:
            plane[:, n // 8 : n // 8 + 1] &= (1 << n % 8) - 1
    return found
