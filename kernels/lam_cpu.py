"""Compiled updates of the layered memory: fields, noise, signs and new coefficients in one pass.

A synchronous update streams once over W: for each block of 32 sites it takes the fields of four
layers, decides the spins, and adds their changes to the next coefficients while the block is in
the first-level cache. Nothing of the size of the state is written but the spins themselves.
"""

from __future__ import annotations

import numpy as np
from hopfed.kernels.draws_cpu import draw
from hopfed.kernels.vectors import (
    CHAINS,
    SITES,
    add_block,
    add_multiple,
    block_fields,
    lowest_bit,
    popcount,
    update_block,
    widen,
)
from numba import njit

PIECE = 512  # sites whose draws are made at a time
MANY = 40  # flips among the spins of CHAINS x SITES above which all are added alike
REFRESH_EVERY = 64  # updates after which the running coefficients are summed afresh


@njit(cache=True, nogil=True)
def _load(state, cue, start, stop, field, spins, cues):
    """Copy blocks start..stop-1 and their cues into padded scratch, one layer to a row."""
    n_layers, n = state.shape[1:]
    for s in range(start, stop):
        for layer in range(n_layers):
            row = (s - start) * n_layers + layer
            spins[row, :n] = state[s, layer]
            if field != 0:
                cues[row, :n] = cue[min(s, cue.shape[0] - 1), min(layer, cue.shape[1] - 1)]


@njit(cache=True, nogil=True)
def _sum_afresh(spins, rows, a, h):
    """a = W^T s for all rows of `spins`."""
    n, rank = rows.shape
    a[:] = np.float32(0)
    for site in range(0, n, SITES):
        for group in range(0, len(a), CHAINS):
            for c in range(CHAINS):
                widen(spins, (group + c) * n + site, h, c * SITES)
            add_block(h, rows, site * rank, a, group * rank, rank)


@njit(cache=True, nogil=True)
def _overlaps(a, first, n_layers, q):
    """q = A A^T for the layers in rows first.. of `a`."""
    for u in range(n_layers):
        for v in range(u + 1):
            total = 0.0
            for k in range(a.shape[1]):
                total += np.float64(a[first + u, k]) * np.float64(a[first + v, k])
            q[u, v] = q[v, u] = total


@njit(cache=True, nogil=True)
def _mix(a, first, n_layers, n, quadratic, repulsion, q, c):
    """Coefficients of the fields of one block, (6) or (9)-(11)."""
    _overlaps(a, first, n_layers, q)
    for u in range(n_layers):
        c[first + u] = a[first + u]
        for v in range(n_layers):
            if v != u:
                factor = np.float32(repulsion * q[u, v] / n if quadratic else repulsion)
                for k in range(a.shape[1]):
                    c[first + u, k] -= factor * a[first + v, k]


@njit(cache=True, nogil=True)
def _finish(
    s, first, a, q, spins, cues, quadratic, repulsion, field, state, energy, score
):  # fmt: skip
    """Write out the spins, the energy and the scores of block s, held in rows first.. ."""
    n_layers, n = state.shape[1:]
    _overlaps(a, first, n_layers, q)
    total = 0.0
    for u in range(n_layers):
        state[s, u] = spins[first + u, :n]
        score[s, u] = q[u, u] / n
        total -= q[u, u]
        for v in range(n_layers):
            if v != u:
                total += repulsion * (q[u, v] * q[u, v] / n if quadratic else q[u, v])
        if field != 0:
            along = 0
            for i in range(n):
                along += int(spins[first + u, i]) * int(cues[first + u, i])
            total -= field * along
    energy[s] = total


@njit(cache=True, nogil=True)
def _draw_piece(
    counters, row, chain, update, site, n, lookup, bits, t
):  # fmt: skip
    """Thresholds of one row for the sites from `site`; 0 beyond the last, where spins stay up."""
    k0, k1, stream = counters
    count = min(PIECE, n - site)
    draw(k0, k1, stream, np.uint64(chain), np.uint64(update), site, lookup, bits, t, row, count)
    t[row, count:] = np.float32(0)


