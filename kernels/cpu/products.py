"""Sums of rows of a float matrix selected by bits: the inner loop of products with packed data.

With b_j the 64 bits of a word (64 examples, or 64 sites) and x_j a row of the matrix, the sums
``sum_j (2 b_j - 1) x_j = 2 sum_{b_j = 1} x_j - sum_j x_j`` need no multiplication and no unpacked
copy: on machines with mask registers the word itself is the mask of an addition.

The difference of two sums cancels badly when all x_j have one sign. So half of the rows, chosen by
a hash, take part with both b_j and x_j reversed: what is summed then has no common sign.
"""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hopfed.kernels.cpu.bits import load_block, transpose_block
from hopfed.kernels.cpu.compiled import inlined, inner, kernel
from hopfed.kernels.cpu.vectors import INDEX, has_mask_registers, load, operands, splat, store

WORD = 64
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
PIECE = 512  # rows of the matrix summed before their total is taken off


# Columns of the matrix summed together: as many as the registers hold, 64 lanes each.
WIDE = {types.float32: 6, types.float64: 3}
COLUMNS = WIDE if has_mask_registers() else dict.fromkeys(WIDE, 1)


def reversed_rows(n: int) -> np.ndarray:
    """Which of n rows are reversed, (n,) bool."""
    return (np.arange(n, dtype=np.uint64) * GOLDEN >> np.uint64(63)).astype(bool)


@inner
def _reverse(block, count, first):
    for j in range(count):
        if np.uint64(first + j) * GOLDEN >> np.uint64(63):
            block[j] = ~block[j]


def in_groups(X: np.ndarray) -> tuple[np.ndarray, int]:
    """X (n, k) with columns of 0 up to whole groups, and the columns that are taken together."""
    (n, k), kind = X.shape, types.float32 if X.dtype == np.float32 else types.float64
    width = COLUMNS[kind] if k > 2 else 1
    padded = np.zeros((n, -(-k // width) * width), X.dtype)
    padded[:, :k] = X
    return padded, width


def _summing(columns_of):
    """Intrinsic that sums `columns_of[dtype]` columns at once."""

    @intrinsic
    def sums_of_selected(_typing, words, count, x, x_at, stride, sums):
        """sums[c, lane] = sum of x[j, c] over those j < count whose words[j] has bit `lane`."""

        def codegen(context, builder, signature, args):
            words, count, x, x_at, stride, sums = operands(context, builder, signature, args)
            real = context.get_data_type(signature.args[2].dtype)
            lanes = ir.VectorType(real, WORD)
            cells = [cgutils.alloca_once(builder, lanes) for _ in range(columns_of[kind])]
            for cell in cells:
                builder.store(ir.Constant(lanes, [0.0] * WORD), cell)
            with cgutils.for_range(builder, count) as loop:
                word = load(builder, words, loop.index, INDEX)
                mask = builder.bitcast(word, ir.VectorType(ir.IntType(1), WORD))
                row = builder.add(x_at, builder.mul(loop.index, stride))
                for c, cell in enumerate(cells):
                    value = load(builder, x, builder.add(row, INDEX(c)), real)
                    old = builder.load(cell, typ=lanes)
                    new = builder.fadd(old, splat(builder, value, lanes))
                    builder.store(builder.select(mask, new, old), cell)
            for c, cell in enumerate(cells):
                store(builder, builder.load(cell, typ=lanes), sums, INDEX(c * WORD))
            return context.get_dummy_value()

        kind, n = x.dtype, types.intp
        return types.void(words, n, x, n, n, sums), codegen

    return sums_of_selected


many_selected_sums = _summing(COLUMNS)
selected_sums = _summing(dict.fromkeys(WIDE, 1))


@inlined
def _add_piece(words, count, x, first, width, totals, piece, sums, out, row):
    """Add to 64 rows of `out`, from `row`, the products of `count` words with rows of x.

    The columns of x, from row `first`, are taken `width` at a time (`in_groups`), and are
    padded to a multiple of it; totals[piece] holds their sums over the rows of this piece.
    """
    lanes = min(WORD, len(out) - row)
    stride = x.shape[1]
    for column in range(0, stride, width):
        if width == 1:
            selected_sums(words, count, x, first * stride + column, stride, sums)
        else:
            many_selected_sums(words, count, x, first * stride + column, stride, sums)
        for c in range(min(width, out.shape[1] - column)):
            total = totals[piece, column + c]
            for lane in range(lanes):
                out[row + lane, column + c] += 2 * sums[c * WORD + lane] - total


@kernel
def multiply(words, start, stop, x, width, totals, out, block, sums):
    """out = eta X for the groups start..stop-1 of 64 rows of eta; see `_add_piece`.

    block, sums : (PIECE,) uint64 and (width * 64,) of the dtype of x, work space.
    """
    for first in range(0, len(x), PIECE):
        count = min(PIECE, len(x) - first)
        for group in range(start, stop):
            for w in range((count + WORD - 1) // WORD):
                load_block(words, WORD * group, first // WORD + w, block, WORD * w)
                transpose_block(block, WORD * w)
            _reverse(block, count, first)
            _add_piece(
                block, count, x, first, width, totals, first // PIECE, sums, out, WORD * group
            )


@kernel
def multiply_transposed(words, start, stop, x, width, totals, out, block, sums):
    """out = eta^T X for the word columns start..stop-1."""
    for first in range(0, len(x), PIECE):
        count = min(PIECE, len(x) - first)
        for w in range(start, stop):
            for j in range(count):
                block[j] = words[first + j, w]
            _reverse(block, count, first)
            _add_piece(block, count, x, first, width, totals, first // PIECE, sums, out, WORD * w)
