"""Spectrum of graded classes whose noise differs from class to class.

In the coordinates of `graded` the noise is white on average over classes, not within each: a class
of rates near 1/2 is noisier than one of rates near 0. Rows are then a matrix with a variance
profile `w[mu, j]`. With `G(z)` and `H(z)` the limits of the diagonals of both resolvents, times
`-z`,

    G_j = 1 / (1 - (1/z) sum_mu pi_mu w[mu, j] H_mu),
    H_mu = 1 / (1 - (1/(z M)) sum_j w[mu, j] G_j),

the bulk ends where the smallest solution ceases to exist; eigenvalue k lies where the k-th
eigenvalue of `(1/z) sqrt(pi H) (a diag(G) a^T) sqrt(pi H)` is 1. Exact for large N and M and any K;
equal noise gives back the closed forms of `graded.predict_white`.

Parameters
----------
classes : the population; with the shares of a draw, what is predicted for that draw.
M : number of rows.

Source: derived in theory/NOTES.md, "Classes of unequal noise"; the equations without signal are
those of V. L. Girko, the equivalent with one is that of W. Hachem, P. Loubaton, J. Najim, Ann.
Appl. Probab. 17 (2007) 875.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import _check
from ._solve import increasing_root
from .graded import Classes, Prediction, squared_norms, strengths_and_axes

__all__ = ["predict"]

_STEPS = 200  # Newton's; at the edge itself each halves the error
_SETTLED = 1e-13
_MOST_SAMPLES = 2**40
_TINY = 1e-300  # in the place of a strength of 0, whose direction is empty
_HALVINGS = 32  # of the bracket of the edge: a part in 4e9


class _Resolvents(NamedTuple):
    G: np.ndarray  # (N,)
    H: np.ndarray  # (K,)
    G_slope: np.ndarray  # derivatives in z
    H_slope: np.ndarray


def predict(classes: Classes, M: float) -> Prediction:
    """Predict eigenvalues and overlaps, each class with its own noise.

    >>> rng = np.random.default_rng(0)
    >>> means = np.array([rng.uniform(-1, -0.8, 200), rng.uniform(-0.9, 0.5, 200)])
    >>> rare = Classes(means, [0.9, 0.1])
    >>> found = predict(rare, 300)
    >>> round(found.edge, 2), round(float((1 + np.sqrt(found.q)) ** 2), 2), found.rank
    (5.81, 3.3, 2)
    """
    samples = _check.scalar("M", M, _check.positive)
    edge = upper_edge(classes, samples)
    strengths, axes = strengths_and_axes(classes)
    most = len(strengths)
    margins = _levels(classes, samples, edge)[0][:most]
    found = margins > 1
    outliers = np.full(most, edge)
    alignments, overlaps = np.zeros(most), np.zeros((most, len(classes.shares)))
    if found.any():
        k = np.flatnonzero(found)
        # A spike moves a singular value by no more than its own.
        high = (np.sqrt(strengths[k]) + np.sqrt(_bound(classes, samples))) ** 2

        def short(z: np.ndarray) -> np.ndarray:
            return np.array(
                [1 - _levels(classes, samples, x)[0][i] for i, x in zip(k, z, strict=True)]
            )

        outliers[k] = increasing_root(short, np.full(k.size, edge), high * (1 + 1e-9))
        for i in map(int, k):
            inner = _inner_products(classes, samples, outliers[i], i)
            alignments[i] = np.sum((axes @ inner) ** 2 / np.maximum(strengths, _TINY))
            overlaps[i] = inner**2 / squared_norms(classes)
    q = classes.N / samples
    return Prediction(q, edge, strengths, margins, outliers, alignments, overlaps)


def upper_edge(classes: Classes, M: float) -> float:
    """Upper edge of the bulk in coordinates of unit noise; `(1 + sqrt q)^2` for equal noise."""
    samples = _check.scalar("M", M, _check.positive)
    high = _bound(classes, samples) * (1 + 1e-9)
    low, start = 0.0, np.ones(len(classes.shares))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = _solve(classes, samples, middle, start)
        if found is None:
            low = middle
        else:
            high, start = middle, found.H
    return float(high)


def excess_kurtosis(classes: Classes) -> float:
    """Fourth cumulant of the noise of an entry, in coordinates of unit noise, on average."""
    p, mean = classes.observed, classes.means
    centre = p * mean
    up, down = p * (1 + mean) / 2, p * (1 - mean) / 2
    fourth = up * (1 - centre) ** 4 + down * (1 + centre) ** 4 + (1 - p) * centre**4
    cumulant = classes.shares @ (fourth - 3 * (classes.profile * classes.noise) ** 2)
    return float((cumulant / classes.noise**2) @ classes.weights / classes.N)


def _bound(classes: Classes, samples: float) -> float:
    """What the edge does not exceed: the largest sums of variances over columns and over rows."""
    return float((1 + np.sqrt((classes.profile @ classes.weights).max() / samples)) ** 2)


def _solve(
    classes: Classes, samples: float, z: float, start: np.ndarray | None = None
) -> _Resolvents | None:
    """The smallest solution of the equations at a real z, None below the edge.

    `start` is no larger than the solution: that of a larger z, or 1, the default.

    The equations `H = F(H)` are increasing and convex, so Newton's steps from below rise to
    the smallest solution where there is one, and pass a point where they are no longer a
    contraction where there is none.
    """
    w, shares, weights = classes.profile, classes.shares, classes.weights
    H = np.ones(len(shares)) if start is None else start
    eye = np.eye(H.size)
    for _ in range(_STEPS):
        inner = (shares * H) @ w / z
        if inner.max() >= 1:
            return None
        G = 1 / (1 - inner)
        outer = w @ (weights * G) / (z * samples)
        if outer.max() >= 1:
            return None
        image = 1 / (1 - outer)
        spread = weights * G**2
        jacobian = image[:, None] ** 2 * ((w * spread) @ w.T) * shares / (z**2 * samples)
        try:
            both = np.linalg.solve(eye - jacobian, np.stack([image - H, np.ones_like(H)], axis=1))
        except np.linalg.LinAlgError:
            return None
        if both[:, 1].min() < 1:  # 1 - jacobian has no positive inverse: no contraction here
            return None
        step = both[:, 0]
        H = H + step
        if np.abs(step).max() < _SETTLED * H.max():
            break
    slope = -(image**2) * (outer + w @ (spread * inner) / (z * samples)) / z
    H_slope = np.linalg.solve(eye - jacobian, slope)
    G_slope = G**2 * ((shares * H_slope) @ w - inner) / z
    return _Resolvents(G, H, G_slope, H_slope)


def _levels(
    classes: Classes, samples: float, z: float
) -> tuple[np.ndarray, np.ndarray, _Resolvents]:
    """Eigenvalues, falling, and scaled eigenvectors of the matrix that has one of 1 at outliers."""
    solved = _solve(classes, samples, z)
    while solved is None:  # z is the edge up to rounding
        z *= 1 + 1e-12
        solved = _solve(classes, samples, z)
    root = np.sqrt(classes.shares * solved.H / z)
    middle = (classes.signals * (classes.weights * solved.G)) @ classes.signals.T
    values, vectors = np.linalg.eigh(root[:, None] * middle * root)
    return values[::-1], vectors[:, ::-1] * root[:, None], solved


def _inner_products(classes: Classes, samples: float, z: float, k: int) -> np.ndarray:
    """(K,) inner products of unit eigenvector k, which belongs to z, and the signals.

    The eigenvector is the null vector of `z / G - a^T diag(pi H) a`; the residue of the resolvent
    there, by the slope of that matrix in z, gives its length.
    """
    _, vectors, solved = _levels(classes, samples, z)
    axis = solved.G * (vectors[:, k] @ classes.signals)
    weighted = classes.weights * axis
    inner = classes.signals @ weighted
    along = weighted @ (axis * (1 / solved.G - z * solved.G_slope / solved.G**2))
    length = along - inner @ (classes.shares * solved.H_slope * inner)
    return inner / np.sqrt(length)
