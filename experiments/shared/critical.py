"""Where a memory breaks down: the load at which half is lost, and its limit as memories grow."""

from __future__ import annotations

import numpy as np


def half_lost(loads: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
    """Load at which half are lost, and its standard error, from shares (seeds, loads).

    The error is that of the jackknife over the seeds; NaN where nothing crosses one half.

    Examples
    --------
    >>> x, error = half_lost(np.array([0.1, 0.2]), np.array([[1.0, 0.0], [1.0, 0.0]]))
    >>> round(x, 9), error
    (0.15, 0.0)
    """
    count = len(shares)
    without = [crossing(loads, np.delete(shares, s, 0).mean(axis=0)) for s in range(count)]
    whole = crossing(loads, shares.mean(axis=0))
    if whole is None or None in without or count < 2:
        return (np.nan if whole is None else whole), np.nan
    spread = float(np.var(np.array(without, float)))
    return whole, ((count - 1) * spread) ** 0.5


def limit(sizes: np.ndarray, critical: np.ndarray, error: np.ndarray) -> tuple[float, float] | None:
    """Intercept and its standard error of critical loads that are linear in N^(-1/2).

    Least squares weighed by the errors, of which none counts as smaller than half the median: few
    seeds tell an error badly. Where the line does not fit, the standard error is enlarged by the
    root of chi^2 over its degrees of freedom.

    Examples
    --------
    >>> sizes = np.array([100, 400, 1600])
    >>> x, e = limit(sizes, 0.1 + sizes**-0.5, np.full(3, 0.01)) or (0, 0)
    >>> round(x, 6), round(e, 4)
    (0.1, 0.0122)
    """
    known = np.isfinite(critical) & np.isfinite(error)
    if known.sum() < 3:
        return None
    x, y = sizes[known] ** -0.5, critical[known]
    w = 1 / np.maximum(error[known], max(float(np.median(error[known])) / 2, 1e-6))
    A = np.stack([w, w * x], axis=1)
    covariance = np.linalg.inv(A.T @ A)
    fitted = covariance @ A.T @ (w * y)
    chi2 = float(((A @ fitted - w * y) ** 2).sum()) / (len(y) - 2)
    return float(fitted[0]), float((covariance[0, 0] * max(1.0, chi2)) ** 0.5)


def crossing(x: np.ndarray, share: np.ndarray) -> float | None:
    """Where `share`, falling from 1, first crosses one half; None where it does not.

    Examples
    --------
    >>> crossing(np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.75, 0.25]))
    0.25
    """
    low = np.flatnonzero(share < 0.5)
    if not len(low) or low[0] == 0:
        return None
    k = low[0]
    part = (share[k - 1] - 0.5) / (share[k - 1] - share[k])
    return float(x[k - 1] + part * (x[k] - x[k - 1]))
