"""Noise of any covariance: edge of the bulk, test threshold, support, density, and its spikes.

The noise covariance enters through its eigenvalues and their weights, a :class:`Population`. Every
function takes `q = N / M`; functions for edges and spikes also take the radius of a semicircle:
symmetric Gaussian noise of known scale that was added to the operator by a privacy mechanism
(entries of variance `(radius / 2)^2 / N`). The spectrum is then the free convolution of both laws.

For population eigenvalues t with weights w the companion resolvent is `1/y`, where

    z(y) = y (1 + q T),  T = sum w t / (y - t),  G(y) = (1 + T) / z(y),

G being the resolvent `int dF(x) / (z - x)` of the N x N sample covariance. Free convolution with
a semicircle of variance s replaces z by `Z(y) = z(y) + s G(y)` and keeps G. All results follow
from explicit functions: edges are the zeros of Z' on the real line, the density at x is
`-Im G(y) / pi` where `z(y) = x`, and the mass above x is `Im L / pi`, where `dL = G dz`:

    L(y) = log z + sum w log(1 - t / y) + T - log(1 + q T) / q.

A spike is described by its population eigenvalue `ell`, an eigenvalue of the data covariance that
is above the noise eigenvalues; it leaves the bulk at `Edge.critical`. When the signal is
`theta u u^T` added to the noise covariance, :func:`population_spike` gives `ell` and the squared
cosine of the population eigenvector and u.

Parameters
----------
population : noise covariance spectrum.
N, M, q : sites, examples, N / M.
radius : radius of the added semicircle, at least 0.
ell, eigenvalue : population and sample eigenvalue of a spike, above 0; any shape.
x : points of evaluation; any shape.

Sources: J. W. Silverstein, S.-I. Choi, J. Multivariate Anal. 54 (1995) 295; N. El Karoui, Ann.
Probab. 35 (2007) 663; W. Hachem, A. Hardy, J. Najim, Ann. Probab. 44 (2016) 2264; J. O. Lee, K.
Schnelli, Ann. Appl. Probab. 26 (2016) 3786; P. Biane, Indiana Math. J. 46 (1997) 705; spikes:
Z. Bai, J. Yao, J. Multivariate Anal. 106 (2012) 167; F. Benaych-Georges, R. R. Nadakuditi, Adv.
Math. 227 (2011) 494; M. Capitaine, C. Donati-Martin, D. Feral, M. Fevrier, Electron. J. Probab. 16
(2011) 1750.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check, tracy_widom
from ._solve import increasing_root, maximise

_CHUNK = 50_000  # entries of a (points, eigenvalues) table per step, so that it stays in the cache


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
        inside = _check.checker("a number in (-1, 1)", lambda a: np.abs(a) < 1)
        rho = _check.scalar("rho", rho, inside)
        count = int(_check.scalar("nodes", nodes, _check.count))
        theta = np.pi * (np.arange(count) + 0.5) / count
        scale = _check.scalar("variance", variance, _check.positive)
        return cls(scale * (1 - rho**2) / (1 - 2 * rho * np.cos(theta) + rho**2))


@dataclass(frozen=True)
class Edge:
    """Upper edge of a bulk.

    Attributes
    ----------
    location : end of the density.
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
    """Upper edge of the spectrum of noise with a covariance, with its scale and spike threshold.

    Without semicircle: `1/c` solves `int (tc / (1 - tc))^2 dH = 1/q`, the edge is
    `(1/c)(1 + q int tc / (1 - tc) dH)`, and `scale^3 = c^-3 (1 + q int (tc / (1 - tc))^3 dH)`.

    >>> edge = upper_edge(Population([1.0, 3.0]), 0.5)
    >>> round(edge.location, 12), round(edge.scale, 12)
    (7.071272162421, 6.472573201147)
    >>> round(upper_edge(Population.flat(), 0.25).location, 12)
    2.25
    """
    law = _law_of(population, q, radius)
    distance = _upper_distance(law)
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
    population: Population, N: int, M: int, false_alarm: float = 0.05, radius: float = 0.0
) -> float:
    """Eigenvalue that noise of this covariance exceeds with probability `false_alarm`.

    Uses `N - 1/2` and `M - 1/2` for N and M, which for white noise is Ma's scaling exactly.

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


def support(population: Population, q: float) -> np.ndarray:
    """Intervals of the continuous part of the sample spectrum of noise with a covariance.

    Returns
    -------
    (k, 2) array of ascending end points. The atom at 0 for q > 1 is not listed.

    >>> support(Population([1.0, 10.0]), 0.02).round(4)
    array([[ 0.8001,  1.1976],
           [ 8.1113, 12.111 ]])
    """
    return _support(_law_of(population, q, 0.0))


def outlier(ell: ArrayLike, population: Population, q: float, radius: float = 0.0) -> np.ndarray:
    """Outlier of a spike above a covariance H, `psi(ell) = ell (1 + q int t / (ell - t) dH)`.

    With a semicircle of variance s, `psi + s G(psi)`. Up to the threshold the spike stays in the
    bulk, and the result is the upper edge.

    >>> round(float(outlier(10.0, Population([1.0, 3.0]), 0.5)), 9)
    11.349206349
    """
    law = _law_of(population, q, radius)
    distance, _ = _distances(ell, law)
    return law.value(law.above(distance.ravel())).reshape(distance.shape)[()]


def overlap(ell: ArrayLike, population: Population, q: float, radius: float = 0.0) -> np.ndarray:
    """Squared cosine of sample and population eigenvector of a covariance, `ell psi' / psi`.

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
    critical = _upper_distance(law)
    edge = law.value(law.above(np.array(critical)))[0]
    flat = x.ravel()
    above = flat >= edge
    aim = flat[above]
    # psi(ell) > ell, and the semicircle moves the eigenvalue further out.
    high = np.maximum(aim - law.t[-1], 2 * critical)
    root = increasing_root(
        lambda d: law.value(law.above(d)) - aim, np.full(aim.shape, critical), high
    )
    value = np.full(flat.shape, np.nan)
    value[above] = law.t[-1] + root
    return value.reshape(x.shape)[()]


