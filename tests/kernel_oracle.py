"""What every kernel computes, in plain NumPy: the oracle of the tests.

Nothing here is fast. Arguments are those of the kernels, with unpacked (M, N) arrays of +-1 in
place of Rows; integers are exact, real numbers are float64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from hopfed import kernels
from hopfed.kernels.philox import philox4x32, split_seed, threshold_table


def signs(shape: Any, seed: int = 0) -> np.ndarray:
    """Random entries of +-1."""
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), shape)


def entries(shape: Any, seed: int = 0, gaps: bool = False, share: float = 0.3) -> np.ndarray:
    """Random entries; with gaps, a row and a column without any, where there are others."""
    x, rng = signs(shape, seed), np.random.default_rng(seed + 1)
    if gaps and x.size:
        x[rng.random(shape) < share] = 0
        if min(shape) > 1:
            x[rng.integers(shape[0])] = 0
            x[:, rng.integers(shape[1])] = 0
    return x


def packed(x: np.ndarray, gaps: bool, device: Any = None) -> kernels.Rows:
    """Rows on the host or on a device, in two planes where there happens to be no gap too."""
    there = x if device is None else device.xp.asarray(x)
    if not gaps:
        return kernels.pack(there)
    return kernels.with_gaps(kernels.pack_masked(there, there == 0))


def pack(x: np.ndarray) -> np.ndarray:
    """Words of the packed rows, bit by bit."""
    m, n = x.shape
    words = [[0] * (-(-n // 64)) for _ in range(m)]
    for i in range(m):
        for j in range(n):
            words[i][j // 64] |= int(x[i, j] > 0) << j % 64
    return np.array(words, np.uint64).reshape(m, -(-n // 64))


def gram(x: np.ndarray) -> np.ndarray:
    """Inner products of the rows."""
    return x.astype(np.int64) @ x.T.astype(np.int64)


def second_moment(x: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Sum over rows of ``w_m x_m x_m^T``."""
    if weights is None:
        return gram(x.T)
    return (x.T * weights.astype(np.float64)) @ x.astype(np.float64)


