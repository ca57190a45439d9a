"""Hebb's associative memory at finite temperature: the phase line of Amit, Gutfreund, Sompolinsky.

Replica-symmetric equations `m = int Dz tanh beta(m + sqrt(alpha r) z)`, `q = int Dz tanh^2`,
`r = q / (1 - beta (1 - q))^2`. With the coordinates `x = beta m` and `s = beta sqrt(alpha r)` the
averages depend on (x, s) alone, `T = m / x`, and `alpha = s^2 (T - (1 - q))^2 / q`: no fixed point
has to be iterated near the line, where its convergence stalls. At given T the load rises with s
from 0 to its maximum, the phase line; that branch is the retrieval state.

Below T = 0.046 the line is slightly re-entrant: it rises to 0.1382 at T = 0.023 before it comes
back to 0.1379, the capacity of zero temperature.

Parameters
----------
alpha : load K / N, at least 0.
temperature : T in [0.01, 1).

Source: D. J. Amit, H. Gutfreund, H. Sompolinsky, Ann. Phys. 173 (1987) 30.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from . import _check
from ._solve import maximise

_LOWEST = 0.01  # the averages need a step of a quarter of T / sqrt(alpha r)
_NO_FIELD = 1e-5  # a smaller beta m is the root 0
_LARGEST_SPREAD = 0.6  # alpha r stays below 0.6^2 in the retrieval phase


def thermal_capacity(temperature: ArrayLike) -> np.ndarray:
    """Largest load at which patterns are returned at temperature T: the phase line over T.

    >>> round(float(thermal_capacity(0.542255)), 6)
    0.05
    """
    T = _temperature(temperature)
    return _load(_peak(T), T)[()]


def spin_glass_temperature(alpha: ArrayLike) -> np.ndarray:
    """Temperature below which the memory freezes without retrieving, `1 + sqrt(alpha)`.

    >>> float(spin_glass_temperature(0.25))
    1.5
    """
    return (1 + np.sqrt(_check.nonnegative("alpha", alpha)))[()]


def _temperature(value: ArrayLike) -> np.ndarray:
    rule = f"a number in [{_LOWEST}, 1)"
    return _check.real("temperature", value, rule, lambda a: (a >= _LOWEST) & (a < 1))


def _peak(T: np.ndarray) -> np.ndarray:
    """Spread s at which the load of temperature T is largest."""
    return maximise(lambda s: _load(s, T[..., None]), np.zeros(T.shape), _LARGEST_SPREAD / T)


def _load(spread: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Load of the retrieval state at (spread, T); 0 where there is none."""
    spread, T = np.broadcast_arrays(spread, T)
    field = 1 / T
    # m is concave in the field, so that Newton's steps come down to the largest root without
    # passing it; where only the root 0 is left they go on towards it.
    for _ in range(60):
        m, q = _averages(field, spread)
        room = T - (1 - q)
        step = (T * field - m) / np.where(room > 0, room, np.inf)
        field = field - step
        # Newton squares its relative error: after a step of this size it is done.
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
    z = step * np.arange(-ends, ends + 1)  # from -9 upward, rounded sums would change the step
    weight = np.exp(-(z**2) / 2) * step / np.sqrt(2 * np.pi)
    value = np.tanh(field[..., None] + spread[..., None] * z)
    return value @ weight, value**2 @ weight


_check.guard(__name__)
