"""Graded classes: what second moments show of them, in coordinates of white noise.

A row has entries -1, 0 (not observed) and +1. Column j is observed with probability `p_j`; given
its class mu, of share `pi_mu`, the columns of a row are independent with means `T[mu, j]`. Then
column j has the noise variance `v_j = p_j - p_j^2 sum_mu pi_mu T[mu, j]^2`, and in the coordinates
`x_j / sqrt v_j` the population second moment is exactly

    1 + sum_mu pi_mu a_mu a_mu^T,   a_mu,j = p_j T[mu, j] / sqrt v_j,

so the classes are spikes of strength kappa_k, the eigenvalues of `sqrt(pi) (a a^T) sqrt(pi)`.
`T = r xi` and `p = 1` are the archetypes of signs, and give the numbers of `spikes` to rounding.

This module holds the population and the closed forms for noise that is white in every class.
`class_noise` takes into account that classes differ in noise, which moves the bulk as well.

Parameters
----------
classes : the population; with the shares of a draw, what is predicted for that draw.
M : number of rows.

Source: derived in theory/NOTES.md, "Spikes of graded classes".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError

from . import _check, spikes

__all__ = ["Classes", "Prediction", "minimal_samples", "predict_white"]


@dataclass(frozen=True, eq=False)
class Classes:
    """A population of graded classes.

    Parameters
    ----------
    means : (K, N) mean of an observed entry of each class, in [-1, 1].
    shares : (K,) share of the rows that come from each class, summing to 1; one may be 0.
    observed : probability that an entry is observed, in (0, 1]: one number or (N,).
    weights : (N,) number of columns that each stands for, above 0; 1 by default.

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
        # The mean of squares is taken off 1 first: exact zeros stay exact.
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
        """(R,) spikes kappa_k in falling order, R the smaller of K and the number of columns."""
        return strengths_and_axes(self)[0]

    @property
    def distances(self) -> np.ndarray:
        """(K, K) distances of the classes in coordinates of unit noise."""
        squares = np.diag(self.gram)
        return np.sqrt(
            np.maximum(squares[:, None] + squares - 2 * self.gram, 0) * (1 - np.eye(len(squares)))
        )


@dataclass(frozen=True, eq=False)
class Prediction:
    """What M rows show of the classes; spikes in falling order, R of them.

    Attributes
    ----------
    q : aspect ratio N / M.
    edge : upper edge of the bulk in coordinates of unit noise.
    strengths : (R,) spikes of the population.
    margins : (R,) strength over the threshold: detectable above 1.
    outliers : (R,) sample eigenvalues, the edge where not detectable.
    alignments : (R,) part of sample eigenvector k that lies in the span of the signals.
    overlaps : (R, K) squared cosine of sample eigenvector k and the signal of class mu.

    >>> rng = np.random.default_rng(0)
    >>> two = Classes(rng.uniform(-1, 1, (2, 100)), [0.9, 0.1], observed=0.7)
    >>> found = predict_white(two, M=500)
    >>> found.rank, found.outliers.round(2), found.scores.round(2)
    (2, array([48.13,  4.96]), array([1.  , 0.94]))
    """

    q: float
    edge: float
    strengths: np.ndarray
    margins: np.ndarray
    outliers: np.ndarray
    alignments: np.ndarray
    overlaps: np.ndarray

    @property
    def detectable(self) -> np.ndarray:
        """(R,) whether the spike leaves the bulk."""
        return self.margins > 1

    @property
    def rank(self) -> int:
        """Number of eigenvalues above the bulk: classes that are counted."""
        return int(self.detectable.sum())

    @property
    def scores(self) -> np.ndarray:
        """(K,) part of each class that lies in the span of the leading `rank` eigenvectors."""
        return self.overlaps.sum(axis=0)


def predict_white(classes: Classes, M: float) -> Prediction:
    """Predict eigenvalues and overlaps by the closed forms for white noise.

    Exact for large N and M where the mean of `classes.profile` over columns is the same for every
    class; :func:`hopfed.theory.class_noise.predict` needs no such condition.

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
    """(K,) squared norms of the signals; the smallest positive number in the place of 0."""
    return np.maximum(np.diag(classes.gram), np.finfo(np.float64).tiny)


def minimal_samples(classes: Classes) -> np.ndarray:
    """Number of rows at which each spike of graded classes leaves white noise, (R,): `N / kappa^2`.

    >>> xi = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])
    >>> minimal_samples(Classes(0.5 * xi, [0.75, 0.25])).round(3)
    array([ 4., 36.])
    """
    with np.errstate(divide="ignore"):
        found: np.ndarray = classes.N / classes.strengths**2
    return found


def strengths_and_axes(classes: Classes) -> tuple[np.ndarray, np.ndarray]:
    """Spikes (R,), falling, and (R, K) coefficients: row k times the signals over the root of k."""
    root = np.sqrt(classes.shares)
    values, vectors = np.linalg.eigh(root[:, None] * classes.gram * root)
    most = min(classes.means.shape)
    return np.maximum(values[::-1][:most], 0), (vectors[:, ::-1].T * root)[:most]


_check.guard(__name__)
