"""Compiled tile of a Gram matrix: exclusive-or and population count, blocked for registers."""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hopfed.kernels.compiled import inner, kernel
from hopfed.kernels.vectors import INDEX, has_mask_registers, load, operands, store

TILE = 64  # rows of a tile on each side
CHUNK = 512  # words of a row handled at a time: two tiles of them are half a megabyte
WORDS = 8  # words in a vector
ROWS = 4 if has_mask_registers() else 2  # ROWS x ROWS counts stay in registers
VECTOR = ir.VectorType(INDEX, WORDS)


def _call(builder, name, result, argument):
    """Call the LLVM intrinsic `name` on a vector of words."""
    kind = ir.FunctionType(result, [VECTOR])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [argument])


@intrinsic
def _add_differing(_typing, a, a_at, b, b_at, stride, length, counts, at):
    """counts[at + TILE i + j] += bits in which row i of `a` and row j of `b` differ, i, j < ROWS.

    Rows are `stride` words apart and `length`, a multiple of WORDS, words long.
    """

    def codegen(context, builder, signature, args):
        a, a_at, b, b_at, stride, length, counts, at = operands(context, builder, signature, args)
        pairs = [(i, j) for i in range(ROWS) for j in range(ROWS)]
        cells = {pair: cgutils.alloca_once(builder, VECTOR) for pair in pairs}
        for cell in cells.values():
            builder.store(ir.Constant(VECTOR, [0] * WORDS), cell)

        def rows(base, start):
            places = [builder.add(start, builder.mul(stride, INDEX(i))) for i in range(ROWS)]
            return [load(builder, base, place, VECTOR) for place in places]

        with cgutils.for_range(builder, builder.udiv(length, INDEX(WORDS))) as loop:
            step = builder.mul(loop.index, INDEX(WORDS))
            x, y = rows(a, builder.add(a_at, step)), rows(b, builder.add(b_at, step))
            for (i, j), cell in cells.items():
                differing = builder.xor(x[i], y[j])
                bits = _call(builder, f"llvm.ctpop.v{WORDS}i64", VECTOR, differing)
                builder.store(builder.add(builder.load(cell, typ=VECTOR), bits), cell)
        for (i, j), cell in cells.items():
            place = builder.add(at, INDEX(TILE * i + j))
            sums = builder.load(cell, typ=VECTOR)
            bits = _call(builder, f"llvm.vector.reduce.add.v{WORDS}i64", INDEX, sums)
            store(builder, builder.add(load(builder, counts, place, INDEX), bits), counts, place)
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
