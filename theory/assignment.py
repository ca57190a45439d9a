"""How surely rows are assigned to graded classes, and how well class means are estimated.

For two classes the log-likelihood ratio `l` of a row, observed entries only, is a sum over
columns. Everything is taken from the law halfway between the two, with probabilities proportional
to `sqrt(P Q)`: its weight is `exp(-B)`, B the Bhattacharyya distance, and under it `l` is nearly
normal where it matters, around 0. Errors and the information that is lost with the labels are then
integrals over one normal variable. Exact as the number of informative columns grows, with B
fixed. A Gaussian under P itself is off by a tenth of the error to a factor of five.

Parameters
----------
classes : the population; with the shares of a draw, what is predicted for that draw.
M : number of rows.

Source: derived in theory/NOTES.md, "Assignment of rows" and "Error of the means".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hopfed.errors import ArgumentError

from . import _check
from .graded import Classes

_NORMALS = np.linspace(-9, 9, 1201)
_DENSITY = np.exp(-(_NORMALS**2) / 2) / np.exp(-(_NORMALS**2) / 2).sum()


@dataclass(frozen=True, eq=False)
class Assignment:
    """How rows are assigned by Bayes' rule with the true means and shares.

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
        """(K,) share of the rows of each class that get it; for K > 2 the product over the other
        classes, a little low since a row errs towards several at once."""
        return np.prod(1 - self.errors, axis=1)

    @property
    def total(self) -> float:
        """Share of all rows that get their own class."""
        return float(self.shares @ self.accuracy)


class _Pair(NamedTuple):
    """The law halfway between two classes."""

    distance: float  # Bhattacharyya
    mean: float  # of the log-likelihood ratio, first over second
    variance: float
    law: np.ndarray  # (3, N) probabilities of +1, -1 and not observed
    ratio: np.ndarray  # (3, N) what such an entry adds to the log-likelihood ratio


def assign(classes: Classes) -> Assignment:
    """Predict how rows are assigned when means and shares are known.

    >>> two = Classes([[0.6] * 40, [-0.6] * 40], [0.5, 0.5])
    >>> bool(assign(two).distances[0, 1] > 8), assign(two).total > 0.999
    (True, True)
    """
    _require_inside(classes)
    K = len(classes.shares)
    distances, errors, confusions = np.zeros((K, K)), np.zeros((K, K)), np.zeros((K, K))
    for mu in range(K):
        for nu in range(mu):
            if not classes.shares[mu] * classes.shares[nu] > 0:
                continue
            pair = _halfway(classes, mu, nu)
            odds = float(np.log(classes.shares[mu] / classes.shares[nu]))
            distances[mu, nu] = distances[nu, mu] = pair.distance
            errors[mu, nu] = _error(pair.distance, pair.mean, pair.variance, odds)
            errors[nu, mu] = _error(pair.distance, -pair.mean, pair.variance, -odds)
            shares = np.sqrt(classes.shares[mu] * classes.shares[nu])
            weight = _weights(pair, odds).sum()
            confusions[mu, nu] = confusions[nu, mu] = shares * weight
    return Assignment(classes.shares, distances, errors, confusions)


def mean_errors(classes: Classes, M: float) -> np.ndarray:
    """(K, N) standard deviation of estimated class means with true labels.

    `(1 - T^2) / n` is its square, `n = M pi p` the number of observed entries, times
    `1 + (1 - pi p) / n`, since that number is random. Infinite for a class without rows.

    >>> mean_errors(Classes([[0.6, 0.0]], [1.0], observed=[1.0, 0.25]), 100).round(3)
    array([[0.08 , 0.203]])
    """
    samples = _check.scalar("M", M, _check.positive)
    spread = (1 - classes.means) * (1 + classes.means)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = classes.shares[:, None] * classes.observed
        found = np.sqrt(spread / (samples * share) * _scatter(share, samples))
    return np.where(share > 0, found, np.inf)


def _scatter(share: np.ndarray, samples: float) -> np.ndarray:
    """Mean of 1/n for a binomial number n, over one over its mean, to second order."""
    return 1 + (1 - share) / (samples * share)


def estimated_errors(classes: Classes, M: float) -> np.ndarray:
    """(K, N) standard deviation of the class means of maximum likelihood, labels unknown.

    The information about the means less what is lost with the labels (Louis): a row adds, for each
    pair, the product of its responsibilities times the squared difference of both scores, whose
    moments are taken under the law halfway between the pair. NaN where so much is lost that this
    order means nothing: classes that hardly differ, or a class without rows.

    >>> two = Classes([[0.6] * 60, [0.2] * 60], [0.5, 0.5])
    >>> (estimated_errors(two, 1000) / mean_errors(two, 1000))[:, 0].round(3)
    array([1.049, 1.034])
    """
    _require_inside(classes)
    samples = _check.scalar("M", M, _check.positive)
    K, columns = classes.means.shape
    spread = (1 - classes.means) * (1 + classes.means)
    blocks = np.zeros((columns, K, K))
    place = np.arange(K)
    share = classes.shares[:, None] * classes.observed
    blocks[:, place, place] = (share / spread).T
    lost = []  # (sign times strength, (N, K)) of rank one
    for mu in range(K):
        for nu in range(mu):
            if classes.shares[mu] * classes.shares[nu] > 0:
                lost += _lost(classes, mu, nu, blocks)
    strength = np.array([size for size, _ in lost])
    axes = np.array([axis for _, axis in lost]).reshape(-1, columns, K)
    variances = _diagonal_of_inverse(blocks, classes.weights, strength, axes)
    return np.sqrt(variances.T / samples * _scatter(share, samples))


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


