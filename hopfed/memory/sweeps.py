"""Updates for which there is no kernel, on arrays of any library; slow where sites come in turn.

Layers of any coupling matrix, layers that hold what was observed, and couplings in float64. Every
function takes states and returns new ones. Draws are given as limits, those of the heat bath.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.memory.rules import Layered


def turned_by(h: Array, spins: Array, tie: float = 0.0) -> Array:
    """Signs of the fields `h`; where they are at most `tie` in size, the spins as they are."""
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
    return -(g * pairs).sum(axis=(1, 2))


def _weighed(g: Any, q: Any, n_sites: int) -> Any:
    """Couplings (S, L, L) of the quadratic coupling: ``g_ab q_ab / N`` off the diagonal."""
    xp = namespace(q)
    eye = xp.eye(g.shape[0], dtype=q.dtype, device=getattr(q, "device", None))
    return g * (eye + (1 - eye) * q / n_sites)


def _diagonal(rule: Layered, other: Array) -> Array:
    return like(np.ascontiguousarray(np.diag(rule.matrix)), other)
