"""Compiled loop of the serial heat bath: blocks of 32 sites, several chains at a time.

The fields of a block of 32 sites are computed together, before any of the sites is visited; a flip
then corrects the fields of the rest of the block through the block's own 32 x 32 couplings. The
serial dynamics are the same, but the products become a small matrix product whose operands stay in
registers and cache, and all sites that do not flip take one vector comparison together. Several
chains share each block of W.
"""

from __future__ import annotations

import numpy as np

from hopfed.kernels.coupling import SITES, lay_out
from hopfed.kernels.cpu.compiled import compile_inner, compile_kernel
from hopfed.kernels.cpu.threads import cut_range, for_each, thread_count
from hopfed.kernels.cpu.vectors import CHAINS, add_multiple, block_fields, draw_row, visit_block
from hopfed.kernels.philox import threshold_table

SLOTS = 8  # chains that run at a time and share each block of W from the outer caches
REFRESH_EVERY = 64  # sweeps after which the running coefficients are recomputed
CHECK_EVERY = 4  # sweeps between two checks of the score


def run_chains(
    state: np.ndarray, W: np.ndarray, betas: np.ndarray, counters: tuple, weights: np.ndarray,
    stop: float, held: np.ndarray, cold: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Heat bath on the CPU: prepare W for the compiled loop and run it on all cores."""
    state = state.copy()
    used = np.zeros(len(state), np.int64)
    settled = np.zeros(len(state), np.bool_)
    if betas.size == 0:
        return state, used, settled
    layout = lay_out(W)
    padded_weights = np.zeros(layout.rows.shape[1], np.float32)
    padded_weights[: len(weights)] = weights
    lookup = threshold_table().copy()  # writable, the type for which the loops are compiled

    def task(span: tuple[int, int]) -> None:
        _run_chains(
            *span, state, *layout, betas, lookup, *counters, padded_weights,
            np.float32(stop), np.float32(cold), held, used, settled, _scratch(layout.rows.shape),
        )  # fmt: skip

    for_each(task, cut_range(len(state), -(-len(state) // thread_count())))
    return state, used, settled


def _scratch(shape: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Work space of one thread for a factor padded to `shape`, with SLOTS running chains.

    (chain in each slot or -1, flips, beta, coefficients, fields, spins, thresholds, draws, draws
    as 16-bit numbers). Padded sites are up, have no field and threshold
    0, or below 0 at zero temperature: they never flip.
    """
    n, rank = shape
    bits = np.zeros(n // 2, np.uint32)
    return (
        np.full(SLOTS, -1, np.int64),
        np.zeros(SLOTS, np.int64),
        np.zeros(SLOTS, np.float32),
        np.zeros((SLOTS, rank), np.float32),
        np.zeros((CHAINS, SITES), np.float32),
        np.ones((SLOTS, n), np.float32),
        np.zeros((SLOTS, n), np.float32),
        bits,
        bits.view(np.uint16),
    )


@compile_inner
def _sum_afresh(spins, rows, a, slot):
    """a = W^T s, summed over sites in order."""
    n, rank = rows.shape
    for k in range(rank):
        a[slot, k] = 0
    for i in range(n):
        add_multiple(spins[slot, i], rows, i * rank, a, slot * rank, rank)


@compile_inner
def _score(a, slot, weights, n):
    total = 0.0
    for k in range(len(weights)):
        total += np.float64(weights[k]) * np.float64(a[slot, k]) * np.float64(a[slot, k])
    return total / n


@compile_inner
def _fill_slots(
    chain, following, last, flips, spins, a, state, rows, betas, weights, stop, cold, used, settled
):  # fmt: skip
    """Put new chains in slots of finished ones; return the next chain and the number running."""
    n = state.shape[1]
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
                c = -1
            elif used[c] % REFRESH_EVERY == 0:
                _sum_afresh(spins, rows, a, slot)
        if c < 0 and following < last:
            c, following = following, following + 1
            for i in range(n):
                spins[slot, i] = state[c, i]
            _sum_afresh(spins, rows, a, slot)
        chain[slot] = c
        busy += c >= 0
    return following, busy


@compile_inner
def _bind(held, c, spins, slot, t, n, cold):
    """Set thresholds that keep held sites at any field, and others at a field up to `cold`."""
    for i in range(n):
        bound = np.float32(np.inf) if len(held) and held[c, i] else cold
        if bound > 0:
            t[slot, i] = -bound if spins[slot, i] > 0 else bound


@compile_kernel
def _run_chains(
    following, last, state, rows, columns, overlaps, diagonal, betas, lookup, k0, k1,
    first_sweep, weights, stop, cold, held, used, settled, scratch,
):  # fmt: skip
    """Run chains following..last-1, at most SLOTS at a time.

    rows, columns, overlaps, diagonal : see `layout.Layout`.
    betas : (S, sweeps), at least one sweep.
    cold : without noise, the largest field that leaves a spin unchanged; 0 with noise.
    held : (S, N) bool, or (0, 0) if no site is held.
    scratch : as made by `_scratch`.
    """
    chain, flips, beta, a, h, spins, t, bits, lanes = scratch
    n, n_padded, rank, r = state.shape[1], rows.shape[0], rows.shape[1], columns.shape[1]
    while True:
        following, busy = _fill_slots(
            chain, following, last, flips, spins, a, state, rows, betas, weights, stop, cold, used,
            settled,
        )  # fmt: skip
        if not busy:
            break
        for slot in range(SLOTS):
            c = chain[slot]
            flips[slot] = 0
            if c < 0:
                continue
            beta[slot] = betas[c, used[c]]
            if cold == 0:
                sweep = np.uint64(first_sweep + used[c])
                draw_row(k0, k1, np.uint64(c), sweep, 0, lookup, bits, lanes, t, slot, n)
            if len(held) or cold > 0:
                _bind(held, c, spins, slot, t, n, cold)
        for b in range(n_padded // SITES):
            for group in range(0, SLOTS, CHAINS):
                if chain[group : group + CHAINS].max() < 0:
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
