"""Accuracy of the assignment of rows to graded classes, and errors of estimated class means.

For two classes the log-likelihood ratio `l` of a row, observed entries only, is a sum over
columns. Expectations are taken under the law halfway between the two, with probabilities
proportional to `sqrt(P Q)`: its weight is `exp(-B)`, B the Bhattacharyya distance, and under it `l`
is nearly normal around 0, where errors are decided. Errors are then integrals over one normal
variable, exact as the number of informative columns grows with B fixed. A Gaussian under P itself
is wrong by a tenth of the error to a factor of five.

Parameters
----------
classes : the population; the shares of a draw instead give the prediction for that draw.
M : number of rows.

Source: derived in theory/NOTES.md, "Assignment of rows" and "Error of the means".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed.errors import ArgumentError

from . import _check
from .graded import Classes

_NORMALS = np.linspace(-9, 9, 1201)
_DENSITY = np.exp(-(_NORMALS**2) / 2) / np.exp(-(_NORMALS**2) / 2).sum()


@dataclass(frozen=True, eq=False)
class Assignment:
    """Predicted assignment of rows by Bayes' rule with the true means and shares.

    Attributes
    ----------
    distances : (K, K) Bhattacharyya distances of the laws of a row.
    errors : (K, K) probability that a row of class mu fits class nu better, shares included.
    confusions : (K, K) mean over all rows of the product of both responsibilities.

    >>> two = Classes([[0.6] * 40, [0.2] * 40], [0.5, 0.5], observed=0.9)
    >>> assign(two).accuracy.round(3), round(assign(two).total, 3)
    (array([0.91 , 0.907]), 0.909)
    """

    shares: np.ndarray
    distances: np.ndarray
    errors: np.ndarray
    confusions: np.ndarray

    @property
    def accuracy(self) -> np.ndarray:
        """(K,) share of the rows of each class assigned to it; a little low for K > 2."""
        return np.prod(1 - self.errors, axis=1)

    @property
    def total(self) -> float:
        """Share of all rows that are assigned to their own class."""
        return float(self.shares @ self.accuracy)


def assign(classes: Classes) -> Assignment:
    """Predict how well rows are assigned to classes whose means and shares are known.

    >>> two = Classes([[0.6] * 40, [-0.6] * 40], [0.5, 0.5])
    >>> bool(assign(two).distances[0, 1] > 8), assign(two).total > 0.999
    (True, True)
    """
    extreme = np.abs(classes.means) >= 1
    if extreme.any():
        raise ArgumentError("means", "inside (-1, 1) for assignment", classes.means[extreme][0])
    K = len(classes.shares)
    distances, errors, confusions = np.zeros((K, K)), np.zeros((K, K)), np.zeros((K, K))
    for mu in range(K):
        for nu in range(mu):
            if not classes.shares[mu] * classes.shares[nu] > 0:
                continue
            B, mean, variance = _halfway(classes, mu, nu)
            odds = float(np.log(classes.shares[mu] / classes.shares[nu]))
            distances[mu, nu] = distances[nu, mu] = B
            errors[mu, nu] = _error(B, mean, variance, odds)
            errors[nu, mu] = _error(B, -mean, variance, -odds)
            # `P Q / (P + Q)` over `sqrt(P Q)` is `1 / (2 cosh(l / 2))`.
            small = np.exp(-np.abs(mean + odds + np.sqrt(variance) * _NORMALS) / 2)
            both = np.sqrt(classes.shares[mu] * classes.shares[nu]) * np.exp(-B)
            confusions[mu, nu] = confusions[nu, mu] = both * (_DENSITY @ (small / (1 + small**2)))
    return Assignment(classes.shares, distances, errors, confusions)


def mean_errors(classes: Classes, M: float) -> np.ndarray:
    """(K, N) standard deviation of estimated class means with true labels.

    Its square is `(1 - T^2) / n`, `n = M pi p` the expected number of observed entries, times
    `1 + (1 - pi p) / n`, since that number is random. Infinite for a class without rows.

    >>> mean_errors(Classes([[0.6, 0.0]], [1.0], observed=[1.0, 0.25]), 100).round(3)
    array([[0.08 , 0.203]])
    """
    samples = _check.scalar("M", M, _check.positive)
    spread = (1 - classes.means) * (1 + classes.means)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = classes.shares[:, None] * classes.observed
        found = np.sqrt(spread / (samples * share) * (1 + (1 - share) / (samples * share)))
    return np.where(share > 0, found, np.inf)


def cosines(classes: Classes, errors: np.ndarray) -> np.ndarray:
    """(K,) expected squared cosine of estimated and true class means, in whitened coordinates.

    Parameters
    ----------
    classes : the population.
    errors : (K, N) standard deviations of the estimated means.

    >>> one = Classes([[0.6] * 8], [1.0])
    >>> cosines(one, mean_errors(one, 100)).round(3)
    array([0.983])
    """
    size = (classes.signals**2) @ classes.weights
    scale = classes.observed**2 / classes.noise
    return size / (size + (errors**2 * scale) @ classes.weights)


def _halfway(classes: Classes, mu: int, nu: int) -> tuple[float, float, float]:
    """Bhattacharyya distance, and mean and variance of `l` under the law halfway."""

    def law(mean: np.ndarray) -> np.ndarray:
        p = classes.observed
        return np.stack([p * (1 + mean) / 2, p * (1 - mean) / 2, 1 - p])

    first, second = law(classes.means[mu]), law(classes.means[nu])
    middle = np.sqrt(first * second)
    size = middle.sum(axis=0)
    middle /= size
    ratio = np.zeros_like(middle)
    ratio[:2] = np.log(first[:2] / second[:2])
    mean = (middle * ratio).sum(axis=0)
    variance = (middle * ratio**2).sum(axis=0) - mean**2
    w = classes.weights
    return -float(w @ np.log(size)), float(w @ mean), float(w @ variance)


def _error(distance: float, mean: float, variance: float, odds: float) -> float:
    """P(l + odds < 0) under the first law: `exp(-B) E[exp(l / 2); l + odds < 0]` halfway."""
    from scipy.special import log_ndtr, ndtr

    if variance <= 0:  # equal laws: the shares decide
        return float(0.5 if odds == 0 else odds < 0)
    sd = np.sqrt(variance)
    exponent = -distance + mean / 2 + variance / 8 + log_ndtr((-odds - mean - variance / 2) / sd)
    # Far from normal the estimate may exceed 1; the plain Gaussian is then more accurate.
    return float(np.exp(exponent) if exponent < 0 else ndtr((-odds - mean) / sd))


_check.guard(__name__)