def population_spike(theta: ArrayLike, population: Population) -> tuple[np.ndarray, np.ndarray]:
    """Return population eigenvalue and alignment of a signal `theta u u^T` added to the noise.

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
    theta, law = _check.positive("theta", theta), _law_of(population, 1.0, 0.0)
    strength, t, w = theta.ravel(), law.t, law.w
    offset = t[-1] - t

    def defect(d: np.ndarray) -> np.ndarray:
        return 1 / strength - np.sum(w / (d[:, None] + offset), axis=1)

    distance = increasing_root(defect, strength * w[-1] * (1 - 1e-12), strength * (1 + 1e-12))
    spread = np.sum(w / (distance[:, None] + offset) ** 2, axis=1)
    ell, alignment = t[-1] + distance, 1 / (strength**2 * spread)
    return ell.reshape(theta.shape)[()], alignment.reshape(theta.shape)[()]


def density(x: ArrayLike, population: Population, q: float) -> np.ndarray:
    """Density of the sample spectrum of noise with a population covariance, without its atom.

    >>> round(float(density(3.0, Population([1.0, 3.0]), 0.5)), 10)
    0.1143054847
    """
    x = _check.real("x", x)
    law, found = _law_of(population, q, 0.0), np.zeros(x.shape)
    for low, high in _support(law):
        inside = (x > low) & (x < high)
        found[inside] = np.maximum(-law.maps(_solve(law, x[inside])).G.imag, 0.0) / np.pi
        if low == 0:
            found[x == 0] = np.inf  # the hard edge
    return found[()]


def cdf(x: ArrayLike, population: Population, q: float) -> np.ndarray:
    """Distribution function of the spectrum of noise with a covariance; atom `1 - 1/q` at 0.

    >>> round(float(cdf(3.0, Population([1.0, 3.0]), 0.5)), 10)
    0.7388722524
    """
    at, law = _check.place("x", x), _law_of(population, q, 0.0)
    ends = _support(law)
    found = np.where(at >= 0, max(0.0, 1 - 1 / q), 0.0)
    k = np.searchsorted(ends[:, 0], at) - 1
    inside = k >= 0
    found[inside] = 1 - _mass_above(law, np.minimum(at[inside], ends[k[inside], 1]))
    return np.where(at < ends[-1, 1], np.clip(found, 0.0, 1.0), 1.0)[()]


def _law_of(population: Population, q: float, radius: float) -> _Law:
    """Check the arguments and return them as a law for the solvers."""
    if not isinstance(population, Population):
        raise ArgumentError("population", "a Population", repr(population))
    t, ratio = population.eigenvalues, _check.scalar("q", q, _check.positive)
    width = _check.scalar("radius", radius, _check.nonnegative)
    # A radius moves an edge by its square: a radius below 1e-8 is lost in rounding.
    noise = width**2 / 4 if width > 1e-8 * t[-1] else 0.0
    return _Law(t, population.weights, ratio, noise)


class _Maps(NamedTuple):
    """z and G at some points, with their first two derivatives in y."""

    z: np.ndarray
    z1: np.ndarray
    z2: np.ndarray
    G: np.ndarray
    G1: np.ndarray
    G2: np.ndarray


@dataclass(frozen=True, eq=False)
class _Law:
    """The limit law of a sample covariance with noise covariance (t, w), plus a semicircle."""

    t: np.ndarray
    w: np.ndarray
    q: float
    noise: float

    def maps(self, y: np.ndarray) -> _Maps:
        """Evaluate the maps at real or complex points y of any shape."""
        y = np.asarray(y)
        flat = y.ravel()
        rows = max(1, _CHUNK // self.t.size)
        parts = [
            self._maps(flat[k : k + rows], flat[k : k + rows, None] - self.t)
            for k in range(0, max(flat.size, 1), rows)
        ]
        return _Maps(
            *(np.concatenate(column).reshape(y.shape) for column in zip(*parts, strict=True))
        )

    def above(self, d: np.ndarray) -> _Maps:
        """Maps at `y = t_max + d`, exact in the distance d > 0 from the last pole."""
        d = np.atleast_1d(np.asarray(d, dtype=np.float64))
        return self._maps(self.t[-1] + d, d[:, None] + (self.t[-1] - self.t))

    def below(self, d: np.ndarray) -> _Maps:
        """Maps at `y = t_min - d`, exact in the distance d > 0 from the first pole."""
        d = np.atleast_1d(np.asarray(d, dtype=np.float64))
        return self._maps(self.t[0] - d, -(d[:, None] + (self.t - self.t[0])))

    def slope(self, maps: _Maps) -> np.ndarray:
        """Derivative of Z in y: positive outside the support and only there."""
        return maps.z1 + self.noise * maps.G1

    def value(self, maps: _Maps) -> np.ndarray:
        """Z, the point of the spectrum that belongs to y."""
        # At q = 1 the lower edge is the pole of G at 0: without a semicircle G must not enter.
        return maps.z + self.noise * maps.G if self.noise else maps.z

    def _maps(self, y: np.ndarray, gap: np.ndarray) -> _Maps:
        inverse, both = 1 / gap, np.stack([self.w * self.t, self.w * self.t**2], axis=1)
        square = inverse * inverse
        single, pair, third = (_dot(a, both).T for a in (inverse, square, square * inverse))
        T, dT, ddT = single[0], -pair[0], 2 * third[0]
        z = y * (1 + self.q * T)
        # Not T + y T', which would cancel: z' = 1 - q sum w t^2 / (y - t)^2.
        z1, z2 = 1 - self.q * pair[1], 2 * self.q * third[1]
        with np.errstate(divide="ignore", invalid="ignore"):  # z = 0 is the atom's pole
            G = (1 + T) / z
            G1 = (dT - G * z1) / z
            G2 = (ddT - 2 * G1 * z1 - G * z2) / z
        return _Maps(z, z1, z2, G, G1, G2)


def _dot(a: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """`a @ weights` for real weights; a complex product would take ten times as long."""
    return a.real @ weights + 1j * (a.imag @ weights) if np.iscomplexobj(a) else a @ weights


def _upper_distance(law: _Law) -> float:
    """Distance of the critical y from the largest population eigenvalue: Z' = 0 at the edge."""
    d = _bare_distance(law, law.t[-1], law.w[-1])
    if not law.noise:
        return d
    high = 2 * d  # the semicircle moves the critical point outwards
    while law.slope(law.above(np.array(high)))[0] <= 0:
        high *= 2
    ends = np.array([d]), np.array([high])
    return float(increasing_root(lambda e: law.slope(law.above(e)), *ends)[0])


