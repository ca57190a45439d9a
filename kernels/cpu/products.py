"""Thin products of bits with float matrices on the CPU: terms are selected, or sums looked up.

For a column or two, if the processor has wide registers, the 64 bits of a word select the signs of
64 terms that are added to 64 sums at once. Otherwise four columns have 16 sums ``+-x0 +-x1 +-x2
+-x3``: a thread computes them for the 64 columns of a word, for a vector of the columns of X, 16 KB
in all; then a row adds 16 of them, where a product with a float copy takes 64 multiplications. Rows
with gaps subtract the sum over entries -1. No sum depends on the number of threads.
"""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

from functools import partial

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hopfed.kernels.bits import WORD, n_words
from hopfed.kernels.cpu.bits import load_turned
from hopfed.kernels.cpu.compiled import compile_inner, compile_kernel
from hopfed.kernels.cpu.threads import cut_range, for_each, thread_count
from hopfed.kernels.cpu.vectors import INDEX, has_feature, load, operands, splat, store

# Bytes of a row of X up to which terms are selected, twice as many for the transpose.
SELECTED = 8 if has_feature("avx512f") else 2 * has_feature("avx2")
RUN = 8  # selected terms that are added before their sum is added to that of others
ROWS = 512  # of the result that share sums, and stay in the cache beside them
VECTOR = 2_048  # the same of a product with a vector, whose sums are of eight bits
FEW = 1 << 23  # multiplications up to which no thread is started


