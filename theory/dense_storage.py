"""How many patterns the dense and the exponential memory hold.

Dense memory, energy ``-(N / n) sum_mu (xi_mu . s / N)^n``, n at least 3. With the load
``a = (2n - 3)!! K / N^(n - 1)`` the field of a spin is ``m^(n - 1) + sqrt(a) z``, z a Gaussian, in
serial order at zero temperature, and no reaction of the other patterns is left as N grows:

    m = erf(m^(n - 1) / sqrt(2 a)),   so with y = erfinv(m):   a = erf(y)^(2n - 2) / (2 y^2),

whose maximum over y is the capacity. For n = 2 the reaction stays, and `storage` has the law.
E. Gardner, J. Phys. A 20 (1987) 3453; the factor (2n - 3)!! counts the pairings of equal indices,
which this energy keeps: D. Krotov, J. J. Hopfield, NeurIPS 29 (2016), arXiv:1606.01164, eq. (6).

Exponential memory, ``-(1 / beta) log sum_mu exp(beta xi_mu . s)`` with ``K = exp(a N)`` patterns: a
cue of overlap m is drawn to its pattern if its own term beats the sum of all others,
``beta m > phi``. That sum is a random energy model:

    phi = a + log cosh(beta)   if I(tanh beta) <= a,   else beta x with I(x) = a,
    I(x) = ((1 + x) log(1 + x) + (1 - x) log(1 - x)) / 2.

From the pattern itself, m = 1, the capacity is ``a = beta - log cosh(beta)``, log 2 at most.
C. Lucibello, M. Mezard, Phys. Rev. Lett. 132 (2024) 077301 (arXiv:2304.14964); for large beta the
bound of M. Demircigil et al., J. Stat. Phys. 168 (2017) 288 (arXiv:1702.01929).

Parameters
----------
n : power of the energy, at least 3.
load : ``(2n - 3)!! K / N^(n - 1)``, at least 0.
rate : ``log(K) / N``, at least 0.
beta : inverse temperature of the weights, above 0.
x : overlap in [-1, 1].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check
from ._solve import increasing_root, maximise

_Y_RANGE = (0.2, 9.0)  # holds the maximum for every n; erf(9) is 1 in double precision


def pairings(n: int) -> int:
    """Return ``(2n - 3)!!``, the number of ways to pair 2n - 2 indices.

    >>> [pairings(n) for n in (2, 3, 4)]
    [1, 3, 15]
    """
    _power(n, 2)
    return int(np.prod(np.arange(1, 2 * n - 2, 2, dtype=object)))


def dense_capacity(n: int) -> float:
    """Largest load at which the dense memory returns its patterns.

    >>> round(dense_capacity(3), 4)
    0.2522
    """
    return float(_dense_load_at(_critical_y(n), n))


def dense_magnetisation(load: ArrayLike, n: int) -> np.ndarray:
    """Magnetisation of a retrieved pattern; 0 above capacity.

    >>> dense_magnetisation([0.1, 0.2, 0.3], 3).round(4)
    array([0.9984, 0.9611, 0.    ])
    """
    from scipy.special import erf

    load = _check.nonnegative("load", load)
    low = _critical_y(n)
    most = float(_dense_load_at(low, n))
    aim = np.minimum(load.ravel(), most)
    ends = np.full(aim.shape, float(low)), np.full(aim.shape, _Y_RANGE[1])
    y = increasing_root(lambda v: aim - _dense_load_at(v, n), *ends)
    return np.where(load <= most, erf(y).reshape(load.shape), 0.0)[()]


def exponential_reach(rate: ArrayLike, beta: ArrayLike) -> np.ndarray:
    """Least overlap from which the exponential memory returns a pattern; above 1 none.

    >>> exponential_reach([0.1, 0.3], 1.0).round(4), exponential_reach(0.1, 100.0).round(4)
    (array([0.4396, 0.7328]), np.float64(0.4396))
    """
    rate, beta = np.broadcast_arrays(
        _check.nonnegative("rate", rate), _check.positive("beta", beta)
    )
    best = _nearest(rate)
    free = (rate + beta + np.log1p(np.exp(-2 * beta)) - np.log(2)) / beta  # log cosh, for any beta
    return np.where(entropy_lost(np.tanh(beta)) <= rate, free, best)[()]


def exponential_capacity(beta: ArrayLike) -> np.ndarray:
    """Largest ``log(K) / N`` at which patterns are rest states: ``beta - log cosh(beta)``.

    >>> exponential_capacity([0.5, 1.0, 50.0]).round(4)
    array([0.3799, 0.5662, 0.6931])
    """
    beta = _check.positive("beta", beta)
    return (np.log(2) - np.log1p(np.exp(-2 * beta)))[()]


def entropy_lost(x: ArrayLike) -> np.ndarray:
    """Return I(x): a random pattern has overlap x or more with probability ``exp(-N I(x))``.

    >>> entropy_lost([0.0, 0.5, 1.0]).round(4)
    array([0.    , 0.1308, 0.6931])
    """
    x = np.asarray(x, float)
    if not (np.abs(x) <= 1).all():
        raise ArgumentError("x", "in [-1, 1]", x)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [np.where(v > 0, v * np.log(v), 0.0) for v in (1 + x, 1 - x)]
    return ((parts[0] + parts[1]) / 2)[()]


def _nearest(rate: np.ndarray) -> np.ndarray:
    """Overlap of the nearest of ``exp(rate N)`` random patterns."""
    aim = np.minimum(rate.ravel(), np.log(2))
    ends = np.zeros(aim.shape), np.ones(aim.shape)
    return increasing_root(lambda x: entropy_lost(x) - aim, *ends).reshape(rate.shape)


def _power(n: int, least: int) -> None:
    if isinstance(n, bool) or n != int(n) or n < least:
        raise ArgumentError("n", f"a whole number, at least {least}", n)


def _dense_load_at(y: np.ndarray, n: int) -> np.ndarray:
    """Load at which the magnetisation is erf(y)."""
    from scipy.special import erf

    return erf(y) ** (2 * n - 2) / (2 * y**2)


def _critical_y(n: int) -> np.ndarray:
    _power(n, 3)
    low, high = (np.asarray(v) for v in _Y_RANGE)
    return maximise(lambda y: _dense_load_at(y, n), low, high)


_check.guard(__name__)