def _require_inside(classes: Classes) -> None:
    extreme = np.abs(classes.means) >= 1
    if extreme.any():
        raise ArgumentError("means", "inside of (-1, 1) for assignment", classes.means[extreme][0])


def _halfway(classes: Classes, mu: int, nu: int) -> _Pair:
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
    distance = -float(w @ np.log(size))
    return _Pair(distance, float(w @ mean), float(w @ variance), middle, ratio)


def _error(distance: float, mean: float, variance: float, odds: float) -> float:
    """P(l + odds < 0) under the first law, `exp(-B) E[exp(l / 2); l + odds < 0]` halfway."""
    from scipy.special import log_ndtr, ndtr

    if variance <= 0:  # equal laws: the shares decide
        return float(0.5 if odds == 0 else odds < 0)
    sd = np.sqrt(variance)
    exponent = -distance + mean / 2 + variance / 8 + log_ndtr((-odds - mean - variance / 2) / sd)
    # Far from normal the estimate may pass 1; the plain Gaussian is then the better one.
    return float(np.exp(exponent) if exponent < 0 else ndtr((-odds - mean) / sd))


def _weights(pair: _Pair, odds: float) -> np.ndarray:
    """Product of both responsibilities over the grid of normals, in units of the pair's shares."""
    return np.exp(-pair.distance) * _DENSITY * _product(pair, odds)


def _product(pair: _Pair, shift: float) -> np.ndarray:
    """`P Q / (P + Q)` over `sqrt(P Q)`, which is `1 / (2 cosh(l / 2))`, over the grid, with the
    log-likelihood ratio moved by `shift`."""
    half = (pair.mean + shift + np.sqrt(pair.variance) * _NORMALS) / 2
    small = np.exp(-np.abs(half))
    return np.asarray(small / (1 + small**2))


def _lost(classes: Classes, mu: int, nu: int, blocks: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """Take what a pair loses within columns off `blocks` (N, K, K); return the terms between."""
    # With D the difference of both scores and c its covariance with the ratio, over all rows,
    # weighed by the product of both responsibilities, `E D D^T` is the mean of D squared, less
    # `(1 - shrunk) c c^T / variance` for the rows that are undecided only in sum, plus what
    # columns vary by themselves.
    pair = _halfway(classes, mu, nu)
    odds = float(np.log(classes.shares[mu] / classes.shares[nu]))
    weights = _weights(pair, odds) * np.sqrt(classes.shares[mu] * classes.shares[nu])
    total = weights.sum()
    if total <= 0:  # classes so far apart that no row is undecided
        return []
    centre = weights @ _NORMALS / total
    shrunk = weights @ (_NORMALS - centre) ** 2 / total

    law = _undecided(pair, odds)
    entry = np.array([1.0, -1.0, 0.0])[:, None]
    seen = np.array([1.0, 1.0, 0.0])[:, None]
    both = classes.means[[mu, nu]][:, None]
    scores = (entry - seen * both) / ((1 - both) * (1 + both)) * [[[1.0]], [[-1.0]]]
    mean = (law * scores).sum(axis=1)
    along = (law * scores * pair.ratio).sum(axis=1) - mean * (law * pair.ratio).sum(axis=0)
    along /= np.sqrt(max(pair.variance, np.finfo(np.float64).tiny))
    terms = ((-total, mean), (total * (1 - shrunk), along))
    within = np.einsum("xj,axj,bxj->jab", law, scores, scores)
    at = np.ix_(*map(np.array, (range(len(blocks)), (mu, nu), (mu, nu))))
    blocks[at] -= total * within
    found = []
    for size, axis in terms:
        blocks[at] -= size * np.einsum("aj,bj->jab", axis, axis)  # it comes again in the coupling
        full = np.zeros(blocks.shape[:2])
        full[:, [mu, nu]] = axis.T
        found.append((size, full))
    return found


def _undecided(pair: _Pair, odds: float) -> np.ndarray:
    """(3, N) law of the entries of a column over rows weighed by both responsibilities."""
    # An entry moves the ratio of its row, and with it the weight; one that decides alone, as a rare
    # one may, has next to none.
    shift = pair.ratio - (pair.law * pair.ratio).sum(axis=0)
    grid = np.linspace(shift.min(), shift.max(), 400)
    weight = np.array([_DENSITY @ _product(pair, odds + x) for x in grid])
    law = pair.law * np.exp(np.interp(shift, grid, np.log(np.maximum(weight, 1e-300))))
    return law / law.sum(axis=0)


def _diagonal_of_inverse(
    blocks: np.ndarray, weights: np.ndarray, strength: np.ndarray, axes: np.ndarray
) -> np.ndarray:
    """(N, K) diagonal of the inverse of `diag(blocks) + sum_r strength_r axis_r axis_r^T`."""
    wrong: np.ndarray = np.full(blocks.shape[:2], np.nan)
    if np.linalg.eigvalsh(blocks).min() <= 0:
        return wrong
    inverse = np.linalg.inv(blocks)
    diagonal: np.ndarray = np.einsum("jaa->ja", inverse).copy()
    if not strength.size:
        return diagonal
    solved = np.einsum("jab,rjb->rja", inverse, axes)
    inner = np.einsum("j,rja,sja->rs", weights, axes, solved)
    scaled = strength[:, None] * inner  # Woodbury, with no 1 / strength, which may be 0
    core = np.linalg.solve(np.eye(strength.size) + scaled, np.diag(strength))
    diagonal -= np.einsum("rs,rja,sja->ja", core, solved, solved)
    return diagonal if diagonal.min() > 0 else wrong


_check.guard(__name__)
