"""Energies and fields of the dense and the exponential memory, for all spins at once.

Only overlaps of states with patterns enter, so a step is two thin products: overlaps
``a = s xi^T`` (S, K), and a table of the overlaps times the patterns (theory/NOTES.md, Recall
energies). Arrays may be those of any library; the tables are float64, the products float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed._lib.arrays import Array, namespace
from hopfed.memory.rules import Dense, Exponential, Rule

NEAR = 4.0  # roundings of a float32 sum within which a sign is settled in float64


def overlap_sums(states: Array, patterns: Array) -> Array:
    """Return ``a = s xi^T`` (S, K) in float64, from float32 operands: exact for signs to 2^24.

    Examples
    --------
    >>> overlap_sums(np.ones((1, 3), np.float32), np.array([[1, 1, -1]], np.float32))
    array([[1.]])
    """
    xp = namespace(states, patterns)
    return xp.astype(xp.matmul(states, patterns.T), xp.float64)


def energy(a: np.ndarray, rule: Rule, n_sites: int, weights: np.ndarray) -> np.ndarray:
    """Energy (S,) of states with overlap sums `a` (S, K).

    Examples
    --------
    >>> energy(np.array([[4.0, 0.0]]), Dense(2), 4, np.ones(2))
    array([-2.])
    """
    if isinstance(rule, Dense):
        return -(n_sites / rule.n) * ((a / n_sites) ** rule.n @ weights)
    assert isinstance(rule, Exponential)
    return -log_sum_exp(rule.beta * a + np.log(weights)) / rule.beta


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """Return ``log sum_k exp(x_k)`` over the last axis, without overflow.

    Examples
    --------
    >>> log_sum_exp(np.array([[1000.0, 1000.0]])).round(3)
    array([1000.693])
    """
    most = x.max(axis=-1)
    return most + np.log(np.exp(x - most[..., None]).sum(axis=-1))


def table(a: Array, rule: Rule, n_sites: int, weights: Array) -> tuple[Array, Any]:
    """Return (B, own) with the fields ``h = B xi + own s`` from overlap sums `a` (S, K).

    For the dense rule they are the exact fields, a spin's own part left out (see
    `hopfed.kernels.dense`); for the exponential, ``B`` is the softmax of ``beta a`` and h the
    output of attention, of which the spin's own part is kept.

    Parameters
    ----------
    a : (S, K) float64.
    rule : `Dense` or `Exponential`.
    n_sites : N.
    weights : (K,).

    Examples
    --------
    >>> B, own = table(np.array([[4.0, 0.0]]), Dense(2), 4, np.ones(2))
    >>> B.tolist(), own.tolist()  # Hebb's rule: a / N, and K / N off for the self-field
    ([[1.0, 0.0]], [[-0.5]])
    """
    xp = namespace(a)
    if isinstance(rule, Exponential):
        x = rule.beta * a + xp.log(weights)
        x = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return x / xp.sum(x, axis=-1, keepdims=True), 0.0
    assert isinstance(rule, Dense)
    low, here, high = a - 2, a, a + 2
    for _ in range(rule.n - 1):
        low, here, high = low * (a - 2), here * a, high * (a + 2)
    scale = n_sites / (2 * rule.n) / float(n_sites) ** rule.n
    own = xp.sum(weights * (2 * here - low - high), axis=-1, keepdims=True) * (scale / 2)
    return weights * (high - low) * (scale / 2), own


def fields(
    states: Array, a: Array, patterns: Array, rule: Rule, weights: Array
) -> tuple[Array, Array]:
    """Return fields (S, N) in float32, and the table that they are made of.

    Parameters
    ----------
    states : (S, N) float32.
    a : (S, K), their overlap sums.
    patterns : (K, N) float32.
    rule, weights : as in `table`.

    Examples
    --------
    >>> xi = np.array([[1, 1, 1, -1]], np.float32)
    >>> fields(xi, xi @ xi.T.astype(np.float64), xi, Dense(3), np.ones(1))[0].round(2)
    array([[ 0.58,  0.58,  0.58, -0.58]], dtype=float32)
    """
    xp = namespace(states, patterns)
    B, own = table(a, rule, patterns.shape[1], weights)
    h = xp.matmul(xp.astype(B, xp.float32), patterns)
    if not isinstance(own, float):
        h = h + xp.astype(own, xp.float32) * states
    return h, B


def settle_near_ties(
    h: np.ndarray, states: np.ndarray, a: np.ndarray, patterns: np.ndarray, rule: Rule,
    weights: np.ndarray, B: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return `h` with those fields summed in float64 whose sign float32 leaves open.

    About one in 10^5 is, so that this costs nothing.

    Parameters
    ----------
    h : (S, N), as `fields` returns it for the other arguments.
    states, a, patterns, rule, weights, B : of `fields`.

    Examples
    --------
    >>> xi = np.array([[1, 1, -1, -1], [1, -1, 1, -1]], np.float32)
    >>> a = overlap_sums(xi, xi)
    >>> h, B = fields(xi, a, xi, Exponential(0.5), np.ones(2))
    >>> same = settle_near_ties(h.copy(), xi, a, xi, Exponential(0.5), np.ones(2), B)
    >>> bool(np.allclose(h, same))
    True
    """
    own = table(a, rule, patterns.shape[1], weights)[1]
    size = np.sqrt(np.einsum("sk,sk->s", B, B)) + np.abs(np.ravel(own) if np.ndim(own) else own)
    bound = NEAR * np.finfo(np.float32).eps * np.sqrt(len(patterns)) * size
    s, i = np.nonzero(np.abs(h) <= bound[:, None])
    if len(s):
        exact = np.einsum("fk,fk->f", B[s], patterns[:, i].T.astype(np.float64))
        if np.ndim(own):
            exact += np.ravel(own)[s] * states[s, i]
        h[s, i] = exact
    return h
