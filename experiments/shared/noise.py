"""Families of noise covariance, fitted to a second-moment matrix that also contains archetypes.

Only the family is assumed known: first-order autoregression along the sites, or blocks of sites of
equal variance. Its parameters are fitted to the data without the spikes found so far. Archetypes of
random signs are not smooth along the sites, so the rest of them has little effect on averages over
sites.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hopfed.theory import general_spikes
from hopfed.theory.covariance import Population, noise_threshold

_ROUNDS = 10  # largest number of fits and counts; two or three usually suffice


class Family(Protocol):
    """A family of noise covariances."""

    def fit(self, moments: np.ndarray) -> tuple[np.ndarray, Population]:
        """Return the covariance (N, N) nearest to `moments` (N, N), and its spectrum."""
        ...


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
    """Noise fitted together with `n_detected` spikes.

    Attributes
    ----------
    n_detected : eigenvalues above `threshold`.
    threshold : eigenvalue that noise of this covariance exceeds with probability `alpha`.
    covariance, population : the fitted noise covariance (N, N) and its spectrum.
    """

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

    Parameters
    ----------
    second_moment : (N, N) matrix ``x^T x / M``, and its eigenpairs, descending.
    family : family of the noise.
    alpha : false-alarm rate of the generalised Tracy-Widom test.
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
