"""Updates for which there is no kernel, on arrays of any library; slow where sites come in turn.

Layers of any coupling matrix, layers that hold what was observed, and the serial order of the dense
and the exponential rule away from the host. Every function takes states and returns new ones.
Draws are given as limits, those of the heat bath (`hopfed.memory.dynamics`).
"""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.memory.energies import log_sum_exp
from hopfed.memory.rules import Dense, Layered, Overlapping

CLOSE = 1e-11  # of the size of a sum: nearer to 0 its sign is settled on the host, exactly


def dense_sweep(
    states: Array,
    patterns: Array,
    rule: Overlapping,
    weights: Array,
    *,
    temperature: float = 0.0,
    limits: Array = None,
    held: Array = None,
) -> Array:
    """Visit all sites once, by the fields of the dense or the exponential rule."""
    xp = namespace(states)
    new, s = xp.asarray(states, copy=True), xp.astype(states, xp.float64)
    a = xp.matmul(s, patterns.T)
    for i in range(states.shape[1]):
        x, spin = patterns[:, i], s[:, i]
        c = a - spin[:, None] * x
        if temperature:
            h = _field(c, x, rule, weights, states.shape[1]) / temperature - limits[:, i]
        else:
            h = _cold_field(c, x, rule, weights)
        turned = turned_by(h, spin)
        if held is not None:
            turned = xp.where(held[:, i], spin, turned)
        a = c + turned[:, None] * x
        new[:, i] = xp.astype(turned, new.dtype)
    return new


def _field(c: Array, x: Array, rule: Overlapping, weights: Array, n_sites: int) -> Array:
    """Fields (S,) of a site from overlap sums c (S, K) without it, and its entries x (K,)."""
    xp = namespace(c)
    if isinstance(rule, Dense):
        terms = (c + x) ** rule.n - (c - x) ** rule.n
        return xp.sum(terms * weights, axis=1) * (n_sites / (2 * rule.n) / n_sites**rule.n)
    logs = rule.beta * c + xp.log(weights)
    up, down = (log_sum_exp(logs + sign * rule.beta * x) for sign in (1, -1))
    return (up - down) / (2 * rule.beta)


def _cold_field(c: Array, x: Array, rule: Overlapping, weights: Array) -> Array:
    """Numbers (S,) of the signs of the fields; patterns of equal overlap cancel exactly."""
    xp = namespace(c)
    if isinstance(rule, Dense):  # whole numbers
        return xp.sum(((c + x) ** rule.n - (c - x) ** rule.n) * weights, axis=1)
    terms = xp.exp(rule.beta * (c - xp.max(c, axis=1)[:, None])) * weights
    total = xp.sum(terms * x, axis=1)
    near = xp.abs(total) <= CLOSE * xp.sum(terms, axis=1)
    if not bool(xp.any(near)):
        return total
    found, (rows,) = to_host(total).copy(), np.nonzero(to_host(near))
    sums, row, mass = to_host(c), to_host(x), to_host(weights)
    for s in rows:
        found[s] = _exact(sums[s], row * mass, rule.beta)
    return like(found, c)


def _exact(c: np.ndarray, signed: np.ndarray, beta: float) -> float:
    """``sum_mu signed_mu exp(beta c_mu)``, divided by its largest term that does not cancel."""
    levels, where = np.unique(c, return_inverse=True)
    sums = np.array([fsum(signed[where == j]) for j in range(len(levels))])
    left = sums != 0
    if not left.any():
        return 0.0
    return fsum(sums[left] * np.exp(beta * (levels[left] - levels[left].max())))


def turned_by(h: Array, spins: Array, tie: float = 0.0) -> Array:
    """Signs of the fields `h`; where they are at most `tie` in size, the spins as they are.

    Examples
    --------
    >>> turned_by(np.array([0.5, 0.0, -0.5]), np.array([-1, -1, 1])).tolist()
    [1.0, -1.0, -1.0]
    """
    xp = namespace(h)
    return xp.where(xp.abs(h) <= tie, xp.astype(spins, h.dtype), xp.sign(h))