def _support(law: _Law) -> np.ndarray:
    """(k, 2) ascending end points of the intervals that carry the continuous part."""
    lowest = law.below(np.array(_bare_distance(law, law.t[0], law.w[0])))
    highest = law.above(np.array(_upper_distance(law)))
    gaps = law.maps(np.concatenate(_gaps(law)))
    ends = np.concatenate([law.value(maps) for maps in (lowest, highest, gaps)])
    intervals = np.sort(ends).reshape(-1, 2)
    if abs(law.q - 1) < 1e-14:
        intervals[0, 0] = 0.0  # the hard edge, up to the rounding of y = 0
    return intervals


def _bare_distance(law: _Law, t: float, weight: float) -> float:
    """Distance d > 0 from the outer pole t with q sum w t^2 / (d + |t - t_i|)^2 = 1."""
    from scipy.optimize import brentq

    offset, mass = np.abs(law.t - t), law.q * law.w * law.t**2

    def defect(d: float) -> float:
        return float(1 - np.sum(mass / (d + offset) ** 2))

    # The outer pole alone gives a lower bound of d, all poles moved onto it an upper bound; the
    # bounds are equal for a flat spectrum.
    low, high = np.sqrt(law.q * weight) * t, np.sqrt(mass.sum())
    ulp = np.finfo(float).eps
    return brentq(defect, low * (1 - 1e-12), high * (1 + 1e-12), xtol=ulp * low, rtol=4 * ulp)


