"""Plasticity: the weight w of a client's fresh data in the blend with the memory.

1 follows the data, 0 keeps the memory. Noise disagrees with memory as much as novelty does: the
entropy rule opens to both, the agreement rule shuts both out, and `Structure` tells them apart.
Source: arXiv:2603.19902, eqs. (44) to (52); theory/NOTES.md, "Plasticity", "Structure rule".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import orth
from scipy.special import betainc, entr, ndtri

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.kernels import Rows
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator
from hopfed.spectral.rank import Sample, TracyWidom, noise_variance
from hopfed.spectral.rows import times

__all__ = ["Agreement", "Entropy", "Fixed", "Rule", "Structure"]

PAIRS = 20_000  # pairs of sites looked at: a standard error of at most 0.0036 from their sampling
REST, ALPHA = 0.5, 1e-3  # weight of clean familiar data, false-alarm rate of the structure rule
LEAST_EXCESS = 0.01  # of p0 over 1/2 that the sample of pairs resolves: about three errors
_WORDS = 1 << 20  # words of bits compared at a time


def sign_agreement(rows: Rows, patterns: np.ndarray, seed: int = 0) -> float:
    """Plasticity's agreement p of memory and batch: share of site pairs whose signs agree (46)."""
    i, j = site_pairs(rows.n, seed)
    memory, batch = _pair_sums(kernels.pack(patterns), i, j), _pair_sums(rows, i, j)
    return float(((1 + np.sign(memory) * np.sign(batch)) / 2).mean())


def expected_agreement(
    r: float, M: int, patterns: np.ndarray, exposures: np.ndarray | None = None, seed: int = 0
) -> float:
    """Plasticity's expected agreement p0 with the memory, of M examples of its archetypes (48)."""
    i, j = site_pairs(patterns.shape[1], seed)
    products = patterns[:, i] * patterns[:, j]
    if exposures is None:
        rho = r**2 * products.mean(axis=0)
    else:
        mean = r**2 * (exposures @ products)
        second = np.maximum(1 - r**4 * np.sum(exposures), 0.0) + mean**2
        rho = np.divide(mean, np.sqrt(second), out=np.zeros_like(mean), where=second > 0)
        rho = np.clip(rho, -1.0, 1.0)
    rho = rho * np.sign(products.sum(axis=0, dtype=np.int64))
    half = (M + 1) // 2
    # A few patterns have few different means of their pairs.
    distinct, times_seen = np.unique(rho, return_counts=True)
    return float(times_seen @ betainc(half, half, (1 + distinct) / 2) / len(rho))


def binary_entropy(p: float) -> float:
    """Entropy ``h2(p)`` in bits of an agreement p of memory and batch, for plasticity (47)."""
    return float((entr(p) + entr(1 - p)) / np.log(2))