@njit(nogil=True, forceinline=True)  # its many arrays are costly to pass
def _step_piece(
    site, stop, m, n_layers, columns, rows, d, c, a, h, spins, cues, t, beta, field, flips
):  # fmt: skip
    """Update the spins of sites site..stop-1 in all rows, and `a` by their changes."""
    n, rank = rows.shape
    r = columns.shape[1]
    masks = np.zeros(CHAINS, np.uint64)
    for i in range(site, stop, SITES):
        for group in range(0, len(a), CHAINS):
            block_fields(columns, i * r, r, c, group * rank, rank, h, 0)
            total = 0
            for row in range(group, min(group + CHAINS, m)):
                masks[row - group] = update_block(
                    h, (row - group) * SITES, d, i, spins, cues, row * n + i,
                    t, row * PIECE + i - site, beta, field,
                )  # fmt: skip
                count = np.int64(popcount(masks[row - group]))
                flips[row // n_layers] += count
                total += count
            if total > MANY:
                add_block(h, rows, i * rank, a, group * rank, rank)
            elif total > 0:
                for row in range(group, min(group + CHAINS, m)):
                    mask = masks[row - group]
                    while mask:
                        j = lowest_bit(mask)
                        mask &= mask - np.uint64(1)
                        change = h[row - group, j]
                        add_multiple(change, rows, (i + j) * rank, a, row * rank, rank)


@njit(cache=True, nogil=True)
def step_blocks(
    start, stop, state, energy, changed, score, used, cue, rows, columns, _overlap, diagonal,
    betas, lookup, level, still, k0, k1, stream, first_update, first_chain, quadratic,
    repulsion, field, self_field,
):  # fmt: skip
    """Synchronous updates of blocks start..stop-1; see `lam.lam_step` for the arguments."""
    n_layers, n = state.shape[1:]
    n_padded, rank = rows.shape
    m = (stop - start) * n_layers
    m_padded = (m + CHAINS - 1) // CHAINS * CHAINS
    spins = np.ones((m_padded, n_padded), np.int8)
    cues = np.zeros((m_padded, n_padded), np.int8)
    a, c = np.zeros((m_padded, rank), np.float32), np.zeros((m_padded, rank), np.float32)
    h = np.zeros((CHAINS, SITES), np.float32)
    t = np.zeros((m_padded, PIECE), np.float32)
    bits = np.zeros(PIECE // 2, np.uint32)
    q = np.zeros((n_layers, n_layers))
    flips = np.zeros(stop - start, np.int64)
    d = np.zeros_like(diagonal) if self_field else diagonal
    _load(state, cue, start, stop, field, spins, cues)
    for update in range(len(betas)):
        if update % REFRESH_EVERY == 0:
            _sum_afresh(spins, rows, a, h)
        for s in range(stop - start):
            _mix(a, s * n_layers, n_layers, n, quadratic, repulsion, q, c)
        flips[:] = 0
        for site in range(0, n_padded, PIECE):
            for row in range(m):
                _draw_piece(
                    (k0, k1, stream), row, first_chain + start * n_layers + row,
                    first_update + update, site, n, lookup[level[update]], bits, t,
                )  # fmt: skip
            _step_piece(
                site, min(site + PIECE, n_padded), m, n_layers, columns, rows, d, c, a, h,
                spins, cues, t, betas[update], np.float32(field), flips,
            )  # fmt: skip
        used[start:stop] += 1
        if still[update] and flips.max() == 0:
            break
    changed[start:stop] = flips
    for s in range(start, stop):
        _finish(
            s, (s - start) * n_layers, a, q, spins, cues, quadratic, repulsion, field,
            state, energy, score,
        )  # fmt: skip


@njit(nogil=True, forceinline=True)
def _sweep_site(
    j, i, site, n_layers, n, overlaps, rows, d, a, h, q, spins, cues, t, beta, quadratic,
    repulsion, field,
):  # fmt: skip
    """Visit the layers of site i, the j-th of its block, in order; return the number of flips.

    h holds the fields W_i . A_b of all layers b at the sites of the block.
    """
    rank = rows.shape[1]
    flips = 0
    for u in range(n_layers):
        spin = np.float32(spins[u, i])
        push = 0.0
        square = 0.0
        for v in range(n_layers):
            if v != u:
                push += (q[u, v] / n if quadratic else 1.0) * h[v, j]
                square += np.float64(h[v, j]) * np.float64(h[v, j])
        if quadratic and d[i] != 0:
            push -= spin * square / n  # the spin's own share of (A_u . A_v)
        total = h[u, j] - d[i] * spin + field * np.float32(cues[u, i])
        total -= np.float32(repulsion * push)
        up = beta * total >= t[u, i - site]
        if up != (spin > 0):
            change = np.float32(-2) * spin
            spins[u, i] = -spins[u, i]
            for v in range(n_layers):
                if v != u:
                    q[u, v] += change * h[v, j]
                    q[v, u] = q[u, v]
            add_multiple(change, overlaps, i * SITES, h, u * SITES, SITES)
            add_multiple(change, rows, i * rank, a, u * rank, rank)
            flips += 1
    return flips


@njit(cache=True, nogil=True)
def sweep_blocks(
    start, stop, state, energy, changed, score, used, cue, rows, columns, overlaps, diagonal,
    betas, lookup, level, still, k0, k1, stream, first_update, first_chain, quadratic,
    repulsion, field, self_field,
):  # fmt: skip
    """Serial updates of blocks start..stop-1; see `lam.lam_sweep` for the arguments."""
    n_layers, n = state.shape[1:]
    n_padded, rank = rows.shape
    r = columns.shape[1]
    m_padded = (n_layers + CHAINS - 1) // CHAINS * CHAINS
    spins = np.ones((m_padded, n_padded), np.int8)
    cues = np.zeros((m_padded, n_padded), np.int8)
    a = np.zeros((m_padded, rank), np.float32)
    h = np.zeros((m_padded, SITES), np.float32)
    t = np.zeros((m_padded, PIECE), np.float32)
    bits = np.zeros(PIECE // 2, np.uint32)
    q = np.zeros((n_layers, n_layers))
    d = np.zeros_like(diagonal) if self_field else diagonal
    for s in range(start, stop):
        _load(state, cue, s, s + 1, field, spins, cues)
        flips = 0
        for update in range(len(betas)):
            if update % REFRESH_EVERY == 0:
                _sum_afresh(spins, rows, a, h)
            _overlaps(a, 0, n_layers, q)
            flips = 0
            for site in range(0, n_padded, PIECE):
                for row in range(n_layers):
                    _draw_piece(
                        (k0, k1, stream), row, first_chain + s * n_layers + row,
                        first_update + update, site, n, lookup[level[update]], bits, t,
                    )  # fmt: skip
                for i in range(site, min(site + PIECE, n)):
                    j = i % SITES
                    if j == 0:
                        for group in range(0, m_padded, CHAINS):
                            block_fields(columns, i * r, r, a, group * rank, rank, h, group * SITES)
                    flips += _sweep_site(
                        j, i, site, n_layers, n, overlaps, rows, d, a, h, q, spins, cues, t,
                        betas[update], quadratic, repulsion, np.float32(field),
                    )  # fmt: skip
            used[s] += 1
            if still[update] and flips == 0:
                break
        changed[s] = flips
        _sum_afresh(spins, rows, a, h)
        _finish(s, 0, a, q, spins, cues, quadratic, repulsion, field, state, energy, score)
