"""Spectral density and distribution function for noise of any covariance, with or without a
semicircle.

The density at x is that of the resolvent where ``Z(y) = x`` in the upper half plane (see
`_silverstein`), solved for each x. The mass below x is integrated once for each interval of the
support: with ``x = centre - half cos(theta)`` its rate is an even function of theta, whose cosine
series converges exponentially, and its integral is interpolated. Where two intervals are about to
merge, or just have, the density has a near cusp, and the mass an error of some 1e-6.

Parameters
----------
x : where to evaluate; any shape.
population, q, radius : noise covariance spectrum, N / M, radius of the added semicircle.

Sources: J. W. Silverstein, S.-I. Choi, J. Multivariate Anal. 54 (1995) 295; P. Biane, Indiana
Math. J. 46 (1997) 705.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _check, _silverstein
from .covariance import Population, _law_of

_NODES = (64, 4096)  # fewest and most midpoints of an interval
_TAIL = 1e-13
_GRID = 8192  # steps of theta between which the mass is interpolated


def density(x: ArrayLike, population: Population, q: float, radius: float = 0.0) -> np.ndarray:
    """Density of the continuous part of the sample spectrum.

    >>> round(float(density(3.0, Population([1.0, 3.0]), 0.5)), 10)
    0.1143054847
    """
    x = _check.real("x", x)
    law, found = _law_of(population, q, radius), np.zeros(x.shape)
    for low, high in _silverstein.support(law):
        inside = (x > low) & (x < high)
        found[inside] = _density(law, x[inside])
        if low == 0 and law.noise == 0:
            found[x == 0] = np.inf  # the hard edge
    return found[()]


def cdf(x: ArrayLike, population: Population, q: float, radius: float = 0.0) -> np.ndarray:
    """Distribution function; for q > 1 without semicircle with the atom `1 - 1/q` at 0.

    0 and 1 at -inf and inf.

    >>> round(float(cdf(3.0, Population([1.0, 3.0]), 0.5)), 10)
    0.7388722524
    """
    at = _check.place("x", x)
    _law_of(population, q, radius)  # an argument that breaks its rule must not reach the cache
    found = np.where(at >= 0, max(0.0, 1 - 1 / q) if radius == 0 else 0.0, 0.0)
    for low, high, mass in _masses(population, float(q), float(radius)):
        inside = np.clip(at, low, high)
        found = found + mass(2 * np.arctan2(np.sqrt(inside - low), np.sqrt(high - inside)))
    return np.clip(found, 0.0, 1.0)[()]


@lru_cache(maxsize=64)
def _masses(population: Population, q: float, radius: float) -> list[tuple[float, float, Any]]:
    """Ends of each interval of the support, and the mass from its lower end as a function."""
    from scipy.fft import dct, dst
    from scipy.interpolate import CubicHermiteSpline

    law, found = _law_of(population, q, radius), []
    ends = np.pi * np.arange(_GRID + 1) / _GRID
    for low, high in _silverstein.support(law):
        cosine = np.zeros(_GRID + 1)  # rate = cosine[0] / 2 + sum cosine[k] cos(k theta)
        series = _cosines(law, low, high)
        cosine[: len(series)] = series
        values = cosine[0] / 2 * ends
        values[1:-1] += dst(cosine[1:-1] / np.arange(1, _GRID), type=1) / 2
        spline = CubicHermiteSpline(ends, values, dct(cosine, type=1) / 2)
        found.append((float(low), float(high), spline))
    return found


def _cosines(law: _silverstein.Law, low: float, high: float) -> np.ndarray:
    """Coefficients of the mass per theta, from midpoints, twice as many until they die out."""
    from scipy.fft import dct

    count = _NODES[0]
    while True:
        theta = np.pi * (np.arange(count) + 0.5) / count
        x = low + (high - low) * np.sin(theta / 2) ** 2
        found = dct(_density(law, x) * (high - low) / 2 * np.sin(theta), type=2) / count
        if np.abs(found[-count // 8 :]).max() <= _TAIL * np.abs(found).max() or count >= _NODES[1]:
            return np.asarray(found)
        count *= 2


def _density(law: _silverstein.Law, x: np.ndarray) -> np.ndarray:
    return np.maximum(-law.maps(_solve(law, x)).G.imag, 0.0) / np.pi


def _solve(law: _silverstein.Law, x: np.ndarray) -> np.ndarray:
    """Solve Z(y) = x + i0 in the upper half plane, from far above the axis down to it.

    Each point takes Newton steps at its own height; the height falls by a factor that shrinks
    when a point lost its branch and grows again when it did not.
    """
    span = (
        np.abs(x).max(initial=0.0) + law.t[-1] * (1 + np.sqrt(law.q)) ** 2 + 2 * np.sqrt(law.noise)
    )
    height = np.full(x.shape, 4 * span)
    factor = np.full(x.shape, 0.25)
    y = _newton(law, x + 1j * height, x + 1j * height)[0]
    active = np.arange(x.size)
    for _ in range(2000):
        if active.size == 0:
            break
        lower = height[active] * factor[active]
        lower[lower < 1e-7 * span] = 0.0
        moved, good = _newton(law, y[active], x[active] + 1j * lower)
        kept = active[good]
        y[kept], height[kept] = moved[good], lower[good]
        factor[kept] = np.maximum(factor[kept] ** 2, 0.1)
        factor[active[~good]] = np.sqrt(factor[active[~good]])
        active = active[~(good & (lower == 0))]
    return y


def _newton(law: _silverstein.Law, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Newton's iteration for Z(y) = z, and whether it stayed on the branch of the resolvent."""
    with np.errstate(all="ignore"):  # a lost point may overflow; it is told by the test below
        for _ in range(12):
            maps = law.maps(y)
            step = (law.value(maps) - z) / law.slope(maps)
            y = y - step
            if np.all(np.abs(step) <= 1e-15 * np.abs(y)):
                break
        maps = law.maps(y)
        residual = np.abs(law.value(maps) - z)
        # The branch: y and the subordination point z(y) above the axis, the resolvent below it.
        good = (y.imag > 0) & (maps.G.imag < 0) & (maps.z.imag >= z.imag * (1 - 1e-9) - 1e-13)
        good &= residual <= 1e-11 * (np.abs(z) + law.t[-1])
    return y, good


_check.guard(__name__)