def site_pairs(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw PAIRS pairs of different sites, for agreement in plasticity's rules; all if fewer."""
    if n * (n - 1) // 2 <= PAIRS:
        return np.triu_indices(n, 1)
    rng = stream(seed, "agreement", "pairs", n)
    i = rng.integers(n, size=PAIRS)
    return i, (i + rng.integers(1, n, size=PAIRS)) % n


def _pair_sums(rows: Rows, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """``sum_m eta_mi eta_mj`` of each pair, int64: a product of signs is an exclusive or."""
    columns = kernels.transpose(rows)
    words = to_host(columns.signs)
    sums = np.empty(len(i), dtype=np.int64)
    step = max(1, _WORDS // words.shape[1])
    for a in range(0, len(i), step):
        part = slice(a, a + step)
        unequal = np.bitwise_count(words[i[part]] ^ words[j[part]])
        sums[part] = columns.n - 2 * unequal.sum(axis=1, dtype=np.int64)
    return sums


@dataclass(frozen=True)
class _Residual(Sample):
    """Spectrum of ``P C P``, a batch outside of the memory, with a trace of `left` to a site."""

    left: float = 1.0

    def variance(self, k: int) -> float:
        """Bulk variance ``s2 = 1 - r_mem^2 - r_new^2`` beside k novel spikes."""
        return self.left * noise_variance(self.values[:k] / self.left, self.n_sites, self.aspect)


@dataclass(frozen=True)
class Broadcast:
    """The server's memory as clients know it, for a rule of plasticity: patterns and quality."""

    patterns: np.ndarray = field(repr=False)  # int8 (K, N) of +-1; K may be 0
    quality: float  # quality r of the federation as the server estimated it; above 0 if K is


# A rule takes fresh examples (M, N), the server's memory, which is not empty, and a seed; it gives
# the weight w in [0, 1], the share of the fresh data in the blend (44).
Rule = Callable[[Rows, Broadcast, int], float]


@dataclass(frozen=True)
class Fixed:
    """Rule of plasticity: the same weight for all data."""

    weight: float = 0.6

    def __post_init__(self) -> None:
        check_types(self)
        require(0 <= self.weight <= 1, "weight", "in [0, 1]", self.weight)

    def __call__(self, rows: Rows, broadcast: Broadcast, seed: int) -> float:  # noqa: ARG002, D102
        return self.weight


def _agreement(rows: Rows, memory: Broadcast, seed: int, shares: np.ndarray | None = None) -> float:
    """Expected agreement p0 of a familiar batch, no closer to 1/2 than LEAST_EXCESS."""
    about = memory.quality, len(rows), memory.patterns
    return max(expected_agreement(*about, shares, seed), 0.5 + LEAST_EXCESS)


@dataclass(frozen=True)
class Entropy:
    """Plasticity ``w = max(0, (h2(p) - h2(p0)) / (1 - h2(p0)))``: opens to disagreement (49, 51).

    p0 is expected of M examples of all the remembered archetypes, equally often: the paper's
    ``(1 + r^2)/2``, of a single example, is exceeded by a batch that is half noise.
    """

    def __call__(self, rows: Rows, broadcast: Broadcast, seed: int) -> float:  # noqa: D102
        floor = binary_entropy(_agreement(rows, broadcast, seed))
        h = binary_entropy(sign_agreement(rows, broadcast.patterns, seed=seed))
        return min(max((h - floor) / (1 - floor), 0.0), 1.0)


@dataclass(frozen=True)
class Agreement:
    """Plasticity ``w = clip((p - 1/2) / (p0 - 1/2), 0, 1)``: shuts out disagreement.

    p0 is of M examples with the exposures that the batch itself shows (each example counted for its
    nearest pattern): a client that holds some of the archetypes is not taken for a noisy one.
    """

    def __call__(self, rows: Rows, broadcast: Broadcast, seed: int) -> float:  # noqa: D102
        p = sign_agreement(rows, broadcast.patterns, seed=seed)
        columns = np.ascontiguousarray(broadcast.patterns.T, dtype=np.float32)
        overlaps = np.abs(times(rows, columns))
        nearest = overlaps == overlaps.max(axis=1, keepdims=True)
        shares = (nearest / nearest.sum(axis=1, keepdims=True)).mean(axis=0)
        p0 = _agreement(rows, broadcast, seed, shares)
        return min(max((p - 0.5) / (p0 - 0.5), 0.0), 1.0)


@dataclass(frozen=True)
class Structure:
    """Plasticity ``w = g (REST + (1 - REST) nu)``: opens to novelty, and shuts out noise.

    ``r_mem^2`` and ``r_new^2`` are the shares of the batch's variance explained by remembered
    archetypes and by structure outside of them. Their sum, relative to the ``r^2`` of the
    federation, is the quality factor ``g``, at most 1; ``nu`` is the novel part of it.
    """

    def __call__(self, rows: Rows, broadcast: Broadcast, seed: int) -> float:  # noqa: ARG002, D102
        memory, novelty = explained_variance(rows, broadcast.patterns)
        signal = memory + novelty
        quality = min(1.0, signal / broadcast.quality**2)
        new = novelty / signal if signal > 0 else 0.0
        return quality * (REST + (1 - REST) * new)


def explained_variance(rows: Rows, patterns: np.ndarray) -> tuple[float, float]:
    """Return for plasticity a batch's shares of variance: remembered patterns, novel structure."""
    basis = orth(patterns.T.astype(np.float64))
    (M, N), rank, inside = rows.shape, basis.shape[1], times(rows, basis)
    outside = N - float((inside**2).sum()) / M  # trace of P C P
    novel = np.zeros(0)
    if outside > 1e-9 * N:
        left, (f, b) = outside / (N - rank), (x.astype(np.float32) for x in (inside, basis))
        if N < M:  # the smaller of two matrices with the nonzero spectrum of P C P
            S = kernels.second_moment(rows).astype(np.float32)
            half = S - (S @ b) @ b.T
            operator = DenseOperator(N, float(M), float(M), half - b @ (b.T @ half))
        else:
            G = kernels.gram(rows).astype(np.float32)
            operator = DenseOperator(M, float(M), float(M), G - f @ f.T)
        values = eigenpairs(operator, 0, route="dense").values
        found = TracyWidom(ALPHA)(_Residual(values, N - rank, M, True, left=left))
        novel = found.variance * found.strengths / (N - rank)
        novel = novel / max(1.0, novel.sum() / min(left, 1.0))
    excess = float((inside**2).sum()) / M - rank
    length = 2 * max(rank - float(((basis**2).sum(axis=1) ** 2).sum()), 0.0)
    edge = ndtri(1 - ALPHA) * np.sqrt(length * (1 / M + novel @ novel))
    memory = min(excess / max(rows.n - rank, 1), 1.0) if excess > edge else 0.0
    return memory, float(novel.sum())
