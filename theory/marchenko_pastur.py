"""The Marchenko-Pastur law: spectrum of `(1/M) X^T X` for white noise `X` of shape (M, N).

All functions broadcast over every argument, work in float64 and return a NumPy scalar for scalar
arguments. For q > 1 the law has an atom of weight `1 - 1/q` at zero.

Parameters
----------
x : points of evaluation, in the units of `variance`.
q : aspect ratio N / M, above 0.
variance : noise variance, above 0.

Raises
------
ArgumentError : an argument that is not a finite number, or outside its range.

The angle `tau` in [0, pi], `x / variance = 1 + q - 2 sqrt(q) cos(tau)`, removes the square roots
at both edges. With `rho = min(sqrt q, 1 / sqrt q)` the nonzero part has, for every q, the density
`(2/pi) sin(tau)^2 / (1 + rho^2 - 2 rho cos(tau))`, whose integral is elementary.

Source: V. A. Marchenko, L. A. Pastur, Math. USSR Sbornik 1 (1967) 457.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check
from ._solve import increasing_root

# Below this rho the closed form of the cdf loses a factor 1/rho^2 in accuracy, so a power series
# is used, cut where rho^k < 1e-17.
_SERIES_RHO = 0.125
_SERIES_TERMS = 20

_HIGHEST = 500  # order of a moment: the coefficients of higher ones overflow soon after


def edges(q: ArrayLike, variance: ArrayLike = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper edge of the Marchenko-Pastur law, `variance (1 -+ sqrt q)^2`.

    >>> lower, upper = edges(0.25)
    >>> float(lower), float(upper)
    (0.25, 2.25)
    """
    q = _check.positive("q", q)
    variance = _check.positive("variance", variance)
    root = np.sqrt(q)
    return variance * (1 - root) ** 2, variance * (1 + root) ** 2


def atom(q: ArrayLike) -> np.ndarray:
    """Weight of the Marchenko-Pastur law's atom at zero, `max(0, 1 - 1/q)`.

    >>> float(atom(4.0)), float(atom(0.5))
    (0.75, 0.0)
    """
    return np.maximum(0.0, 1 - 1 / _check.positive("q", q))[()]


def pdf(x: ArrayLike, q: ArrayLike, variance: ArrayLike = 1.0) -> np.ndarray:
    """Density of the Marchenko-Pastur law, of mass `min(1, 1/q)`; 0 outside the edges.

    At q = 1 the density is infinite at x = 0.

    >>> round(float(pdf(1.0, 0.25)), 12)
    0.616404444061
    """
    x = _check.real("x", x)
    lower, upper = edges(q, variance)
    width = np.maximum(x - lower, 0) * np.maximum(upper - x, 0)
    inside = (x >= lower) & (x <= upper)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.sqrt(width) / (2 * np.pi * np.asarray(q) * np.asarray(variance) * x)
        # At q = 1 the lower edge is the pole itself: 0/0 above, infinite in the limit.
        value = np.where((x == 0) & (lower == 0), np.inf, value)
    return np.where(inside, value, 0.0)[()]


def cdf(x: ArrayLike, q: ArrayLike, variance: ArrayLike = 1.0) -> np.ndarray:
    """Distribution function of the Marchenko-Pastur law, with its atom (error about 1e-15).

    0 and 1 at -inf and inf.

    >>> round(float(cdf(1.0, 1.0)), 12)
    0.608997781044
    """
    x = _check.place("x", x)
    lower, upper = edges(q, variance)
    q = np.asarray(q, dtype=np.float64)
    tau = 2 * np.arctan2(np.sqrt(np.maximum(x - lower, 0)), np.sqrt(np.maximum(upper - x, 0)))
    zero_mass = atom(q)
    value = zero_mass + np.minimum(1, 1 / q) * _angle_cdf(tau, _rho(q))
    # The sum may exceed 1 by an ulp at the upper edge.
    return np.where(x < 0, 0.0, np.minimum(value, 1.0))[()]


def quantile(p: ArrayLike, q: ArrayLike, variance: ArrayLike = 1.0) -> np.ndarray:
    """Quantile of the Marchenko-Pastur law for p in (0, 1); 0 for p up to the atom's weight.

    >>> round(float(quantile(0.5, 1.0)), 12)
    0.652775941634
    """
    p = _check.probability("p", p)
    q = _check.positive("q", q)
    variance = _check.positive("variance", variance)
    inner = np.minimum((p - atom(q)) * np.maximum(1, q), 1.0)
    value = _nonzero_quantile(np.maximum(inner, 0.0), q) * variance
    return np.where(inner > 0, value, 0.0)[()]


def median_nonzero(q: ArrayLike, variance: ArrayLike = 1.0) -> np.ndarray:
    """Median of the Marchenko-Pastur law without its atom, for robust noise variances.

    >>> round(float(median_nonzero(2.0)), 12)
    1.660931763163
    """
    q = _check.positive("q", q)
    variance = _check.positive("variance", variance)
    return (_nonzero_quantile(np.asarray(0.5), q) * variance)[()]


