"""Zero-noise dynamics and scores of many patterns at once, on the arrays of any library.

Patterns sigma (C, N) are float32 of +-1, V (N, K) are the signal eigenvectors in float32, and both
lie where the work is done. On a device, too, every sweep asks whether all is at rest. It waits for
the answer, but a sweep is dozens of launches, and a few sweeps are enough.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from hopfed._lib.arrays import Array, namespace

TIE = 1e-6  # field that is a sum of float32 of about 1 which cancel: a tie, and +1


def polished(V: Array, states: Array, sweeps: int) -> Array:
    """Follow the dynamics of the projector ``V V^T``, self-field removed, to rest.

    Source: theory/NOTES.md, "Heat bath and self-field".

    Examples
    --------
    >>> V = np.full((4, 1), 0.5, np.float32)
    >>> polished(V, np.array([[1, 1, 1, -1]], np.float32), 5).tolist()
    [[1.0, 1.0, 1.0, 1.0]]
    """
    xp, own = namespace(V), (V * V).sum(axis=1)
    for _ in range(sweeps):
        fields = (states @ V) @ V.T - own * states
        new = xp.where(fields >= -TIE, np.float32(1), np.float32(-1))
        if _at_rest(new, states):
            break
        states = new
    return states


def refined(V: Array, signal: Array, states: Array, sweeps: int) -> Array:
    """Fit all patterns to the operator together; see `hopfed.archetypes.subspace.Subspace.refine`.

    Parameters
    ----------
    V, states : (N, K) and (C, N), C at least 1.
    signal : (K,) float32, the operator in the basis V.
    sweeps : alternations of weights and sites at most.
    """
    xp, N = namespace(V), V.shape[0]
    own = (V * V) @ signal
    last = states
    for _ in range(sweeps):
        a, overlaps = states @ V, states @ states.T
        p = xp.astype(_pair_weights(overlaps, a**2 @ signal - own.sum(), N), V.dtype)
        fields = (a * signal) @ V.T - (overlaps * p) @ states
        fields = fields + (N * p[:, None] - own + (p.sum() - p[:, None])) * states
        new = xp.where(fields >= 0, np.float32(1), np.float32(-1))
        if _at_rest(new, states, last):
            break
        states, last = new, states
    return states


def judged(coefficients: Array, overlaps: Array, n_sites: int) -> tuple[Array, Array]:
    """Scores (C,) of patterns, and those that theory expects of archetypes like them.

    Parameters
    ----------
    coefficients : (C, K) of the patterns.
    overlaps : (K,) gamma, squared cosine of each eigenvector with its population direction.
    n_sites : N.

    Examples
    --------
    >>> score, predicted = judged(np.array([[3.0, 0.0]]), np.array([0.9, 0.5]), 10)
    >>> score.tolist(), predicted.tolist()
    ([0.9], [0.9])
    """
    xp = namespace(coefficients)
    a2 = xp.astype(coefficients, xp.float64) ** 2
    predicted = a2.sum(axis=1).clip(1e-300) / (a2 / overlaps).sum(axis=1).clip(1e-300)
    return (coefficients**2).sum(axis=1) / n_sites, predicted


def _at_rest(new: Array, *before: Array) -> bool:
    """Whether `new` is one of the states before it."""
    if isinstance(new, np.ndarray):
        return any(np.array_equal(new, x) for x in before)
    xp = namespace(new)
    return bool(reduce(xp.logical_or, [xp.all(new == x) for x in before]))  # one wait


def _pair_weights(overlaps: Array, energies: Array, n_sites: int) -> Array:
    """Weights (C,) that fit an operator by patterns, over pairs of different sites.

    Parameters
    ----------
    overlaps : (C, C) ``sigma_c . sigma_d``.
    energies : (C,) sum of the operator over the pairs, times ``sigma_i sigma_j``.
    """
    xp = namespace(overlaps)
    H = xp.astype(overlaps, xp.float64) ** 2 - n_sites
    # Two copies of one pattern share its weight.
    ridge = 1e-6 * n_sites**2 * xp.eye(H.shape[0], dtype=xp.float64)
    weights = xp.linalg.solve(H + ridge, xp.astype(energies, xp.float64))
    return xp.maximum(weights, xp.zeros_like(weights))
