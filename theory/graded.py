"""Graded classes: prediction of their second moments, in coordinates of white noise.

A row has entries -1, 0 (not observed) and +1. Column j is observed with probability `p_j`; given
its class mu, of share `pi_mu`, the columns of a row are independent with means `T[mu, j]`. Then
column j has the noise variance `v_j = p_j - p_j^2 sum_mu pi_mu T[mu, j]^2`, and in the coordinates
`x_j / sqrt v_j` the population second moment is exactly

    1 + sum_mu pi_mu a_mu a_mu^T,   a_mu,j = p_j T[mu, j] / sqrt v_j,

so the classes are spikes of strength kappa_k, the eigenvalues of `sqrt(pi) (a a^T) sqrt(pi)`.
`T = r xi` and `p = 1` are the archetypes of signs, and give the numbers of `spikes` to rounding.

That noise is white on average over classes, not within each: a class of rates near 1/2 is noisier
than a class of rates near 0. The table has a variance profile `w[mu, j]`. With `G(z)` and
`H(z)` the limits of the diagonals of both resolvents, times `-z`,

    G_j = 1 / (1 - (1/z) sum_mu pi_mu w[mu, j] H_mu),
    H_mu = 1 / (1 - (1/(z M)) sum_j w[mu, j] G_j),

the bulk ends where the smallest solution ceases to exist; eigenvalue k lies where the k-th
eigenvalue of `(1/z) sqrt(pi H) (a diag(G) a^T) sqrt(pi H)` is 1. `predict` solves this, exact for
large N and M and any K; `predict_white` has the closed forms for classes of equal noise.

Parameters
----------
classes : the population; the shares of a draw instead give the prediction for that draw.
M : number of rows.

Source: derived in theory/NOTES.md, "Latent class channel" and "Classes of unequal noise"; the
equations without signal are by V. L. Girko, those with a signal by W. Hachem, P. Loubaton,
J. Najim, Ann. Appl. Probab. 17 (2007) 875.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hopfed.errors import ArgumentError

from . import _check, spikes
from ._solve import increasing_root
from .spikes import Prediction

__all__ = ["Classes", "Prediction", "predict", "predict_white"]

_STEPS = 200  # at most, of Newton's method; at the edge itself each halves the error
_SETTLED = 1e-13
_TINY = 1e-300  # replaces a strength of 0, to avoid 0 / 0
_HALVINGS = 32  # bisections of the bracket of the edge: relative accuracy 1 / 4e9


@dataclass(frozen=True, eq=False)
class Classes:
    """A population of graded classes.

    Parameters
    ----------
    means : (K, N) mean of an observed entry of each class, in [-1, 1].
    shares : (K,) share of the rows that come from each class, summing to 1; may include 0.
    observed : probability that an entry is observed, in (0, 1]: one number or (N,).
    weights : (N,) number of columns that each column represents, above 0; 1 by default.

    Attributes
    ----------
    noise : (N,) noise variance of the zero-filled column, averaged over classes.
    signals : (K, N) means of the classes in coordinates of unit noise, a_mu.
    profile : (K, N) noise variance of each class in those coordinates; 1 on average over classes.

    >>> two = Classes([[0.5, 0.5], [0.5, -0.5]], [0.75, 0.25], observed=0.8)
    >>> two.noise.round(3), two.strengths.round(3)
    (array([0.64, 0.64]), array([0.375, 0.125]))
    """

    means: np.ndarray
    shares: np.ndarray
    observed: Any = 1.0  # once constructed, an array (N,), as are the weights
    weights: Any = None
    noise: np.ndarray = field(init=False, repr=False)
    signals: np.ndarray = field(init=False, repr=False)
    profile: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        means = _check.real("means", self.means, "numbers in [-1, 1]", lambda a: np.abs(a) <= 1)
        if means.ndim != 2 or 0 in means.shape:
            raise ArgumentError("means", "a (K, N) array", f"shape {means.shape}")
        shares = _check.share("shares", self.shares)
        if shares.shape != means.shape[:1] or abs(shares.sum() - 1) > 1e-9:
            got = f"shape {shares.shape}, sum {shares.sum():.6g}"
            raise ArgumentError("shares", f"{len(means)} shares, one a class, of sum 1", got)
        observed = self._columns("observed", _check.fraction("observed", self.observed), means)
        given = 1.0 if self.weights is None else self.weights
        weights = self._columns("weights", _check.positive("weights", given), means)
        # As (1 - T)(1 + T), so that exact zeros stay exact.
        missed = 1 - observed
        noise = observed * (missed + observed * (shares @ ((1 - means) * (1 + means))))
        if not (noise > 0).all():
            column = int(np.argmin(noise))
            raise ArgumentError("means", "noisy in every column", f"none in column {column}")
        for name, value in (
            ("means", means),
            ("shares", shares),
            ("observed", observed),
            ("weights", weights),
            ("noise", noise),
            ("signals", observed * means / np.sqrt(noise)),
            ("profile", observed * (missed + observed * (1 - means) * (1 + means)) / noise),
        ):
            object.__setattr__(self, name, value)

    @staticmethod
    def _columns(name: str, value: np.ndarray, means: np.ndarray) -> np.ndarray:
        if value.ndim and value.shape != means.shape[1:]:
            raise ArgumentError(name, f"one number or {means.shape[1]}", f"shape {value.shape}")
        return np.broadcast_to(value, means.shape[1:])

    @property
    def N(self) -> float:  # noqa: N802
        """Number of columns, the sum of the weights."""
        return float(np.sum(self.weights))

    @property
    def gram(self) -> np.ndarray:
        """(K, K) inner products of the signals."""
        return (self.signals * self.weights) @ self.signals.T

    @property
    def strengths(self) -> np.ndarray:
        """(R,) spikes kappa_k, descending, R the smaller of K and the number of columns."""
        return strengths_and_axes(self)[0]

    @property
    def distances(self) -> np.ndarray:
        """(K, K) distances of the classes in coordinates of unit noise."""
        squares = np.diag(self.gram)
        return np.sqrt(
            np.maximum(squares[:, None] + squares - 2 * self.gram, 0) * (1 - np.eye(len(squares)))
        )


def predict_white(classes: Classes, M: float) -> Prediction:
    """Predict eigenvalues and overlaps of graded classes by the closed forms for white noise.

    Exact for large N and M where the mean of `classes.profile` over columns is the same for every
    class; :func:`predict` needs no such condition.

    >>> xi = np.sign(np.random.default_rng(0).standard_normal((2, 400)))
    >>> graded = predict_white(Classes(0.5 * xi, [0.8, 0.2]), M=300)
    >>> plain = spikes.finite_size(xi, [0.8, 0.2], r=0.5, M=300)
    >>> np.allclose(0.75 * graded.outliers, plain.outliers), graded.scores.round(3)
    (True, array([0.988, 0.951]))
    """
    q = classes.N / _check.scalar("M", M, _check.positive)
    strengths, axes = strengths_and_axes(classes)
    root = float(spikes.threshold(q))
    safe = np.maximum(strengths, root * 1e-9)  # a class without rows; far below every threshold
    aligned = (axes @ classes.gram) ** 2 / safe[:, None]
    gamma = spikes.overlap(safe, q)
    return Prediction(
        q=q,
        edge=(1 + root) ** 2,
        strengths=strengths,
        margins=strengths / root,
        outliers=spikes.outlier(safe, q),
        alignments=gamma,
        overlaps=gamma[:, None] * aligned / squared_norms(classes),
    )


def squared_norms(classes: Classes) -> np.ndarray:
    """(K,) squared norms of the signals of graded classes; 0 becomes the least positive number."""
    return np.maximum(np.diag(classes.gram), np.finfo(np.float64).tiny)


def strengths_and_axes(classes: Classes) -> tuple[np.ndarray, np.ndarray]:
    """Spikes (R,) of graded classes, descending, and (R, K) coefficients of their axes."""
    root = np.sqrt(classes.shares)
    values, vectors = np.linalg.eigh(root[:, None] * classes.gram * root)
    most = min(classes.means.shape)
    return np.maximum(values[::-1][:most], 0), (vectors[:, ::-1].T * root)[:most]


class _Resolvents(NamedTuple):
    G: np.ndarray  # (N,)
    H: np.ndarray  # (K,)
    G_slope: np.ndarray  # derivatives in z
    H_slope: np.ndarray


def predict(classes: Classes, M: float) -> Prediction:
    """Predict eigenvalues and overlaps of graded classes, each with its own noise.

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
        # A signal moves a singular value by at most its own norm.
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
    """Upper edge of graded classes' bulk in units of noise; `(1 + sqrt q)^2` for equal noise."""
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
    """Mean fourth cumulant of the noise of graded classes, in coordinates of unit noise."""
    p, mean = classes.observed, classes.means
    centre = p * mean
    up, down = p * (1 + mean) / 2, p * (1 - mean) / 2
    fourth = up * (1 - centre) ** 4 + down * (1 + centre) ** 4 + (1 - p) * centre**4
    cumulant = classes.shares @ (fourth - 3 * (classes.profile * classes.noise) ** 2)
    return float((cumulant / classes.noise**2) @ classes.weights / classes.N)


