"""Compiled heart of the serial heat bath: blocks of 32 sites, several chains at a time.

The fields of a block of 32 sites are computed at once, before any of them is visited; a flip at
one site then corrects the fields of the rest of the block through the block's own 32 x 32
couplings. That is the same serial dynamics, but the products become a small matrix product whose
operands stay in registers and cache, and sites that do not flip cost one vector comparison for
all. Several chains share each block of W.
"""

from __future__ import annotations

import numpy as np

from hopfed.kernels.cpu.compiled import inner, kernel
from hopfed.kernels.cpu.draws import draw
from hopfed.kernels.cpu.vectors import (
    CHAINS,
    SITES,
    add_multiple,
    block_fields,
    take_next,
    visit_block,
)

SLOTS = 8  # chains under way at a time: as many share each block of W from the outer caches
REFRESH_EVERY = 64  # sweeps after which the running coefficients are summed afresh
CHECK_EVERY = 4  # sweeps between two looks at the score


@inner
def _sum_afresh(spins, rows, a, slot):
    """a = W^T s, summed over sites in order."""
    n, rank = rows.shape
    for k in range(rank):
        a[slot, k] = 0
    for i in range(n):
        add_multiple(spins[slot, i], rows, i * rank, a, slot * rank, rank)


@inner
def _score(a, slot, weights, n):
    total = 0.0
    for k in range(len(weights)):
        total += np.float64(weights[k]) * np.float64(a[slot, k]) * np.float64(a[slot, k])
    return total / n


@inner
def _fill_slots(
    chain, flips, spins, a, state, rows, betas, weights, stop, cold, queue, used, score, settled
):  # fmt: skip
    """Retire the chains that are done and put the next ones in their slots; return how many run."""
    n_chains, n = state.shape
    busy = 0
    for slot in range(SLOTS):
        c = chain[slot]
        if c >= 0:
            done = used[c] == betas.shape[1]
            if cold > 0 and flips[slot] == 0:
                settled[c] = done = True
            elif used[c] % CHECK_EVERY == 0:
                done = done or _score(a, slot, weights, n) > stop
            if done:
                for i in range(n):
                    state[c, i] = np.int8(spins[slot, i])
                _sum_afresh(spins, rows, a, slot)
                score[c] = _score(a, slot, weights, n)
                c = -1
            elif used[c] % REFRESH_EVERY == 0:
                _sum_afresh(spins, rows, a, slot)
        if c < 0:
            c = take_next(queue)
            if c < n_chains:
                for i in range(n):
                    spins[slot, i] = state[c, i]
                _sum_afresh(spins, rows, a, slot)
            else:
                c = -1
        chain[slot] = c
        busy += c >= 0
    return busy


@inner
def _bind(held, c, spins, slot, t, n, cold):
    """Thresholds by which no field turns a held site, and none of at most `cold` another."""
    for i in range(n):
        bound = np.float32(np.inf) if len(held) and held[c, i] else cold
        if bound > 0:
            t[slot, i] = -bound if spins[slot, i] > 0 else bound


@kernel
def run_chains(
    state, rows, columns, overlaps, diagonal, betas, lookup, k0, k1, stream, first_sweep,
    first_chain, weights, stop, cold, held, queue, used, score, settled, scratch,
):  # fmt: skip
    """Take chains from `queue` until it is empty; SLOTS of them are under way at any time.

    rows, columns, overlaps, diagonal : see `layout.Layout`.
    betas : (S, sweeps), at least one sweep.
    cold : the largest field that leaves a spin as it is, without noise; 0 with noise.
    held : (S, N) bool, or (0, 0) where no site is held.
    scratch : as made by `heatbath.scratch`.
    """
    chain, flips, beta, running, a, h, spins, t, bits, lanes = scratch
    n, n_padded, rank, r = state.shape[1], rows.shape[0], rows.shape[1], columns.shape[1]
    while _fill_slots(
        chain, flips, spins, a, state, rows, betas, weights, stop, cold, queue, used, score, settled
    ):
        for group in range(SLOTS // CHAINS):
            running[group] = False
        for slot in range(SLOTS):
            c = chain[slot]
            flips[slot] = 0
            if c < 0:
                continue
            running[slot // CHAINS] = True
            beta[slot] = betas[c, used[c]]
            if cold == 0:
                sweep, number = np.uint64(first_sweep + used[c]), np.uint64(first_chain + c)
                draw(k0, k1, stream, number, sweep, 0, lookup, bits, lanes, t, slot, n)
            if len(held) or cold > 0:
                _bind(held, c, spins, slot, t, n, cold)
        for b in range(n_padded // SITES):
            for group in range(0, SLOTS, CHAINS):
                if not running[group // CHAINS]:
                    continue
                block_fields(columns, b * r * SITES, r, a, group * rank, rank, h, 0)
                for slot in range(group, group + CHAINS):
                    if chain[slot] >= 0:
                        flips[slot] += visit_block(
                            h, (slot - group) * SITES, diagonal, spins, slot * n_padded + b * SITES,
                            b * SITES, t, beta[slot], overlaps, rows, a, slot * rank, rank,
                        )  # fmt: skip
        for slot in range(SLOTS):
            if chain[slot] >= 0:
                used[chain[slot]] += 1
