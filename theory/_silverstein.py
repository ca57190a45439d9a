"""Silverstein's equation as an explicit map, and the real points where its support ends.

For population eigenvalues t with weights w and q = N / M, the companion resolvent is `1/y`, where

    z(y) = y (1 + q T),  T = sum w t / (y - t),  G(y) = (1 + T) / z(y),

G being the resolvent `int dF(x) / (z - x)` of the N x N sample covariance. Free convolution with
a semicircle of variance s replaces z by `Z(y) = z(y) + s G(y)` and keeps G (P. Biane, Indiana
Math. J. 46 (1997) 705). So for both laws everything is read off two explicit functions: edges are
the zeros of Z' on the real line, and the density at x is `-Im G(y) / pi` where `Z(y) = x`.

Sources: J. W. Silverstein, S.-I. Choi, J. Multivariate Anal. 54 (1995) 295; N. El Karoui, Ann.
Probab. 35 (2007) 663.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ._solve import increasing_root

_CHUNK = 2_000_000  # entries of a (points, eigenvalues) table held at a time


class Maps(NamedTuple):
    """z and G at some points, with their first two derivatives in y."""

    z: np.ndarray
    z1: np.ndarray
    z2: np.ndarray
    G: np.ndarray
    G1: np.ndarray
    G2: np.ndarray


@dataclass(frozen=True, eq=False)
class Law:
    """The limit law of a sample covariance with noise covariance (t, w), plus a semicircle."""

    t: np.ndarray
    w: np.ndarray
    q: float
    noise: float

    def maps(self, y: np.ndarray) -> Maps:
        """Evaluate the maps at real or complex points y of any shape."""
        y = np.asarray(y)
        flat = y.ravel()
        rows = max(1, _CHUNK // self.t.size)
        parts = [
            self._maps(flat[k : k + rows], flat[k : k + rows, None] - self.t)
            for k in range(0, max(flat.size, 1), rows)
        ]
        return Maps(
            *(np.concatenate(column).reshape(y.shape) for column in zip(*parts, strict=True))
        )

    def above(self, d: np.ndarray) -> Maps:
        """Maps at `y = t_max + d`, exact in the distance d > 0 from the last pole."""
        d = np.atleast_1d(np.asarray(d, dtype=np.float64))
        return self._maps(self.t[-1] + d, d[:, None] + (self.t[-1] - self.t))

    def below(self, d: np.ndarray) -> Maps:
        """Maps at `y = t_min - d`, exact in the distance d > 0 from the first pole."""
        d = np.atleast_1d(np.asarray(d, dtype=np.float64))
        return self._maps(self.t[0] - d, -(d[:, None] + (self.t - self.t[0])))

    def slope(self, maps: Maps) -> np.ndarray:
        """Derivative of Z in y: positive exactly off the support."""
        return maps.z1 + self.noise * maps.G1

    def value(self, maps: Maps) -> np.ndarray:
        """Z, the point of the spectrum that y stands for."""
        # At q = 1 the lower edge is the pole of G at 0: without a semicircle it must not enter.
        return maps.z + self.noise * maps.G if self.noise else maps.z

    def _maps(self, y: np.ndarray, gap: np.ndarray) -> Maps:
        inverse = 1 / gap
        first, second = self.w * self.t, self.w * self.t**2
        T = inverse @ first
        square = inverse * inverse
        dT, ddT = -(square @ first), 2 * ((square * inverse) @ first)
        z = y * (1 + self.q * T)
        # Not T + y T', which would cancel: z' = 1 - q sum w t^2 / (y - t)^2.
        z1 = 1 - self.q * (square @ second)
        z2 = 2 * self.q * ((square * inverse) @ second)
        with np.errstate(divide="ignore", invalid="ignore"):  # z = 0 is the atom's pole
            G = (1 + T) / z
            G1 = (dT - G * z1) / z
            G2 = (ddT - 2 * G1 * z1 - G * z2) / z
        return Maps(z, z1, z2, G, G1, G2)


def upper_distance(law: Law) -> float:
    """Distance of the critical y from the largest population eigenvalue: Z' = 0 at the edge."""
    d = _bare_distance(law, law.t[-1], law.w[-1])
    return _pushed_out(lambda e: law.slope(law.above(e)), d) if law.noise else d