def product(
    signs: np.ndarray, seen: np.ndarray | None, n: int, X: np.ndarray, transposed: bool
) -> np.ndarray:
    """On the CPU, the thin product ``eta X``, or ``eta^T X``, X (rows, k) of floats, not empty."""
    (rows, k), width = X.shape, X.shape[1] * X.itemsize
    count = n if transposed else len(signs)
    if width <= SELECTED * (1 + transposed):
        signs, seen = (x if x is None else np.ascontiguousarray(x) for x in (signs, seen))
        turned = np.zeros((k, WORD * n_words(count)), X.dtype)
        out, most = turned.T, VECTOR
        task = partial(_add_selected, signs, seen, transposed, np.ascontiguousarray(X.T), turned)
    else:
        lanes, most = (1, VECTOR) if k == 1 else ((32 if width <= 32 else 64) // X.itemsize, ROWS)
        padded = np.zeros((WORD * n_words(rows), -(-k // lanes) * lanes), X.dtype)
        padded[:rows, :k] = X
        out = np.zeros((count, padded.shape[1]), X.dtype)
        # A type for each size of a vector; a single column has sums of eight bits, and of four.
        table = np.empty((9, 256) if k == 1 else (16, 16, lanes) + (1,) * (width > 32), X.dtype)
        task = partial(_add_products, signs, seen, transposed, padded, table, out)
    if count * X.size <= FEW:
        task((0, count))
    else:
        for_each(task, cut_range(count, WORD * max(1, min(most, count // thread_count()) // WORD)))
    return out[:count, :k]


@compile_inner
def _hold(signs, seen, first, last, transposed, w, held, block):
    """Copy word `w` of rows first..last-1, or of these rows of the transpose: signs, and seen."""
    for column in range(first // 64, (last + 63) // 64 if transposed else 0):
        at = 64 * column - first
        load_turned(signs, 64 * w, column, block)
        held[0, at : at + 64] = block
        if seen is not None:
            load_turned(seen, 64 * w, column, block)
            held[1, at : at + 64] = block
    for i in range(0 if transposed else last - first):
        held[0, i] = signs[first + i, w]
        if seen is not None:
            held[1, i] = seen[first + i, w]


def _vector(context, sums):
    """LLVM type of the columns of X that have a table of sums: one, 32 bytes, or 64 bytes."""
    element = context.get_data_type(sums.dtype)
    size = 4 if isinstance(element, ir.FloatType) else 8
    return ir.VectorType(element, 1 if sums.ndim == 2 else (32 << (sums.ndim - 3)) // size)


@intrinsic
def _tabulate(_typing, X, at, stride, seen, sums, to):
    """sums[to:] = the 16 sums of vectors of four rows of X, by which bits are set.

    A row without its bit is subtracted from sums of complete rows, otherwise left out.
    """

    def codegen(context, builder, signature, args):
        X, at, stride, seen, sums, to = operands(context, builder, signature, args)
        vector = _vector(context, signature.args[4])
        places = [builder.add(at, builder.mul(stride, INDEX(i))) for i in range(4)]
        rows = [load(builder, X, place, vector) for place in places]
        none = ir.Constant(vector, [vector.element(0.0)] * vector.count)
        complete = signature.args[3] == types.none
        both = [(builder.fsub(none, x) if complete else none, x) for x in rows]
        pairs = [
            [builder.fadd(y, z) for z in second for y in first]
            for first, second in (both[:2], both[2:])
        ]
        for bits in range(16):
            whole = builder.fadd(pairs[0][bits % 4], pairs[1][bits // 4])
            store(builder, whole, sums, builder.add(to, INDEX(bits * vector.count)))
        return context.get_dummy_value()

    n = types.intp
    return types.void(X, n, n, seen, sums, n), codegen


@intrinsic
def _look_up(_typing, up, there, seen, sums, out, at):
    """out[at:] += what `sums` has for the bits of `up`, minus that for the others of `there`."""

    def codegen(context, builder, signature, args):
        up, there, _, sums, out, at = operands(context, builder, signature, args)
        vector = _vector(context, signature.args[3])
        bits = 8 if vector.count == 1 else 4
        total = load(builder, out, at, vector)
        words = [up, builder.and_(there, builder.not_(up))]
        for sign in range(1 if signature.args[2] == types.none else 2):
            found = []
            for group in range(WORD // bits):
                some = builder.lshr(words[sign], INDEX(bits * group))
                place = builder.add(builder.and_(some, INDEX(2**bits - 1)), INDEX(group << bits))
                found.append(load(builder, sums, builder.mul(place, INDEX(vector.count)), vector))
            while len(found) > 1:
                pairs = zip(found[::2], found[1::2], strict=True)
                found = [builder.fadd(x, y) for x, y in pairs]
            total = (builder.fsub if sign else builder.fadd)(total, found[0])
        store(builder, total, out, at)
        return context.get_dummy_value()

    return types.void(up, there, seen, sums, out, types.intp), codegen


@compile_kernel
def _add_products(signs, seen, transposed, X, table, out, mine):
    """out += entries of these rows, or of the transpose, times X, padded to vectors."""
    k, numbers, flat, block = X.shape[1], X.ravel(), out.ravel(), np.empty(64, np.uint64)
    lanes, most, fours = (1, VECTOR, 2048) if k == 1 else (table.size // 256, ROWS, 0)
    held = np.empty((2, min(most, (mine[1] - mine[0] + 63) // 64 * 64)), np.uint64)
    sums = np.empty_like(table)
    eights = sums.ravel()
    for first in range(mine[0], mine[1], most):
        last = min(first + most, mine[1])
        for w in range(X.shape[0] // 64):
            _hold(signs, seen, first, last, transposed, w, held, block)
            for column in range(0, k, lanes):
                for group in range(16):
                    at, to = (64 * w + 4 * group) * k + column, fours + 16 * group * lanes
                    _tabulate(numbers, at, k, seen, sums, to)
                for b in range(fours):  # two groups of four bits are one of eight
                    four = fours + b // 256 * 32
                    eights[b] = eights[four + b % 16] + eights[four + 16 + b // 16 % 16]
                for i in range(last - first):
                    _look_up(held[0, i], held[1, i], seen, sums, flat, (first + i) * k + column)


def _selecting(turned):
    @intrinsic
    def select(_typing, up, there, at, step, count, X, x, out, to):
        """out[to] -= entries of words at, at + step, ... times X[x:]; a number a word if turned."""

        def codegen(context, builder, signature, args):
            up, there, at, step, count, X, x, out, to = operands(context, builder, signature, args)
            element = context.get_data_type(signature.args[5].dtype)
            vector, bits = (ir.VectorType(kind, WORD) for kind in (element, ir.IntType(1)))
            none = ir.Constant(vector, [element(0.0)] * WORD)
            total, run = (cgutils.alloca_once_value(builder, none) for _ in range(2))
            with cgutils.for_range_slice(builder, INDEX(0), count, INDEX(RUN)) as (start, _):
                rest = builder.sub(count, start)
                short = builder.icmp_signed("<", rest, INDEX(RUN))
                builder.store(none, run)
                with cgutils.for_range(builder, builder.select(short, rest, INDEX(RUN))) as loop:
                    i = builder.add(start, loop.index)
                    word = builder.add(at, builder.mul(i, step))
                    before = builder.load(run, typ=vector)
                    place = builder.add(x, i if turned else builder.mul(i, INDEX(WORD)))
                    term = load(builder, X, place, element if turned else vector)
                    term = splat(builder, term, vector) if turned else term
                    signs = builder.bitcast(load(builder, up, word, INDEX), bits)
                    after = builder.fadd(before, builder.select(signs, builder.fneg(term), term))
                    if signature.args[1] != types.none:
                        seen = builder.bitcast(load(builder, there, word, INDEX), bits)
                        after = builder.select(seen, after, before)
                    builder.store(after, run)
                both = [builder.load(cell, typ=vector) for cell in (total, run)]
                builder.store(builder.fadd(*both), total)
            whole = builder.load(total, typ=vector)
            while not turned and whole.type.count > 1:
                half, undefined = whole.type.count // 2, ir.Constant(whole.type, ir.Undefined)
                kind = ir.VectorType(ir.IntType(32), half)
                sides = (ir.Constant(kind, list(range(i, i + half))) for i in (0, half))
                whole = builder.fadd(*(builder.shuffle_vector(whole, undefined, p) for p in sides))
            store(builder, builder.fsub(load(builder, out, to, whole.type), whole), out, to)
            return context.get_dummy_value()

        n = types.intp
        return types.void(up, there, n, n, n, X, n, out, n), codegen

    return select


_add_row, _add_column = _selecting(False), _selecting(True)


@compile_kernel
def _add_selected(signs, seen, transposed, X, out, mine):
    """out[:, first:last] += entries of these rows, or of the transpose, times X, turned."""
    (m, words), (k, rows), (first, last) = signs.shape, X.shape, mine
    length = (rows + 63) // 64 * 64
    spare, flat = np.zeros(k * length + 16, X.dtype), out.ravel()
    numbers = spare[-spare.ctypes.data % 64 // X.itemsize :]  # no vector crosses a cache line
    for c in range(k):
        x, to = c * length, c * out.shape[1]
        numbers[x : x + rows] = X[c]
        for i in range(0 if transposed else first, 0 if transposed else last):
            _add_row(signs, seen, i * words, 1, words, numbers, x, flat, to + i)
        for row in range(0, m if transposed else 0, 64):
            for w in range(first // 64, (last + 63) // 64):
                at, count, there = row * words + w, min(64, m - row), to + 64 * w
                _add_column(signs, seen, at, words, count, numbers, x + row, flat, there)
