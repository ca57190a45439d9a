"""Thin products of bits with float matrices on the CPU: terms are selected, or sums looked up.

For few columns of X, if the processor has mask registers, the bits of a word select the signs of 64
numbers that are added to 64 sums at once.

Otherwise four columns have 16 sums ``+-x0 +-x1 +-x2 +-x3``. A thread computes the sums for the 64
columns of a word, for a vector of the columns of X, 16 KB in all; then a row adds 16 of them, where
a product with a float copy takes 64 multiplications. Rows with gaps add the sum over entries +1 and
subtract the sum over entries -1.

The order of a sum does not depend on the number of threads.
"""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hopfed.kernels.bits import WORD, n_words
from hopfed.kernels.cpu.bits import load_turned
from hopfed.kernels.cpu.compiled import inner, kernel
from hopfed.kernels.cpu.threads import for_each, spans, thread_count
from hopfed.kernels.cpu.vectors import INDEX, has_mask_registers, load, operands, splat, store

SELECTED = 8 if has_mask_registers() else 0  # bytes of a row of X; twice as many if transposed
RUN = 8  # selected terms that are added before their sum is added to that of others
ROWS = 512  # of the result that share looked up sums, and stay in the cache beside them
VECTOR = 4_096  # the same of a single column, or without a table
GROUP = 8  # words of a row that are read together: a cache line
FEW = 1 << 25  # multiplications up to which no thread is started


