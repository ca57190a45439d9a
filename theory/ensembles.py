"""Ensembles by name: Wigner and Wishart matrices, real, complex and quaternion, with one spike.

Matrices have entries of unit variance: Wigner's are Hermitian, divided by ``sqrt N``, and Wishart's
are ``X^* X / M``. Laws, edges, outliers and overlaps are the limits of large matrices; `scaling`
gives the centre and scale that bring the largest noise eigenvalue to the Tracy-Widom law; `tops`
draws largest eigenvalue and overlap exactly, at, below and above the threshold, from the leading
part of a tridiagonal matrix. For several spikes of Wishart matrices see `spiked`.

Parameters
----------
beta : 1 (real), 2 (complex) or 4 (quaternions).
theta : strength of the spike: ``theta u u^*`` is added to a Wigner matrix, or to the covariance of
    the rows of a Wishart matrix; at least 0.

Sources: I. Dumitriu, A. Edelman, J. Math. Phys. 43 (2002) 5830; A. Bloemendal, B. Virag, Probab.
Theory Relat. Fields 156 (2013) 795; centres: P. J. Forrester, A. K. Trinh, J. Math. Phys. 59 (2018)
053302; F. Benaych-Georges, R. R. Nadakuditi, Adv. Math. 227 (2011) 494.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import _check, marchenko_pastur, spiked, spikes, tracy_widom


@dataclass(frozen=True)
class Wishart:
    """``X^* X / M`` of M rows of N columns.

    Attributes
    ----------
    N, M : columns and rows, above 1.
    beta : as above.

    >>> law = Wishart(100, 400, beta=2)
    >>> law.edges, float(law.outlier(1.0)), float(law.overlap(1.0))
    ((0.25, 2.25), 2.5, 0.6)
    >>> centre, scale = law.scaling
    >>> noise, _ = law.tops(0.0, 2000, np.random.default_rng(0))
    >>> bool(abs(np.mean((noise[:, 0] - centre) / scale) - tracy_widom.moments(2).mean) < 0.1)
    True
    """

    N: int
    M: int
    beta: int = 1

    def __post_init__(self) -> None:
        _check.scalar("N", self.N, _check.count)
        _check.scalar("M", self.M, _check.count)
        _check.one_of("beta", self.beta, (1, 2, 4))

    @property
    def q(self) -> float:
        """Aspect ratio N / M."""
        return self.N / self.M

    @property
    def edges(self) -> tuple[float, float]:
        """Ends of the bulk."""
        low, high = marchenko_pastur.edges(self.q)
        return float(low), float(high)

    @property
    def scaling(self) -> tuple[float, float]:
        """Centre and scale of the largest eigenvalue."""
        centre, scale = tracy_widom.wishart_scaling(self.M, self.N, self.beta)
        return float(centre / self.M), float(scale / self.M)

    @property
    def threshold(self) -> float:
        """Strength above which a spike leaves the bulk."""
        return float(spikes.threshold(self.q))

    def pdf(self, x: ArrayLike) -> np.ndarray:
        """Density of the nonzero eigenvalues at `x`."""
        return marchenko_pastur.pdf(x, self.q)

    def cdf(self, x: ArrayLike) -> np.ndarray:
        """Distribution of the eigenvalues at `x`."""
        return marchenko_pastur.cdf(x, self.q)

    def outlier(self, theta: ArrayLike) -> np.ndarray:
        """Eigenvalue of a spike `theta`; the upper edge up to the threshold."""
        return spikes.outlier(theta, self.q)

    def overlap(self, theta: ArrayLike) -> np.ndarray:
        """Squared cosine of the eigenvector of a spike `theta` and the spike."""
        return spikes.overlap(theta, self.q)

    def tops(
        self, theta: float, size: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """`size` draws from `rng` of largest eigenvalue and overlap, as `spiked.draws`."""
        return spiked.draws(theta, self.N, self.M, size, rng, beta=self.beta)


@dataclass(frozen=True)
class Wigner:
    """Hermitian noise of N sites, each entry off the diagonal of variance 1 / N.

    >>> law = Wigner(400)
    >>> law.edges, float(law.outlier(2.0)), float(law.overlap(2.0)), law.threshold
    ((-2.0, 2.0), 2.5, 0.75, 1.0)
    >>> float(law.cdf(0.0)), round(float(law.pdf(0.0)), 4)
    (0.5, 0.3183)
    >>> top, cosine = law.tops(2.0, 400, np.random.default_rng(0))
    >>> round(float(top.mean()), 1), round(float(cosine.mean()), 2)
    (2.5, 0.75)
    """

    N: int
    beta: int = 1
    threshold = 1.0
    edges = (-2.0, 2.0)

    def __post_init__(self) -> None:
        _check.scalar("N", self.N, _check.count)
        _check.one_of("beta", self.beta, (1, 2, 4))

    @property
    def scaling(self) -> tuple[float, float]:
        """Centre and scale of the largest eigenvalue."""
        sites = self.N + 0.5 - 1 / self.beta
        return float(2 * np.sqrt(sites / self.N)), float(sites ** (-1 / 6) / np.sqrt(self.N))

    def pdf(self, x: ArrayLike) -> np.ndarray:
        """Density of the eigenvalues at `x`, the semicircle."""
        found: np.ndarray = np.sqrt(np.maximum(4 - _check.real("x", x) ** 2, 0)) / (2 * np.pi)
        return found[()]

    def cdf(self, x: ArrayLike) -> np.ndarray:
        """Distribution of the eigenvalues at `x`."""
        half = np.clip(_check.place("x", x) / 2, -1, 1)
        found: np.ndarray = 0.5 + (half * np.sqrt(1 - half**2) + np.arcsin(half)) / np.pi
        return found[()]

    def outlier(self, theta: ArrayLike) -> np.ndarray:
        """Eigenvalue of a spike `theta`; the upper edge up to the threshold of 1."""
        above = np.maximum(_check.nonnegative("theta", theta), 1.0)
        return (above + 1 / above)[()]

    def overlap(self, theta: ArrayLike) -> np.ndarray:
        """Squared cosine of the eigenvector and a spike `theta`; 0 up to the threshold."""
        return (1 - np.maximum(_check.nonnegative("theta", theta), 1.0) ** -2)[()]

    def tops(
        self, theta: float, size: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """(size, 1) largest eigenvalues and (size, 1, 1) squared cosines, at a spike `theta`.

        Drawn from `rng`.

        Reflections of all axes but the spike's give a tridiagonal matrix, normal on the diagonal
        and chi of ``beta (N - i)`` beside it; its first ``c N^(1/3)`` rows determine the top.
        """
        from scipy.linalg import eigh_tridiagonal

        strength = _check.scalar("theta", theta, _check.nonnegative)
        count = int(_check.scalar("size", size, _check.count))
        n = int(min(self.N, np.ceil(spiked.REACH * self.N ** (1 / 3)) + 8))
        values, cosines = np.empty((count, 1)), np.empty((count, 1, 1))
        for draw in range(count):
            diagonal = _check.generator(rng).standard_normal(n) * np.sqrt(2 / self.beta / self.N)
            diagonal[0] += strength
            beside = np.sqrt(
                rng.chisquare(self.beta * (self.N - 1 - np.arange(n - 1))) / self.beta / self.N
            )
            top, vector = eigh_tridiagonal(
                diagonal, beside, select="i", select_range=(n - 1, n - 1)
            )
            values[draw], cosines[draw] = top[0], vector[0, 0] ** 2
        return values, cosines
