"""Compiled heart of the serial heat bath: blocks of 16 sites, four chains at a time.

The fields of a block of 16 sites are computed at once, before any of them is visited; a flip at
one site then corrects the fields of the rest of the block through the block's own 16 x 16
couplings. That is the same serial dynamics, but the products become a small matrix product whose
operands stay in registers and cache, and a site that does not flip costs a comparison. Four
chains at a time share each block of W.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hopfed.kernels.philox import philox4x32
from hopfed.kernels.vectors import CHAINS, LANES, add_multiple, block_fields, take_next

REFRESH_EVERY = 64  # sweeps after which the running coefficients are summed afresh
CHECK_EVERY = 4

_philox = njit(philox4x32)


@njit(cache=True, nogil=True)
def _draw(k0, k1, stream, chain, sweep, lookup, bits, out):  # type: ignore[no-untyped-def]
    """Fill `out` with the thresholds of one chain's sweep; eight sites to a Philox block."""
    for b in range(len(bits) // 4):
        x0, x1, x2, x3 = _philox(np.uint64(b), sweep, chain, stream, k0, k1)
        bits[4 * b] = np.uint32(x0)
        bits[4 * b + 1] = np.uint32(x1)
        bits[4 * b + 2] = np.uint32(x2)
        bits[4 * b + 3] = np.uint32(x3)
    halves = bits.view(np.uint16)
    for i in range(len(out)):
        out[i] = lookup[halves[i]]


@njit(cache=True, nogil=True)
def _refresh(s, rows, a):  # type: ignore[no-untyped-def]
    """a = W^T s, summed over sites in order."""
    a[:] = np.float32(0)
    for i in range(len(s)):
        add_multiple(np.float32(s[i]), rows[i], a)


@njit(cache=True, nogil=True)
def _score(a, weights, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(len(a)):
        total += np.float64(weights[k]) * np.float64(a[k]) * np.float64(a[k])
    return total / n


@njit(cache=True, nogil=True)
def _visit(s, h, t, overlaps, rows, a, beta, cold):  # type: ignore[no-untyped-def]
    """Visit the sites of one block in order; return the number of flips."""
    flips = 0
    for j in range(len(s)):
        field = h[j] - overlaps[j, j] * np.float32(s[j])
        up = field >= 0 if cold else beta * field > t[j]
        if up != (s[j] > 0):
            change = np.float32(2) if up else np.float32(-2)
            s[j] = -s[j]
            add_multiple(change, overlaps[j], h)
            add_multiple(change, rows[j], a)
            flips += 1
    return flips


@njit(cache=True, nogil=True)
def run_chains(
    state, rows, columns, overlaps, betas, lookup, k0, k1, stream, first_sweep, first_chain,
    weights, stop, cold, queue, used, score, settled,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Take chains from `queue` until it is empty; CHAINS of them are under way at any time.

    rows : (N', R') W, padded with zeros to multiples of LANES.
    columns : (blocks, R', LANES) the same, a block of sites transposed.
    overlaps : (blocks, LANES, LANES) couplings inside each block, diagonal included.
    """
    n_chains, n = state.shape
    sweeps, rank, n_blocks = betas.shape[1], rows.shape[1], len(columns)
    chain = np.full(CHAINS, -1, np.int64)  # which chain is in which slot, -1: none
    flips = np.zeros(CHAINS, np.int64)
    a = np.zeros((CHAINS, rank), np.float32)
    h = np.zeros((CHAINS, LANES), np.float32)
    t = np.zeros((CHAINS, n_blocks * LANES), np.float32)
    bits = np.zeros(n_blocks * LANES // 2, np.uint32)
    while True:
        busy = 0
        for slot in range(CHAINS):
            c = chain[slot]
            if c >= 0:
                done = used[c] == sweeps
                if cold and flips[slot] == 0:
                    settled[c] = done = True
                elif used[c] % CHECK_EVERY == 0 and _score(a[slot], weights, n) > stop:
                    done = True
                if done:
                    _refresh(state[c], rows, a[slot])
                    score[c] = _score(a[slot], weights, n)
                    c = -1
            while c < 0:
                c = take_next(queue)
                if c >= n_chains:
                    c = -1
                    break
                _refresh(state[c], rows, a[slot])
                if sweeps == 0:
                    score[c] = _score(a[slot], weights, n)
                    c = -1
            chain[slot] = c
            if c >= 0:
                busy += 1
                if used[c] % REFRESH_EVERY == REFRESH_EVERY - 1:
                    _refresh(state[c], rows, a[slot])
                if not cold:
                    sweep = np.uint64(first_sweep + used[c])
                    _draw(k0, k1, stream, np.uint64(first_chain + c), sweep, lookup, bits, t[slot])
                flips[slot] = 0
        if busy == 0:
            return
        for b in range(n_blocks):
            block_fields(columns[b], a, rank, h)
            first = b * LANES
            last = min(first + LANES, n)
            for slot in range(CHAINS):
                c = chain[slot]
                if c >= 0:
                    flips[slot] += _visit(
                        state[c, first:last], h[slot], t[slot, first:], overlaps[b],
                        rows[first:], a[slot], betas[c, used[c]], cold,
                    )  # fmt: skip
        for slot in range(CHAINS):
            if chain[slot] >= 0:
                used[chain[slot]] += 1
