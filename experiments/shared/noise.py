"""Counts of spikes above Gaussian noise: white, or of a family of covariances that is fitted.

The rules of `hopfed.spectral.rank` are for +-1 data: their trace is N, and the kurtosis of their
noise shifts the edge. The white count scales any data to trace N and uses the edge of Gaussian
noise. The families are fitted to a second-moment matrix that also contains archetypes.
Only the family is assumed known: first-order autoregression along the sites, or blocks of sites of
equal variance. Its parameters are fitted to the data without the spikes found so far. Archetypes of
random signs are not smooth along the sites, so the rest of them has little effect on averages over
sites.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hopfed.spectral.noise import noise_variance
from hopfed.theory import general_spikes, tracy_widom
from hopfed.theory.covariance import Population, noise_threshold

_ROUNDS = 10  # largest number of fits and counts; two or three usually suffice


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

    Parameters
    ----------
    values : eigenvalues of a second-moment matrix, descending; all that are not 0.
    widening : factor of the threshold, for estimators whose bulk is a little wider than the law.

    Examples
    --------
    >>> x = np.random.default_rng(0).standard_normal((400, 100))
    >>> count_white(np.linalg.eigvalsh(x.T @ x / 400)[::-1], 100, 400, 0.01)[0]
    0
    """
    scale = values.sum() / N
    threshold = 0.0
    for k in range(len(values) - 1):
        variance = scale * noise_variance(values[:k] / scale, N, N / M)
        threshold = variance * white_threshold(N - k, M - k, alpha) * (M - k) / M
        threshold *= widening
        if values[k] <= threshold:
            return k, threshold
    return len(values) - 1, threshold


class Family(Protocol):
    """A family of noise covariances."""

    def fit(self, moments: np.ndarray) -> tuple[np.ndarray, Population]:
        """Return the covariance (N, N) nearest to `moments` (N, N), and its spectrum."""


@dataclass(frozen=True)
class Autoregressive:
    """``Cov(i, j) = variance rho^|i - j|``; rho is the lag-one correlation."""

    def fit(self, moments: np.ndarray) -> tuple[np.ndarray, Population]:
        """Fit variance and rho to the means of the diagonal and of the one beside it."""
        variance = float(np.mean(np.diag(moments)))
        rho = float(np.clip(np.mean(np.diag(moments, 1)) / variance, -0.99, 0.99))
        return autoregressive(rho, variance, len(moments)), Population.ar1(rho, variance)


@dataclass(frozen=True)
class Blocks:
    """Independent sites in `count` blocks of consecutive sites, one variance per block."""

    count: int

    def fit(self, moments: np.ndarray) -> tuple[np.ndarray, Population]:
        """Fit every variance to the mean of its block of the diagonal."""
        parts = np.array_split(np.diag(moments), self.count)
        variances = np.concatenate([np.full(len(p), max(p.mean(), 1e-12)) for p in parts])
        return np.diag(variances), Population(variances)


def autoregressive(rho: float, variance: float, N: int) -> np.ndarray:
    """Covariance (N, N) of stationary first-order autoregressive noise."""
    sites = np.arange(N)
    return variance * rho ** np.abs(sites[:, None] - sites)


@dataclass(frozen=True)
class Fit:
    """Noise, its covariance (N, N) and spectrum, fitted with the eigenvalues above `threshold`."""

    n_detected: int
    threshold: float
    covariance: np.ndarray
    population: Population


def fit_noise(
    second_moment: np.ndarray,
    values: np.ndarray,
    vectors: np.ndarray,
    M: int,
    family: Family,
    alpha: float,
) -> Fit:
    """Fit noise and count spikes alternately, until the count no longer changes.

    `second_moment` is ``x^T x / M`` (N, N), followed by its eigenpairs, descending.
    """
    N = len(second_moment)
    fit = Fit(0, 0.0, *family.fit(second_moment))
    for _ in range(_ROUNDS):
        threshold = noise_threshold(fit.population, N, M, alpha)
        n_detected = int((values > threshold).sum())
        settled = n_detected == fit.n_detected
        fit = Fit(n_detected, threshold, fit.covariance, fit.population)
        if settled:
            break
        ell = general_spikes.population_eigenvalue(values[:n_detected], fit.population, N / M)
        strengths = np.nan_to_num(general_spikes.signal_strength(ell, fit.population))
        V = vectors[:, :n_detected]
        rest = second_moment - (V * strengths) @ V.T
        fit = Fit(n_detected, threshold, *family.fit(rest))
    return fit
