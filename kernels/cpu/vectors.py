"""Bit counts and explicit float32 vectors for Numba, which has neither, and draws.

LLVM lowers a long vector to the registers of the machine (16, 8 or 4 floats), and the
order of the operations is fixed here, so that results do not depend on the grouping of work.
Operands are C-contiguous arrays, float32 unless stated otherwise, each with an offset into its
elements: slices would count references on each call, which takes longer than the arithmetic.
"""

from __future__ import annotations

from functools import partial, update_wrapper

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils, config
from numba.extending import intrinsic

from hopfed.kernels.coupling import LANES, SITES
from hopfed.kernels.cpu.compiled import compile_inner
from hopfed.kernels.philox import philox4x32

CHAINS = 4  # chains whose fields are computed together: CHAINS x SITES sums hide the latency
FLOAT = ir.FloatType()
BYTE = ir.IntType(8)
INDEX = ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)  # along the coefficients
SPINS = ir.VectorType(FLOAT, SITES)  # along the sites of a block
BYTES = ir.VectorType(BYTE, SITES)
NOTHING = ir.Constant(SPINS, [0.0] * SITES)


def has_feature(name: str) -> bool:
    """Whether Numba compiles vectors for a feature: "avx512f" has more registers, and masks."""
    given = config.CPU_FEATURES  # empty for a generic processor
    return f"+{name}" in (binding.get_host_cpu_features().flatten() if given is None else given)


REGISTER = 64 if has_feature("avx512f") else 32  # bytes of the widest vectors

