"""Compiled strip of a Gram matrix: exclusive-or and population count, blocked for registers.

Two ways to count. With AVX-512 the words of a vector are counted by an instruction of their own.
Elsewhere counting a vector takes many times as many operations as making it, so that bits are first
added up: a carry-save adder takes two vectors of differing bits into a third, in which every bit
stands for itself, and carries over bits that stand for two; of those a second adder takes two, and
only what that carries over, bits that stand for four, is counted; by bytes, which are widened
before they could overflow. The sum of two vectors of differing bits is that of sums of each row,
``(x0 ^ y0) ^ (x1 ^ y1) = (x0 ^ x1) ^ (y0 ^ y1)``: rows are copied with odd vectors so summed.
"""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hopfed.kernels.cpu.compiled import inner, kernel
from hopfed.kernels.cpu.vectors import BYTE, INDEX, has_mask_registers, load, operands, store

TILE = 64  # rows of a tile on each side
SAFE = 31  # steps after which a byte that grows by up to 8 in each is still below 256
COUNTED = has_mask_registers()  # whether vectors are counted as they are
LANES = 8 if COUNTED else 4  # words of a vector
WORDS = LANES if COUNTED else 4 * LANES  # words in a step
CHUNK = 16 * SAFE  # words of a row handled at a time: two tiles of them are half a megabyte
LEFT, RIGHT = (4, 4) if COUNTED else (2, 1)  # rows whose LEFT x RIGHT counts stay in registers
VECTOR = ir.VectorType(INDEX, LANES)
BYTES = ir.VectorType(BYTE, 8 * LANES)
SUMS = ir.VectorType(ir.IntType(16), BYTES.count)
PAIRS = [(i, j) for i in range(LEFT) for j in range(RIGHT)]


def _call(builder, name, result, argument):
    """Call the LLVM intrinsic `name` for the type of `argument`."""
    kind = argument.type
    suffix = f"v{kind.count}i{kind.element.width}"
    function = ir.FunctionType(result, [kind])
    module = builder.module
    return builder.call(
        cgutils.get_or_insert_function(module, function, f"llvm.{name}.{suffix}"), [argument]
    )


def _ones(builder, vector):
    """Bits set in a vector."""
    bits = _call(builder, "ctpop", vector.type, vector)
    return _call(builder, "vector.reduce.add", INDEX, bits)


def registers(builder, kind):
    """A register of type `kind`, all zeros, for each pair of rows."""
    cells = {pair: cgutils.alloca_once(builder, kind) for pair in PAIRS}
    _clear(builder, cells)
    return cells


def _clear(builder, cells):
    for cell in cells.values():
        kind = cell.type.pointee
        zero = [0] * kind.count if isinstance(kind, ir.VectorType) else 0
        builder.store(ir.Constant(kind, zero), cell)


def _increase(builder, cell, value):
    builder.store(builder.add(builder.load(cell, typ=value.type), value), cell)


def count_words(builder, vectors, length, totals):
    """Count every vector that `vectors(at)(i, j)` gives for words from `at`, each with its sign."""
    cells = registers(builder, VECTOR)
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
    """Add `x` and the vector that differs from it by `both` to `cell`; return the carries."""
    ones = builder.load(cell, typ=VECTOR)
    builder.store(builder.xor(ones, both), cell)
    return builder.xor(x, builder.and_(both, builder.xor(x, ones)))


def count_carries(builder, vectors, words, length, totals):
    """Add up bits, and count by bytes what stands for four.

    ``vectors(at)(i, j)`` gives twice a vector, and in what it differs from another one, of the
    `words` words from `at`: four vectors to be counted.
    """
    ones, twos, fours = (
        registers(builder, VECTOR),
        registers(builder, VECTOR),
        registers(builder, BYTES),
    )
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


def load_rows(builder, base, start, stride, step, count):
    """Vectors at `step` of `count` rows, `stride` words apart, the first of which is at `start`."""
    places = (builder.add(start, builder.mul(stride, INDEX(i))) for i in range(count))
    return [load(builder, base, builder.add(place, step), VECTOR) for place in places]


