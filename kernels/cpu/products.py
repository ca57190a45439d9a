"""Words of bits as numbers, 64 at a time: what is multiplied while it is in the cache."""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hopfed.kernels.cpu.compiled import kernel
from hopfed.kernels.cpu.vectors import operands, store

WORD = 64


@intrinsic
def spread_word(_typing, up, there, out, at):
    """out[at + j] = +1 or -1 as bit j of `up` says, 0 where `there` has no bit; 64 entries."""

    def codegen(context, builder, signature, args):
        up, there, out, at = operands(context, builder, signature, args)
        element = context.get_data_type(signature.args[2].dtype)
        lanes = ir.VectorType(element, WORD)
        plus, minus, none = (ir.Constant(lanes, [element(value)] * WORD) for value in (1, -1, 0))
        bits = ir.VectorType(ir.IntType(1), WORD)
        signs = builder.select(builder.bitcast(up, bits), plus, minus)
        entries = builder.select(builder.bitcast(there, bits), signs, none)
        store(builder, entries, out, at)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, out, types.intp), codegen


@kernel
def unpack_rows(signs, seen, row, word, out):
    """Write entries of two planes from `row` and `word` on into `out`: +-1, 0 where none is seen.

    seen : of no rows where all is seen.
    out : (rows, columns) int8, float32 or float64.
    """
    m, n = out.shape
    flat = out.ravel()
    every = ~np.uint64(0)
    for i in range(m):
        for w in range(n // WORD):
            there = seen[row + i, word + w] if len(seen) else every
            spread_word(signs[row + i, word + w], there, flat, i * n + w * WORD)
        for j in range(n // WORD * WORD, n):
            bit, w = np.uint64(j % WORD), word + j // WORD
            there = seen[row + i, w] if len(seen) else every
            sign = 2 * np.int8((signs[row + i, w] >> bit) & np.uint64(1)) - 1
            out[i, j] = sign * np.int8((there >> bit) & np.uint64(1))