def moment(k: ArrayLike, q: ArrayLike, variance: ArrayLike = 1.0) -> np.ndarray:
    """Moment `int x^k dF` of the Marchenko-Pastur law, with its atom, by Narayana polynomials.

    Parameters
    ----------
    k : whole number from 0 to 500, with a moment below 1e308; any shape.
    q, variance : as above; broadcast against `k`.

    >>> float(moment(2, 0.5)), float(moment(0, 0.5))
    (1.5, 1.0)
    """
    rule = f"a whole number from 0 to {_HIGHEST}"
    k = _check.real("k", k, rule, lambda a: (a >= 0) & (a == np.floor(a)) & (a <= _HIGHEST))
    q = _check.positive("q", q)
    variance = _check.positive("variance", variance)
    k, q, variance = np.broadcast_arrays(k, q, variance)
    value = np.empty(k.shape)
    for order in np.unique(k):
        n, at = int(order), k == order
        narayana = [comb(n, j) * comb(n - 1, j) / (j + 1) for j in range(n)] or [1.0]
        with np.errstate(over="ignore"):
            value[at] = np.polynomial.polynomial.polyval(q[at], narayana) * variance[at] ** n
    if not np.isfinite(value).all():
        raise ArgumentError("k", "that of a moment below 1e308", k[~np.isfinite(value)].flat[0])
    return value[()]


def stieltjes(z: ArrayLike, q: ArrayLike, variance: ArrayLike = 1.0) -> np.ndarray:
    """Stieltjes transform `m(z) = int dF(x) / (x - z)` of the Marchenko-Pastur law.

    On the support, a real z (imaginary part +0) gives the limit from above, `Im m = pi pdf`.
    Solves `q s z m^2 + (z - s (1 - q)) m + 1 = 0` on the branch that decays as `-1/z`, by the form
    of the root without cancellation.

    >>> complex(np.round(stieltjes(1.0, 0.25), 12))
    (-0.5+1.936491673104j)
    """
    z = np.asarray(z, dtype=np.complex128)
    if not np.isfinite(z).all():
        raise ArgumentError("z", "a finite complex number", z[~np.isfinite(z)].flat[0])
    lower, upper = edges(q, variance)
    q, variance = np.asarray(q, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    if np.any((z == 0) & (q >= 1)):
        raise ArgumentError("z", "other than 0 when q >= 1, where the transform has a pole", 0.0)
    # Each root has its cut below its own edge: the product is cut between the edges only.
    root = np.sqrt(z - lower) * np.sqrt(z - upper)
    linear = variance * (1 - q) - z
    plus, minus = linear + root, linear - root
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = plus / (2 * q * variance * z)
        reciprocal = 2 / minus
    return np.where(np.abs(minus) >= np.abs(plus), reciprocal, direct)[()]


def _rho(q: np.ndarray) -> np.ndarray:
    root = np.sqrt(q)
    return np.minimum(root, 1 / root)


def _angle_cdf(tau: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Mass of the nonzero part (normalised to 1) below the angle `tau`."""
    # G = [tau + rho sin tau + (1 - rho^2) b] / pi with b = (rho sin tau - psi) / rho^2 and
    # psi = arg(1 - rho e^{-i tau}); for small rho b = -sum_{j>=2} rho^(j-2) sin(j tau) / j.
    tau, rho = np.broadcast_arrays(np.asarray(tau, dtype=np.float64), rho)
    sine = np.sin(tau)
    # 1 - rho cos(tau), without cancellation where rho -> 1 and tau -> 0.
    psi = np.arctan2(rho * sine, 1 - rho + 2 * rho * np.sin(tau / 2) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = (rho * sine - psi) / rho**2
    small = rho < _SERIES_RHO
    if small.any():
        bend = np.where(small, 0.0, bend)
        bend[small] = _bend_series(tau[small], rho[small])
    return (tau + rho * sine + (1 - rho**2) * bend) / np.pi


def _bend_series(tau: np.ndarray, rho: np.ndarray) -> np.ndarray:
    step = rho * np.exp(1j * tau)
    total = np.zeros_like(step)
    for j in range(_SERIES_TERMS + 2, 1, -1):
        total = total * step + 1 / j
    return -(np.exp(2j * tau) * total).imag


def _nonzero_quantile(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Quantile of the nonzero part for p in [0, 1], in units of the variance."""
    # In the angle from the nearer edge the mass is cubic, and its cube root nearly linear.
    p, q = np.broadcast_arrays(p, q)
    level, rho = p.ravel(), _rho(q.ravel())
    right = level > 0.5
    aim = np.cbrt(np.where(right, 1 - level, level))

    def excess(angle: np.ndarray) -> np.ndarray:
        mass = _angle_cdf(np.where(right, np.pi - angle, angle), rho)
        return np.cbrt(np.where(right, 1 - mass, mass)) - aim

    inside = (level > 0) & (level < 1)
    angle = increasing_root(excess, np.zeros(level.shape), np.where(inside, np.pi, 0.0))
    tau = np.where(right, np.pi - angle, angle).reshape(p.shape)
    return (1 - np.sqrt(q)) ** 2 + 4 * np.sqrt(q) * np.sin(tau / 2) ** 2


_check.guard(__name__)
