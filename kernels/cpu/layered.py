"""Compiled updates of the layered memory: fields, noise, signs and new coefficients in one pass.

A synchronous update reads W once: for each block of 32 sites it computes the fields of some forty
layers, decides the spins, and adds their changes to the next coefficients while the block
is in the cache. Only the spins themselves are written at the size of the state.

The two thin products take most of the time. On one core with AVX2 each runs at 70 to 95 Gflop/s,
sgemm at 50 to 80 on the same shapes, and they are half of an update at rank 50 and three quarters
at rank 200; draws take 1.1 ns a spin, and their comparison with the fields 0.5.
"""

from __future__ import annotations

import numpy as np

from hopfed.kernels.coupling import SITES
from hopfed.kernels.cpu.compiled import compile_inlined, compile_inner, compile_kernel
from hopfed.kernels.cpu.threads import cut_range, for_each, thread_count
from hopfed.kernels.cpu.vectors import (
    CHAINS,
    add_block,
    add_multiple,
    block_fields,
    draw_row,
    popcount,
    update_block,
)
from hopfed.kernels.layered import Call, LayeredUpdate

ROWS = 40  # layers updated together by one thread, which share each piece of W
PIECE = 256  # sites whose draws are made at a time
MANY = 24  # flips in a block of CHAINS x SITES above which all spins are added, not flips alone
REFRESH_EVERY = 64  # updates after which the running coefficients are recomputed


