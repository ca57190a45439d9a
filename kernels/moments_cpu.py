"""Compiled tile of a Gram matrix: exclusive-or and population count, blocked for registers.

Two ways to count. With AVX-512 the words of a vector are counted by an instruction of their own.
Elsewhere counting a vector takes ten times as many operations as making it, so that bits are first
added up: a carry-save adder takes two vectors of differing bits into a third, in which every bit
stands for itself, and only what it carries over, bits that stand for two, is counted; by bytes,
which are widened before they could overflow.
"""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hopfed.kernels.compiled import inner, kernel
from hopfed.kernels.vectors import BYTE, INDEX, has_mask_registers, load, operands, store

TILE = 64  # rows of a tile on each side
WORDS = 8  # words in a step
SAFE = 31  # steps after which a byte that grows by up to 8 in each is still below 256
CHUNK = 2 * SAFE * WORDS  # words of a row handled at a time: two tiles of them are half a megabyte
COUNTED = has_mask_registers()  # whether vectors are counted as they are
ROWS = 4 if COUNTED else 2  # ROWS x ROWS counts stay in registers
VECTOR = ir.VectorType(INDEX, WORDS if COUNTED else WORDS // 2)
BYTES = ir.VectorType(BYTE, 8 * VECTOR.count)
SUMS = ir.VectorType(ir.IntType(16), BYTES.count)
PAIRS = [(i, j) for i in range(ROWS) for j in range(ROWS)]


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


def _cells(builder, kind):
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


def _count_words(builder, rows, length, totals):
    """Count every vector."""
    cells = _cells(builder, VECTOR)
    with cgutils.for_range(builder, builder.udiv(length, INDEX(WORDS))) as loop:
        x, y = rows(builder.mul(loop.index, INDEX(WORDS)))
        for (i, j), cell in cells.items():
            bits = _call(builder, "ctpop", VECTOR, builder.xor(x[i], y[j]))
            _increase(builder, cell, bits)
    for pair, cell in cells.items():
        sums = builder.load(cell, typ=VECTOR)
        _increase(builder, totals[pair], _call(builder, "vector.reduce.add", INDEX, sums))


def _count_carries(builder, rows, length, totals):
    """Add up bits, and count by bytes what is carried over."""
    single, double = _cells(builder, VECTOR), _cells(builder, BYTES)
    steps = builder.udiv(length, INDEX(WORDS))
    parts = builder.udiv(builder.add(steps, INDEX(SAFE - 1)), INDEX(SAFE))
    with cgutils.for_range(builder, parts) as part:
        first = builder.mul(part.index, INDEX(SAFE))
        left = builder.sub(steps, first)
        whole = builder.icmp_unsigned("<", left, INDEX(SAFE))
        with cgutils.for_range(builder, builder.select(whole, left, INDEX(SAFE))) as loop:
            at = builder.mul(builder.add(first, loop.index), INDEX(WORDS))
            (x, y), (u, v) = rows(at), rows(builder.add(at, INDEX(VECTOR.count)))
            for i, j in PAIRS:
                ones = builder.load(single[i, j], typ=VECTOR)
                one, two = builder.xor(x[i], y[j]), builder.xor(u[i], v[j])
                odd = builder.xor(ones, one)
                carried = builder.or_(builder.and_(ones, one), builder.and_(odd, two))
                builder.store(builder.xor(odd, two), single[i, j])
                by_bytes = _call(builder, "ctpop", BYTES, builder.bitcast(carried, BYTES))
                _increase(builder, double[i, j], by_bytes)
        for pair in PAIRS:
            wide = builder.zext(builder.load(double[pair], typ=BYTES), SUMS)
            sums = _call(builder, "vector.reduce.add", SUMS.element, wide)
            twice = builder.shl(builder.zext(sums, INDEX), INDEX(1))
            _increase(builder, totals[pair], twice)
        _clear(builder, double)
    for pair in PAIRS:
        _increase(builder, totals[pair], _ones(builder, builder.load(single[pair], typ=VECTOR)))


@intrinsic
def _add_differing(_typing, a, a_at, b, b_at, stride, length, counts, at):
    """counts[at + TILE i + j] += bits in which row i of `a` and row j of `b` differ, i, j < ROWS.

    Rows are `stride` words apart and `length`, a multiple of WORDS, words long.
    """

    def codegen(context, builder, signature, args):
        a, a_at, b, b_at, stride, length, counts, at = operands(context, builder, signature, args)

        def rows(step):
            return [
                [
                    load(builder, base, builder.add(builder.add(start, step), place), VECTOR)
                    for place in (builder.mul(stride, INDEX(i)) for i in range(ROWS))
                ]
                for base, start in ((a, a_at), (b, b_at))
            ]

        totals = _cells(builder, INDEX)
        (_count_words if COUNTED else _count_carries)(builder, rows, length, totals)
        for (i, j), cell in totals.items():
            place = builder.add(at, INDEX(TILE * i + j))
            total = builder.load(cell, typ=INDEX)
            store(builder, builder.add(load(builder, counts, place, INDEX), total), counts, place)
        return context.get_dummy_value()

    n = types.intp
    return types.void(a, n, b, n, n, n, counts, n), codegen


@inner
def _copy(words, first, last, lo, hi, out):
    """Copy words lo..hi-1 of some rows; zeros up to whole vectors and whole groups of rows."""
    width = (hi - lo + WORDS - 1) // WORDS * WORDS
    for i in range(last - first):
        for w in range(hi - lo):
            out[i, w] = words[first + i, lo + w]
        for w in range(hi - lo, width):
            out[i, w] = 0
    for i in range(last - first, (last - first + ROWS - 1) // ROWS * ROWS):
        for w in range(width):
            out[i, w] = 0
    return width


@kernel
def add_tile(a, i0, i1, b, j0, j1, n, out, x, y, counts):
    """Add to out[i0:i1, j0:j1] the inner products of those rows of `a` and `b`, of n columns.

    x, y, counts : as made by `moments.work_spaces`.
    """
    stride = x.shape[1]
    for i in range(TILE):
        for j in range(TILE):
            counts[i, j] = 0
    for lo in range(0, a.shape[1], stride):
        hi = min(lo + stride, a.shape[1])
        width = _copy(a, i0, i1, lo, hi, x)
        _copy(b, j0, j1, lo, hi, y)
        for i in range(0, i1 - i0, ROWS):
            for j in range(0, j1 - j0, ROWS):
                _add_differing(x, i * stride, y, j * stride, stride, width, counts, i * TILE + j)
    for i in range(i1 - i0):
        for j in range(j1 - j0):
            out[i0 + i, j0 + j] += np.int32(n - 2 * counts[i, j])


@kernel
def mirror_tile(out, i0, i1, j0, j1):
    """out[j0:j1, i0:i1] = out[i0:i1, j0:j1]^T."""
    for j in range(j0, j1):
        for i in range(i0, i1):
            out[j, i] = out[i, j]
