"""Roots and maxima of many one-dimensional functions at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_ZOOM = 33  # points per round of the search for a maximum
_ROUNDS = 9  # each keeps a sixteenth of the interval: a part in 7e10 in the end


def bisect(
    function: Callable[[np.ndarray], np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    tolerance: float = 0.0,
) -> np.ndarray:
    """Zeros of increasing functions in the brackets (low, high), to the last bit or `tolerance`.

    Halves the logarithm while the bracket, of positive ends, spans more than a factor of two, so
    that small roots get their full relative accuracy.
    """
    low, high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    for _ in range(1200):
        wide = (low > 0) & (high > 2 * low)
        geometric = np.sqrt(np.where(wide, low, 1.0)) * np.sqrt(np.where(wide, high, 1.0))
        middle = np.where(wide, geometric, low + (high - low) / 2)
        open_ = (middle > low) & (middle < high) & (high - low > tolerance)
        if not open_.any():
            break
        rising = function(middle) < 0
        low = np.where(open_ & rising, middle, low)
        high = np.where(open_ & ~rising, middle, high)
    return low + (high - low) / 2


def maximise(
    function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Places of the maxima of unimodal functions on the intervals (low, high).

    `function` gets the points of each interval along a new last axis. A plateau after the maximum
    does no harm.
    """
    unit = np.linspace(0, 1, _ZOOM)
    for _ in range(_ROUNDS):
        points = low[..., None] + (high - low)[..., None] * unit
        best = np.argmax(function(points), axis=-1)[..., None]
        low = np.take_along_axis(points, np.maximum(best - 1, 0), axis=-1)[..., 0]
        high = np.take_along_axis(points, np.minimum(best + 1, _ZOOM - 1), axis=-1)[..., 0]
    return (low + high) / 2
