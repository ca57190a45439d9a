"""Spikes over noise of any covariance, with or without an added semicircle.

A spike is described by its population eigenvalue `ell`, an eigenvalue of the covariance of the
data above those of the noise. When the signal is `theta u u^T` added to the noise covariance,
:func:`population_spike` gives `ell`, and how far the population eigenvector is from u itself.

Parameters
----------
ell, eigenvalue : population and sample eigenvalue of a spike, above 0; any shape.
population : noise covariance spectrum.
q : aspect ratio N / M, above 0.
radius : radius of the added semicircle, at least 0.

Raises
------
ArgumentError : an argument outside of its range, or a population that is none.

Sources: Z. Bai, J. Yao, J. Multivariate Anal. 106 (2012) 167; F. Benaych-Georges, R. R.
Nadakuditi, Adv. Math. 227 (2011) 494; semicircle: M. Capitaine, C. Donati-Martin, D. Feral,
M. Fevrier, Electron. J. Probab. 16 (2011) 1750.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check, _silverstein
from ._solve import increasing_root
from .covariance import Population, _law_of


def threshold(population: Population, q: float, radius: float = 0.0) -> float:
    """Population eigenvalue above which a spike leaves the bulk.

    >>> round(threshold(Population.flat(2.0), 0.25), 12)
    3.0
    """
    law = _law_of(population, q, radius)
    return float(law.t[-1] + _silverstein.upper_distance(law))


def outlier(ell: ArrayLike, population: Population, q: float, radius: float = 0.0) -> np.ndarray:
    """Sample eigenvalue of a spike, `psi(ell) = ell (1 + q int t / (ell - t) dH)`.

    With a semicircle of variance s, `psi + s G(psi)`. Up to the threshold the spike stays in the
    bulk, and the upper edge is returned.

    >>> round(float(outlier(10.0, Population([1.0, 3.0]), 0.5)), 9)
    11.349206349
    """
    law = _law_of(population, q, radius)
    distance, _ = _distances(ell, law)
    return law.value(law.above(distance.ravel())).reshape(distance.shape)[()]


def overlap(ell: ArrayLike, population: Population, q: float, radius: float = 0.0) -> np.ndarray:
    """Squared cosine of the sample and the population eigenvector, `ell psi'(ell) / psi(ell)`.

    With a semicircle of variance s, `ell (psi' + s G'(psi)) / psi`, derivatives in ell. 0 up to
    the threshold.

    >>> round(float(overlap(3.0, Population.flat(), 0.5)), 12)
    0.7
    """
    law = _law_of(population, q, radius)
    distance, above = _distances(ell, law)
    maps = law.above(distance.ravel())
    value = (law.t[-1] + distance.ravel()) * law.slope(maps) / maps.z
    return np.where(above, value.reshape(distance.shape), 0.0)[()]


def population_eigenvalue(
    eigenvalue: ArrayLike, population: Population, q: float, radius: float = 0.0
) -> np.ndarray:
    """Population eigenvalue behind a sample eigenvalue, the inverse of :func:`outlier`.

    NaN below the upper edge.

    >>> p = Population([1.0, 3.0])
    >>> round(float(population_eigenvalue(outlier(10.0, p, 0.5), p, 0.5)), 12)
    10.0
    """
    x = _check.real("eigenvalue", eigenvalue)
    law = _law_of(population, q, radius)
    critical = _silverstein.upper_distance(law)
    edge = law.value(law.above(np.array(critical)))[0]
    flat = x.ravel()
    above = flat >= edge
    aim = flat[above]
    # psi(ell) > ell, and the semicircle only pushes further out.
    high = np.maximum(aim - law.t[-1], 2 * critical)
    root = increasing_root(
        lambda d: law.value(law.above(d)) - aim, np.full(aim.shape, critical), high
    )
    value = np.full(flat.shape, np.nan)
    value[above] = law.t[-1] + root
    return value.reshape(x.shape)[()]


def population_spike(theta: ArrayLike, population: Population) -> tuple[np.ndarray, np.ndarray]:
    """Population eigenvalue, and its alignment, of a signal `theta u u^T` over the noise.

    For u in general position to the eigenvectors of the noise, `1 = theta int dH / (ell - t)`,
    and the population eigenvector has squared cosine `1 / (theta^2 int dH / (ell - t)^2)` with u.
    The overlap of a sample eigenvector with u is that factor times :func:`overlap`.

    Parameters
    ----------
    theta : strength of the signal in units of the eigenvalues, above 0; for an archetype
        `N r^2 pi`.
    population : noise covariance spectrum.

    Returns
    -------
    ell, alignment : arrays of the shape of `theta`.

    >>> ell, alignment = population_spike(4.0, Population([1.0, 3.0]))
    >>> round(float(ell), 6), round(float(alignment), 6)
    (6.236068, 0.947214)
    """
    theta = _check.positive("theta", theta)
    _require_population(population)
    t, w = population.eigenvalues, population.weights
    flat, offset = theta.ravel()[:, None], t[-1] - t

    def defect(d: np.ndarray) -> np.ndarray:
        return 1 / flat[:, 0] - np.sum(w / (d[:, None] + offset), axis=1)

    strength = flat[:, 0]
    distance = increasing_root(defect, strength * w[-1] * (1 - 1e-12), strength * (1 + 1e-12))
    spread = np.sum(w / (distance[:, None] + offset) ** 2, axis=1)
    ell, alignment = t[-1] + distance, 1 / (strength**2 * spread)
    return ell.reshape(theta.shape)[()], alignment.reshape(theta.shape)[()]


def signal_strength(ell: ArrayLike, population: Population) -> np.ndarray:
    """Strength theta of the signal behind a population eigenvalue, `1 / int dH / (ell - t)`.

    The inverse of :func:`population_spike`; 0 up to the largest noise eigenvalue.

    >>> round(float(signal_strength(6.23606797749979, Population([1.0, 3.0]))), 12)
    4.0
    """
    ell = _check.positive("ell", ell)
    _require_population(population)
    gap = ell[..., None] - population.eigenvalues
    with np.errstate(divide="ignore"):
        value = 1 / np.sum(population.weights / gap, axis=-1)
    return np.where(gap[..., -1] > 0, value, 0.0)[()]


def _require_population(population: object) -> None:
    if not isinstance(population, Population):
        raise ArgumentError("population", "a Population", repr(population))


def _distances(ell: ArrayLike, law: _silverstein.Law) -> tuple[np.ndarray, np.ndarray]:
    """Distance of a spike from the largest noise eigenvalue, no less than the critical one, and
    whether it is above that."""
    ell = _check.positive("ell", ell)
    critical = _silverstein.upper_distance(law)
    distance = ell - law.t[-1]
    return np.maximum(distance, critical), distance > critical


_check.guard(__name__)
