"""Bits on the CPU: packing, unpacking, transposition, counts of columns.

Before packing, an entry is a byte: -1, 0, 1 or GONE. Its lowest bit is set for -1 and 1, its
highest for -1 and GONE, and the bits between are set for -1 only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from hopfed.kernels.bits import CHUNK, MINUS, MISSING, OTHER, WORD, ZERO, int8_entries, n_words
from hopfed.kernels.cpu.compiled import compile_inner, compile_kernel
from hopfed.kernels.cpu.threads import cut_range, for_each
from hopfed.kernels.cpu.vectors import INDEX, REGISTER, emitted, load, shuffle, store

FIRST = 1 << 16  # entries checked for gaps before all are packed as complete rows
LOW_BITS = np.uint64(0x0101010101010101)  # the lowest bit of each byte
GATHER = np.uint64(0x0102040810204080)  # a factor that collects these eight bits in the top byte
BETWEEN = np.uint64(0x7E7E7E7E7E7E7E7E)
ALL = np.uint64(255)


def pack(x: Any, mask: Any = None) -> tuple[np.ndarray, np.ndarray | None] | None:
    """On the CPU, words of signs and of observed entries (None: no gaps); None if `x` is invalid.

    Zeros are entries, or missing if -1 occurs.
    """
    zeros_count = True
    if mask is None and x.dtype.kind != "O":
        tried = x[: max(1, FIRST // max(x.shape[1], 1))]  # a sample shows most gaps
        found = _pack_planes(tried, None, True, False)[2]
        if not _mixed(found):
            words, _, found = _pack_planes(x, None, True, False)
            if not _mixed(found):
                return words, None
        zeros_count = not found & MINUS
    for _ in range(2):
        signs, seen, found = _pack_planes(x, mask, zeros_count, True)
        if zeros_count == (not found & MINUS):
            break
        zeros_count = not zeros_count
    if found & OTHER:
        return None
    complete = not found & MISSING and (zeros_count or not found & ZERO)
    return signs, None if complete else seen


def _mixed(found: int) -> bool:
    """Whether the values found exclude complete rows: missing or other values, or both 0 and -1."""
    return bool(found & (OTHER | MISSING)) or found & 3 == 3


def _pack_planes(
    x: Any, mask: Any, zeros_count: bool, gaps: bool
) -> tuple[np.ndarray, np.ndarray, int]:
    """Words of both planes, and flags of the values found; stops early if packing must fail."""
    m, n = x.shape
    signs = np.zeros((m, n_words(n)), np.uint64)
    seen = np.zeros_like(signs if gaps else signs[:0])
    occurs, in_vain = [0], [0]
    none_missing = mask is None and x.dtype.kind in "biu"

    def task(span: tuple[int, int]) -> None:
        if len(in_vain) > 1:
            return
        rows = slice(*span)
        codes = int8_entries(x[rows], None if mask is None else mask[rows])
        found = _pack_bytes(codes, zeros_count, signs[rows], seen[rows])
        if none_missing and found & MISSING:  # an actual value equal to GONE
            found |= OTHER
        wrong = found & OTHER or (zeros_count and found & MINUS) if gaps else _mixed(found)
        (in_vain if wrong else occurs).append(found)

    if x.size:
        for_each(task, cut_range(m, max(1, CHUNK // n)))
    return signs, seen, int(np.bitwise_or.reduce(occurs + in_vain))


def _pack_bytes(x: np.ndarray, zeros_count: bool, signs: np.ndarray, seen: np.ndarray) -> int:
    """Pack contiguous int8 rows into planes of zeroed words; the second may have no rows."""
    n = x.shape[1]
    whole = -(-n // 8) * 8
    if whole != n:  # padded with ones, which set no flag and whose bits are cleared below
        padded = np.ones((len(x), whole), np.int8)
        padded[:, :n] = x
        x = padded
    both = signs.view(np.uint8), seen.view(np.uint8)
    found = _pack_eights(x.view(np.uint64), LOW_BITS * np.uint64(zeros_count), *both)
    if whole != n:
        for plane in both:
            plane[:, n // 8 : n // 8 + 1] &= (1 << n % 8) - 1
    return found


@compile_kernel
def _pack_eights(eights, zeros, signs, seen):
    """Pack words of eight entries into a byte of each plane; return flags of the values found.

    zeros : LOW_BITS if a 0 is an entry, else 0.
    """
    zero = np.uint64(0)
    minus = np.uint64(0)
    bad = np.uint64(0)
    gone = np.uint64(0)
    for row in range(len(eights)):
        for i in range(eights.shape[1]):
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


def unpack(signs: np.ndarray, seen: np.ndarray | None, n: int, dtype: Any) -> np.ndarray:
    """On the CPU, the (M, n) entries of packed rows, of int8, float32 or float64."""
    out = np.empty((len(signs), n), dtype)
    each = cut_range(len(out), max(1, CHUNK // max(n, 1)))
    for_each(lambda rows: _unpack_rows(signs, seen, *rows, out), each)
    return out


@emitted
def _spread_word(builder, up, there, out, at):
    """out[at + j] = +1 or -1 by bit j of `up`, 0 where bit j of `there` is 0; 64 entries."""
    element = out.type.pointee
    lanes = ir.VectorType(element, WORD)
    plus, minus, none = (ir.Constant(lanes, [element(value)] * WORD) for value in (1, -1, 0))
    bits = ir.VectorType(ir.IntType(1), WORD)
    signs = builder.select(builder.bitcast(up, bits), plus, minus)
    store(builder, builder.select(builder.bitcast(there, bits), signs, none), out, at)


@compile_kernel
def _unpack_rows(signs, seen, start, stop, out):
    """Write entries of rows start..stop-1 into `out`: +-1, or 0 if missing."""
    n = out.shape[1]
    flat = out.ravel()
    there = ~np.uint64(0)
    for i in range(start, stop):
        for w in range(n // WORD):
            if seen is not None:
                there = seen[i, w]
            _spread_word(signs[i, w], there, flat, i * n + w * WORD)
        for j in range(n // WORD * WORD, n):
            bit, w = np.uint64(j % WORD), j // WORD
            if seen is not None:
                there = seen[i, w]
            sign = 2 * np.int8((signs[i, w] >> bit) & np.uint64(1)) - 1
            out[i, j] = sign * np.int8((there >> bit) & np.uint64(1))


def transpose(words: np.ndarray, n: int) -> np.ndarray:
    """On the CPU, the (n, ceil(M / 64)) words of the transpose."""
    out = np.zeros((n, n_words(len(words))), np.uint64)
    if out.size:
        size = max(1, CHUNK // (WORD * len(words)))

        def task(span: tuple[int, int]) -> None:
            first, last = WORD * span[0], WORD * span[1]
            transpose_columns(words, *span, out[first:last], np.empty(WORD, np.uint64))

        for_each(task, cut_range(n_words(n), size))
    return out


def count_columns(words: np.ndarray, n: int) -> np.ndarray:
    """On the CPU, the number of set bits of each column, (n,) int64."""
    counts = np.zeros(n, np.int64)

    def task(span: tuple[int, int]) -> None:
        mine = counts[WORD * span[0] : WORD * span[1]]
        turned = np.empty((len(mine), n_words(len(words))), np.uint64)
        transpose_columns(words, *span, turned, np.empty(WORD, np.uint64))
        np.bitwise_count(turned).sum(axis=1, dtype=np.int64, out=mine)

    for_each(task, cut_range(n_words(n), max(1, CHUNK // (WORD * max(len(words), 1)))))
    return counts


@emitted
def _carry(builder, words, at, step, block, to):
    """block[to:] = eight words from `at`, `step` apart: by a vector, as they are read so later."""
    eight = ir.Constant(ir.VectorType(INDEX, 8), ir.Undefined)
    for i in range(8):
        word = load(builder, words, builder.add(at, builder.mul(step, INDEX(i))), INDEX)
        eight = builder.insert_element(eight, word, ir.IntType(32)(i))
    store(builder, eight, block, to)


@emitted
def _turn(builder, block, at):
    """Transpose 64 x 64 bits from block[at] in place.

    Squares of 32, 16, ... 1 bits a side change places across the diagonal.
    """
    words = load(builder, block, at, ir.VectorType(INDEX, WORD))
    for far in (32, 16, 8, 4, 2, 1):
        upper = [i for i in range(WORD) if not i & far]
        if far == 1:  # pairs of registers take their even words, and odd ones, in turn
            upper.sort(key=lambda i: (i // (REGISTER // 4), i % (REGISTER // 8)))
        order = upper + [i + far for i in upper]
        low, high = (shuffle(builder, words, order[i : i + 32]) for i in (0, 32))
        bits = sum(1 << i for i in upper)
        by, near, rest = (ir.Constant(low.type, [x] * 32) for x in (far, bits, ~bits))
        up, down = builder.shl(high, by), builder.lshr(low, by)
        low = builder.or_(builder.and_(low, near), builder.and_(up, rest))
        high = builder.or_(builder.and_(high, rest), builder.and_(down, near))
        words = shuffle(builder, low, [order.index(i) for i in range(WORD)], high)
    store(builder, words, block, at)


@compile_inner
def load_words(words, first, column, turned, block, to):
    """On the CPU, write 64 words from row `first` to block[to:], zero-padded, or transposed."""
    rows, step = words.shape
    eights = min(64, rows - first) // 8 * 8
    for k in range(0, eights, 8):
        _carry(words, (first + k) * step + column, step, block, to + k)
    for k in range(eights, 64):
        block[to + k] = words[first + k, column] if first + k < rows else np.uint64(0)
    if turned:
        _turn(block, to)


@compile_kernel
def transpose_columns(words, start, stop, out, block):
    """On the CPU, transpose bits of word columns start..stop-1 to `out`; block : (64,), space."""
    for column in range(start, stop):
        first = 64 * (column - start)
        columns = min(64, out.shape[0] - first)
        for b in range(out.shape[1]):
            load_words(words, 64 * b, column, True, block, 0)
            for k in range(columns):
                out[first + k, b] = block[k]
