"""How many patterns an associative memory holds, and how well it returns them.

Zero temperature, replica-symmetric (`hopfed.memory.basins` simulates it). The kernel is
`J = (1/N) xi^T (1 + t)(1 + t C)^{-1} xi`, C the pattern Gram matrix: t = 0 is Hebb's rule (Amit,
Gutfreund, Sompolinsky), t > 0 "dreaming" (Fachechi, Agliari, Barra), t = inf the projector
(pseudo-inverse). Load alpha = K / N, m the magnetisation of a retrieved pattern. For Hebb's rule
at finite temperature see `storage_thermal`.

Everything is explicit in `y = erfinv(m)`. With `h = erf(y)/(sqrt2 y) -
2 P`, `P = exp(-y^2)/sqrt(2 pi)`, the load at which m is reached is `alpha = h^2 / Q`, with
`Q = 1 - 2 t A s + t^2 (2 y^2 + 1) s^2`, `A = sqrt2 y erf(y) + 2 P` and s the root of
`t h s (B - t s) = (B - (1 + t) s) Q`, `B = erf(y)/(sqrt2 y)`. (Reduction of the five saddle-point
equations made here; t = 0 is AGS's own.) The capacity is the maximum over y, and retrieval is the
branch of larger y.

Parameters
----------
alpha : load K / N, at least 0.
t : dreaming time, at least 0, or infinite for the projector.

Sources: D. J. Amit, H. Gutfreund, H. Sompolinsky, Phys. Rev. Lett. 55 (1985) 1530 and Ann. Phys.
173 (1987) 30; A. Fachechi, E. Agliari, A. Barra, Neural Networks 112 (2019) 24; L. Personnaz,
I. Guyon, G. Dreyfus, J. Physique Lett. 46 (1985) L359; I. Kanter, H. Sompolinsky, Phys. Rev. A 35
(1987) 380.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check
from ._solve import increasing_root, maximise

PSEUDO_INVERSE_CAPACITY = 1.0  # the projector holds any K < N independent patterns without error

_Y_RANGE = (0.3, 9.0)  # holds the maximum for every t; erf(9) is 1 in double precision


def capacity(t: ArrayLike = 0.0) -> np.ndarray:
    """Largest load at zero temperature at which patterns are still returned.

    0.1379 for Hebb's rule, rising with t to the projector's 1. The limit of zero temperature is
    taken before that of large t: above t = 20 the value goes on to 1.07 and means nothing.

    >>> capacity([0.0, 1.0]).round(6)
    array([0.137906, 0.386596])
    """
    t, time = _times(t)
    return np.where(np.isinf(t), PSEUDO_INVERSE_CAPACITY, _load(_critical_y(time), time))[()]


def critical_magnetisation(t: ArrayLike = 0.0) -> np.ndarray:
    """Magnetisation at capacity, where it drops to zero.

    >>> round(float(critical_magnetisation()), 9)
    0.967417116
    """
    from scipy.special import erf

    t, time = _times(t)
    return np.where(np.isinf(t), 1.0, erf(_critical_y(time)))[()]


def magnetisation(alpha: ArrayLike, t: ArrayLike = 0.0) -> np.ndarray:
    """Magnetisation of a retrieved pattern at zero temperature; 0 above capacity.

    >>> round(float(magnetisation(0.1)), 9), float(magnetisation(0.15))
    (0.997999266, 0.0)
    """
    from scipy.special import erf

    alpha, t = np.broadcast_arrays(_check.nonnegative("alpha", alpha), _times(t)[0])
    load, time = alpha.ravel(), np.where(np.isinf(t), 0.0, t).ravel()
    low = _critical_y(time)
    most = _load(low, time)
    aim = np.minimum(load, most)
    # On the branch above the maximum the load falls with y.
    y = increasing_root(lambda v: aim - _load(v, time), low, np.full(load.shape, _Y_RANGE[1]))
    value = np.where(load <= most, erf(y), 0.0).reshape(alpha.shape)
    return np.where(np.isinf(t), alpha < PSEUDO_INVERSE_CAPACITY, value)[()]


def _times(t: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Dreaming times as given, and with 0 for infinite ones, which have laws of their own."""
    rule = "a number of at least 0, or inf"
    given = np.asarray(t, dtype=np.float64)
    if not (given >= 0).all():
        raise ArgumentError("t", rule, given[~(given >= 0)].flat[0])
    return given, np.where(np.isinf(given), 0.0, given)


def _load(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Load at which a memory of dreaming time t has magnetisation erf(y)."""
    from scipy.special import erf

    P = np.exp(-(y**2)) / np.sqrt(2 * np.pi)
    B = erf(y) / (np.sqrt(2) * y)
    h = B - 2 * P
    # In v = s (1 + t) / B, between 0 and 1, the cubic is `pull v (1 - tau v) = (1 - v) Q`: Newton's
    # iteration, with bisection where it leaves the bracket.
    tau = t / (1 + t)
    linear, square = 2 * tau * B * (2 * y**2 * B + 2 * P), (tau * B) ** 2 * (2 * y**2 + 1)
    pull = tau * h * B
    low, high = np.zeros(np.broadcast(y, t).shape), np.ones(np.broadcast(y, t).shape)
    v = (low + high) / 2
    for _ in range(60):
        Q = 1 - linear * v + square * v**2
        defect = pull * v * (1 - tau * v) - (1 - v) * Q
        slope = pull * (1 - 2 * tau * v) + Q - (1 - v) * (2 * square * v - linear)
        low, high = np.where(defect < 0, v, low), np.where(defect < 0, high, v)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = v - defect / slope
        moved = np.where((moved >= low) & (moved <= high), moved, (low + high) / 2)
        done = np.all(np.abs(moved - v) <= 1e-14)
        v = moved
        if done:
            break
    return h**2 / (1 - linear * v + square * v**2)


def _critical_y(t: np.ndarray) -> np.ndarray:
    """Place of the maximum of the load, which is unimodal in y."""
    return maximise(lambda y: _load(y, t[..., None]), *(np.full(t.shape, v) for v in _Y_RANGE))


_check.guard(__name__)
