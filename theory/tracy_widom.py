"""The Tracy-Widom laws for beta = 1 (real), 2 (complex) and 4 (quaternion data).

`cdf`, `sf`, `pdf`, `quantile` and `isf` are piecewise Chebyshev interpolants of log F on the left
of s = -2 and of log(1 - F) on its right. With the operator `B_s(x, y) = Ai(x + y + s)` on (0, inf),
`F1(s) = det(I - B_s)` and `F2(s) = det(I - B_s) det(I + B_s)` (Ferrari and Spohn; Bornemann). The
coefficients were computed from these determinants in arithmetic of up to 4,700 bits and are
shipped, since no double-precision computation reaches the far left tail. The relative error is
about 1e-13 in *both* tails, until the value itself underflows. The third law follows from these,
``F4(s) = (F1(u) + F2(u) / F1(u)) / 2`` at ``u = 2^(2/3) s``, in the scale of the stochastic Airy
operator, so that `wishart_scaling` and `ensembles` have one centre and scale for every beta.

Parameters
----------
s, p : real; a probability in (0, 1); any shape.
beta : 1 (real data), 2 (complex) or 4 (quaternions).

Sources: P. L. Ferrari, H. Spohn, J. Phys. A 38 (2005) L557; F. Bornemann, Math. Comp. 79 (2010)
871; scaling: Z. Ma, Bernoulli 18 (2012) 322.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import _check
from ._solve import increasing_root

_SWITCH = -2.0  # log F left of it, log(1 - F) right of it: neither is then close to 0
_BLOCK = 16384  # entries per step, so that the temporaries stay in cache
_BETAS = (1, 2, 4)
_STRETCH = 2 ** (2 / 3)  # factor of the argument of the beta = 4 law


def cdf(s: ArrayLike, beta: int = 1) -> np.ndarray:
    """Distribution function F_beta(s) of the Tracy-Widom law; 0 and 1 at -inf and inf.

    >>> round(float(cdf(0.0)), 12), round(float(cdf(-2.0, beta=2)), 12)
    (0.831908066203, 0.413224142505)
    """
    s, log_tail, _ = _evaluate(s, beta)
    return np.where(s < _SWITCH, np.exp(log_tail), -np.expm1(log_tail))[()]


def sf(s: ArrayLike, beta: int = 1) -> np.ndarray:
    """Upper tail `1 - F_beta(s)` of the Tracy-Widom law, with full relative accuracy.

    >>> f"{float(sf(6.0)):.12e}"
    '1.940814072646e-06'
    """
    s, log_tail, _ = _evaluate(s, beta)
    return np.where(s < _SWITCH, -np.expm1(log_tail), np.exp(log_tail))[()]


def pdf(s: ArrayLike, beta: int = 1) -> np.ndarray:
    """Density `F_beta'(s)` of the Tracy-Widom law.

    >>> round(float(pdf(0.0)), 12)
    0.181419571221
    """
    s, log_tail, slope = _evaluate(s, beta)
    return np.where(np.isinf(s), 0.0, np.exp(log_tail) * np.abs(slope))[()]


def quantile(p: ArrayLike, beta: int = 1) -> np.ndarray:
    """Quantile of the Tracy-Widom law, for p in (0, 1).

    >>> round(float(quantile(0.95)), 12)
    0.97931605347
    """
    p = _check.probability("p", p)
    left = p < float(cdf(_SWITCH, beta))
    return _invert(np.where(left, np.log(p), np.log1p(-p)), left, beta)[()]


@lru_cache(maxsize=256)
def critical_value(alpha: float) -> float:
    """Return `isf(alpha)` of the Tracy-Widom law, beta = 1, for a single level, cached.

    >>> round(critical_value(0.05), 6)
    0.979316
    """
    return float(isf(alpha))


def isf(p: ArrayLike, beta: int = 1) -> np.ndarray:
    """Value that the Tracy-Widom law exceeds with probability p: critical value of a test.

    >>> round(float(isf(1e-6)), 12)
    6.256354429569
    """
    p = _check.probability("p", p)
    left = p > float(sf(_SWITCH, beta))
    return _invert(np.where(left, np.log1p(-p), np.log(p)), left, beta)[()]


class Moments(NamedTuple):
    """First four moments of a Tracy-Widom law.

    Attributes
    ----------
    mean, variance, skewness, excess_kurtosis : the last two standardised.

    >>> found = moments(beta=2)
    >>> [round(m, 4) for m in found]
    [-1.7711, 0.8132, 0.2241, 0.0934]
    """

    mean: float
    variance: float
    skewness: float
    excess_kurtosis: float


@lru_cache(maxsize=3)
def moments(beta: int = 1) -> Moments:
    """Mean, variance, skewness and excess kurtosis of the Tracy-Widom law, by quadrature.

    >>> round(moments(1).mean, 12), round(moments(1).variance, 12)
    (-1.206533574582, 1.607781034581)
    """
    nodes, weights = np.polynomial.legendre.leggauss(256)
    s = 3.0 + 17.0 * nodes  # mass outside [-14, 20] is below 1e-27
    mass = 17.0 * weights * pdf(s, beta)
    mean = float(mass @ s)
    variance = float(mass @ (s - mean) ** 2)
    standard = (s - mean) / np.sqrt(variance)
    return Moments(mean, variance, float(mass @ standard**3), float(mass @ standard**4) - 3.0)


def wishart_scaling(M: ArrayLike, N: ArrayLike, beta: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Centre and scale of the largest eigenvalue of `X^* X`, X white noise of shape (M, N).

    `(lambda_1 - centre) / scale` has the law of `beta` up to `O(min(M, N)^(-2/3))`. Ma's shift of
    M and N, `1/2 - 1/beta` for any beta, is for data that were not centred: no degree of freedom
    is subtracted.

    >>> centre, scale = wishart_scaling(100, 25)
    >>> round(float(centre), 6), round(float(scale), 6)
    (222.747152, 10.01636)
    """
    half = 0.5 - 1 / _check.one_of("beta", beta, _BETAS)
    a, b = np.sqrt(_check.count("M", M) + half), np.sqrt(_check.count("N", N) + half)
    return ((a + b) ** 2)[()], ((a + b) * np.cbrt(1 / a + 1 / b))[()]


