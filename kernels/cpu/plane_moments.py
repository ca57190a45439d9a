"""Compiled strip of a Gram matrix of entries -1, 0 and +1, each of two planes of bits.

For the signs u, u' of two rows and what is hidden in them, h and h', take p = u ^ u', the signs
that differ, and q = ~(p ^ (h | h')). Where both entries are seen q is the complement of p, the
signs that agree; elsewhere it is the same, whatever the signs are there. So, counting bits,
``<x, x'> = |q| - |p|``: twice the work of complete rows, and no register more for each pair.

Where carries are counted (`moments`), q and the complement of p are added up, which differ in
h | h'; the complements of all bits are taken off in the end. There the rows of the left are copied
with the complement of their signs.
"""

# ruff: noqa: ARG001  (the arguments of an intrinsic are types; the values come to its codegen)

import numpy as np
from numba import types
from numba.extending import intrinsic

from hopfed.kernels.cpu.compiled import inner, kernel
from hopfed.kernels.cpu.moments import (
    COUNTED,
    LANES,
    LEFT,
    RIGHT,
    TILE,
    WORDS,
    add_totals,
    count_carries,
    count_words,
    load_rows,
    registers,
)
from hopfed.kernels.cpu.vectors import INDEX, operands

ADDED = 0 if COUNTED else 64  # bits counted for each word beyond the inner product


@intrinsic
def _add_products(_typing, a, a_at, a_next, b, b_at, b_next, stride, length, counts, at):
    """counts[at + TILE i + j] += inner product of row i < LEFT of `a` and j < RIGHT of `b`.

    To each are added ADDED for every word. Rows are as `_copy` leaves them, `stride` words apart,
    `length`, a multiple of WORDS, long, and their second planes a_next and b_next after the first.
    """

    def codegen(context, builder, signature, args):
        a, a_at, a_next, b, b_at, b_next, stride, length, counts, at = operands(
            context, builder, signature, args
        )

        def rows(step):
            """Signs and what is hidden, of the left, then of the right."""
            for base, start, after, count in ((a, a_at, a_next, LEFT), (b, b_at, b_next, RIGHT)):
                for plane in (start, builder.add(start, after)):
                    yield load_rows(builder, base, plane, stride, step, count)

        def counted(step):
            signs, hidden, others, hidden_there = rows(step)

            def pair(i, j):
                differ = builder.xor(signs[i], others[j])
                either = builder.or_(hidden[i], hidden_there[j])
                return [(-1, differ), (1, builder.not_(builder.xor(differ, either)))]

            return pair

        def carried(step):
            halves = [tuple(rows(builder.add(step, INDEX(k * LANES)))) for k in range(2)]

            def pair(i, j):
                for signs, hidden, others, hidden_there in halves:
                    agree = builder.xor(signs[i], others[j])
                    yield agree, builder.or_(hidden[i], hidden_there[j])

            return pair

        totals = registers(builder, INDEX)
        if COUNTED:
            count_words(builder, counted, length, totals)
        else:
            count_carries(builder, carried, 2 * LANES, length, totals)
        add_totals(builder, totals, counts, at)
        return context.get_dummy_value()

    n = types.intp
    return types.void(a, n, n, b, n, n, n, n, counts, n), codegen


@inner
def _copy(signs, seen, first, last, lo, hi, group, turned, out):
    """Copy words lo..hi-1 of some rows; nothing seen up to whole steps and whole groups of rows.

    turned : whether the complement of the signs is copied.
    """
    nothing = ~np.uint64(0)
    turn = nothing if turned else np.uint64(0)
    width = (hi - lo + WORDS - 1) // WORDS * WORDS
    for i in range((last - first + group - 1) // group * group):
        there = hi - lo if i < last - first else 0
        for w in range(there):
            out[0, i, w] = signs[first + i, lo + w] ^ turn
        for w in range(there):
            out[1, i, w] = ~seen[first + i, lo + w]
        for w in range(there, width):
            out[0, i, w] = 0
            out[1, i, w] = nothing
    return width


@kernel
def add_strip(a, a_seen, i0, i1, b, b_seen, j1, lower, out, x, y, counts):
    """Add to out[i0:i1, :j1] the inner products of those rows of `a` and `b`.

    lower : whether tiles above the diagonal are left out; i0 is a multiple of TILE then.
    x, y, counts : as made by `moments.work_spaces` for two planes, x for i1 - i0 rows.
    """
    stride = x.shape[2]
    for lo in range(0, a.shape[1], stride):
        hi = min(lo + stride, a.shape[1])
        width = _copy(a, a_seen, i0, i1, lo, hi, LEFT, not COUNTED, x)
        for j0 in range(0, j1, TILE):
            across = min(TILE, j1 - j0)
            _copy(b, b_seen, j0, j0 + across, lo, hi, RIGHT, False, y)
            for top in range(max(j0 - i0, 0) if lower else 0, i1 - i0, TILE):
                down = min(TILE, i1 - i0 - top)
                _count_tile(x, top, down, y, across, width, counts)
                for i in range(down):
                    for j in range(across):
                        total = counts[i, j] - ADDED * width
                        out[i0 + top + i, j0 + j] += np.int32(total)


@inner
def _count_tile(x, top, down, y, across, width, counts):
    """Inner products of `down` rows of x from `top` on and `across` rows of y, into counts."""
    stride = x.shape[2]
    x_next, y_next = x.shape[1] * stride, y.shape[1] * stride
    for i in range(TILE):
        for j in range(TILE):
            counts[i, j] = 0
    for i in range(0, down, LEFT):
        for j in range(0, across, RIGHT):
            at, counted = (top + i) * stride, i * TILE + j
            _add_products(x, at, x_next, y, j * stride, y_next, stride, width, counts, counted)