def add_totals(builder, totals, counts, at):
    """counts[at + TILE i + j] += totals[i, j]."""
    for (i, j), cell in totals.items():
        place = builder.add(at, INDEX(TILE * i + j))
        total = builder.load(cell, typ=INDEX)
        store(builder, builder.add(load(builder, counts, place, INDEX), total), counts, place)


@intrinsic
def _add_differing(_typing, a, a_at, b, b_at, stride, length, counts, at):
    """counts[at + TILE i + j] += bits in which row i < LEFT of `a` and j < RIGHT of `b` differ.

    Rows are as `_copy` leaves them, `stride` words apart, and `length`, a multiple of WORDS, long.
    """

    def codegen(context, builder, signature, args):
        a, a_at, b, b_at, stride, length, counts, at = operands(context, builder, signature, args)

        def rows(step):
            return (
                load_rows(builder, a, a_at, stride, step, LEFT),
                load_rows(builder, b, b_at, stride, step, RIGHT),
            )

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

        totals = registers(builder, INDEX)
        if COUNTED:
            count_words(builder, counted, length, totals)
        else:
            count_carries(builder, carried, WORDS, length, totals)
        add_totals(builder, totals, counts, at)
        return context.get_dummy_value()

    n = types.intp
    return types.void(a, n, b, n, n, n, counts, n), codegen


@inner
def _copy(words, first, last, lo, hi, group, out):
    """Copy words lo..hi-1 of some rows; zeros up to whole steps and whole groups of rows.

    Where carries are counted, every odd vector is added to the one before it.
    """
    width = (hi - lo + WORDS - 1) // WORDS * WORDS
    for i in range(last - first):
        for w in range(hi - lo):
            out[i, w] = words[first + i, lo + w]
        for w in range(hi - lo, width):
            out[i, w] = 0
        for w in range(width if COUNTED else 0, width, 2 * LANES):
            for lane in range(w, w + LANES):
                out[i, lane + LANES] ^= out[i, lane]
    for i in range(last - first, (last - first + group - 1) // group * group):
        for w in range(width):
            out[i, w] = 0
    return width


@kernel
def add_strip(a, i0, i1, b, j1, n, lower, out, x, y, counts):
    """Add to out[i0:i1, :j1] the inner products of those rows of `a` and `b`, of n columns.

    lower : whether tiles above the diagonal are left out; i0 is a multiple of TILE then.
    x, y, counts : as made by `moments.work_spaces`, x for i1 - i0 rows.
    """
    stride = x.shape[1]
    for lo in range(0, a.shape[1], stride):
        hi = min(lo + stride, a.shape[1])
        columns = min(64 * hi, n) - 64 * lo
        width = _copy(a, i0, i1, lo, hi, LEFT, x)
        for j0 in range(0, j1, TILE):
            across = min(TILE, j1 - j0)
            _copy(b, j0, j0 + across, lo, hi, RIGHT, y)
            for top in range(max(j0 - i0, 0) if lower else 0, i1 - i0, TILE):
                down = min(TILE, i1 - i0 - top)
                _count_tile(x, top, down, y, across, width, counts)
                for i in range(down):
                    for j in range(across):
                        out[i0 + top + i, j0 + j] += np.int32(columns - 2 * counts[i, j])


@inner
def _count_tile(x, top, down, y, across, width, counts):
    """Bits in which `down` rows of x from `top` on and `across` rows of y differ, into counts."""
    stride = x.shape[1]
    for i in range(TILE):
        for j in range(TILE):
            counts[i, j] = 0
    for i in range(0, down, LEFT):
        for j in range(0, across, RIGHT):
            at = (top + i) * stride
            _add_differing(x, at, y, j * stride, stride, width, counts, i * TILE + j)


@kernel
def count_rows(x, y, rows, width, passes, counts):
    """Compare the first `rows` rows of x and y, many times: what is measured as a ceiling."""
    stride = x.shape[1]
    for _ in range(passes):
        for i in range(0, rows, LEFT):
            for j in range(0, rows, RIGHT):
                _add_differing(x, i * stride, y, j * stride, stride, width, counts, i * TILE + j)


@kernel
def mirror_tile(out, i0, i1, j0, j1):
    """out[j0:j1, i0:i1] = out[i0:i1, j0:j1]^T."""
    for j in range(j0, j1):
        for i in range(i0, i1):
            out[j, i] = out[i, j]
