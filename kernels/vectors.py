"""Loops of explicit 16-wide float32 vectors for Numba, where its own vectoriser falls short.

LLVM lowers a vector of 16 floats to whatever the machine has (one AVX-512 register, two of AVX,
four of SSE or NEON), and the order of the operations is fixed here, so that results do not depend
on how work was grouped.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
CHAINS = 4  # chains whose fields are computed together: eight sums in flight hide the latency
FLOAT = ir.FloatType()
VECTOR = ir.VectorType(FLOAT, LANES)


def _data(context, builder, array_type, value):  # type: ignore[no-untyped-def]
    return context.make_array(array_type)(context, builder, value).data


def _at(builder, base, offset, kind):  # type: ignore[no-untyped-def]
    """Pointer to a `kind` that starts `offset` floats after `base`."""
    return builder.bitcast(
        builder.gep(base, [offset], source_etype=FLOAT), ir.PointerType(kind)
    )


def _load(builder, base, offset, kind=VECTOR):  # type: ignore[no-untyped-def]
    return builder.load(_at(builder, base, offset, kind), typ=kind, align=4)


def _store(builder, value, base, offset):  # type: ignore[no-untyped-def]
    builder.store(value, _at(builder, base, offset, VECTOR), align=4)


def _splat(builder, value):  # type: ignore[no-untyped-def]
    first = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(VECTOR, ir.Undefined), zeros)


def _multiply_add(builder, x, y, z):  # type: ignore[no-untyped-def]
    kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.v16f32")
    return builder.call(function, [x, y, z])


@intrinsic
def block_fields(_typing, columns, coefficients, rank, fields):  # type: ignore[no-untyped-def]
    """fields[c, j] = sum_k coefficients[c, k] columns[k, j], c < CHAINS, j < LANES; rank even.

    All three arrays are C-contiguous float32. Odd and even k are summed apart.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        w, a, _, h = (_data(context, builder, t, v) if isinstance(t, types.Array) else None
                      for t, v in zip(signature.args, args, strict=True))
        rank, size = args[2], args[2].type
        zero = ir.Constant(VECTOR, [0.0] * LANES)
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(2)] for _ in range(CHAINS)]
        for pair in sums:
            for cell in pair:
                builder.store(zero, cell)
        with cgutils.for_range(builder, builder.lshr(rank, size(1))) as loop:
            for parity in range(2):
                k = builder.add(builder.shl(loop.index, size(1)), size(parity))
                column = _load(builder, w, builder.mul(k, size(LANES)))
                for c in range(CHAINS):
                    offset = builder.add(builder.mul(rank, size(c)), k)
                    x = _splat(builder, _load(builder, a, offset, FLOAT))
                    cell = sums[c][parity]
                    old = builder.load(cell, typ=VECTOR)
                    builder.store(_multiply_add(builder, x, column, old), cell)
        for c, (even, odd) in enumerate(sums):
            total = builder.fadd(builder.load(even, typ=VECTOR), builder.load(odd, typ=VECTOR))
            _store(builder, total, h, size(c * LANES))
        return context.get_dummy_value()

    return types.void(columns, coefficients, types.intp, fields), codegen


@intrinsic
def add_multiple(_typing, factor, x, y):  # type: ignore[no-untyped-def]
    """y += factor * x for C-contiguous float32 x, y whose length is a multiple of LANES."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x_type, y_type = signature.args[1:]
        x, y = _data(context, builder, x_type, args[1]), _data(context, builder, y_type, args[2])
        length = builder.extract_value(context.make_array(y_type)(context, builder, args[2]).shape, 0)
        size = length.type
        factor = _splat(builder, args[0])
        with cgutils.for_range(builder, builder.udiv(length, size(LANES))) as loop:
            at = builder.mul(loop.index, size(LANES))
            _store(builder, _multiply_add(builder, factor, _load(builder, x, at), _load(builder, y, at)), y, at)
        return context.get_dummy_value()

    return types.void(types.float32, x, y), codegen


@intrinsic
def take_next(_typing, queue):  # type: ignore[no-untyped-def]
    """Return queue[0] and add 1 to it, atomically: the work queue of several threads."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        cell = _data(context, builder, signature.args[0], args[0])
        return builder.atomic_rmw("add", cell, ir.IntType(64)(1), "seq_cst")

    return types.int64(queue), codegen