def layers_step(
    states: Array,
    W: Array,
    rule: Layered,
    *,
    temperature: float = 0.0,
    limits: Array = None,
    tie: float = 0.0,
) -> Array:
    """Update all spins of all layers at once."""
    xp = namespace(states)
    s = xp.astype(states, xp.float64)
    g, own = like(rule.matrix, s), xp.sum(W * W, axis=1)
    A = xp.matmul(s, W)
    if rule.coupling == "quadratic":
        g = _weighed(g, xp.matmul(A, xp.matrix_transpose(A)), states.shape[2])
    h = xp.matmul(xp.matmul(g, A), W.T) - _diagonal(rule, s)[:, None] * own * s
    found = turned_by(h / temperature - limits if temperature else h, s, tie)
    return xp.astype(found, states.dtype)


def layers_sweep(
    states: Array,
    W: Array,
    rule: Layered,
    *,
    temperature: float = 0.0,
    limits: Array = None,
    held: Array = None,
    tie: float = 0.0,
) -> Array:
    """Visit the spins once, site by site and layer by layer at each site."""
    xp = namespace(states)
    new, (_, L, N) = xp.asarray(states, copy=True), states.shape
    s = xp.astype(states, xp.float64)
    A, own = xp.matmul(s, W), to_host(xp.sum(W * W, axis=1))
    g, others = like(rule.matrix, s), like(rule.matrix * (1 - np.eye(L)), s)
    for i in range(N):
        w, alone = W[i, :], float(own[i])
        h = xp.matmul(A, w)  # (S, L)
        for u in range(L):
            spin = s[:, u, i]
            if rule.coupling == "quadratic":
                # Overlaps of layer u with the others, the spin's own share of them left out.
                q = xp.matmul(A, A[:, u, :, None])[..., 0] - spin[:, None] * h
                total = g[u, u] * h[:, u] + xp.matmul(q * h, others[u, :]) / N
            else:
                total = xp.matmul(h, g[u, :])
            total = total - g[u, u] * alone * spin
            if temperature:
                total = total - temperature * limits[:, u, i]
            turned = turned_by(total, spin, 0.0 if temperature else tie)
            if held is not None:
                turned = xp.where(held[:, u, i], spin, turned)
            change = turned - spin
            A[:, u, :] += change[:, None] * w
            h[:, u] += change * alone
            new[:, u, i] = xp.astype(turned, new.dtype)
    return new


def layers_energy(states: np.ndarray, W: np.ndarray, rule: Layered) -> np.ndarray:
    """Energy (S,) of layers (S, L, N) on the host, without a field.

    ``-sum_a g_aa q_aa - sum_{a != b} g_ab q_ab``, or with ``q_ab^2 / N`` in the second sum where
    the coupling is quadratic, ``q_ab = s_a^T J s_b``.
    """
    A = np.einsum("sln,nr->slr", states.astype(np.float64), W.astype(np.float64))
    q = np.einsum("slr,smr->slm", A, A)
    g, layers = rule.matrix, np.arange(rule.layers)
    pairs = q**2 / states.shape[2] if rule.coupling == "quadratic" else q.copy()
    pairs[:, layers, layers] = q[:, layers, layers]
    found: np.ndarray = -(g * pairs).sum(axis=(1, 2))
    return found


def _weighed(g: Any, q: Any, n_sites: int) -> Any:
    """Couplings (S, L, L) of the quadratic coupling: ``g_ab q_ab / N`` off the diagonal."""
    xp = namespace(q)
    eye = xp.eye(g.shape[0], dtype=q.dtype, device=getattr(q, "device", None))
    return g * (eye + (1 - eye) * q / n_sites)


def _diagonal(rule: Layered, other: Array) -> Array:
    return like(np.ascontiguousarray(np.diag(rule.matrix)), other)