def _gaps(law: _Law) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of y between neighbouring poles on which z' > 0; there z' rises and then falls."""

    def slope(y: np.ndarray) -> np.ndarray:
        return law.maps(y).z1

    mass, width = law.q * law.w * law.t**2, np.diff(law.t)
    # z' <= 1 - 8 min(mass) / width^2 between two poles: most neighbours need no search.
    near = 8 * np.minimum(mass[:-1], mass[1:]) < width**2
    low, high = law.t[:-1][near], law.t[1:][near]
    if low.size == 0:
        return low, high
    rim = 1e-9 * (high - low)  # beside the poles
    top = maximise(slope, low + rim, high - rim)
    wide = slope(top) > 0
    low, high, top = low[wide], high[wide], top[wide]
    return increasing_root(slope, low, top), increasing_root(lambda y: -slope(y), top, high)


def _distances(ell: ArrayLike, law: _Law) -> tuple[np.ndarray, np.ndarray]:
    """Distance of a spike from the noise, at least the critical distance; whether it is above."""
    ell = _check.positive("ell", ell)
    critical = _upper_distance(law)
    distance = ell - law.t[-1]
    return np.maximum(distance, critical), distance > critical


def _mass_above(law: _Law, x: np.ndarray) -> np.ndarray:
    """Mass above points of the support: the imaginary part of `int log(x - l) dF` over pi."""
    y = _solve(law, x)
    maps, gap = law.maps(y), y[:, None] - law.t
    T = _dot(1 / gap, law.w * law.t)
    logs = np.log(maps.z) + _dot(np.log(gap / y[:, None]), law.w)
    return np.asarray((logs + T - np.log(1 + law.q * T) / law.q).imag) / np.pi


def _solve(law: _Law, x: np.ndarray) -> np.ndarray:
    """Solve Z(y) = x + i0 in the upper half plane, from far above the axis down to it."""
    # Each point takes Newton steps at its own height. The height falls by `factor`, which moves
    # towards 1 when a point loses its branch and back to 0.1 when it does not.
    span = np.abs(x).max(initial=0.0) + law.t[-1] * (1 + np.sqrt(law.q)) ** 2
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


def _newton(law: _Law, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Newton's iteration for Z(y) = z, and whether it stayed on the branch of the resolvent."""
    with np.errstate(all="ignore"):  # a lost point may overflow; the test below rejects it
        for _ in range(12):
            maps = law.maps(y)
            step = (law.value(maps) - z) / law.slope(maps)
            y = y - step
            if np.all(np.abs(step) <= 1e-13 * np.abs(y)):
                break
        maps = law.maps(y)
        residual = np.abs(law.value(maps) - z)
        # The branch: y and the subordination point z(y) above the axis, the resolvent below it.
        good = (y.imag > 0) & (maps.G.imag < 0) & (maps.z.imag >= z.imag * (1 - 1e-9) - 1e-13)
        good &= residual <= 1e-11 * (np.abs(z) + law.t[-1])
    return y, good


_check.guard(__name__)