def _bound(classes: Classes, samples: float) -> float:
    """Bound of the edge: the largest sums of variances over columns and over rows."""
    return float((1 + np.sqrt((classes.profile @ classes.weights).max() / samples)) ** 2)


def _solve(
    classes: Classes, samples: float, z: float, start: np.ndarray | None = None
) -> _Resolvents | None:
    """Smallest solution of the equations at a real z, None below the edge."""
    # The equations `H = F(H)` are increasing and convex, so Newton's steps from below (1, or the
    # solution of a larger z) rise to the smallest solution if it exists. If there is no solution,
    # they reach a point where F is no longer a contraction.
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
    """Eigenvalues, descending, and scaled eigenvectors of the matrix of the outlier equation."""
    solved = _solve(classes, samples, z)
    while solved is None:  # z is the edge up to rounding
        z *= 1 + 1e-12
        solved = _solve(classes, samples, z)
    root = np.sqrt(classes.shares * solved.H / z)
    middle = (classes.signals * (classes.weights * solved.G)) @ classes.signals.T
    values, vectors = np.linalg.eigh(root[:, None] * middle * root)
    return values[::-1], vectors[:, ::-1] * root[:, None], solved


def _inner_products(classes: Classes, samples: float, z: float, k: int) -> np.ndarray:
    """(K,) inner products of the signals and unit eigenvector k, of eigenvalue z."""
    # The null vector of `z / G - a^T diag(pi H) a`, normalised by the slope of that matrix in z.
    _, vectors, solved = _levels(classes, samples, z)
    axis = solved.G * (vectors[:, k] @ classes.signals)
    weighted = classes.weights * axis
    inner = classes.signals @ weighted
    along = weighted @ (axis * (1 / solved.G - z * solved.G_slope / solved.G**2))
    length = along - inner @ (classes.shares * solved.H_slope * inner)
    return inner / np.sqrt(length)


_check.guard(__name__)
