"""Roots and maxima of many one-dimensional functions at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_ZOOM = 33  # points per round of the search for a maximum
_ROUNDS = 9  # each keeps a sixteenth of the interval: 1 / 7e10 of it at the end


def increasing_root(
    function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return zeros of increasing functions in the brackets (low, high), to an ulp or two."""
    # T. R. Chandrupatla, Adv. Eng. Softw. 28 (1997) 145: inverse quadratic steps where they are
    # safe, bisection elsewhere. The ends may be poles, so they are never evaluated.
    newest, opposite = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    newest, opposite = (a.copy() for a in np.broadcast_arrays(newest, opposite))
    f_newest, f_opposite = np.full(newest.shape, -np.inf), np.full(newest.shape, np.inf)
    part = np.full(newest.shape, 0.5)
    best = newest + part * (opposite - newest)
    active = newest != opposite
    for _ in range(1200):
        if not active.any():
            break
        # The next point of the bracket; a wide bracket is halved at its geometric mean.
        least, most = np.minimum(newest, opposite), np.maximum(newest, opposite)
        wide = (least > 0) & (most > 2 * least) & (part == 0.5)
        geometric = np.sqrt(np.where(wide, least, 1.0)) * np.sqrt(np.where(wide, most, 1.0))
        x = np.where(wide, geometric, newest + part * (opposite - newest))
        f = function(np.where(active, x, best))
        same = (f < 0) == (f_newest < 0)
        former, f_former = np.where(same, newest, opposite), np.where(same, f_newest, f_opposite)
        opposite = np.where(same, opposite, newest)
        f_opposite = np.where(same, f_opposite, f_newest)
        newest, f_newest = x, f
        nearer = np.abs(f_newest) <= np.abs(f_opposite)
        best = np.where(active, np.where(nearer, newest, opposite), best)
        with np.errstate(all="ignore"):  # infinite values at the ends lead to NaN, so to bisection
            least = (4e-16 * np.abs(best) + 1e-300) / np.abs(opposite - newest)
            part = _quadratic_part(newest, opposite, former, f_newest, f_opposite, f_former)
        active &= (least < 0.5) & (f != 0)
        part = np.clip(part, np.minimum(least, 0.5), np.maximum(1 - least, 0.5))
    return best


def _quadratic_part(
    newest: np.ndarray,
    opposite: np.ndarray,
    former: np.ndarray,
    f_newest: np.ndarray,
    f_opposite: np.ndarray,
    f_former: np.ndarray,
) -> np.ndarray:
    """Zero of the inverse quadratic through three points, as a part of the bracket; else 0.5."""
    xi = (newest - opposite) / (former - opposite)
    phi = (f_newest - f_opposite) / (f_former - f_opposite)
    safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
    first = f_newest / (f_opposite - f_newest) * (f_former / (f_opposite - f_former))
    second = f_newest / (f_former - f_newest) * (f_opposite / (f_former - f_opposite))
    value = first + (former - newest) / (opposite - newest) * second
    return np.where(safe & np.isfinite(value), value, 0.5)


def maximise(
    function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return the maximisers of unimodal functions, which get points along a new last axis."""
    unit = np.linspace(0, 1, _ZOOM)
    for _ in range(_ROUNDS):
        points = low[..., None] + (high - low)[..., None] * unit
        best = np.argmax(function(points), axis=-1)[..., None]
        low = np.take_along_axis(points, np.maximum(best - 1, 0), axis=-1)[..., 0]
        high = np.take_along_axis(points, np.minimum(best + 1, _ZOOM - 1), axis=-1)[..., 0]
    return (low + high) / 2


def smallest_count(
    enough: Callable[[np.ndarray], np.ndarray], low: np.ndarray, most: float, fineness: float = 0.0
) -> np.ndarray:
    """Return the smallest whole numbers that satisfy `enough`, by doubling, then bisection."""
    low = np.array(low, dtype=np.float64)
    high = low.copy()
    while True:
        short = ~enough(high) & (high < most)
        if not short.any():
            break
        low, high = np.where(short, high, low), np.where(short, 2 * high, high)
    while np.any(high - low > np.maximum(1.0, fineness * high)):
        middle = np.floor((low + high) / 2)
        good = enough(np.maximum(middle, 1))
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return high
