"""Thin products of bits with float matrices on the CPU: sums of a few numbers are looked up.

Four columns have 16 sums ``+-x0 +-x1 +-x2 +-x3``. For a few columns of X, if the processor can
permute a register by another, one holds these sums, or the 8 of three columns, and gives those of
as many rows at once. Otherwise a thread computes them for the 64 columns of a word, for a vector of
the columns of X, 16 KB in all; then a row adds 16 of them, where a float copy takes 64 products.
Rows with gaps subtract the sum over entries -1. No sum depends on the number of threads.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from hopfed.kernels.bits import WORD, n_words
from hopfed.kernels.cpu.bits import load_words
from hopfed.kernels.cpu.compiled import compile_inlined, compile_kernel
from hopfed.kernels.cpu.threads import cut_range, for_each, thread_count
from hopfed.kernels.cpu.vectors import (
    FLOAT,
    INDEX,
    REGISTER,
    emitted,
    has_feature,
    load,
    shuffle,
    splat,
    store,
)

PERMUTES = {  # by bytes and number of elements: the instruction that looks up in a register
    (4, 16): "llvm.x86.avx512.permvar.sf.512",
    (8, 8): "llvm.x86.avx512.permvar.df.512",
    (4, 8): "llvm.x86.avx2.permps",
}
# Bytes of a row of X, by those of its numbers, up to which sums are looked up in registers.
WIDEST = REGISTER // 4 if has_feature("avx2") else 0
THIN = {size: WIDEST * ((size, REGISTER // size) in PERMUTES) for size in (4, 8)}
ROWS = 512  # of the result that share sums, and stay in the cache beside them
VECTOR = 2_048  # the same of a product with a vector, whose sums are of eight bits
FEW = 1 << 24  # multiplications up to which no thread is started: others would start too late


def product(
    signs: np.ndarray, seen: np.ndarray | None, n: int, X: np.ndarray, transposed: bool
) -> np.ndarray:
    """On the CPU, the thin product ``eta X``, or ``eta^T X``, X (rows, k) of floats, not empty."""
    (rows, k), width = X.shape, X.shape[1] * X.itemsize
    count = n if transposed else len(signs)
    if width <= THIN[X.itemsize]:
        turned = np.zeros((k, WORD * n_words(count)), X.dtype)
        # Rows are read by lines of 8 words, and columns far along each row, while caches hold them.
        out, most, loop = turned.T, VECTOR if transposed else ROWS, _add_permuted
        work: tuple = signs, seen, transposed, np.ascontiguousarray(X), turned
    else:
        lanes, most = (1, VECTOR) if k == 1 else ((32 if width <= 32 else 64) // X.itemsize, ROWS)
        padded = np.zeros((WORD * n_words(rows), -(-k // lanes) * lanes), X.dtype)
        padded[:rows, :k] = X
        out, loop = np.zeros((count, padded.shape[1]), X.dtype), _add_products
        vector = (0,) * lanes.bit_length()  # a type for each size of a vector
        work = signs, seen, transposed, padded, vector, out
    if count * X.size <= FEW:
        loop(*work, (0, count))
    else:
        size = WORD * max(1, min(most, count // thread_count()) // WORD)
        for_each(partial(loop, *work), cut_range(count, size))
    return out[:count, :k]


@compile_inlined
def _hold(signs, seen, first, w, transposed, held, to):
    """Write word `w` of 64 rows, or of 64 rows of the transpose, and what is seen after them."""
    row = 64 * w if transposed else first
    column = first // 64 if transposed else w
    load_words(signs, row, column, transposed, held, to)
    if seen is not None:
        load_words(seen, row, column, transposed, held, held.size // 2 + to)


def _add_up(builder, terms):
    """The sum of terms, added in pairs."""
    terms = list(terms)
    while len(terms) > 1:
        pairs = [terms[i : i + 2] for i in range(0, len(terms), 2)]
        terms = [builder.fadd(*pair) if len(pair) > 1 else pair[0] for pair in pairs]
    return terms[0]


def _subtract_others(builder, total, up, seen, look_up):
    """Total with what `look_up` finds for bits, minus that for the others that are seen, if any."""
    total = builder.fadd(total, _add_up(builder, look_up(up)))
    if seen is None:
        return total
    return builder.fsub(total, _add_up(builder, look_up(builder.and_(seen, builder.not_(up)))))


@emitted
def _tabulate(builder, X, at, stride, lanes, seen, sums, to):
    """sums[to:] = the 16 sums of vectors of four rows of X, by which bits are set.

    A row without its bit is subtracted from sums of complete rows, otherwise left out.
    """
    vector = ir.VectorType(X.type.pointee, 1 << lanes.type.count >> 1)
    places = [builder.add(at, builder.mul(stride, INDEX(i))) for i in range(4)]
    rows = [load(builder, X, place, vector) for place in places]
    none = ir.Constant(vector, [vector.element(0.0)] * vector.count)
    both = [(builder.fsub(none, x) if seen is None else none, x) for x in rows]
    pairs = [
        [builder.fadd(y, z) for z in second for y in first]
        for first, second in (both[:2], both[2:])
    ]
    for bits in range(16):
        whole = builder.fadd(pairs[0][bits % 4], pairs[1][bits // 4])
        store(builder, whole, sums, builder.add(to, INDEX(bits * vector.count)))


@emitted
def _look_up(builder, up, there, seen, lanes, sums, out, at):
    """out[at:] += what `sums` has for the bits of `up`, minus that for the others of `there`."""
    vector = ir.VectorType(out.type.pointee, 1 << lanes.type.count >> 1)
    bits = 8 if vector.count == 1 else 4

    def look_up(word):
        for group in range(WORD // bits):
            some = builder.and_(builder.lshr(word, INDEX(bits * group)), INDEX(2**bits - 1))
            place = builder.mul(builder.add(some, INDEX(group << bits)), INDEX(vector.count))
            yield load(builder, sums, place, vector)

    before, there = load(builder, out, at, vector), None if seen is None else there
    store(builder, _subtract_others(builder, before, up, there, look_up), out, at)


@compile_kernel
def _add_products(signs, seen, transposed, X, vector, out, mine):
    """out += entries of these rows, or of the transpose, times X, padded to vectors."""
    k, numbers, flat = X.shape[1], X.ravel(), out.ravel()
    lanes = 1 << len(vector) >> 1
    most, fours = (VECTOR, 2048) if lanes == 1 else (ROWS, 0)
    size = min(most, (mine[1] - mine[0] + 63) // 64 * 64)
    held, sums = np.empty(2 * size, np.uint64), np.empty(fours + 256 * lanes, X.dtype)
    for first in range(mine[0], mine[1], most):
        last = min(first + most, mine[1])
        for w in range(X.shape[0] // 64):
            for row in range(first, last, 64):
                _hold(signs, seen, row, w, transposed, held, row - first)
            for column in range(0, k, lanes):
                for group in range(16):
                    at, to = (64 * w + 4 * group) * k + column, fours + 16 * group * lanes
                    _tabulate(numbers, at, k, vector, seen, sums, to)
                for b in range(fours):  # two groups of four bits are one of eight
                    four = fours + b // 256 * 32
                    sums[b] = sums[four + b % 16] + sums[four + 16 + b // 16 % 16]
                for i in range(last - first):
                    at = (first + i) * k + column
                    _look_up(held[i], held[size + i], seen, vector, sums, flat, at)


def _register(pointer):
    """LLVM type of a register of numbers, and which of 64 have their sums, by bits, in one."""
    size = 32 if pointer.type.pointee == FLOAT else 64
    vector = ir.VectorType(pointer.type.pointee, 8 * REGISTER // size)
    bits = 4 if vector.count == 16 else 3
    return vector, [
        range(first, min(first + bits, start + size))
        for start in range(0, WORD, size)
        for first in range(start, start + size, bits)
    ]


@emitted
def _tabulate_word(builder, X, at, stride, seen, sums, to):
    """sums[to:] = vectors of the sums, as by `_tabulate`, of groups of 64 rows of X."""
    vector, groups = _register(X)
    none = ir.Constant(vector, [vector.element(0.0)] * vector.count)
    for group, numbers in enumerate(groups):
        terms = []
        for bit, i in enumerate(numbers):
            place = builder.add(at, builder.mul(stride, INDEX(i)))
            x = splat(builder, load(builder, X, place, vector.element), vector)
            lanes = [lane >> bit & 1 for lane in range(vector.count)]
            which = ir.Constant(ir.VectorType(ir.IntType(1), vector.count), lanes)
            terms.append(builder.select(which, x, builder.fneg(x) if seen is None else none))
        place = builder.add(to, INDEX(group * vector.count))
        store(builder, _add_up(builder, terms), sums, place)


@emitted
def _permute(builder, held, at, seen, sums, there, out, to):
    """out[to:] += for a vector of words held[at:], what the sums from `there` have for its bits."""
    vector, groups = _register(out)
    lanes, size = vector.count, 8 * REGISTER // vector.count
    part, whole = ir.VectorType(ir.IntType(size), lanes), ir.VectorType(INDEX, lanes)
    form, name = ir.FunctionType(vector, [vector, part]), PERMUTES[size // 8, lanes]
    permute = cgutils.get_or_insert_function(builder.module, form, name)

    def look_up(word):
        parts = builder.bitcast(word, ir.VectorType(part.element, lanes * WORD // size))
        for group, (first, *_) in enumerate(groups):
            bits = shuffle(builder, parts, range(first // size, lanes * WORD // size, WORD // size))
            bits = builder.lshr(bits, ir.Constant(part, [first % size] * lanes))
            table = load(builder, sums, builder.add(there, INDEX(group * lanes)), vector)
            yield builder.call(permute, [table, bits])

    up, before = load(builder, held, at, whole), load(builder, out, to, vector)
    if seen is not None:
        seen = load(builder, held, builder.add(at, INDEX(WORD)), whole)
    store(builder, _subtract_others(builder, before, up, seen, look_up), out, to)


@compile_kernel
def _add_permuted(signs, seen, transposed, X, out, mine):
    """out[:, first:last] += entries of these rows, or of the transpose, times X."""
    (rows, k), length = X.shape, out.shape[1]
    lanes, whole, words = REGISTER // X.itemsize, rows // 64, (rows + 63) // 64
    size = lanes * (16 if lanes == 16 else 22)
    spare = np.empty(8 * k * size + 16, X.dtype)
    sums = spare[-spare.ctypes.data % 64 // X.itemsize :]  # no vector crosses a cache line
    rest, flat, held = np.zeros((64, k), X.dtype), out.ravel(), np.empty(128, np.uint64)
    rest[: rows - 64 * whole] = X[64 * whole :]
    for start in range(0, words, 8):  # the words of a cache line
        stop = min(start + 8, words)
        for c in range(k):
            for w in range(start, stop):
                place = (8 * c + w - start) * size
                if w < whole:
                    _tabulate_word(X, 64 * w * k + c, k, seen, sums, place)
                else:
                    _tabulate_word(rest, c, k, seen, sums, place)
        for row in range(mine[0], mine[1], 64):
            for w in range(start, stop):
                _hold(signs, seen, row, w, transposed, held, 0)
                for c in range(k):
                    place, to = (8 * c + w - start) * size, c * length + row
                    for i in range(0, 64, lanes):
                        _permute(held, i, seen, sums, place, flat, to + i)
