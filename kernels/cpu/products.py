"""Thin products of bits with float matrices on the CPU: sums are looked up, four bits at a time.

Of four columns there are 16 sums ``+-x0 +-x1 +-x2 +-x3``. A thread makes those of the 64 columns of
a word, for a vector of the columns of X, 16 KB in all; then a row adds 16 of them, where a product
with a float copy takes 64 multiplications. Each row of the result is summed in one order, that of
the words, whatever the number of threads.

Rows with gaps add the sum of what is +1 and take off that of what is -1.
"""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hopfed.kernels.bits import WORD, n_words
from hopfed.kernels.cpu.bits import transpose_columns
from hopfed.kernels.cpu.compiled import kernel
from hopfed.kernels.cpu.threads import for_each, spans, thread_count
from hopfed.kernels.cpu.vectors import INDEX, load, operands, store

BYTES = 64  # of a vector: 16 numbers of single precision, 8 of double
ROWS = 256  # of the result that share the sums, and stay in the cache beside them
FEW = 1 << 25  # multiplications for which no thread is started


def product(
    signs: np.ndarray, seen: np.ndarray | None, n: int, X: np.ndarray, transposed: bool
) -> np.ndarray:
    """Return ``eta X``, or ``eta^T X``, for X (rows, k) of float32 or float64, nothing empty."""
    rows, k = X.shape
    count = n if transposed else len(signs)
    lanes = 1 if k == 1 else BYTES // X.itemsize
    padded = np.zeros((WORD * n_words(rows), -(-k // lanes) * lanes), X.dtype)
    padded[:rows, :k] = X
    out = np.zeros((count, padded.shape[1]), X.dtype)
    size = WORD * max(1, min(ROWS // WORD, n_words(count) // thread_count()))

    def task(mine: tuple[int, int]) -> None:
        held = [
            None if plane is None else _rows(plane, mine, transposed) for plane in (signs, seen)
        ]
        if k == 1:
            _add_vector(*held, padded[:, 0], np.empty((8, 256), X.dtype), out[slice(*mine), 0])
        else:
            sums = np.empty((WORD // 4, 16, lanes), X.dtype)
            _add_products(*held, padded, sums, out[slice(*mine)])

    pieces = spans(count, size)
    if count * rows * k <= FEW:
        for piece in pieces:
            task(piece)
    else:
        for_each(task, pieces)
    return out[:, :k]


def _rows(plane: np.ndarray, mine: tuple[int, int], transposed: bool) -> np.ndarray:
    """Some rows of a plane, or of its transpose."""
    first, last = mine
    if not transposed:
        return plane[first:last]
    out = np.empty((last - first, n_words(len(plane))), np.uint64)
    transpose_columns(plane, first // WORD, n_words(last), out, np.empty(WORD, np.uint64))
    return out


def _vector(context, array):
    """LLVM type of a vector of the elements of an array."""
    element = context.get_data_type(array.dtype)
    return ir.VectorType(element, BYTES // (4 if isinstance(element, ir.FloatType) else 8))


def _tabulating(signed):
    @intrinsic
    def tabulate(_typing, X, at, stride, sums, to):
        """sums[to:] = the 16 sums of vectors of four rows of X; without its bit a row is taken off.

        Unless `signed`: then it is left out.
        """

        def codegen(context, builder, signature, args):
            X, at, stride, sums, to = operands(context, builder, signature, args)
            vector = _vector(context, signature.args[0])
            rows = [
                load(builder, X, builder.add(at, builder.mul(stride, INDEX(i))), vector)
                for i in range(4)
            ]
            none = ir.Constant(vector, [vector.element(0.0)] * vector.count)
            both = [(builder.fsub(none, x) if signed else none, x) for x in rows]
            pairs = [
                [builder.fadd(y, z) for z in second for y in first]
                for first, second in (both[:2], both[2:])
            ]
            for bits in range(16):
                whole = builder.fadd(pairs[0][bits % 4], pairs[1][bits // 4])
                store(builder, whole, sums, builder.add(to, INDEX(bits * vector.count)))
            return context.get_dummy_value()

        n = types.intp
        return types.void(X, n, n, sums, n), codegen

    return tabulate


def _looking_up(sign):
    @intrinsic
    def look_up(_typing, word, sums, out, at):
        """out[at:] += or -= the sum over all 16 groups of four bits of what `sums` has for them."""

        def codegen(context, builder, signature, args):
            word, sums, out, at = operands(context, builder, signature, args)
            vector, found = _vector(context, signature.args[1]), []
            for group in range(WORD // 4):
                four = builder.and_(builder.lshr(word, INDEX(4 * group)), INDEX(15))
                place = builder.mul(builder.add(four, INDEX(16 * group)), INDEX(vector.count))
                found.append(load(builder, sums, place, vector))
            while len(found) > 1:
                pairs = zip(found[::2], found[1::2], strict=True)
                found = [builder.fadd(x, y) for x, y in pairs]
            before = load(builder, out, at, vector)
            add = builder.fadd if sign > 0 else builder.fsub
            store(builder, add(before, found[0]), out, at)
            return context.get_dummy_value()

        return types.void(types.uint64, sums, out, types.intp), codegen

    return look_up


_tabulate_signed, _tabulate_seen = _tabulating(True), _tabulating(False)
_add = _looking_up(1)
_take_off = _looking_up(-1)


@kernel
def _add_products(signs, seen, X, sums, out):
    """out += entries of all rows times X, whose rows and columns are whole words and vectors."""
    flat, table, numbers = out.ravel(), sums.ravel(), X.ravel()
    n, k, lanes = out.shape[0], out.shape[1], sums.shape[2]
    for w in range(signs.shape[1]):
        for column in range(0, k, lanes):
            for group in range(16):
                at, to = (64 * w + 4 * group) * k + column, 16 * group * lanes
                if seen is None:
                    _tabulate_signed(numbers, at, k, table, to)
                else:
                    _tabulate_seen(numbers, at, k, table, to)
            for i in range(n):
                _add(signs[i, w], table, flat, i * k + column)
                if seen is not None:
                    _take_off(seen[i, w] & ~signs[i, w], table, flat, i * k + column)


@kernel
def _add_vector(signs, seen, x, sums, out):
    """The same for a single column, of which the 256 sums of eight entries are looked up."""
    low, zero = np.uint64(255), x[0] - x[0]
    for w in range(signs.shape[1]):
        for byte in range(8):
            sums[byte, 0] = zero
            for bit in range(8):
                value = x[64 * w + 8 * byte + bit]
                for b in range(1 << bit):
                    before = sums[byte, b]
                    sums[byte, b + (1 << bit)] = before + value
                    if seen is None:
                        sums[byte, b] = before - value
        for i in range(len(out)):
            up, total = signs[i, w], zero
            for byte in range(8):
                total += sums[byte, (up >> np.uint64(8 * byte)) & low]
            if seen is not None:
                down = seen[i, w] & ~up
                for byte in range(8):
                    total -= sums[byte, (down >> np.uint64(8 * byte)) & low]
            out[i] += total
