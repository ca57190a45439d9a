"""Thin products of bits with float matrices on the CPU: sums are looked up, four bits at a time.

Four columns have 16 sums ``+-x0 +-x1 +-x2 +-x3``. A thread computes the sums for the 64 columns of
a word, for a vector of the columns of X, 16 KB in all; then a row adds 16 of them, where a product
with a float copy takes 64 multiplications. Each row of the result is summed in the order of
the words, whatever the number of threads.

Rows with gaps add the sum over entries +1 and subtract the sum over entries -1.
"""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from hopfed.kernels.bits import WORD, n_words
from hopfed.kernels.cpu.bits import load_turned
from hopfed.kernels.cpu.compiled import inner, kernel
from hopfed.kernels.cpu.threads import for_each, spans, thread_count
from hopfed.kernels.cpu.vectors import INDEX, load, operands, store

BYTES = 64  # bytes of a vector: 16 numbers in single precision, 8 in double
ROWS = 512  # of the result that share the sums, and stay in the cache beside them
VECTOR = 2_048  # the same of a product with a vector, whose sums are of eight bits
GROUP = 8  # words of a row that are read together: a cache line
FEW = 1 << 25  # multiplications up to which no thread is started


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
    few = count * rows * k <= FEW
    most = (ROWS if k > 1 else VECTOR) // WORD
    size = WORD * max(1, min(most, n_words(count) // (1 if few else thread_count())))

    def task(mine: tuple[int, int]) -> None:
        held = np.empty((2, GROUP, size), np.uint64)
        place = slice(*mine)
        if k == 1:
            sums = np.empty((8, 256), X.dtype)
            _add_vector(signs, seen, *mine, transposed, padded[:, 0], sums, held, out[place, 0])
        else:
            sums = np.empty((WORD // 4, 16, lanes), X.dtype)
            _add_products(signs, seen, *mine, transposed, padded, sums, held, out[place])

    pieces = spans(count, size)
    if few:
        for piece in pieces:
            task(piece)
    else:
        for_each(task, pieces)
    return out[:, :k]


@inner
def _hold(signs, seen, first, last, transposed, w, held, block):
    """Copy up to GROUP words from `w` of rows first..last-1, or of these rows of the transpose.

    Bits of entries +1 and, for rows with gaps, of entries -1, ordered by word, then row.
    """
    count = min(GROUP, (signs.shape[0] + 63) // 64 - w if transposed else signs.shape[1] - w)
    for g in range(count if transposed else 0):
        for column in range(first // 64, (last + 63) // 64):
            at = 64 * column - first
            load_turned(signs, 64 * (w + g), column, block)
            held[0, g, at : at + 64] = block
            if seen is not None:
                load_turned(seen, 64 * (w + g), column, block)
                for i in range(at, at + 64):
                    held[1, g, i] = block[i - at] & ~held[0, g, i]
    for i in range(0 if transposed else last - first):
        for g in range(count):
            held[0, g, i] = signs[first + i, w + g]
            if seen is not None:
                held[1, g, i] = seen[first + i, w + g] & ~held[0, g, i]
    return count


def _vector(context, array):
    """LLVM type of a vector of the elements of an array."""
    element = context.get_data_type(array.dtype)
    return ir.VectorType(element, BYTES // (4 if isinstance(element, ir.FloatType) else 8))


def _tabulating(signed):
    @intrinsic
    def tabulate(_typing, X, at, stride, sums, to):
        """sums[to:] = the 16 sums of vectors of four rows of X, by which bits are set.

        A row without its bit is subtracted if `signed`, otherwise left out.
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
        """out[at:] += or -= the sum of the entries of `sums` for all 16 groups of four bits."""

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
def _add_products(signs, seen, first, last, transposed, X, sums, held, out):
    """out += entries of rows first..last-1, or of the transpose, times X, padded to vectors."""
    flat, table, numbers, block = out.ravel(), sums.ravel(), X.ravel(), np.empty(64, np.uint64)
    k, lanes = out.shape[1], sums.shape[2]
    for start in range(0, X.shape[0] // 64, GROUP):
        count = _hold(signs, seen, first, last, transposed, start, held, block)
        for g in range(count):
            for column in range(0, k, lanes):
                for group in range(16):
                    at, to = (64 * (start + g) + 4 * group) * k + column, 16 * group * lanes
                    if seen is None:
                        _tabulate_signed(numbers, at, k, table, to)
                    else:
                        _tabulate_seen(numbers, at, k, table, to)
                for i in range(last - first):
                    _add(held[0, g, i], table, flat, i * k + column)
                    if seen is not None:
                        _take_off(held[1, g, i], table, flat, i * k + column)


@kernel
def _add_vector(signs, seen, first, last, transposed, x, sums, held, out):
    """The same for a single column, with a table of the 256 sums of eight entries."""
    low, zero, block = np.uint64(255), x[0] - x[0], np.empty(64, np.uint64)
    for start in range(0, len(x) // 64, GROUP):
        count = _hold(signs, seen, first, last, transposed, start, held, block)
        for g in range(count):
            for byte in range(8):
                sums[byte, 0] = zero
                for bit in range(8):
                    value = x[64 * (start + g) + 8 * byte + bit]
                    for b in range(1 << bit):
                        before = sums[byte, b]
                        sums[byte, b + (1 << bit)] = before + value
                        if seen is None:
                            sums[byte, b] = before - value
            for i in range(last - first):
                total = zero
                for byte in range(8):
                    total += sums[byte, (held[0, g, i] >> np.uint64(8 * byte)) & low]
                if seen is not None:
                    for byte in range(8):
                        total -= sums[byte, (held[1, g, i] >> np.uint64(8 * byte)) & low]
                out[i] += total