def run_layers(state: np.ndarray, call: Call, serial: bool) -> LayeredUpdate:
    """Layered memory on the CPU: run the compiled loops on all cores."""
    n_blocks, n_layers, _ = state.shape
    counts = np.zeros((2, n_blocks), np.int64)
    out, layout = LayeredUpdate(state.copy(), np.zeros(n_blocks), *counts), call.layout

    def task(span: tuple[int, int]) -> None:
        n_rows = n_layers * (1 if serial else span[1] - span[0])
        _update_blocks(
            *span, serial, _scratch(n_rows, n_layers, layout.rows.shape), out.state, out.energy,
            out.changed, out.updates, call.cue, *layout[:3], call.diagonal, call.betas,
            call.lookup, call.level, call.still, *call.counters, call.quadratic, call.repulsion,
            call.field,
        )  # fmt: skip

    together = max(1, min(ROWS // n_layers, -(-n_blocks // thread_count())))
    for_each(task, cut_range(n_blocks, 1 if serial else together))
    return out


def _scratch(n_rows: int, n_layers: int, shape: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Work space for `n_rows` layers with a factor padded to `shape`, mostly spins and cues.

    (spins, cues, coefficients, coefficients of the fields, fields, thresholds, draws, draws as
    16-bit numbers, overlaps of layers, flips, their bits). Made here because compiled code that
    allocates takes seconds to compile.
    """
    n, rank = shape
    padded = -(-n_rows // CHAINS) * CHAINS
    bits = np.zeros(PIECE // 2, np.uint32)
    return (
        np.ones((padded, n), np.int8),
        np.zeros((padded, n), np.int8),
        np.zeros((padded, rank), np.float32),
        np.zeros((padded, rank), np.float32),
        np.zeros((padded, SITES), np.float32),
        np.zeros((padded, PIECE), np.float32),
        bits,
        bits.view(np.uint16),
        np.zeros((n_layers, n_layers)),
        np.zeros(n_rows, np.int64),
        np.zeros(CHAINS, np.uint64),
    )


@compile_inner
def _load(state, cue, start, stop, field, spins, cues):
    """Copy blocks start..stop-1 and their cues into padded scratch, one layer to a row."""
    n_layers, n = state.shape[1:]
    for s in range(start, stop):
        for layer in range(n_layers):
            row = (s - start) * n_layers + layer
            for i in range(n):
                spins[row, i] = state[s, layer, i]
            if field != 0:
                u, v = min(s, cue.shape[0] - 1), min(layer, cue.shape[1] - 1)
                for i in range(n):
                    cues[row, i] = cue[u, v, i]
            for i in range(n, spins.shape[1]):
                spins[row, i] = 1


@compile_inner
def _sum_afresh(spins, rows, a, h):
    """a = W^T s for all rows of `spins`."""
    n, rank = rows.shape
    for row in range(len(a)):
        for k in range(rank):
            a[row, k] = 0
    for site in range(0, n, SITES):
        for group in range(0, len(a), CHAINS):
            for c in range(CHAINS):
                for j in range(SITES):
                    h[c, j] = spins[group + c, site + j]
            add_block(h, 0, rows, site * rank, a, group * rank, rank)


@compile_inner
def _overlaps(a, first, n_layers, q):
    """q = A A^T for the layers in rows first.. of `a`."""
    for u in range(n_layers):
        for v in range(u + 1):
            total = 0.0
            for k in range(a.shape[1]):
                total += np.float64(a[first + u, k]) * np.float64(a[first + v, k])
            q[u, v] = q[v, u] = total


@compile_inner
def _mix(a, first, n_layers, n, quadratic, repulsion, q, c):
    """Compute the coefficients of the fields of one block; see `hopfed.kernels.layered`."""
    _overlaps(a, first, n_layers, q)
    for u in range(n_layers):
        for k in range(a.shape[1]):
            c[first + u, k] = a[first + u, k]
        for v in range(n_layers):
            if v != u:
                factor = np.float32(repulsion * q[u, v] / n if quadratic else repulsion)
                for k in range(a.shape[1]):
                    c[first + u, k] -= factor * a[first + v, k]


@compile_inner
def _finish(s, first, a, q, spins, cues, quadratic, repulsion, field, state, energy):
    """Write the spins and the energy of block s, whose layers are in the rows from `first`."""
    n_layers, n = state.shape[1:]
    _overlaps(a, first, n_layers, q)
    total = 0.0
    for u in range(n_layers):
        for i in range(n):
            state[s, u, i] = spins[first + u, i]
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


@compile_inner
def _draw_piece(k0, k1, row, chain, update, site, n, lookup, bits, lanes, t, spins):
    """Set the thresholds of one row for sites from `site`; 0 for padding, where spins stay up."""
    count = min(PIECE, n - site)
    if lookup[0] > 0:  # without noise it is the size of a field that counts as 0
        for i in range(count):
            t[row, i] = -lookup[0] if spins[row, site + i] > 0 else lookup[0]
    else:
        draw_row(
            k0, k1, np.uint64(chain), np.uint64(update), site, lookup, bits, lanes, t, row, count
        )
    for i in range(count, PIECE):
        t[row, i] = 0


@compile_inlined
def _step_piece(
    site, stop, m, n_layers, columns, rows, d, c, a, h, spins, cues, t, beta, field, flips, masks
):  # fmt: skip
    """Update the spins of sites site..stop-1 in all rows, and `a` by their changes."""
    n, rank = rows.shape
    r = columns.shape[1]
    for i in range(site, stop, SITES):
        for group in range(0, len(a), CHAINS):
            block_fields(columns, i * r, r, c, group * rank, rank, h, group * SITES)
        for group in range(0, len(a), CHAINS):
            total = 0
            for row in range(group, min(group + CHAINS, m)):
                masks[row - group] = update_block(
                    h, row * SITES, d, i, spins, cues, row * n + i,
                    t, row * PIECE + i - site, beta, field,
                )  # fmt: skip
                count = popcount(masks[row - group])
                flips[row // n_layers] += count
                total += count
            if total > MANY:
                add_block(h, group * SITES, rows, i * rank, a, group * rank, rank)
            elif total > 0:
                for row in range(group, min(group + CHAINS, m)):
                    mask = masks[row - group]
                    while mask:
                        rest = mask & (mask - np.uint64(1))  # without its lowest bit
                        j = popcount((mask ^ rest) - np.uint64(1))
                        add_multiple(h[row, j], rows, (i + j) * rank, a, row * rank, rank)
                        mask = rest


@compile_inlined
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
            push -= spin * square / n  # the spin's own contribution to (A_u . A_v)
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


@compile_kernel
def _update_blocks(
    start, stop, serial, scratch, state, energy, changed, used, cue, rows, columns, overlaps, d,
    betas, lookup, level, still, k0, k1, first_update, quadratic, repulsion, field,
):  # fmt: skip
    """Update blocks start..stop-1, one block if `serial`; d is zeros to keep the self-field."""
    spins, cues, a, c, h, t, bits, lanes, q, flips, masks = scratch
    n_layers, n = state.shape[1:]
    m, rank, r = (stop - start) * n_layers, rows.shape[1], columns.shape[1]
    _load(state, cue, start, stop, field, spins, cues)
    for update in range(len(betas)):
        if update % REFRESH_EVERY == 0:
            _sum_afresh(spins, rows, a, h)
        for s in range(stop - start):
            _mix(a, s * n_layers, n_layers, n, quadratic, repulsion, q, c)
            flips[s] = 0
        for site in range(0, len(rows), PIECE):
            for row in range(m):
                _draw_piece(
                    k0, k1, row, start * n_layers + row, first_update + update, site, n,
                    lookup[level[update]], bits, lanes, t, spins,
                )  # fmt: skip
            if not serial:
                _step_piece(
                    site, min(site + PIECE, len(rows)), m, n_layers, columns, rows, d, c, a, h,
                    spins, cues, t, betas[update], np.float32(field), flips, masks,
                )  # fmt: skip
                continue
            for i in range(site, min(site + PIECE, n)):
                if i % SITES == 0:
                    for group in range(0, len(a), CHAINS):
                        block_fields(columns, i * r, r, a, group * rank, rank, h, group * SITES)
                flips[0] += _sweep_site(
                    i % SITES, i, site, n_layers, n, overlaps, rows, d, a, h, q, spins,
                    cues, t, betas[update], quadratic, repulsion, np.float32(field),
                )  # fmt: skip
        moved = 0
        for s in range(start, stop):
            used[s] += 1
            changed[s] = flips[s - start]
            moved += changed[s]
        if still[update] and moved == 0:
            break
    if serial:
        _sum_afresh(spins, rows, a, h)
    for s in range(start, stop):
        first = (s - start) * n_layers
        _finish(s, first, a, q, spins, cues, quadratic, repulsion, field, state, energy)
