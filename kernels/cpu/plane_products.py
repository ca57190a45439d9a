"""Sums of rows of a float matrix selected by two planes of bits: products with gaps in the data.

What a row is added by where an entry is +1, it is taken off by where it is -1, and left out where
it is missing: twice the masked additions of `products`, and no total, so that a row or a column
without any entry is exactly 0.
"""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hopfed.kernels.cpu.bits import transpose_block
from hopfed.kernels.cpu.compiled import inlined, inner, kernel
from hopfed.kernels.cpu.products import (
    COLUMNS,
    PIECE,
    WIDE,
    WORD,
    many_selected_sums,
    selected_sums,
)
from hopfed.kernels.cpu.vectors import INDEX, load, operands, splat, store


def _summing(columns_of):
    """Intrinsic that sums `columns_of[dtype]` columns at once."""

    @intrinsic
    def signed_sums(_typing, plus, minus, count, x, x_at, stride, sums):
        """sums[c, lane] = sum over j < count of x[j, c] if plus[j] has bit `lane`, less if minus.

        No bit is set in both.
        """

        def codegen(context, builder, signature, args):
            plus, minus, count, x, x_at, stride, sums = operands(context, builder, signature, args)
            real = context.get_data_type(signature.args[3].dtype)
            lanes, chosen = ir.VectorType(real, WORD), ir.VectorType(ir.IntType(1), WORD)
            cells = [cgutils.alloca_once(builder, lanes) for _ in range(columns_of[kind])]
            for cell in cells:
                builder.store(ir.Constant(lanes, [0.0] * WORD), cell)
            with cgutils.for_range(builder, count) as loop:
                up, down = (
                    builder.bitcast(load(builder, words, loop.index, INDEX), chosen)
                    for words in (plus, minus)
                )
                row = builder.add(x_at, builder.mul(loop.index, stride))
                for c, cell in enumerate(cells):
                    value = load(builder, x, builder.add(row, INDEX(c)), real)
                    value, old = splat(builder, value, lanes), builder.load(cell, typ=lanes)
                    more = builder.select(up, builder.fadd(old, value), old)
                    less = builder.select(down, builder.fsub(more, value), more)
                    builder.store(less, cell)
            for c, cell in enumerate(cells):
                store(builder, builder.load(cell, typ=lanes), sums, INDEX(c * WORD))
            return context.get_dummy_value()

        kind, n = x.dtype, types.intp
        return types.void(plus, minus, n, x, n, n, sums), codegen

    return signed_sums


_many_signed_sums = _summing(COLUMNS)
_signed_sums = _summing(dict.fromkeys(WIDE, 1))


@inlined
def _add_piece(plus, minus, signed, count, x, first, width, sums, out, row):
    """Add to 64 rows of `out`, from `row`, the products of `count` words with rows of x.

    signed : whether any bit of `minus` is set. The rest is as in `products`.
    """
    lanes = min(WORD, len(out) - row)
    stride = x.shape[1]
    for column in range(0, stride, width):
        at = first * stride + column
        if signed:
            if width == 1:
                _signed_sums(plus, minus, count, x, at, stride, sums)
            else:
                _many_signed_sums(plus, minus, count, x, at, stride, sums)
        elif width == 1:
            selected_sums(plus, count, x, at, stride, sums)
        else:
            many_selected_sums(plus, count, x, at, stride, sums)
        for c in range(min(width, out.shape[1] - column)):
            for lane in range(lanes):
                out[row + lane, column + c] += sums[c * WORD + lane]


@inner
def _load_blocks(signs, seen, first, column, plus, minus, at):
    """Copy 64 words of a column from row `first` to plus[at:] and minus[at:], and transpose."""
    rows = min(64, signs.shape[0] - first)
    for k in range(rows):
        plus[at + k] = signs[first + k, column]
        minus[at + k] = seen[first + k, column] ^ signs[first + k, column]
    for k in range(rows, 64):
        plus[at + k] = 0
        minus[at + k] = 0
    transpose_block(plus, at)
    transpose_block(minus, at)


@kernel
def multiply(signs, seen, signed, start, stop, x, width, out, plus, minus, sums):
    """out = eta X for the groups start..stop-1 of 64 rows of eta; see `_add_piece`.

    plus, minus, sums : (PIECE,) uint64 each and (width * 64,) of the dtype of x, work space.
    """
    for first in range(0, len(x), PIECE):
        count = min(PIECE, len(x) - first)
        for group in range(start, stop):
            for w in range((count + WORD - 1) // WORD):
                row, column = WORD * group, first // WORD + w
                _load_blocks(signs, seen, row, column, plus, minus, WORD * w)
            _add_piece(plus, minus, signed, count, x, first, width, sums, out, WORD * group)


@kernel
def multiply_transposed(signs, seen, signed, start, stop, x, width, out, plus, minus, sums):
    """out = eta^T X for the word columns start..stop-1."""
    for first in range(0, len(x), PIECE):
        count = min(PIECE, len(x) - first)
        for w in range(start, stop):
            for j in range(count):
                plus[j] = signs[first + j, w]
                minus[j] = seen[first + j, w] ^ signs[first + j, w]
            _add_piece(plus, minus, signed, count, x, first, width, sums, out, WORD * w)
