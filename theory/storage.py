"""Capacity of associative memories, and quality of retrieval.

*Hebb, dreaming, projector*, at zero temperature, replica-symmetric (`hopfed.memory.basins`
simulates it). The kernel is `J = (1/N) xi^T (1 + t)(1 + t C)^{-1} xi`, C the pattern Gram matrix:
t = 0 is Hebb's rule, t > 0 "dreaming", t = inf the projector (pseudo-inverse). The solution is
explicit in `y = erfinv(m)`. With `h = erf(y)/(sqrt2 y) - 2 P`, `P = exp(-y^2)/sqrt(2 pi)`, the load
at which m is reached is `alpha = h^2 / Q`, with `Q = 1 - 2 t A s + t^2 (2 y^2 + 1) s^2`,
`A = sqrt2 y erf(y) + 2 P` and s the root of `t h s (B - t s) = (B - (1 + t) s) Q`,
`B = erf(y)/(sqrt2 y)`, derived here from the five saddle-point equations. The capacity is
the maximum over y, and retrieval is the branch of larger y.

*Hebb's rule at finite temperature*: `m = int Dz tanh beta(m + sqrt(alpha r) z)`, `q = int Dz
tanh^2`, `r = q / (1 - beta (1 - q))^2`. With the coordinates `x = beta m` and `s = beta sqrt(alpha
r)` the averages depend on (x, s) alone, `T = m / x`, and `alpha = s^2 (T - (1 - q))^2 / q`. At
given T the load rises with s from 0 to its maximum, the phase line. Below T = 0.046 the line is
slightly re-entrant: it rises to 0.1382 at T = 0.023 and returns to 0.1379 at T = 0.

*Dense memory*, energy ``-(N / n) sum_mu (xi_mu . s / N)^n``, n at least 3. With the load
``a = (2n - 3)!! K / N^(n - 1)`` the field of a spin is ``m^(n - 1) + sqrt(a) z``, z a Gaussian, and
the reaction of the other patterns vanishes as N grows: ``m = erf(m^(n - 1) / sqrt(2 a))``, so with
``y = erfinv(m)`` ``a = erf(y)^(2n - 2) / (2 y^2)``. The factor (2n - 3)!! counts the pairings of
equal indices, which this energy includes.

*Exponential memory*, ``-(1 / beta) log sum_mu exp(beta xi_mu . s)`` with ``K = exp(a N)`` patterns:
a cue of overlap m moves to its pattern if its own term exceeds the sum of all others,
``beta m > phi``. That sum is a random energy model: ``phi = a + log cosh(beta)`` if
``I(tanh beta) <= a``, else ``beta x`` with ``I(x) = a``, ``I(x) = ((1 + x) log(1 + x) + (1 - x)
log(1 - x)) / 2``.

Parameters
----------
alpha : load K / N, at least 0.
t : dreaming time, at least 0, or infinite for the projector.
temperature : T in [0.01, 1).
n : power of the energy, at least 3.
load : ``(2n - 3)!! K / N^(n - 1)``, at least 0.
rate : ``log(K) / N``, at least 0.
beta : inverse temperature of the weights, above 0.

Sources: D. J. Amit, H. Gutfreund, H. Sompolinsky, Phys. Rev. Lett. 55 (1985) 1530 and Ann. Phys.
173 (1987) 30; A. Fachechi, E. Agliari, A. Barra, Neural Networks 112 (2019) 24; L. Personnaz,
I. Guyon, G. Dreyfus, J. Physique Lett. 46 (1985) L359; I. Kanter, H. Sompolinsky, Phys. Rev. A 35
(1987) 380; E. Gardner, J. Phys. A 20 (1987) 3453; D. Krotov, J. J. Hopfield, NeurIPS 29 (2016),
arXiv:1606.01164; C. Lucibello, M. Mezard, Phys. Rev. Lett. 132 (2024) 077301 (arXiv:2304.14964);
M. Demircigil et al., J. Stat. Phys. 168 (2017) 288.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check
from ._solve import increasing_root, maximise

_PROJECTOR = 1.0  # capacity: it holds any K < N independent patterns without error
_Y_RANGE = (0.2, 9.0)  # contains the maximum for every t and n; erf(9) is 1 in double precision
_LOWEST = 0.01  # temperature: the averages need a step of a quarter of T / sqrt(alpha r)
_NO_FIELD = 1e-5  # a smaller beta m counts as the root 0
_LARGEST_SPREAD = 0.6  # alpha r stays below 0.6^2 in the retrieval phase


def capacity(t: ArrayLike = 0.0) -> np.ndarray:
    """Storage capacity of a dreaming Hopfield memory: largest load that it still retrieves.

    0.1379 for Hebb's rule, rising with t to the projector's 1. The limit of zero temperature is
    taken before that of large t: above t = 20 the value rises to 1.07 and is not valid.

    >>> capacity([0.0, 1.0]).round(6)
    array([0.137906, 0.386596])
    """
    t, time = _times(t)
    return np.where(np.isinf(t), _PROJECTOR, _load(_critical_y(time), time))[()]


def critical_magnetisation(t: ArrayLike = 0.0) -> np.ndarray:
    """Magnetisation at capacity, where it drops to zero.

    >>> round(float(critical_magnetisation()), 7)
    0.9674171
    """
    from scipy.special import erf

    t, time = _times(t)
    return np.where(np.isinf(t), 1.0, erf(_critical_y(time)))[()]


def magnetisation(alpha: ArrayLike, t: ArrayLike = 0.0) -> np.ndarray:
    """Magnetisation of a retrieved pattern at zero temperature; 0 above capacity.

    >>> round(float(magnetisation(0.1)), 9), float(magnetisation(0.15))
    (0.997999266, 0.0)
    """
    alpha, t = np.broadcast_arrays(_check.nonnegative("alpha", alpha), _times(t)[0])
    time = np.where(np.isinf(t), 0.0, t).ravel()
    value = _retrieved(alpha, _critical_y(time), lambda y: _load(y, time))
    return np.where(np.isinf(t), alpha < _PROJECTOR, value)[()]


def thermal_capacity(temperature: ArrayLike) -> np.ndarray:
    """Largest load at which Hebb's rule retrieves patterns at temperature T: the phase line.

    >>> round(float(thermal_capacity(0.542255)), 6)
    0.05
    """
    rule = f"a number in [{_LOWEST}, 1)"
    T = _check.real("temperature", temperature, rule, lambda a: (a >= _LOWEST) & (a < 1))
    zero = np.zeros(T.shape)
    peak = maximise(lambda s: _thermal_load(s, T[..., None]), zero, _LARGEST_SPREAD / T)
    return _thermal_load(peak, T)[()]


def pairings(n: int) -> int:
    """Return ``(2n - 3)!!``, by which the noise of a dense memory of order n grows.

    >>> [pairings(n) for n in (2, 3, 4)]
    [1, 3, 15]
    """
    _power(n, 2)
    return int(np.prod(np.arange(1, 2 * n - 2, 2, dtype=object)))


def dense_capacity(n: int) -> float:
    """Largest load at which the dense memory retrieves its patterns.

    >>> round(dense_capacity(3), 4)
    0.2522
    """
    return float(_dense_load(_dense_critical_y(n), n))


def dense_magnetisation(load: ArrayLike, n: int) -> np.ndarray:
    """Magnetisation of a pattern that the dense memory retrieves; 0 above capacity.

    >>> dense_magnetisation([0.1, 0.2, 0.3], 3).round(4)
    array([0.9984, 0.9611, 0.    ])
    """
    load = _check.nonnegative("load", load)
    return _retrieved(load, _dense_critical_y(n), lambda y: _dense_load(y, n))[()]


def exponential_reach(rate: ArrayLike, beta: ArrayLike) -> np.ndarray:
    """Smallest overlap from which the exponential memory retrieves a pattern; never if above 1.

    >>> exponential_reach([0.1, 0.3], 1.0).round(4), exponential_reach(0.1, 100.0).round(4)
    (array([0.4396, 0.7328]), np.float64(0.4396))
    """
    rate, beta = np.broadcast_arrays(
        _check.nonnegative("rate", rate), _check.positive("beta", beta)
    )
    # Overlap of the nearest of exp(rate N) random patterns.
    aim = np.minimum(rate.ravel(), np.log(2))
    ends = np.zeros(aim.shape), np.ones(aim.shape)
    best = increasing_root(lambda x: _entropy_lost(x) - aim, *ends).reshape(rate.shape)
    free = (rate + beta + np.log1p(np.exp(-2 * beta)) - np.log(2)) / beta  # log cosh, for any beta
    return np.where(_entropy_lost(np.tanh(beta)) <= rate, free, best)[()]


def exponential_capacity(beta: ArrayLike) -> np.ndarray:
    """Capacity of the exponential memory, ``log(K) / N = beta - log cosh(beta)``.

    >>> exponential_capacity([0.5, 1.0, 50.0]).round(4)
    array([0.3799, 0.5662, 0.6931])
    """
    beta = _check.positive("beta", beta)
    return (np.log(2) - np.log1p(np.exp(-2 * beta)))[()]


def _times(t: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Checked dreaming times, and the same with infinite times (treated separately) set to 0."""
    given = np.asarray(t, dtype=np.float64)
    if not (given >= 0).all():
        raise ArgumentError("t", "a number of at least 0, or inf", given[~(given >= 0)].flat[0])
    return given, np.where(np.isinf(given), 0.0, given)


