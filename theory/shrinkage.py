"""Shrinkage of singular values, to estimate a signal, and of eigenvalues, for a covariance.

`shrink` is for few components in white noise: the shrunk values with the singular vectors of the
rows give the estimate nearest to the signal in the chosen norm. `clean` is for a covariance of any
spectrum: its estimate is the nearest to the truth of all matrices with the sample eigenvectors, by
an estimate of ``lambda / |1 - q - q lambda m(lambda)|^2``, m the Stieltjes transform.

Sources: M. Gavish, D. L. Donoho, IEEE Trans. Inf. Theory 60 (2014) 5040 and 63 (2017) 2137;
O. Ledoit, S. Peche, Probab. Theory Relat. Fields 151 (2011) 233; J. Bun, J.-P. Bouchaud, M.
Potters, Phys. Rep. 666 (2017) 1; O. Ledoit, M. Wolf, Ann. Statist. 48 (2020) 3043.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check, marchenko_pastur

LOSSES = ("frobenius", "operator", "nuclear", "hard")


def shrink(
    singular_values: ArrayLike,
    M: int,
    N: int,
    loss: str = "frobenius",
    variance: float | None = None,
) -> np.ndarray:
    """Shrink singular values of signal plus white noise to estimates of the signal's.

    Parameters
    ----------
    singular_values : of a matrix (M, N); all ``min(M, N)`` of them if `variance` is None.
    M, N : shape of the matrix.
    loss : norm of the error to minimise: "frobenius", "operator" or "nuclear"; or "hard", which
        keeps values above the threshold of least Frobenius error unchanged.
    variance : noise variance of an entry; by default estimated from the median of the values.

    Returns
    -------
    Array of the same shape as `singular_values`; 0 for noise.

    >>> shrink([30.0, 10.0, 25.0], 100, 100, variance=1.0).round(2)
    array([22.36,  0.  , 15.  ])
    """
    given = _check.nonnegative("singular_values", singular_values)
    short, long = sorted(_check.scalar(k, x, _check.count) for k, x in (("M", M), ("N", N)))
    b = short / long
    if variance is None:
        if given.size != short:
            raise ArgumentError(
                "singular_values", f"all {short:.0f} without a variance", given.size
            )
        s2 = float(np.median(given)) ** 2 / (long * float(marchenko_pastur.median_nonzero(b)))
    else:
        s2 = _check.scalar("variance", variance, _check.positive)
    if loss not in LOSSES:
        raise ArgumentError("loss", f"one of {', '.join(LOSSES)}", repr(loss))
    unit = np.sqrt(long * s2)
    y = np.maximum(given / unit, 1e-300)
    if loss == "hard":
        level = np.sqrt(2 * (b + 1) + 8 * b / (b + 1 + np.sqrt(b * b + 14 * b + 1)))
        return np.where(y > level, given, 0.0)[()]
    excess = np.maximum(y**2 - b - 1, 2 * np.sqrt(b))  # values in the bulk: at the edge
    root = np.sqrt(excess**2 - 4 * b)
    x = np.sqrt((excess + root) / 2)  # singular value of the signal
    found = {
        "frobenius": root / y,
        "operator": x,
        "nuclear": np.maximum(x**4 - b - np.sqrt(b) * x * y, 0) / (x**2 * y),
    }[loss]
    return np.where(y > 1 + np.sqrt(b), found * unit, 0.0)[()]


def clean(eigenvalues: ArrayLike, M: int) -> np.ndarray:
    """Shrink the eigenvalues of a sample covariance, for use with its own eigenvectors.

    Parameters
    ----------
    eigenvalues : (N,) all eigenvalues of the sample covariance, in any order.
    M : degrees of freedom: number of rows, less one if their mean was subtracted.

    Returns
    -------
    (N,) in the same order.

    >>> X = np.random.default_rng(0).standard_normal((400, 200))  # of the identity
    >>> found = clean(np.linalg.eigvalsh(X.T @ X / 400), 400)
    >>> bool(np.abs(found - 1).max() < 0.3)
    True
    """
    given = np.atleast_1d(_check.real("eigenvalues", eigenvalues))
    largest = given.max(initial=0.0)
    given = np.where(np.abs(given) < 1e-12 * largest, 0.0, given)  # rounding errors of zeros
    _check.nonnegative("eigenvalues", given)
    rows = int(_check.scalar("M", M, _check.count))
    order = np.argsort(given)
    N, held = given.size, given[order][-min(given.size, rows) :]
    if given.ndim != 1 or held[0] <= 0:
        raise ArgumentError("eigenvalues", f"a list with {len(held)} above 0", given.min())
    if rows < min(N, 12):  # the kernel would reach 0
        raise ArgumentError("M", "at least 12, or the number of eigenvalues", rows)
    q, width = N / rows, rows ** (-1 / 3)
    # Density and its Hilbert transform by Epanechnikov's kernel, width proportional to eigenvalue.
    x = (held[:, None] - held) / (width * held)
    root = np.sqrt(5)
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = (1 - x**2 / 5) * np.log(np.abs((root - x) / (root + x)))
    bend = np.nan_to_num(bend, nan=0.0, posinf=0.0, neginf=0.0)
    f = 3 / (4 * root) * np.mean(np.maximum(1 - x**2 / 5, 0) / (width * held), axis=1)
    H = np.mean((-3 * x / 10 + 3 / (4 * root) * bend) / (np.pi * width * held), axis=1)
    found = np.empty(N)
    if rows >= N:
        found[order] = held / ((np.pi * q * held * f) ** 2 + (1 - q - np.pi * q * held * H) ** 2)
        return found
    wide = root * width
    inner = 3 / (10 * width**2) + 3 / (4 * wide) * (1 - 1 / (5 * width**2)) * np.log(
        (1 + wide) / (1 - wide)
    )
    found[order[: N - rows]] = 1 / ((q - 1) * inner * np.mean(1 / held))
    found[order[N - rows :]] = 1 / (np.pi**2 * held * (f**2 + H**2))
    return found


_check.guard(__name__)
