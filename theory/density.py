"""Spectral density and distribution function for noise of any covariance, with or without a
semicircle.

On each interval of the support, with `x = centre - half cos(theta)`, the density is a sine series
in theta that converges exponentially. Its values come from `Z(y) = x` solved in the upper half
plane (see `_silverstein`), the number of terms doubles until the tail is below 1e-13, and the
series is tabulated once for cubic Hermite interpolation: after that a million values cost as much
as a table look-up. Where two intervals are about to merge, or just have, the density has a near
cusp and the series stops at 16,384 terms, with an error of some 1e-6; the largest seen is 1.7e-6.

Parameters
----------
x : where to evaluate; any shape.
population, q, radius : noise covariance spectrum, N / M, radius of the added semicircle.

Sources: J. W. Silverstein, S.-I. Choi, J. Multivariate Anal. 54 (1995) 295; P. Biane, Indiana
Math. J. 46 (1997) 705.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from . import _check, _silverstein
from .covariance import Population, _law_of
from .marchenko_pastur import angle_cdf

_TERMS = (32, 16384)  # first and last number of terms tried
_TAIL = 1e-13
_GRID = 16384  # intervals of the interpolation table; its error is 1e-15 of the fourth derivative


def density(x: ArrayLike, population: Population, q: float, radius: float = 0.0) -> np.ndarray:
    """Density of the continuous part of the sample spectrum.

    Parameters
    ----------
    x : real; any shape.
    population : noise covariance spectrum.
    q : aspect ratio N / M, above 0.
    radius : radius of the added semicircle, at least 0.

    Raises
    ------
    ArgumentError : x is not finite, q not above 0, radius negative.

    Examples
    --------
    >>> round(float(density(3.0, Population([1.0, 3.0]), 0.5)), 10)
    0.1143054847
    """
    x = _check.real("x", x)
    total = np.zeros(x.shape)
    for part in _components_of(population, q, radius):
        inside = (x > part.low) & (x < part.high)
        total[inside] = part.density(x[inside])
        if part.times_x and part.low == 0:
            total[x == 0] = np.inf  # the hard edge
    return total[()]


def cdf(x: ArrayLike, population: Population, q: float, radius: float = 0.0) -> np.ndarray:
    """Distribution function; for q > 1 without semicircle with the atom `1 - 1/q` at 0.

    Examples
    --------
    >>> round(float(cdf(3.0, Population([1.0, 3.0]), 0.5)), 10)
    0.7388722524
    """
    at: np.ndarray = np.clip(_check.place("x", x), -1e300, 1e300)
    parts = _components_of(population, q, radius)
    atom = max(0.0, 1 - 1 / q) if radius == 0 else 0.0
    total = np.where(at >= 0, atom, 0.0)
    for part in parts:
        total = total + part.mass(at)
    return np.minimum(total, 1.0)[()]


@dataclass(frozen=True)
class _Component:
    """One interval of the support, as tables over equal steps of theta.

    `series` is S(theta) = density, times x without semicircle, where the density may have a pole
    at or just below its lower edge. The mass below theta is then `pole` times that of the
    Marchenko-Pastur law with the same edges, which has the same pole, plus the table `rest`.
    Each table comes with its derivative.
    """

    low: float
    high: float
    times_x: bool
    pole: float
    series: tuple[np.ndarray, np.ndarray]
    rest: tuple[np.ndarray, np.ndarray]

    def density(self, x: np.ndarray) -> np.ndarray:
        value = np.maximum(_hermite(self._theta(x), *self.series), 0.0)
        found: np.ndarray = value / x if self.times_x else value
        return found

    def mass(self, x: np.ndarray) -> np.ndarray:
        theta = self._theta(np.clip(x, self.low, self.high))
        value = _hermite(theta, *self.rest)
        if self.times_x:
            value = value + self.pole * angle_cdf(theta, _pole_place(self.low, self.high))
        return value

    def _theta(self, x: np.ndarray) -> np.ndarray:
        return 2 * np.arctan2(np.sqrt(x - self.low), np.sqrt(self.high - x))


def _components_of(population: Population, q: float, radius: float) -> tuple[_Component, ...]:
    _law_of(population, q, radius)  # an argument that breaks its rule must not reach the cache
    return _components(population, float(q), float(radius))


@lru_cache(maxsize=64)
def _components(population: Population, q: float, radius: float) -> tuple[_Component, ...]:
    law = _law_of(population, q, radius)
    return tuple(_tabulate(law, low, high) for low, high in _silverstein.support(law))


def _tabulate(law: _silverstein.Law, low: float, high: float) -> _Component:
    half = (high - low) / 2
    times_x = law.noise == 0
    coefficients = _sine_coefficients(law, low, high, times_x)

    count = max(_GRID, 8 * coefficients.size)
    theta = np.pi * np.arange(count + 1) / count
    series = _sine_sum(coefficients, count)
    slope = _cosine_sum(coefficients * np.arange(1, coefficients.size + 1), count)

    # Mass per theta: density times half sin(theta), less that of the pole.
    pole = 0.0
    rate = half * np.sin(theta) * series
    if times_x:
        x = low + 2 * half * np.sin(theta / 2) ** 2
        pole = np.pi * _pole_place(low, high) * slope[0]
        with np.errstate(invalid="ignore"):
            rate = half * np.sin(theta) * (series - slope[0] * np.sin(theta)) / x
        rate[0] = 0.0  # the limit of 0/0 at a hard edge
    return _Component(
        low=float(low),
        high=float(high),
        times_x=times_x,
        pole=float(pole),
        series=(series, slope),
        rest=(_integrate(rate), rate),
    )


def _pole_place(low: float, high: float) -> np.ndarray:
    """The rho of the Marchenko-Pastur law with these edges, up to its scale."""
    return np.asarray((np.sqrt(high) - np.sqrt(low)) / (np.sqrt(high) + np.sqrt(low)))


def _sine_coefficients(law: _silverstein.Law, low: float, high: float, times_x: bool) -> np.ndarray:
    """Coefficients b_k, k = 1.., of S(theta), doubled in number until they have died out."""
    count = _TERMS[0]
    y = _solve(law, _nodes(low, high, np.arange(1, count), count))
    while True:
        points = _nodes(low, high, np.arange(1, count), count)
        values = -law.maps(y).G.imag / np.pi * (points if times_x else 1.0)
        odd = np.concatenate([[0.0], values, [0.0], -values[::-1]])
        b = -np.fft.rfft(odd).imag[1:count] / count
        tail = np.abs(b[-(count // 8) :]).max()
        if tail <= _TAIL * np.abs(b).max() or count >= _TERMS[1]:
            return b
        fresh = _nodes(low, high, np.arange(1, 2 * count, 2), 2 * count)
        merged = np.empty(2 * count - 1, dtype=np.complex128)
        merged[1::2], merged[::2] = y, _solve(law, fresh)
        y, count = merged, 2 * count


def _nodes(low: float, high: float, k: np.ndarray, count: int) -> np.ndarray:
    return low + (high - low) * np.sin(np.pi * k / (2 * count)) ** 2


def _solve(law: _silverstein.Law, x: np.ndarray) -> np.ndarray:
    """Solve Z(y) = x + i0 in the upper half plane, from far above the axis down to it.

    Each point takes Newton steps at its own height; the height falls by a factor that shrinks
    when a point lost its branch and grows again when it did not.
    """
    span = np.abs(x).max() + law.t[-1] * (1 + np.sqrt(law.q)) ** 2 + 2 * np.sqrt(law.noise)
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


def _sine_sum(b: np.ndarray, count: int) -> np.ndarray:
    """Values of sum_k b_k sin(k theta) at theta = j pi / count, j = 0..count."""
    spectrum = np.zeros(count + 1, dtype=np.complex128)
    spectrum[1 : b.size + 1] = -1j * b * count
    return np.fft.irfft(spectrum, 2 * count)[: count + 1]


def _cosine_sum(a: np.ndarray, count: int) -> np.ndarray:
    """Values of sum_k a_k cos(k theta), k = 1.., at theta = j pi / count, j = 0..count."""
    spectrum = np.zeros(count + 1, dtype=np.complex128)
    spectrum[1 : a.size + 1] = a * count
    return np.fft.irfft(spectrum, 2 * count)[: count + 1]


def _integrate(rate: np.ndarray) -> np.ndarray:
    """Integral from 0 of an even function of theta given at theta = j pi / count."""
    count = rate.size - 1
    cosine = np.fft.rfft(np.concatenate([rate, rate[-2:0:-1]])).real / count
    k = np.arange(1, count)
    theta = np.pi * np.arange(count + 1) / count
    found: np.ndarray = cosine[0] / 2 * theta + _sine_sum(cosine[1:count] / k, count)
    return found


def _hermite(theta: np.ndarray, value: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Cubic Hermite interpolation of a table over equal steps of [0, pi]."""
    count = value.size - 1
    place = theta * (count / np.pi)
    cell = np.minimum(place.astype(np.int64), count - 1)
    u, step = place - cell, np.pi / count
    left, right = value[cell], value[cell + 1]
    a, b = slope[cell] * step, slope[cell + 1] * step
    rise = right - left
    found: np.ndarray = left + u * (a + u * (3 * rise - 2 * a - b + u * (a + b - 2 * rise)))
    return found


_check.guard(__name__)
