"""Means over owners that a few of them cannot move far: trimmed, entry by entry.

What owners say is brought to the same scale first, so that it can be compared: sums are divided by
the rows that they are over. Then the highest and the lowest values of every entry are left out, as
many at either end as clients may lie, and the others are averaged by their rows. Nobody weighs more
than a multiple of the median (`hopfed.hopfield.claims.median_bound`). A liar who stays among the
others moves an entry by less than these differ.
"""

from __future__ import annotations

import numpy as np

from hopfed.hopfield.claims import suspects


def left_out(liars: float, heard: int) -> int:
    """Clients of so many `heard` that are left out at either end; never all of them.

    Parameters
    ----------
    liars : share of the clients that may lie together, rounded up.

    Examples
    --------
    >>> [left_out(0.1, heard) for heard in (1, 2, 3, 10, 11, 30)]
    [0, 0, 1, 1, 2, 3]
    """
    return min(suspects(liars, heard), max((heard - 1) // 2, 0))


def trimmed(values: np.ndarray, weights: np.ndarray, cut: int) -> np.ndarray:
    """Weighted means over owners without the `cut` highest and lowest of every entry.

    Owners of weight 0 have nothing to say, and do not count among those left out. Where so few are
    left that all would go, the middle one or two stay.

    Parameters
    ----------
    values : (L, ...) of the owners.
    weights : (L, ...) like the values, or fewer axes; at least 0.
    cut : how many.

    Returns
    -------
    (...), 0 where nobody has anything to say.

    Examples
    --------
    >>> values = np.array([[0.1], [0.2], [0.3], [9.0], [7.0]])
    >>> trimmed(values, np.array([1, 1, 1, 1, 0]), 1).round(2).tolist()
    [0.25]
    """
    w = np.asarray(weights, dtype=np.float64)
    w = np.broadcast_to(w.reshape(*w.shape, *([1] * (values.ndim - w.ndim))), values.shape)
    order = np.argsort(np.where(w > 0, values, np.inf), axis=0, kind="stable")
    x, w = (np.take_along_axis(a, order, axis=0) for a in (values, w))
    heard = (w > 0).sum(axis=0)
    gone = np.minimum(cut, np.maximum(heard - 1, 0) // 2)
    place = np.arange(len(x)).reshape(-1, *([1] * (values.ndim - 1)))
    w = np.where((place >= gone) & (place < heard - gone), w, 0.0)
    total = w.sum(axis=0)
    found: np.ndarray = np.where(w > 0, x * w, 0.0).sum(axis=0) / np.where(total > 0, total, 1.0)
    return found


def capped(weights: np.ndarray, claim: float) -> np.ndarray:
    """Weights (L, ...) none of which is more than `claim` times the lower median of those above 0.

    Examples
    --------
    >>> capped(np.array([10.0, 900.0, 10.0, 0.0]), 3.0).tolist()
    [10.0, 30.0, 10.0, 0.0]
    """
    w = np.sort(np.where(weights > 0, weights, np.inf), axis=0)
    heard = (weights > 0).sum(axis=0)
    at = np.maximum(heard - 1, 0) // 2
    middle = np.take_along_axis(w, at[None], axis=0)[0]
    return np.minimum(weights, claim * np.where(np.isfinite(middle), middle, 0.0))
