"""Pair of a recovery: hopfed, the published algorithm on dense matrices, and k-means."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hopfed.archetypes.overlap import retrieval
from hopfed.bench.common import examples, float32
from hopfed.bench.harness.record import Cost, Data, Pair, Way, cross, doubling
from hopfed.bench.spectral import gram_route_cost
from hopfed.recovery.recover import recover
from hopfed.spectral.sharpening import iterate


def recover_densely(x: np.ndarray, K: int, *, layers: int = 5, seed: int = 0) -> np.ndarray:
    """Recover archetypes (C, N) from examples x (M, N) with the published algorithm, in float64.

    These are Algorithms 1 and 2 of arXiv:2603.19902 with their defaults: an N x N operator, 200
    sharpening steps of eps = 0.01, eigenvectors above tau = 0.5, mixtures, a layered memory on the
    sharpened operator with clamped field, and greedy acceptance in order. As in the authors'
    programs, the operator is multiplied by the true number of archetypes; otherwise no eigenvalue
    exceeds tau. No other part of hopfed uses this number.
    """
    rng = np.random.default_rng(seed)
    M, N = x.shape
    eta = x.astype(np.float64)
    J = iterate((K / (N * M)) * (eta.T @ eta), eps=0.01, steps=200)
    values, vectors = np.linalg.eigh(J)
    V = vectors[:, values > 0.5]
    n_detected = V.shape[1]
    if n_detected == 0:
        return np.zeros((0, N))
    blocks = max(1, 10 * int(n_detected / layers * np.log(n_detected / 0.01)))
    cues = np.sign(rng.standard_normal((blocks, n_detected)) @ V.T)
    states = np.concatenate([_relax(J, cue, layers, rng) for cue in cues])
    return _accept(states, V @ V.T)


def _relax(J: np.ndarray, cue: np.ndarray, layers: int, rng: np.random.Generator) -> np.ndarray:
    """Make 50 synchronous updates, eq. (12), of a block of layers with the Hamiltonian, eq. (8)."""
    beta, coupling, field = 2.5, 0.2, 0.1
    N = len(J)
    states = np.tile(cue, (layers, 1))
    for scale in np.linspace(0.3, 0.02, 50) / beta:
        local = states @ J
        between = states @ local.T
        np.fill_diagonal(between, 0.0)
        fields = local - (coupling / N) * between @ local + field * cue
        u = rng.uniform(-scale, scale, size=fields.shape)
        states = np.where(np.tanh(beta * fields) + u >= 0, 1.0, -1.0)
    return states


def _accept(states: np.ndarray, P: np.ndarray, rho: float = 0.6, delta: float = 0.4) -> np.ndarray:
    """Accept states greedily in their order, by score and overlap, eq. (19)."""
    N = states.shape[1]
    kept: list[np.ndarray] = []
    for state in states:
        good = float(state @ P @ state) / N > rho
        if good and all(abs(float(state @ k)) / N < delta for k in kept):
            kept.append(state)
    return np.array(kept) if kept else np.zeros((0, N))


class Patterns(NamedTuple):
    """Patterns (C, N) of +-1, and the number of passes over the data that found them."""

    patterns: np.ndarray
    passes: int = 1


def _k_means(x: np.ndarray, K: int) -> Patterns:
    from sklearn.cluster import KMeans

    found = KMeans(K, random_state=0).fit(x)
    return Patterns(np.where(found.cluster_centers_ >= 0, 1, -1), found.n_iter_)


def _e2e(M: int, N: int, K: int) -> tuple[Way, ...]:
    # Cost of hopfed: packing, eigenpairs by the smaller side, the projections of all examples.
    pairs = gram_route_cost(min(M, N), max(M, N), K)
    thin = Cost(M * N + M * N // 8 + pairs.bytes, {**pairs.operations, "float32": 2 * M * N * K})
    # Cost of the paper's: the operator and 200 sharpening steps; the relaxation is not counted.
    steps = {"float64": 2 * M * N * N + 200 * 2 * N**3}
    dense = Cost(9 * M * N + 200 * 8 * 10 * N * N, steps)

    def passes(found: Patterns) -> Cost:
        """Cost of the distances of all examples to all centres in every pass."""
        n = found.passes
        return Cost(5 * M * N + n * 4 * M * N, {"float32": n * 2 * M * N * K})

    def spectral(data: Data) -> Patterns:
        return Patterns(recover(data["x"], seed=0).patterns)

    def published(data: Data) -> Patterns:
        return Patterns(recover_densely(data["x"], K, seed=0))

    def k_means(data: Data) -> Patterns:
        return _k_means(float32(data), K)

    return (
        Way("recover", spectral, thin),
        Way("the paper's, dense", published, dense, tolerance=None, most={"N": 500}),
        Way("k-means on raw data", k_means, passes, tolerance=None),
    )


def _not_found(a: Patterns, b: Patterns) -> float:
    """1 minus the mean overlap of the patterns of `a` with the nearest patterns of `b`."""
    if len(a.patterns) == 0:
        return 1.0
    return float(1 - retrieval(b.patterns, a.patterns).magnetisation.mean())


PAIRS = (
    Pair(
        "e2e",
        "from M examples over N sites to K archetypes; only the first is not told K",
        examples,
        _e2e,
        _not_found,
        cross({"M": 500, "N": 4_000, "K": 4}, N=doubling(125, 4_000), M=doubling(250, 1_000)),
        cross(
            {"M": 1_000, "N": 16_000, "K": 4},
            N=(125, 250, 500, 1_000, 4_000, 16_000, 64_000),
            M=doubling(250, 4_000),
        ),
        cuda=True,
    ),
)