# Numbers summed together for each chain: CHAINS of them fill half of the registers, and the
# operands fit in the other half.
PART = ir.VectorType(FLOAT, SITES if has_feature("avx512f") else SITES // 2)


def emitted(emit, result=types.void):
    """Numba's intrinsic for vectors, whose code in LLVM ``emit(builder, *operands)`` writes.

    Of an array it gets the pointer to its data, of None None; numbers are int64 or float32.
    """

    def typed(_typing, *given):
        number = {True: types.intp, False: types.float32}
        kinds = [
            number[isinstance(kind, types.Integer)] if isinstance(kind, types.Number) else kind
            for kind in map(types.unliteral, given)
        ]

        def write(context, builder, _, values):
            operands: list = list(values)
            for i, kind in enumerate(kinds):
                if isinstance(kind, types.Array):
                    operands[i] = context.make_array(kind)(context, builder, values[i]).data
                elif kind == types.none:
                    operands[i] = None
            found = emit(builder, *operands)
            return context.get_dummy_value() if found is None else found

        return result(*kinds), write

    return intrinsic(update_wrapper(typed, emit))


def _at(builder, base, offset, kind):
    """Pointer to a value of type `kind`, `offset` of its elements after `base`."""
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    address = builder.gep(base, [offset], source_etype=element)
    return builder.bitcast(address, ir.PointerType(kind))


def load(builder, base, offset, kind):
    """Vector, or number, of type `kind` at `offset` elements after `base`."""
    align = 1 if getattr(kind, "element", kind) == BYTE else 4  # at most the alignment of arrays
    return builder.load(_at(builder, base, offset, kind), typ=kind, align=align)


def store(builder, value, base, offset):
    """Store `value`, a vector or number, at `offset` elements after `base`."""
    align = 1 if getattr(value.type, "element", value.type) == BYTE else 4
    builder.store(value, _at(builder, base, offset, value.type), align=align)


def shuffle(builder, vector, lanes, other=None):
    """Vector of these lanes of a vector, continued by another of its type."""
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
    return builder.shuffle_vector(vector, other or ir.Constant(vector.type, ir.Undefined), lanes)


def splat(builder, value, kind):
    """Vector of type `kind` with all elements equal to `value`."""
    first = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(first, value, ir.IntType(32)(0))
    return shuffle(builder, first, [0] * kind.count)


def _multiply_add(builder, x, y, z):
    kind = ir.FunctionType(z.type, [z.type] * 3)
    name = f"llvm.fmuladd.v{z.type.count}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [x, y, z])


@emitted
def block_fields(builder, w, w_at, rank, a, a_at, stride, h, h_at):
    """By vectors, h[c, j] = sum_k a[c, k] w[k, j], c < CHAINS, j < SITES, k < rank, in order of k.

    Rows of w have SITES elements, rows of `a` have `stride`.
    """
    sums = [cgutils.alloca_once(builder, PART) for _ in range(CHAINS)]
    with cgutils.for_range(builder, INDEX(SITES // PART.count)) as part:
        first = builder.mul(part.index, INDEX(PART.count))
        for cell in sums:
            builder.store(ir.Constant(PART, [0.0] * PART.count), cell)
        with cgutils.for_range(builder, rank) as loop:
            k = loop.index
            at = builder.add(first, builder.mul(k, INDEX(SITES)))
            column = load(builder, w, builder.add(w_at, at), PART)
            for c, cell in enumerate(sums):
                at = builder.add(a_at, builder.add(builder.mul(stride, INDEX(c)), k))
                x = splat(builder, load(builder, a, at, FLOAT), PART)
                total = _multiply_add(builder, x, column, builder.load(cell, typ=PART))
                builder.store(total, cell)
        for c, cell in enumerate(sums):
            at = builder.add(h_at, builder.add(first, INDEX(c * SITES)))
            store(builder, builder.load(cell, typ=PART), h, at)


@emitted
def add_block(builder, s, s_at, w, w_at, a, a_at, rank):
    """By vectors, a[c, k] += sum_j s[c, j] w[j, k] for c < CHAINS, j < SITES and k < rank.

    The counterpart of `block_fields`: the contribution of one block of sites to W^T s. The terms
    are added to a[c, k] in order of j, as by `add_multiple`; rank is a multiple of LANES.
    """

    def add_columns(start, vectors):
        """Add to `vectors` vectors of each row of `a`, from column `start`."""
        home, sums = [], []
        for c in range(CHAINS):
            row = builder.add(a_at, builder.add(builder.mul(rank, INDEX(c)), start))
            home.append([builder.add(row, INDEX(v * LANES)) for v in range(vectors)])
            sums.append([cgutils.alloca_once(builder, VECTOR) for _ in range(vectors)])
            for at, cell in zip(home[c], sums[c], strict=True):
                builder.store(load(builder, a, at, VECTOR), cell)
        with cgutils.for_range(builder, INDEX(SITES)) as loop:
            row = builder.add(w_at, builder.add(builder.mul(loop.index, rank), start))
            steps = [builder.add(row, INDEX(v * LANES)) for v in range(vectors)]
            terms = [load(builder, w, at, VECTOR) for at in steps]
            for c in range(CHAINS):
                at = builder.add(s_at, builder.add(INDEX(c * SITES), loop.index))
                x = splat(builder, load(builder, s, at, FLOAT), VECTOR)
                for term, cell in zip(terms, sums[c], strict=True):
                    old = builder.load(cell, typ=VECTOR)
                    builder.store(_multiply_add(builder, x, term, old), cell)
        for c in range(CHAINS):
            for at, cell in zip(home[c], sums[c], strict=True):
                store(builder, builder.load(cell, typ=VECTOR), a, at)

    together = PART.count // LANES
    wholes = builder.udiv(rank, INDEX(PART.count))
    with cgutils.for_range(builder, wholes) as loop:
        add_columns(builder.mul(loop.index, INDEX(PART.count)), together)
    if together > 1:
        rest = builder.mul(wholes, INDEX(PART.count))
        with builder.if_then(builder.icmp_signed("<", rest, rank)):
            add_columns(rest, 1)


def _add_multiple(builder, factor, x, x_at, y, y_at, length):
    """By vectors, y += factor * x over `length` elements, a multiple of LANES."""
    factor = splat(builder, factor, VECTOR)
    with cgutils.for_range(builder, builder.udiv(length, INDEX(LANES))) as loop:
        step = builder.mul(loop.index, INDEX(LANES))
        to = builder.add(y_at, step)
        term = load(builder, x, builder.add(x_at, step), VECTOR)
        store(builder, _multiply_add(builder, factor, term, load(builder, y, to, VECTOR)), y, to)


add_multiple = emitted(_add_multiple)


@partial(emitted, result=types.uint64)
def update_block(builder, h, h_at, d, d_at, spins, cue, s_at, t, t_at, beta, field):
    """By vectors, update the spins of one block in one layer, all at once.

    A spin is up when beta * (h - d * spins + field * cue) is at least t; spins and cue are int8.
    The fields h are replaced by the changes of the spins; returns a bit mask of changed spins.
    """
    old = load(builder, spins, s_at, BYTES)
    spin = builder.sitofp(old, SPINS)
    given = builder.sitofp(load(builder, cue, s_at, BYTES), SPINS)
    own = builder.fmul(load(builder, d, d_at, SPINS), spin)
    total = builder.fsub(load(builder, h, h_at, SPINS), own)
    total = builder.fadd(total, builder.fmul(splat(builder, field, SPINS), given))
    scaled = builder.fmul(splat(builder, beta, SPINS), total)
    up = builder.fcmp_ordered(">=", scaled, load(builder, t, t_at, SPINS))
    ones, minus = ir.Constant(BYTES, [1] * SITES), ir.Constant(BYTES, [-1] * SITES)
    new = builder.select(up, ones, minus)
    store(builder, new, spins, s_at)
    store(builder, builder.fsub(builder.sitofp(new, SPINS), spin), h, h_at)
    changed = builder.bitcast(builder.icmp_signed("!=", new, old), ir.IntType(SITES))
    return builder.zext(changed, INDEX)


@partial(emitted, result=types.int64)
def popcount(builder, bits):
    """Bit count for Numba, beside its vectors: number of set bits of a uint64."""
    return builder.ctpop(bits)


@partial(emitted, result=types.intp)
def visit_block(builder, h, h_at, d, s, s_at, site, t, beta, overlaps, w, a, a_at, rank):
    """By vectors, update spins s[s_at:] of one block serially, in the order of sites from `site`.

    A spin is up when beta * (h - d * s) is at least t, with h the fields (from h_at) before the
    first update. All sites are compared at once; the first site that differs from its spin is
    flipped, its row of `overlaps` corrects the fields, and the sites after it are compared again.
    Its row of w is also added to the coefficients a[a_at:]. Returns the number of flips.
    """
    whole = ir.IntType(SITES)
    spin, limit = load(builder, s, s_at, SPINS), load(builder, t, s_at, SPINS)
    beta = splat(builder, beta, SPINS)
    own = builder.fmul(load(builder, d, site, SPINS), spin)
    before = builder.bitcast(builder.fcmp_ordered(">", spin, NOTHING), whole)

    def differing(field):
        up = builder.fcmp_ordered(">=", builder.fmul(beta, field), limit)
        return builder.xor(builder.bitcast(up, whole), before)

    field = builder.fsub(load(builder, h, h_at, SPINS), own)
    field_cell = cgutils.alloca_once_value(builder, field)
    wants_cell = cgutils.alloca_once_value(builder, differing(field))
    flips_cell = cgutils.alloca_once_value(builder, INDEX(0))
    head = builder.append_basic_block("visit.head")
    body = builder.append_basic_block("visit.body")
    done = builder.append_basic_block("visit.done")
    builder.branch(head)
    builder.position_at_end(head)
    wants = builder.load(wants_cell, typ=whole)
    builder.cbranch(builder.icmp_unsigned("!=", wants, whole(0)), body, done)
    builder.position_at_end(body)
    lowest = builder.cttz(wants, ir.IntType(1)(1))
    j = builder.zext(lowest, INDEX)
    was_up = builder.trunc(builder.lshr(before, lowest), ir.IntType(1))
    store(builder, builder.select(was_up, FLOAT(-1.0), FLOAT(1.0)), s, builder.add(s_at, j))
    change = builder.select(was_up, FLOAT(-2.0), FLOAT(2.0))
    row = builder.mul(builder.add(site, j), INDEX(SITES))
    couplings = load(builder, overlaps, row, SPINS)
    field = builder.load(field_cell, typ=SPINS)
    field = _multiply_add(builder, splat(builder, change, SPINS), couplings, field)
    builder.store(field, field_cell)
    after = builder.shl(whole(-2), lowest)
    builder.store(builder.and_(differing(field), after), wants_cell)
    flips = builder.add(builder.load(flips_cell, typ=INDEX), INDEX(1))
    builder.store(flips, flips_cell)
    w_at = builder.mul(builder.add(site, j), rank)
    _add_multiple(builder, change, w, w_at, a, a_at, rank)
    builder.branch(head)
    builder.position_at_end(done)
    return builder.load(flips_cell, typ=INDEX)


# Inlined as source, so that LLVM sees one loop and computes eight Philox blocks at a time.
_philox = njit(philox4x32, inline="always")


@compile_inner
def draw_row(k0, k1, chain, sweep, first, lookup, bits, lanes, t, row, n):
    """By vectors, fill t[row, :n] with a chain's thresholds from site `first`, a multiple of 8."""
    blocks = (n + 7) // 8
    start = np.uint64(first // 8)
    for b in range(blocks):
        x0, x1, x2, x3 = _philox(start + np.uint64(b), sweep, chain, np.uint64(0), k0, k1)
        bits[4 * b] = np.uint32(x0)
        bits[4 * b + 1] = np.uint32(x1)
        bits[4 * b + 2] = np.uint32(x2)
        bits[4 * b + 3] = np.uint32(x3)
    for i in range(n):
        t[row, i] = lookup[lanes[i]]
