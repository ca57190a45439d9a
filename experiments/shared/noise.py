"""Counts of spikes above Gaussian noise: white, or of a family of covariances that is fitted.

The rules of `hopfed.spectral.rank` are for +-1 data: their trace is N, and the kurtosis of their
noise shifts the edge. Of a family, only its form is taken to be known: first-order autoregression
along the sites, or blocks of sites of equal variance. Its parameters are fitted to the data without
the spikes found so far; archetypes of random signs are not smooth along the sites, so the rest of
them has little effect on averages over sites.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from hopfed.spectral.noise import noise_variance
from hopfed.theory import tracy_widom
from hopfed.theory.covariance import Population, noise_threshold, population_eigenvalue

_ROUNDS = 10  # largest number of fits and counts; two or three usually suffice

# From second moments (N, N) to the covariance (N, N) nearest to them, and its spectrum.
Family: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, Population]]


def white_threshold(N: int, M: int, alpha: float) -> float:
    """Eigenvalue that white noise of variance 1 exceeds with probability `alpha`."""
    centre, scale = tracy_widom.wishart_scaling(M, N)
    return float((centre + scale * tracy_widom.isf(alpha)) / M)


def white_mean(N: int, M: int) -> float:
    """Mean of the largest eigenvalue of white noise of variance 1."""
    centre, scale = tracy_widom.wishart_scaling(M, N)
    return float((centre + scale * tracy_widom.moments(1).mean) / M)


def count_white(
    values: np.ndarray, N: int, M: int, alpha: float, *, widening: float = 1.0
) -> tuple[int, float]:
    """Spikes by a sequential Tracy-Widom test, and the threshold that the next did not exceed.

    The noise variance is the trace without the debiased spikes.
    """
    scale = values.sum() / N
    threshold = 0.0
    for k in range(len(values) - 1):
        variance = scale * noise_variance(values[:k] / scale, N, N / M)
        threshold = variance * white_threshold(N - k, M - k, alpha) * (M - k) / M * widening
        if values[k] <= threshold:
            return k, threshold
    return len(values) - 1, threshold


def autoregressive(rho: float, variance: float, N: int) -> np.ndarray:
    """Covariance (N, N) of stationary first-order autoregressive noise."""
    sites = np.arange(N)
    return variance * rho ** np.abs(sites[:, None] - sites)


def fit_autoregressive(moments: np.ndarray) -> tuple[np.ndarray, Population]:
    """Fit ``variance rho^|i - j|`` to the means of the diagonal and of the one beside it."""
    variance = float(np.mean(np.diag(moments)))
    rho = float(np.clip(np.mean(np.diag(moments, 1)) / variance, -0.99, 0.99))
    return autoregressive(rho, variance, len(moments)), Population.ar1(rho, variance)


def fit_blocks(count: int) -> Family:
    """A family of independent sites in blocks of consecutive ones, one variance per block."""

    def fit(moments: np.ndarray) -> tuple[np.ndarray, Population]:
        parts = np.array_split(np.diag(moments), count)
        variances = np.concatenate([np.full(len(p), max(p.mean(), 1e-12)) for p in parts])
        return np.diag(variances), Population(variances)

    return fit


def fit_noise(
    second_moment: np.ndarray,
    values: np.ndarray,
    vectors: np.ndarray,
    M: int,
    family: Family,
    alpha: float,
) -> tuple[int, np.ndarray]:
    """Fit noise and count spikes in turn until the count settles: (count, covariance (N, N)).

    `second_moment` is ``x^T x / M`` (N, N), followed by its eigenpairs, descending.
    """
    N, n_detected = len(second_moment), 0
    covariance, population = family(second_moment)
    for _ in range(_ROUNDS):
        before = n_detected
        n_detected = int((values > noise_threshold(population, N, M, alpha)).sum())
        if n_detected == before:
            break
        ell = population_eigenvalue(values[:n_detected], population, N / M)
        gap = np.maximum(ell[:, None] - population.eigenvalues, 0.0)
        with np.errstate(divide="ignore"):  # the inverse of `covariance.population_spike`
            strengths = np.nan_to_num(1 / (population.weights / gap).sum(axis=1))
        V = vectors[:, :n_detected]
        covariance, population = family(second_moment - (V * strengths) @ V.T)
    return n_detected, covariance