def product(
    signs: np.ndarray, seen: np.ndarray | None, n: int, X: np.ndarray, transposed: bool
) -> np.ndarray:
    """Return ``eta X``, or ``eta^T X``, for X (rows, k) of float32 or float64, nothing empty."""
    count, width = n if transposed else len(signs), X.shape[1] * X.itemsize
    few = count * X.size <= FEW
    select = width <= SELECTED * (1 + transposed)
    most = (ROWS if X.shape[1] > 1 and not select else VECTOR) // WORD
    size = WORD * max(1, min(most, n_words(count) // (1 if few else thread_count())))
    if select:
        out, task = _selected(signs, seen, count, X, transposed)
    else:
        out, task = _looked_up(signs, seen, count, X, transposed, size)
    if few and select:
        task((0, count))
    elif few:
        for piece in spans(count, size):
            task(piece)
    else:
        for_each(task, spans(count, size))
    return out


def _selected(signs, seen, count, X, transposed):
    """The product before its entries are added, and the task that adds entries of some rows."""
    signs, turned = np.ascontiguousarray(signs), np.ascontiguousarray(X.T)
    seen = None if seen is None else np.ascontiguousarray(seen)
    out = np.zeros((X.shape[1], WORD * n_words(count)), X.dtype)

    def task(mine: tuple[int, int]) -> None:
        _add_selected(signs, seen, *mine, transposed, turned, out)

    return out[:, :count].T, task


def _looked_up(signs, seen, count, X, transposed, size):
    """The same by tables of sums."""
    (rows, k), wide = X.shape, X.shape[1] * X.itemsize > 32
    lanes = 1 if k == 1 else (64 if wide else 32) // X.itemsize
    shape = (16, 16, lanes)[: 2 + (k > 1)] + (1,) * wide  # one type for each size of a vector
    padded = np.zeros((WORD * n_words(rows), -(-k // lanes) * lanes), X.dtype)
    padded[:rows, :k] = X
    out = np.zeros((count, padded.shape[1]), X.dtype)

    def task(mine: tuple[int, int]) -> None:
        held, fours = np.empty((2, GROUP, size), np.uint64), np.empty(shape, X.dtype)
        sums = fours if k > 1 else np.empty((8, 256), X.dtype)
        place = slice(*mine)
        _add_products(signs, seen, *mine, transposed, padded, fours, sums, held, out[place])

    return out[:, :k], task


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


def _vector(context, sums):
    """LLVM type of the columns of X that have a table of sums: one, 32 bytes, or 64 bytes."""
    element = context.get_data_type(sums.dtype)
    size = 4 if isinstance(element, ir.FloatType) else 8
    return ir.VectorType(element, 1 if sums.ndim == 2 else (32 << (sums.ndim - 3)) // size)


def _tabulating(signed):
    @intrinsic
    def tabulate(_typing, X, at, stride, sums, to):
        """sums[to:] = the 16 sums of vectors of four rows of X, by which bits are set.

        A row without its bit is subtracted if `signed`, otherwise left out.
        """

        def codegen(context, builder, signature, args):
            X, at, stride, sums, to = operands(context, builder, signature, args)
            vector = _vector(context, signature.args[3])
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
        """out[at:] += or -= the sum of the entries of `sums` for all groups of four bits, or of eight for single numbers."""

        def codegen(context, builder, signature, args):
            word, sums, out, at = operands(context, builder, signature, args)
            vector, found = _vector(context, signature.args[1]), []
            bits = 8 if vector.count == 1 else 4
            for group in range(WORD // bits):
                some = builder.and_(builder.lshr(word, INDEX(bits * group)), INDEX(2**bits - 1))
                place = builder.add(some, INDEX(2**bits * group))
                found.append(load(builder, sums, builder.mul(place, INDEX(vector.count)), vector))
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
def _add_products(signs, seen, first, last, transposed, X, fours, sums, held, out):
    """out += entries of rows first..last-1, or of the transpose, times X, padded to vectors."""
    flat, numbers, block = out.ravel(), X.ravel(), np.empty(64, np.uint64)
    eights, parts = sums.ravel(), fours.ravel()
    k = out.shape[1]
    lanes = min(k, sums.size // 256)
    for start in range(0, X.shape[0] // 64, GROUP):
        count = _hold(signs, seen, first, last, transposed, start, held, block)
        for g in range(count):
            for column in range(0, k, lanes):
                for group in range(16):
                    at, to = (64 * (start + g) + 4 * group) * k + column, 16 * group * lanes
                    if seen is None:
                        _tabulate_signed(numbers, at, k, fours, to)
                    else:
                        _tabulate_seen(numbers, at, k, fours, to)
                for byte in range(8 if k == 1 else 0):
                    for b in range(256):
                        low, high = parts[32 * byte + b % 16], parts[32 * byte + 16 + b // 16]
                        eights[256 * byte + b] = low + high
                for i in range(last - first):
                    _add(held[0, g, i], sums, flat, i * k + column)
                    if seen is not None:
                        _take_off(held[1, g, i], sums, flat, i * k + column)


def _selecting(turned):
    @intrinsic
    def select(_typing, signs, seen, at, step, count, X, x_at, out, to):
        """out[to] += the entries in words at, at + step, ... times X[x_at:].

        If `turned` out[to:] += the entries of 64 columns in words of one number of X each.
        """

        def codegen(context, builder, signature, args):
            signs, seen, at, step, count, X, x_at, out, to = operands(
                context, builder, signature, args
            )
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
                    word, before = builder.add(at, builder.mul(i, step)), builder.load(run)
                    if turned:
                        x = splat(builder, load(builder, X, builder.add(x_at, i), element), vector)
                    else:
                        place = builder.add(x_at, builder.mul(i, INDEX(WORD)))
                        x = load(builder, X, place, vector)
                    up = builder.bitcast(load(builder, signs, word, INDEX), bits)
                    after = builder.fadd(before, builder.select(up, builder.fneg(x), x))
                    if signature.args[1] != types.none:
                        there = builder.bitcast(load(builder, seen, word, INDEX), bits)
                        after = builder.select(there, after, before)
                    builder.store(after, run)
                builder.store(builder.fadd(builder.load(total), builder.load(run)), total)
            whole = builder.load(total)
            while not turned and whole.type.count > 1:
                half, undefined = whole.type.count // 2, ir.Constant(whole.type, ir.Undefined)
                places = [
                    ir.Constant(
                        ir.VectorType(ir.IntType(32), half), list(range(start, start + half))
                    )
                    for start in (0, half)
                ]
                whole = builder.fadd(*(builder.shuffle_vector(whole, undefined, p) for p in places))
            store(builder, builder.fadd(load(builder, out, to, whole.type), whole), out, to)
            return context.get_dummy_value()

        n = types.intp
        return types.void(signs, seen, n, n, n, X, n, out, n), codegen

    return select


_add_row, _add_column = _selecting(False), _selecting(True)


@kernel
def _add_selected(signs, seen, first, last, transposed, X, out):
    """out[:, first:last] += entries of these rows, or of the transpose, times X, turned."""
    (m, words), (k, rows) = signs.shape, X.shape
    length = (rows + 63) // 64 * 64
    spare, flat = np.zeros(k * length + 16, X.dtype), out.ravel()
    numbers = spare[-spare.ctypes.data % 64 // X.itemsize :]  # no vector crosses a cache line
    for c in range(k):
        numbers[c * length : c * length + rows] = -X[c]
    for c in range(k):
        x, to = c * length, c * out.shape[1]
        for i in range(0 if transposed else first, 0 if transposed else last):
            _add_row(signs, seen, i * words, 1, words, numbers, x, flat, to + i)
        for row in range(0, m if transposed else 0, 64):
            count = min(64, m - row)
            for w in range(first // 64, (last + 63) // 64):
                at = row * words + w
                _add_column(signs, seen, at, words, count, numbers, x + row, flat, to + 64 * w)