def draws(n: int, chain: int, sweep: int, seed: int) -> np.ndarray:
    """The 16-bit draws of the n sites of one chain in one sweep."""
    block = np.arange(-(-n // 8), dtype=np.uint64)
    sweep_, chain_, zero = (np.full_like(block, v) for v in (sweep, chain, 0))
    words = np.stack(philox4x32(block, sweep_, chain_, zero, *split_seed(seed)), axis=1)
    halves = np.stack([words & np.uint64(0xFFFF), words >> np.uint64(16)], axis=2)
    return halves.reshape(-1)[:n].astype(np.int64)


def couplings(W: np.ndarray) -> np.ndarray:
    """``W W^T`` without its diagonal."""
    J: np.ndarray = W.astype(np.float64) @ W.T.astype(np.float64)
    np.fill_diagonal(J, 0)
    return J


def heat_bath(
    state: np.ndarray,
    W: np.ndarray,
    *,
    beta: np.ndarray,
    sweeps: int,
    seed: int,
    first_sweep: int = 0,
) -> np.ndarray:
    """Serial heat bath on the dense coupling ``W W^T`` without its diagonal."""
    J = couplings(W)
    state = state.astype(np.float64)
    betas = np.broadcast_to(beta, (len(state), sweeps))
    for c, s in enumerate(state):
        for t in range(sweeps):
            x = draws(len(s), c, first_sweep + t, seed)
            for i in range(len(s)):
                s[i] = 1 if betas[c, t] * (J[i] @ s) >= threshold_table()[x[i]] else -1
    return state.astype(np.int8)


def descend(state: np.ndarray, W: np.ndarray, free: np.ndarray | bool = True) -> np.ndarray:
    """Serial descent on the coupling of `heat_bath`."""
    J = couplings(W)
    return settled(state, lambda s, i: J[i] @ s, free)


def layered_energy(
    state: np.ndarray, W: np.ndarray, coupling: str, repulsion: float, field: float, cue: np.ndarray
) -> np.ndarray:
    """Energy of each block of `state` (S, L, N): arXiv:2603.19902, eq. (6) or (8)."""
    n = state.shape[2]
    J = W.astype(np.float64) @ W.T.astype(np.float64)
    s = state.astype(np.float64)
    overlap = np.einsum("sai,ij,sbj->sab", s, J, s, optimize=True)
    push = overlap**2 / n if coupling == "quadratic" else overlap
    others = push.sum((1, 2)) - np.einsum("saa->s", push)
    return repulsion * others - np.einsum("saa->s", overlap) - field * (s * cue).sum((1, 2))


def layered_step(
    state: np.ndarray,
    W: np.ndarray,
    *,
    beta: np.ndarray,
    noise: np.ndarray,
    updates: int,
    coupling: str,
    repulsion: float,
    field: float,
    cue: np.ndarray,
    self_field: bool,
    seed: int,
    first_update: int = 0,
) -> np.ndarray:
    """State after synchronous updates with the dense coupling: arXiv:2603.19902, (9) to (12)."""
    n_blocks, n_layers, n = state.shape
    J = W.astype(np.float64) @ W.T.astype(np.float64)
    diagonal = np.zeros(n) if self_field else np.diag(J)
    s = state.astype(np.float64)
    cue = np.broadcast_to(cue, state.shape)
    for t in range(updates):
        new = np.empty_like(s)
        for block in range(n_blocks):
            for a in range(n_layers):
                h = J @ s[block, a] - diagonal * s[block, a] + field * cue[block, a]
                for b in range(n_layers):
                    if b != a:
                        push = J @ s[block, b]
                        strength = push @ s[block, a] / n if coupling == "quadratic" else 1.0
                        h -= repulsion * strength * push
                x = draws(n, block * n_layers + a, first_update + t, seed)
                limit = threshold_table(float(np.broadcast_to(noise, (updates,))[t]))[x]
                new[block, a] = np.where(np.broadcast_to(beta, (updates,))[t] * h >= limit, 1, -1)
                if not limit.any():  # no noise
                    new[block, a] = np.where(h == 0, s[block, a], new[block, a])
        s = new
    return s.astype(np.int8)


def chance(final: np.ndarray, energy: Callable[[np.ndarray], np.ndarray], beta: float) -> float:
    """How often states drawn with the weights of Boltzmann differ as much as `final` (S, n)."""
    n = final.shape[1]
    states = np.array(list(itertools.product([-1, 1], repeat=n)), np.int8)
    weights = np.exp(-beta * energy(states))
    counts = np.bincount((final > 0) @ (1 << np.arange(n)[::-1]), minlength=2**n)
    return float(stats.chisquare(counts, len(final) * weights / weights.sum()).pvalue)


def scores(patterns: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Score of each pattern sigma (C, N) in the span of V (N, K): ``(1/N) |V^T sigma|^2``."""
    return np.array([np.sum((V.T @ s) ** 2) / len(s) for s in patterns.astype(np.float64)])


def dense_field(c: np.ndarray, row: np.ndarray, energy: str, parameter: float) -> float:
    """Field of a spin from the overlaps `c` without it, and its entries `row` in the patterns."""
    up, down = c + row, c - row
    if energy == "power":
        return float((up**parameter - down**parameter).sum())
    most = parameter * max(up.max(), down.max())
    # Exactly rounded sums: patterns of equal overlap cancel in any order.
    up, down = (math.fsum(np.exp(parameter * x - most)) for x in (up, down))
    return float((np.log(up) - np.log(down)) / (2 * parameter))


def dense_sweep(
    state: np.ndarray, patterns: np.ndarray, energy: str, parameter: float
) -> np.ndarray:
    """Serial descent on the dense or the exponential energy."""
    xi = patterns.astype(np.float64)

    def field(s: np.ndarray, i: int) -> float:
        return dense_field(xi @ s - xi[:, i] * s[i], xi[:, i], energy, parameter)

    return settled(state, field)


def settled(
    state: np.ndarray,
    field: Callable[[np.ndarray, int], float],
    free: np.ndarray | bool = True,
    sweeps: int = 100,
) -> np.ndarray:
    """Serial descent of the spins that are `free`; a field of 0 leaves the spin."""
    state = state.copy()
    for s, moving in zip(state, np.broadcast_to(free, state.shape), strict=True):
        for _ in range(sweeps):
            before = s.copy()
            for i in np.flatnonzero(moving):
                s[i] = np.sign(field(s, i)) or s[i]
            if (s == before).all():
                break
    return state
