"""The paper's algorithm, done densely with its authors' defaults: what `recover` is held against.

Algorithms 1-2 and the defaults of A3 and A7: N x N operator, 200 sharpening steps of eps = 0.01,
eigenvectors above tau = 0.5, mixtures, a layered memory on the sharpened operator with clamped
field, greedy acceptance in order. As in the authors' programs the operator is multiplied by the
true number of archetypes, without which nothing passes tau; nothing else of hopfed does that.
"""

from __future__ import annotations

import numpy as np

from hopfed.sharpen import iterate


def recover_densely(examples: np.ndarray, K: int, *, layers: int = 5, seed: int = 0) -> np.ndarray:
    """Recover archetypes from examples (M, N) as the paper does, in double precision: (C, N)."""
    rng = np.random.default_rng(seed)
    M, N = examples.shape
    eta = examples.astype(np.float64)
    J = iterate((K / (N * M)) * (eta.T @ eta), eps=0.01, steps=200)
    values, vectors = np.linalg.eigh(J)
    V = vectors[:, values > 0.5]
    khat = V.shape[1]
    if khat == 0:
        return np.zeros((0, N))
    blocks = max(1, 10 * int(khat / layers * np.log(khat / 0.01)))
    cues = np.sign(rng.standard_normal((blocks, khat)) @ V.T)
    states = np.concatenate([_relax(J, cue, layers, rng) for cue in cues])
    return _accept(states, V @ V.T)


def _relax(
    J: np.ndarray,
    cue: np.ndarray,
    layers: int,
    rng: np.random.Generator,
    *,
    beta: float = 2.5,
    coupling: float = 0.2,
    field: float = 0.1,
    updates: int = 50,
    noise: tuple[float, float] = (0.3, 0.02),
) -> np.ndarray:
    """Synchronous updates (12) of one block of layers under the Hamiltonian (8)."""
    N = len(J)
    states = np.tile(cue, (layers, 1))
    for scale in np.linspace(*noise, updates) / beta:
        local = states @ J
        between = states @ local.T
        np.fill_diagonal(between, 0.0)
        fields = local - (coupling / N) * between @ local + field * cue
        u = rng.uniform(-scale, scale, size=fields.shape)
        states = np.where(np.tanh(beta * fields) + u >= 0, 1.0, -1.0)
    return states


def _accept(states: np.ndarray, P: np.ndarray, rho: float = 0.6, delta: float = 0.4) -> np.ndarray:
    """Greedy acceptance in the order of arrival, by score and overlap (19)."""
    N = states.shape[1]
    kept: list[np.ndarray] = []
    for state in states:
        good = float(state @ P @ state) / N > rho
        if good and all(abs(float(state @ k)) / N < delta for k in kept):
            kept.append(state)
    return np.array(kept) if kept else np.zeros((0, N))