@lru_cache
def _pieces(beta: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Knots of the interpolant, and per piece the coefficients of it and its derivative."""
    text = Path(__file__).with_name("tracy_widom.csv").read_text(encoding="utf-8")
    lines = [line.split(",") for line in text.splitlines() if line.startswith(f"{beta},")]
    knots = np.array([float(line[1]) for line in lines] + [float(lines[-1][2])])
    values = [np.array(line[3:], np.float64) for line in lines]
    slopes = (
        np.append(np.polynomial.chebyshev.chebder(c) * 2 / width, 0.0)
        for c, width in zip(values, np.diff(knots), strict=True)
    )
    return knots, [np.stack(both, axis=1) for both in zip(values, slopes, strict=True)]


def _evaluate(s: ArrayLike, beta: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return s, the log of the tail on the side of s of `_SWITCH`, and its derivative."""
    s = _check.place("s", s)
    _check.one_of("beta", beta, _BETAS)
    flat = s.ravel()
    log_tail, slope = np.empty(flat.shape), np.empty(flat.shape)
    for start in range(0, flat.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        log_tail[block], slope[block] = _log_tail(flat[block], beta)
    return s, log_tail.reshape(s.shape), slope.reshape(s.shape)


def _third(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log tail of the beta = 4 law and its slope, from the laws of beta = 1 and 2."""
    u = np.clip(s * _STRETCH, *(_pieces(1)[0][at] for at in (0, -1)))
    logs = [_log_tail(u, beta) for beta in (1, 2)]
    left = u < _SWITCH
    with np.errstate(all="ignore"):  # the side that is not used may overflow
        one, two = (np.where(left, log, np.log1p(-np.exp(log))) for log, _ in logs)  # log F
        d_one, d_two = (np.where(left, d, -np.exp(log) * d / -np.expm1(log)) for log, d in logs)
        low = np.logaddexp(one, two - one) - np.log(2)
        rise = (np.exp(one) * d_one + np.exp(two - one) * (d_two - d_one)) / (2 * np.exp(low))
        S1, S2 = (np.where(left, -np.expm1(log), np.exp(log)) for log, _ in logs)
        F1, room = np.exp(one), S2 - S1**2  # 2 F1 (1 - F4)
        f1, f2 = F1 * d_one, np.exp(two) * d_two
        high = np.log(room / (2 * F1))
        fall = (2 * S1 * f1 - f2) / room - d_one
        right = s >= _SWITCH
        return np.where(right, high, low), _STRETCH * np.where(right, fall, rise)


def _log_tail(s: np.ndarray, beta: int) -> tuple[np.ndarray, np.ndarray]:
    if beta == 4:
        return _third(s)
    knots, coefficients = _pieces(beta)
    # At and outside the outer knots every probability underflows.
    s = np.clip(s, knots[0], knots[-1])
    piece = np.clip(np.searchsorted(knots, s, side="right") - 1, 0, len(coefficients) - 1)
    found = np.empty((2, *s.shape))
    for k in np.flatnonzero(np.bincount(piece)):
        at = np.flatnonzero(piece == k)
        t = (2 * s[at] - knots[k] - knots[k + 1]) / (knots[k + 1] - knots[k])
        found[:, at] = np.polynomial.chebyshev.chebval(t, coefficients[k])
    return found[0], found[1]


def _invert(log_target: np.ndarray, left: np.ndarray, beta: int) -> np.ndarray:
    """Solve log F(s) = target where `left`, log(1 - F(s)) = target elsewhere."""
    knots = _pieces(1)[0] / _STRETCH if beta == 4 else _pieces(beta)[0]
    target, side = (a.ravel() for a in np.broadcast_arrays(log_target, left))
    below = np.nextafter(_SWITCH, -np.inf)

    def excess(s: np.ndarray) -> np.ndarray:
        rest = _log_tail(np.where(side, np.minimum(s, below), s), beta)[0] - target
        return np.where(side, rest, -rest)

    ends = np.where(side, knots[0], _SWITCH), np.where(side, _SWITCH, knots[-1])
    return increasing_root(excess, *ends).reshape(np.shape(log_target))


_check.guard(__name__)
