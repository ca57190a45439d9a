"""Energies and fields of the dense and the exponential memory, for all spins at once.

Only overlaps of states with patterns enter, so a step is two thin products: overlaps
``a = s xi^T`` (S, K), and a table of the overlaps times the patterns (theory/NOTES.md, Recall
energies). Arrays may come from any array library; tables are float64, products float32.

A graded pattern gives each site a mean in (-1, 1), and sites are independent given the pattern.
Recall returns the mean of every site given the observed sites, with patterns weighted by their
responsibilities (Responsibilities and completion): one step of the exponential memory whose keys
are the log-odds ``artanh(Theta)`` and whose values are the means.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from hopfed._lib.arrays import Array, namespace
from hopfed._lib.settings import require
from hopfed.kernels.dense import CLOSE
from hopfed.memory.rules import Dense, Exponential, Overlapping

NEAR = 4.0  # float32 rounding errors within which a sign is recomputed in float64
SUREST = 1 - 1e-9  # largest size of a mean, so that no observation has probability 0


def overlap_sums(states: Array, patterns: Array) -> Array:
    """Return ``a = s xi^T`` (S, K) for energies, float64 of float32: exact for signs to 2^24."""
    xp = namespace(states, patterns)
    return xp.astype(xp.matmul(states, patterns.T), xp.float64)


def energy(a: np.ndarray, rule: Overlapping, n_sites: int, weights: np.ndarray) -> np.ndarray:
    """Energy (S,) of the dense or exponential memory, from overlap sums `a` (S, K) of states."""
    if isinstance(rule, Dense):
        found: np.ndarray = -(n_sites / rule.n) * ((a / n_sites) ** rule.n @ weights)
    else:
        found = -log_sum_exp(rule.beta * a + np.log(weights)) / rule.beta
    return found


def log_sum_exp(x: Array) -> Array:
    """Return ``log sum_k exp(x_k)`` over the last axis, without overflow, for energies."""
    xp = namespace(x)
    most = xp.max(x, axis=-1)
    return most + xp.log(xp.sum(xp.exp(x - most[..., None]), axis=-1))


def field_coefficients(
    a: Array, rule: Overlapping, n_sites: int, weights: Array
) -> tuple[Array, Any]:
    """Return (B, own) of energies' fields ``h = B xi + own s`` from overlap sums `a` (S, K)."""
    xp = namespace(a)
    even = isinstance(weights, np.ndarray) and bool((weights == 1).all())  # the default weights
    if isinstance(rule, Exponential):
        x = rule.beta * a if even else rule.beta * a + xp.log(weights)
        x = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return x / xp.sum(x, axis=-1, keepdims=True), 0.0
    scale = n_sites / (2 * rule.n) / float(n_sites) ** rule.n
    # (a + 2)^n -+ (a - 2)^n by powers of a^2: whole numbers, without cancellation.
    B, own = (_series(a, rule.n, first) for first in (1, 2))
    if not even:
        B, own = B * weights, own * weights
    return B * scale, xp.sum(own, axis=-1, keepdims=True) * -scale


def _series(a: Array, n: int, first: int) -> Array:
    """Return ``sum_j C(n, j) 2^j a^(n - j)`` over j = first, first + 2, ... up to n."""
    terms = [comb(n, j) * 2.0**j for j in range(first, n + 1, 2)]
    square, total = a * a, terms[0] + 0 * a
    for term in terms[1:]:
        total = total * square + term
    return total * a if (n - first) % 2 else total


def fields(states: Array, a: Array, patterns: Array, rule: Overlapping, weights: Array) -> Array:
    """Fields (S, N) of dense or exponential energies, in float32, by overlap sums `a` (S, K)."""
    xp = namespace(states, patterns)
    B, own = field_coefficients(a, rule, patterns.shape[1], weights)
    h = xp.matmul(xp.astype(B, xp.float32), patterns)
    return h if isinstance(own, float) else h + xp.astype(own, xp.float32) * states


def sure_fields(
    states: np.ndarray, patterns: np.ndarray, rule: Overlapping, weights: np.ndarray
) -> np.ndarray:
    """`fields` of energies with exact signs, at float32 states: doubtful in float64, 0 at ties."""
    B, own = field_coefficients(overlap_sums(states, patterns), rule, patterns.shape[1], weights)
    h = B.astype(np.float32) @ patterns + np.float32(own) * states
    size = np.sqrt((B**2).sum(axis=1, keepdims=True)) + np.abs(own)
    s, i = np.nonzero(np.abs(h) <= NEAR * 1.2e-7 * np.sqrt(len(patterns)) * size)
    own, size = np.broadcast_to(own, size.shape)[s, 0], size[s, 0]
    exact = (B[s] * patterns.T[i]).sum(axis=1) + own * states[s, i]
    h[s, i] = np.where(np.abs(exact) <= CLOSE * size, 0, np.sign(exact))
    return h


def log_likelihoods(cues: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return ``log p(x_observed | mu)`` (S, K) of cues, for energies of graded patterns."""
    means = np.clip(np.asarray(means, np.float64), -SUREST, SUREST)
    require(means.ndim == 2, "means", "of shape (K, N)", means.shape)
    x = np.asarray(cues, np.float64)
    seen = (x != 0).astype(np.float64)
    even = (np.log1p(means) + np.log1p(-means)) / 2 - np.log(2)
    return seen @ even.T + x @ np.arctanh(means).T


def complete_cues(
    cues: np.ndarray, means: np.ndarray, weights: np.ndarray, beta: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return expected sites (S, N), responsibilities, energies ``-log p(x_observed) / beta``."""
    logs = beta * log_likelihoods(cues, means) + np.log(weights / np.sum(weights))
    total = log_sum_exp(logs)
    shares = np.exp(logs - total[:, None])
    return shares @ means, shares, -total / beta