def support(law: Law) -> np.ndarray:
    """(k, 2) ascending end points of the intervals that carry the continuous part."""
    ends = [_lower_end(law), *_gap_ends(law)]
    ends.append(float(law.value(law.above(np.array(upper_distance(law))))[0]))
    intervals = np.sort(np.array(ends)).reshape(-1, 2)
    if law.noise == 0 and abs(law.q - 1) < 1e-14:
        intervals[0, 0] = 0.0  # the hard edge, up to the rounding of y = 0
    return intervals


def _bare_distance(law: Law, t: float, weight: float) -> float:
    """Distance d > 0 from the outer pole t with q sum w t^2 / (d + |t - t_i|)^2 = 1."""
    from scipy.optimize import brentq

    offset, mass = np.abs(law.t - t), law.q * law.w * law.t**2

    def defect(d: float) -> float:
        return float(1 - np.sum(mass / (d + offset) ** 2))

    # The outer pole alone bounds d from below, all poles moved onto it bound it from above; the
    # two meet for a flat spectrum.
    low, high = np.sqrt(law.q * weight) * t, np.sqrt(mass.sum())
    ulp = np.finfo(float).eps
    return brentq(defect, low * (1 - 1e-12), high * (1 + 1e-12), xtol=ulp * low, rtol=4 * ulp)


def _pushed_out(slope: Callable[[np.ndarray], np.ndarray], d: float) -> float:
    """Zero beyond d of a slope that rises from below 0 at d to above 0 far away."""
    high = 2 * d
    while slope(np.array([high]))[0] <= 0:
        high *= 2
    return float(increasing_root(slope, np.array([d]), np.array([high]))[0])


def _lower_end(law: Law) -> float:
    d = _bare_distance(law, law.t[0], law.w[0])
    if law.noise:
        start = _atom_distance(law, d) if law.q > 1 else d
        d = _pushed_out(lambda e: law.slope(law.below(e)), start)
    return float(law.value(law.below(np.array(d)))[0])


def _atom_distance(law: Law, d: float) -> float:
    """For q > 1: distance below t_min of the y that stands for the atom, 1 + q T = 0."""

    def defect(e: np.ndarray) -> np.ndarray:
        return 1 - law.q * np.sum(law.w * law.t / (e[:, None] + (law.t - law.t[0])), axis=1)

    return float(
        increasing_root(defect, np.array([d]), np.array([law.q * np.sum(law.w * law.t)]))[0]
    )


def _gap_ends(law: Law) -> list[float]:
    """End points of the gaps between the intervals of the support, in pairs."""
    low, high = _bare_gaps(law)
    if law.noise:
        if law.q > 1:
            d = _bare_distance(law, law.t[0], law.w[0])
            low = np.append(law.t[0] - _atom_distance(law, d), low)
            high = np.append(law.t[0] - d, high)
        low, high = _dips(lambda y: -law.slope(law.maps(y)), low, high)
    return list(law.value(law.maps(np.concatenate([low, high]))))


def _bare_gaps(law: Law) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of y between neighbouring poles on which z' > 0."""
    mass = law.q * law.w * law.t**2
    width = np.diff(law.t)
    # z' <= 1 - 8 min(mass) / width^2 between two poles: most neighbours need no search.
    near = 8 * np.minimum(mass[:-1], mass[1:]) < width**2
    return _dips(lambda y: -law.maps(y).z1, law.t[:-1][near], law.t[1:][near])


def _dips(
    function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sub-intervals of (low, high) on which a function that falls and then rises is below 0."""
    if low.size == 0:
        return low, high
    a, b = low.copy(), high.copy()
    for _ in range(200):  # ternary search for the minimum; 0.67^200 is below rounding
        left, right = a + (b - a) / 3, b - (b - a) / 3
        falls = function(left) > function(right)
        a, b = np.where(falls, left, a), np.where(falls, b, right)
    bottom = (a + b) / 2
    deep = function(bottom) < 0
    low, high, bottom = low[deep], high[deep], bottom[deep]
    return increasing_root(lambda y: -function(y), low, bottom), increasing_root(
        function, bottom, high
    )