def _retrieved(
    load: np.ndarray, critical: np.ndarray, load_at: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Magnetisation at `load` on the branch above `critical`, where `load_at` falls with y."""
    from scipy.special import erf

    flat, most = load.ravel(), load_at(critical)
    aim = np.minimum(flat, most)
    ends = np.broadcast_to(critical, aim.shape), np.full(aim.shape, _Y_RANGE[1])
    y = increasing_root(lambda v: aim - load_at(v), *ends)
    return np.asarray(np.where(flat <= most, erf(y), 0.0).reshape(load.shape))


def _load(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Load at which a memory of dreaming time t has magnetisation erf(y)."""
    from scipy.special import erf

    y, t = np.broadcast_arrays(y, t)
    P = np.exp(-(y**2)) / np.sqrt(2 * np.pi)
    B = erf(y) / (np.sqrt(2) * y)
    h, tau = B - 2 * P, t / (1 + t)
    linear, square = 2 * tau * B * (2 * y**2 * B + 2 * P), (tau * B) ** 2 * (2 * y**2 + 1)

    def Q(v: np.ndarray) -> np.ndarray:  # noqa: N802
        return np.asarray(1 - linear * v + square * v**2)

    # In v = s (1 + t) / B, between 0 and 1, the cubic is `tau h B v (1 - tau v) = (1 - v) Q`.
    v = increasing_root(
        lambda v: tau * h * B * v * (1 - tau * v) - (1 - v) * Q(v),
        np.zeros(y.shape),
        np.ones(y.shape),
    )
    return np.asarray(h**2 / Q(v))


def _critical_y(t: np.ndarray) -> np.ndarray:
    """Maximiser y of the load, which is unimodal in y."""
    return maximise(lambda y: _load(y, t[..., None]), *(np.full(t.shape, v) for v in _Y_RANGE))


def _thermal_load(spread: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Load of the retrieval state at (spread, T); 0 without a retrieval state."""
    spread, T = np.broadcast_arrays(spread, T)
    field = 1 / T
    # m is concave in the field, so Newton's steps descend to the largest root without passing
    # it; without a positive root they descend towards 0.
    for _ in range(60):
        m, q = _averages(field, spread)
        room = T - (1 - q)
        step = (T * field - m) / np.where(room > 0, room, np.inf)
        field = field - step
        # Newton squares its relative error: after a step of this size it has converged.
        if np.all((np.abs(step) <= 1e-10 * field) | (field < _NO_FIELD)):
            break
    q = _averages(field, spread)[1]
    exists = (field > _NO_FIELD) & (1 - q < T)
    return np.where(exists, (spread * (T - (1 - q))) ** 2 / np.where(exists, q, 1), 0.0)


def _averages(field: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`m = int Dz tanh(field + spread z)` and `q = int Dz tanh^2`."""
    # The trapezoidal rule converges exponentially once its step is small against the distance
    # pi / (2 spread) of the poles from the real line.
    step = min(0.1, 0.25 / max(float(np.max(spread, initial=0.0)), 1e-9))
    ends = np.ceil(9 / step)
    z = step * np.arange(-ends, ends + 1)  # a sum from -9 upward would round the step
    weight = np.exp(-(z**2) / 2) * step / np.sqrt(2 * np.pi)
    value = np.tanh(field[..., None] + spread[..., None] * z)
    return value @ weight, value**2 @ weight


def _entropy_lost(x: np.ndarray) -> np.ndarray:
    """I(x): a random pattern has overlap at least x with probability ``exp(-N I(x))``."""
    from scipy.special import xlogy

    return np.asarray((xlogy(1 + x, 1 + x) + xlogy(1 - x, 1 - x)) / 2)


def _power(n: int, least: int) -> None:
    one = isinstance(n, Integral) and not isinstance(n, bool) and n >= least
    if not one:
        raise ArgumentError("n", f"a whole number, at least {least}", n)


def _dense_load(y: np.ndarray, n: int) -> np.ndarray:
    """Load at which the magnetisation of the dense memory is erf(y)."""
    from scipy.special import erf

    return np.asarray(erf(y) ** (2 * n - 2) / (2 * y**2))


def _dense_critical_y(n: int) -> np.ndarray:
    _power(n, 3)
    return maximise(lambda y: _dense_load(y, n), *map(np.asarray, _Y_RANGE))


_check.guard(__name__)
