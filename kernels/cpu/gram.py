"""Gram matrices of bits on the CPU: exclusive-or and population count, blocked for registers.

There are two ways to count bits. With AVX-512 an instruction counts the words of a vector. Without
it, counting a vector takes many times as many operations as computing it, so bits are first added:
a carry-save adder adds two vectors of differing bits to a third, in which each bit counts one, and
outputs carries, which count two; a second adder adds two such carries, and only its own carries,
which count four, are counted, by bytes that are widened before they can overflow. The sum of two
vectors of differing bits follows from sums of each row,
``(x0 ^ y0) ^ (x1 ^ y1) = (x0 ^ x1) ^ (y0 ^ y1)``, so rows are copied with odd vectors so summed.

Rows with gaps. For the signs u, u' of two rows and their masks of missing entries, h and h', take
p = u ^ u', the signs that differ, and q = ~(p ^ (h | h')). Where both entries are observed q is the
complement of p, the signs that agree; elsewhere q equals p. So, counting bits,
``<x, x'> = |q| - |p|``: twice the work of complete rows, with no further register for
each pair. If carries are counted, q and the complement of p are added, which differ in
h | h'; the complements of all bits are subtracted at the end. The rows of the left side are then
copied with the complement of their signs.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from hopfed.kernels.cpu.compiled import compile_inner, compile_kernel
from hopfed.kernels.cpu.threads import cut_range, for_each, thread_count
from hopfed.kernels.cpu.vectors import BYTE, INDEX, emitted, has_feature, load, store

TILE = 64  # rows of a tile on each side
TALLEST = 4  # tiles of a strip
STRIPS = 4  # strips per thread above which strips grow taller
SAFE = 31  # steps for which a byte that grows by up to 8 in each stays below 256
COUNTED = has_feature("avx512f")  # whether vectors are counted directly
LANES = 8 if COUNTED else 4  # words of a vector
WORDS = LANES if COUNTED else 4 * LANES  # words in a step
CHUNK = 16 * SAFE  # words of a row handled at a time: two tiles of them are half a megabyte
LEFT, RIGHT = (4, 4) if COUNTED else (2, 1)  # rows whose LEFT x RIGHT counts stay in registers
VECTOR = ir.VectorType(INDEX, LANES)
BYTES = ir.VectorType(BYTE, 8 * LANES)
SUMS = ir.VectorType(ir.IntType(16), BYTES.count)
PAIRS = [(i, j) for i in range(LEFT) for j in range(RIGHT)]


def inner_products(signs: np.ndarray, seen: np.ndarray | None, n: int) -> np.ndarray:
    """On the CPU, the Gram matrix: inner products of all pairs of rows of n columns, (M, M) int32.

    The lower half of the tiles is computed on all cores, then mirrored.
    """
    m = len(signs)
    out = np.zeros((m, m), np.int32)
    if out.size == 0 or n == 0:
        return out
    # Taller strips copy the other rows less often; they are used while all threads have work.
    strips = cut_range(m, TILE * min(max(m // (TILE * STRIPS * thread_count()), 1), TALLEST))
    planes = 1 if seen is None else 2
    # Tiles of two planes have two thirds of the length: longer ones would not fit the cache,
    # shorter ones would reduce the counts of a vector more often.
    pieces = -(-signs.shape[1] // (2 * CHUNK // (planes + 1)))  # of equal length, per row
    width = -(-signs.shape[1] // (pieces * WORDS)) * WORDS
    height = -(-strips[0][1] // TILE) * TILE
    spare = [
        (_aligned(planes, height, width), _aligned(planes, TILE, width))
        for _ in range(min(thread_count(), len(strips)))
    ]

    def task(strip: tuple[int, int]) -> None:
        work = spare.pop()
        _add_strip(signs, seen, *strip, n, out, *work, np.empty((TILE, TILE), np.int64))
        spare.append(work)

    for_each(task, reversed(strips))  # the longest first
    return out


def _aligned(*shape: int) -> np.ndarray:
    """Words aligned to cache lines, so that no vector crosses a line."""
    line = 64
    spare = np.empty(8 * math.prod(shape) + line, np.uint8)
    start = -spare.ctypes.data % line
    return spare[start : start + 8 * math.prod(shape)].view(np.uint64).reshape(shape)


def _call(builder, name, result, argument):
    """Call the LLVM intrinsic `name` for the type of `argument`."""
    kind = argument.type
    function = ir.FunctionType(result, [kind])
    full = f"llvm.{name}.v{kind.count}i{kind.element.width}"
    return builder.call(cgutils.get_or_insert_function(builder.module, function, full), [argument])


def _registers(builder, kind):
    """Return a register of type `kind`, set to zero, for each pair of rows."""
    cells = {pair: cgutils.alloca_once(builder, kind) for pair in PAIRS}
    _clear(builder, cells)
    return cells


def _clear(builder, cells):
    for cell in cells.values():
        builder.store(ir.Constant(cell.type.pointee, None), cell)


def _increase(builder, cell, value):
    builder.store(builder.add(builder.load(cell, typ=value.type), value), cell)


def _ones(builder, vector):
    """Number of set bits of a vector."""
    bits = _call(builder, "ctpop", vector.type, vector)
    return _call(builder, "vector.reduce.add", INDEX, bits)


def _count_words(builder, vectors, length, totals):
    """Count the bits of vectors `vectors(at)(i, j)` of the words from `at`, with their signs."""
    cells = _registers(builder, VECTOR)
    with cgutils.for_range(builder, builder.udiv(length, INDEX(LANES))) as loop:
        pair = vectors(builder.mul(loop.index, INDEX(LANES)))
        for (i, j), cell in cells.items():
            total = builder.load(cell, typ=VECTOR)
            for sign, vector in pair(i, j):
                bits = _call(builder, "ctpop", VECTOR, vector)
                total = builder.add(total, bits) if sign > 0 else builder.sub(total, bits)
            builder.store(total, cell)
    for pair, cell in cells.items():
        sums = builder.load(cell, typ=VECTOR)
        _increase(builder, totals[pair], _call(builder, "vector.reduce.add", INDEX, sums))


def _carry(builder, cell, x, both):
    """Add `x` and `x ^ both` to `cell` bit by bit; return the carries."""
    ones = builder.load(cell, typ=VECTOR)
    builder.store(builder.xor(ones, both), cell)
    return builder.xor(x, builder.and_(both, builder.xor(x, ones)))


def _count_carries(builder, vectors, words, length, totals):
    """Add bits by carry-save adders, and count by bytes the carries that count four.

    ``vectors(at)(i, j)`` yields two pairs of a vector and its exclusive-or with another, for the
    `words` words from `at`: four vectors to count.
    """
    ones, twos = _registers(builder, VECTOR), _registers(builder, VECTOR)
    fours = _registers(builder, BYTES)
    steps = builder.udiv(length, INDEX(words))
    parts = builder.udiv(builder.add(steps, INDEX(SAFE - 1)), INDEX(SAFE))
    with cgutils.for_range(builder, parts) as part:
        first = builder.mul(part.index, INDEX(SAFE))
        left = builder.sub(steps, first)
        whole = builder.icmp_unsigned("<", left, INDEX(SAFE))
        with cgutils.for_range(builder, builder.select(whole, left, INDEX(SAFE))) as loop:
            pair = vectors(builder.mul(builder.add(first, loop.index), INDEX(words)))
            for i, j in PAIRS:
                two, also = (_carry(builder, ones[i, j], x, both) for x, both in pair(i, j))
                four = _carry(builder, twos[i, j], two, builder.xor(two, also))
                by_bytes = _call(builder, "ctpop", BYTES, builder.bitcast(four, BYTES))
                _increase(builder, fours[i, j], by_bytes)
        for pair in PAIRS:
            wide = builder.zext(builder.load(fours[pair], typ=BYTES), SUMS)
            sums = _call(builder, "vector.reduce.add", SUMS.element, wide)
            _increase(builder, totals[pair], builder.shl(builder.zext(sums, INDEX), INDEX(2)))
        _clear(builder, fours)
    for pair in PAIRS:
        one, two = (_ones(builder, builder.load(c[pair], typ=VECTOR)) for c in (ones, twos))
        _increase(builder, totals[pair], builder.add(one, builder.shl(two, INDEX(1))))


def _load_rows(builder, base, start, stride, count):
    """Vectors of `count` rows, `stride` words apart, the first row at `start`."""
    places = (builder.add(start, builder.mul(stride, INDEX(i))) for i in range(count))
    return [load(builder, base, place, VECTOR) for place in places]


def _complete(builder, rows):
    """Count of complete rows: bits that differ; rows(step) has signs of both sides."""

    def counted(step):
        x, y = rows(step)
        return lambda i, j: [(1, builder.xor(x[i], y[j]))]

    def carried(step):
        even0, both0, even1, both1 = (
            rows(builder.add(step, INDEX(k * LANES))) for k in range(WORDS // LANES)
        )

        def pair(i, j):
            for even, both in ((even0, both0), (even1, both1)):
                yield builder.xor(even[0][i], even[1][j]), builder.xor(both[0][i], both[1][j])

        return pair

    return counted, carried, WORDS


def _gappy(builder, rows):
    """The same for rows with gaps; rows(step) has signs and missing entries of each side."""

    def counted(step):
        signs, hidden, others, hidden_there = rows(step)

        def pair(i, j):
            differ = builder.xor(signs[i], others[j])
            either = builder.or_(hidden[i], hidden_there[j])
            return [(-1, differ), (1, builder.not_(builder.xor(differ, either)))]

        return pair

    def carried(step):
        halves = [rows(builder.add(step, INDEX(k * LANES))) for k in range(2)]

        def pair(i, j):
            for signs, hidden, others, hidden_there in halves:
                yield builder.xor(signs[i], others[j]), builder.or_(hidden[i], hidden_there[j])

        return pair

    return counted, carried, 2 * LANES


def _adding(planes, ways):
    @emitted
    def add_counts(builder, a, a_at, a_next, b, b_at, b_next, stride, length, counts, at):
        """counts[at + TILE i + j] += the count for rows i < LEFT of `a` and j < RIGHT of `b`.

        Rows are as written by `_copy`, `stride` words apart and `length` words long, a multiple of
        WORDS; second planes are a_next and b_next words after the first.
        """

        def rows(step):
            sides = (a, a_at, a_next, LEFT), (b, b_at, b_next, RIGHT)
            return [
                _load_rows(builder, base, builder.add(plane, step), stride, count)
                for base, start, after, count in sides
                for plane in (start, builder.add(start, after))[:planes]
            ]

        totals = _registers(builder, INDEX)
        counted, carried, words = ways(builder, rows)
        if COUNTED:
            _count_words(builder, counted, length, totals)
        else:
            _count_carries(builder, carried, words, length, totals)
        for (i, j), cell in totals.items():
            place = builder.add(at, INDEX(TILE * i + j))
            before = load(builder, counts, place, INDEX)
            total = builder.add(before, builder.load(cell, typ=INDEX))
            store(builder, total, counts, place)

    return add_counts


_add_differing = _adding(1, _complete)
_add_products = _adding(2, _gappy)


@compile_inner
def _copy(signs, seen, first, last, lo, hi, group, turned, out):
    """Copy words lo..hi-1 of rows first..last-1, padded to whole steps and groups of rows.

    If carries of complete rows are counted, each odd vector becomes its xor with the one before.
    turned : whether, for rows with gaps, the complement of the signs is copied.
    """
    width = (hi - lo + WORDS - 1) // WORDS * WORDS
    turn = ~np.uint64(0) if turned and seen is not None else np.uint64(0)
    for i in range((last - first + group - 1) // group * group):
        there = hi - lo if i < last - first else 0
        for w in range(there):
            out[0, i, w] = signs[first + i, lo + w] ^ turn
        for w in range(there, width):
            out[0, i, w] = 0
        if seen is not None:
            for w in range(there):
                out[1, i, w] = ~seen[first + i, lo + w]
            for w in range(there, width):
                out[1, i, w] = ~np.uint64(0)
        else:
            for w in range(width if COUNTED else 0, width, 2 * LANES):
                for lane in range(w, w + LANES):
                    out[0, i, lane + LANES] ^= out[0, i, lane]
    return width


@compile_inner
def _count_tile(x, top, down, y, across, width, seen, counts):
    """Count `down` rows of x from `top` on against `across` rows of y, into counts."""
    stride = x.shape[2]
    x_next, y_next = x.shape[1] * stride, y.shape[1] * stride
    counts[:] = 0
    for i in range(0, down, LEFT):
        for j in range(0, across, RIGHT):
            left, right, at = (top + i) * stride, j * stride, i * TILE + j
            if seen is None:
                _add_differing(x, left, x_next, y, right, y_next, stride, width, counts, at)
            else:
                _add_products(x, left, x_next, y, right, y_next, stride, width, counts, at)


@compile_kernel
def _add_strip(signs, seen, i0, i1, n, out, x, y, counts):
    """Compute out[i0:i1, :i1], i0 a multiple of TILE, and mirror it; x has i1 - i0 rows."""
    stride = x.shape[2]
    for lo in range(0, signs.shape[1], stride):
        hi = min(lo + stride, signs.shape[1])
        columns = min(64 * hi, n) - 64 * lo
        width = _copy(signs, seen, i0, i1, lo, hi, LEFT, not COUNTED, x)
        for j0 in range(0, i1, TILE):
            across = min(TILE, i1 - j0)
            _copy(signs, seen, j0, j0 + across, lo, hi, RIGHT, False, y)
            for top in range(max(j0 - i0, 0), i1 - i0, TILE):
                down = min(TILE, i1 - i0 - top)
                _count_tile(x, top, down, y, across, width, seen, counts)
                for i in range(down):
                    for j in range(across):
                        if seen is None:
                            total = columns - 2 * counts[i, j]
                        else:
                            total = counts[i, j] - (0 if COUNTED else 64) * width
                        out[i0 + top + i, j0 + j] += np.int32(total)
    for j in range(i1):
        for i in range(max(i0, j + 1), i1):
            out[j, i] = out[i, j]
