"""Noise of any covariance: edge of the bulk, test threshold, support.

The noise covariance enters through its eigenvalues and their weights, a :class:`Population`. Every
function takes `q = N / M` and, optionally, the radius of a semicircle: symmetric Gaussian noise of
known scale that was added to the operator, as a privacy mechanism does (entries of variance
`(radius / 2)^2 / N`). The spectrum is then the free convolution of the two laws.

Parameters
----------
population : noise covariance spectrum.
N, M, q : sites, examples, N / M.
radius : radius of the added semicircle, at least 0.

Spikes over such a bulk are in `general_spikes`, its density in `density`.

Sources: N. El Karoui, Ann. Probab. 35 (2007) 663; W. Hachem, A. Hardy, J. Najim, Ann. Probab. 44
(2016) 2264; J. O. Lee, K. Schnelli, Ann. Appl. Probab. 26 (2016) 3786.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check, _silverstein, tracy_widom


@dataclass(frozen=True, eq=False)
class Population:
    """Spectrum of a noise covariance: eigenvalues with weights, as a discrete law.

    Parameters
    ----------
    eigenvalues : (n,) population eigenvalues, above 0, in any order; equal ones are merged.
    weights : (n,) positive weights, normalised to sum 1; equal ones by default.

    >>> Population([3.0, 1.0, 1.0]).weights.round(3)
    array([0.667, 0.333])
    """

    eigenvalues: np.ndarray
    weights: np.ndarray

    def __init__(self, eigenvalues: ArrayLike, weights: ArrayLike | None = None):
        t = np.atleast_1d(_check.positive("eigenvalues", eigenvalues))
        if t.ndim != 1 or t.size == 0:
            raise ArgumentError("eigenvalues", "a list of at least one number", f"shape {t.shape}")
        w = np.ones_like(t) if weights is None else _check.positive("weights", weights)
        if w.shape != t.shape:
            raise ArgumentError("weights", f"of shape {t.shape}, one per eigenvalue", w.shape)
        values, place = np.unique(t, return_inverse=True)
        object.__setattr__(self, "eigenvalues", values)
        object.__setattr__(self, "weights", np.bincount(place, w) / w.sum())

    @property
    def mean(self) -> float:
        """Mean noise variance of a site."""
        return float(self.weights @ self.eigenvalues)

    @classmethod
    def flat(cls, variance: float = 1.0) -> Population:
        """White noise of this `variance`.

        >>> Population.flat(2.0).mean
        2.0
        """
        return cls([_check.scalar("variance", variance, _check.positive)])

    @classmethod
    def ar1(cls, rho: float, variance: float = 1.0, nodes: int = 2048) -> Population:
        """Stationary first-order autoregressive noise, `Cov(i, j) = variance rho^|i - j|`.

        The limit spectrum `(1 - rho^2) / (1 - 2 rho cos theta + rho^2)`, theta uniform, at the
        midpoints of `nodes` equal steps: exponentially accurate.

        >>> round(Population.ar1(0.6).mean, 12)
        1.0
        """
        rho = _check.scalar(
            "rho", rho, lambda n, v: _check.real(n, v, "a number in (-1, 1)", lambda a: abs(a) < 1)
        )
        count = int(_check.scalar("nodes", nodes, _check.count))
        theta = np.pi * (np.arange(count) + 0.5) / count
        scale = _check.scalar("variance", variance, _check.positive)
        return cls(scale * (1 - rho**2) / (1 - 2 * rho * np.cos(theta) + rho**2))

    @classmethod
    def of_matrix(cls, covariance: np.ndarray) -> Population:
        """Spectrum of a symmetric positive definite noise covariance of shape (N, N).

        >>> Population.of_matrix(np.diag([1.0, 4.0])).eigenvalues
        array([1., 4.])
        """
        matrix = _check.real("covariance", covariance)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ArgumentError("covariance", "a square matrix", f"shape {matrix.shape}")
        if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0):
            raise ArgumentError("covariance", "symmetric", "an asymmetric matrix")
        return cls(np.linalg.eigvalsh(matrix))


@dataclass(frozen=True)
class Edge:
    """Upper edge of a bulk.

    Attributes
    ----------
    location : where the density ends.
    scale : `M^(2/3) (lambda_1 - location) / scale` has the beta = 1 Tracy-Widom law.
    critical : population eigenvalue from which a spike separates (1/c in El Karoui's notation).

    >>> edge = upper_edge(Population.flat(), 0.25)
    >>> round(edge.location, 3), round(edge.critical, 3)
    (2.25, 1.5)
    """

    location: float
    scale: float
    critical: float


def upper_edge(population: Population, q: float, radius: float = 0.0) -> Edge:
    """Upper edge of the sample spectrum, with its Tracy-Widom scale and its spike threshold.

    Without semicircle: `1/c` solves `int (tc / (1 - tc))^2 dH = 1/q`, the edge is
    `(1/c)(1 + q int tc / (1 - tc) dH)`, and `scale^3 = c^-3 (1 + q int (tc / (1 - tc))^3 dH)`.

    >>> edge = upper_edge(Population([1.0, 3.0]), 0.5)
    >>> round(edge.location, 12), round(edge.scale, 12)
    (7.071272162421, 6.472573201147)
    >>> round(upper_edge(Population.flat(), 0.25).location, 12)
    2.25
    """
    law = _law_of(population, q, radius)
    distance = _silverstein.upper_distance(law)
    maps = law.above(np.array(distance))
    # Near the edge Z = Z_E + (1/2) Z_GG (G - G_E)^2, so the N-normalised density starts as
    # (1/pi) sqrt(2 (E - x) / Z_GG), against (1/pi) sqrt(2 - x) for Wigner's, whose scale is 1.
    curvature = float((maps.z2 + law.noise * maps.G2)[0] / maps.G1[0] ** 2)
    return Edge(
        location=float(law.value(maps)[0]),
        scale=float(np.cbrt(curvature / 2) / np.cbrt(law.q) ** 2),
        critical=float(law.t[-1] + distance),
    )


def noise_threshold(
    population: Population,
    N: int,
    M: int,
    false_alarm: float = 0.05,
    radius: float = 0.0,
) -> float:
    """Eigenvalue that noise of this covariance exceeds with probability `false_alarm`.

    Takes `N - 1/2` and `M - 1/2` for N and M, which for white noise is Ma's scaling exactly.

    >>> round(noise_threshold(Population.flat(), 100, 400), 6)
    2.283374
    """
    sites, samples = _check.scalar("N", N, _check.count), _check.scalar("M", M, _check.count)
    level = tracy_widom.critical_value(
        _check.scalar("false_alarm", false_alarm, _check.probability)
    )
    shrink = (samples - 0.5) / samples
    # The semicircle is not part of the average over M examples: undo the shrinking for it.
    edge = upper_edge(population, (sites - 0.5) / (samples - 0.5), radius / shrink)
    return float(shrink * (edge.location + edge.scale * (samples - 0.5) ** (-2 / 3) * level))


def support(population: Population, q: float, radius: float = 0.0) -> np.ndarray:
    """Intervals that carry the continuous part of the sample spectrum.

    Returns
    -------
    (k, 2) array of ascending end points. The atom at 0 for q > 1 (radius 0) is not listed.

    >>> support(Population([1.0, 10.0]), 0.02).round(4)
    array([[ 0.8001,  1.1976],
           [ 8.1113, 12.111 ]])
    """
    return _silverstein.support(_law_of(population, q, radius))


def _law_of(population: Population, q: float, radius: float) -> _silverstein.Law:
    """Checked arguments as the law the solvers work on."""
    if not isinstance(population, Population):
        raise ArgumentError("population", "a Population", repr(population))
    t, ratio = population.eigenvalues, _check.scalar("q", q, _check.positive)
    width = _check.scalar("radius", radius, _check.nonnegative)
    # A radius moves an edge by its square: this little is below rounding.
    noise = width**2 / 4 if width > 1e-8 * t[-1] else 0.0
    return _silverstein.Law(t, population.weights, ratio, noise)


_check.guard(__name__)
