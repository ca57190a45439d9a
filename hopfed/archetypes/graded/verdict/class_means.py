"""Classes that are others in rows of lower quality, or rows that answer like coins.

A row of quality q has the means ``q T`` of its kind. Where rows of two qualities are many, each
quality becomes a class of its own, and as classes these are right: only their means tell that they
are one kind. Careless rows, of quality 0, become one class whose means are 0 throughout.

Where weak rows are too few to be told apart by kind, they are put together as one class. Between
its columns nothing is left that could be seen, but its means are a sum of those of the others: a
few numbers explain as many means as there are columns, which no kind of its own would allow.

Source: theory/NOTES.md, "Tests of local independence".

What classes differ in: how many directions, which columns, and whether these are enough.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, nnls
from scipy.stats import binom, chi2

from hopfed.archetypes.graded.fitting.expectation_maximization import Fit
from hopfed.archetypes.graded.fitting.mixture import loss
from hopfed.archetypes.graded.owners.asking import Variables

LEVEL = 1e-3  # at which means are told from those of another class times a number
FADED = 0.9  # quality below which a class counts as another one, faded
SURE = 50.0  # gain in squared deviations from which the likeness is none of chance
COLUMNS = 10  # that are needed at least
CHANCE = 2e-3  # of a class of coins that other classes seem to have a part in it


def faded(fit: Fit) -> np.ndarray:
    """Quality (K,) of classes that are others, faded: 0 for coins; NaN for classes of their own.

    Means are compared within their errors. Columns that are levels of a variable are left out.
    """
    plain = fit.prior.part == 0
    found = np.full(fit.size, np.nan)
    if fit.size < 2 or plain.sum() < COLUMNS:
        return found
    means, variance = _means(fit, plain)
    limit = chi2.isf(LEVEL, plain.sum())
    alone = (means**2 / variance).sum(axis=1)
    others = (means**2).sum(axis=0) / fit.size  # of a class of usual strength
    for j in range(fit.size):
        if alone[j] < limit:  # coins, if another class in as few rows would not look like them
            found[j] = 0.0 if (others / variance[j]).sum() > limit + SURE else np.nan
            continue
        for k in range(fit.size):
            q = (means[j] * means[k]).sum() / max((means[k] ** 2).sum(), 1e-12)
            errors = variance[j] + q**2 * variance[k]
            off = ((means[j] - q * means[k]) ** 2 / errors).sum()
            if k != j and 0 < q < FADED and off < limit and alone[j] > off + SURE:
                found[j] = q
    return found


def put_together(fit: Fit) -> np.ndarray:
    """Quality (K,) of classes in which weak rows of several others are; NaN of other classes.

    Such a class has the means ``sum_k b_k T_k`` within their errors, the parts b not negative and
    clearly not all 0; they add up to the quality. Columns that are levels of a variable are left
    out.
    """
    plain = fit.prior.part == 0
    found = np.full(fit.size, np.nan)
    if fit.size < 3 or plain.sum() < COLUMNS:  # of a single other kind it is `faded`
        return found
    means, variances = _means(fit, plain)
    if fit.sums.pairs is not None:
        counts, c = fit.sums.counts.sum(axis=0), fit.prior.concentration
        variances = variances * loss(counts, fit.sums.pairs, fit.prior.observed[plain], c)
    limit, by_chance = chi2.isf(LEVEL, plain.sum()), gain_of_chance(fit.size - 1)
    for j in range(fit.size):
        others = np.arange(fit.size) != j
        parts, errors = _parts(means[others], variances[others], means[j], variances[j])
        off = ((means[j] - parts @ means[others]) ** 2 / errors).sum()
        gained = (means[j] ** 2 / errors).sum() - off
        along = np.maximum((means[others] * means[j] / errors).sum(axis=1), 0.0)
        one = float((along**2 / (means[others] ** 2 / errors).sum(axis=1).clip(1e-12)).max())
        of_one = one > SURE and gained - one < by_chance  # one other kind explains it as well
        if off < limit and gained > by_chance and not of_one and parts.sum() < FADED:
            found[j] = parts.sum()
    return found


def _means(fit: Fit, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (K, n) of classes in some columns, and the variance of their errors in sure rows."""
    n = np.maximum(fit.sums.seen[:, columns], 1e-9)
    means = fit.sums.signed[:, columns] / n
    return means, (1 - means**2 + 1 / (n + 1)) / n  # of one entry or two it is not 0


def gain_of_chance(others: int) -> float:
    """Gain in squared deviations that parts of other classes in a class of coins do not reach.

    Each part is positive by chance in half of the cases, and adds a squared normal deviate then.
    """
    weights = binom.pmf(np.arange(others + 1), others, 0.5)[1:]
    numbers = np.arange(1, others + 1)
    return float(brentq(lambda x: weights @ chi2.sf(x, numbers) - CHANCE, 0.0, 40.0 + 8.0 * others))


def _parts(
    others: np.ndarray, variances: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Parts (k,) of others (k, N) that explain a mean (N,) best, and variances (N,) of errors."""
    errors = variance
    for _ in range(2):  # errors of the others count as much as their parts do
        root = np.sqrt(errors)
        parts = nnls((others / root).T, mean / root)[0]
        errors = variance + parts**2 @ variances
    return parts, errors


CARRIED = 0.95  # part of how classes differ that the columns which carry them make up
MOST = 20.0  # strength, as 1 / variance left, beyond which a column tells classes apart no better


def _standing(fit: Fit, variances: np.ndarray) -> np.ndarray:
    """(K, N) means about their own mean, in units of the noise, times the root of the shares."""
    n = fit.sums.counts.sum(axis=0)
    shares = n / n.sum()
    means = fit.classes.means * fit.prior.observed
    scaled = (means - shares @ means) / np.sqrt(np.maximum(variances, 1e-3))
    return np.asarray(scaled * np.sqrt(shares)[:, None])


def spanned(fit: Fit, variances: np.ndarray) -> int:
    """Directions that the means of classes span, of those that second moments can show.

    K classes of different kinds span K - 1; degrees of one trait lie along a line, more or less.

    Parameters
    ----------
    variances : (N,) mean squares of the residuals.
    """
    standing = _standing(fit, variances)
    spikes = np.linalg.svd(standing, compute_uv=False) ** 2
    return int((spikes > np.sqrt(standing.shape[1] / fit.sums.counts.sum())).sum())


def carrying(fit: Fit, variances: np.ndarray) -> np.ndarray:
    """Columns that make up all but a little of how classes differ, strongest first.

    The levels of a variable are taken together.
    """
    # A column that hardly ever errs would hide all others that tell the classes apart as well.
    strength = np.minimum((_standing(fit, variances) ** 2).sum(axis=0), MOST)
    # What columns differ by in classes that are alike says nothing.
    strength = np.maximum(strength - (fit.size - 1) / fit.sums.counts.sum(), 0.0)
    variables = fit.prior.variables
    label = np.arange(len(strength))
    if variables is not None:
        label = np.where(variables.inside, len(strength) + variables.label, label)
    unit = np.unique(label, return_inverse=True)[1]
    whole = np.bincount(unit, strength)
    order = np.argsort(-whole, kind="stable")
    reached = np.cumsum(whole[order])
    kept = order[: 1 + np.searchsorted(reached, CARRIED * reached[-1])]
    return np.concatenate([np.flatnonzero(unit == k) for k in kept])


def worth(columns: np.ndarray, variables: Variables | None) -> float:
    """Binary columns that these are worth: a variable of L levels log2(L), two variables none."""
    if variables is None:
        return float(len(columns))
    parts = variables.part[columns]
    alone = int((parts == 0).sum())
    sizes = 1 / parts[parts > 0]
    several = float((1 / sizes).sum())  # each level is a share of its variable
    if round(alone + several) < 3:
        return 0.0
    return alone + float((np.log2(sizes) / sizes).sum())


def needed(classes: int) -> int:
    """Binary columns that tell so many classes from dependence between the columns.

    Source: E. S. Allman, C. Matias, J. A. Rhodes, Ann. Statist. 37 (2009) 3099: classes are
    determined by ``2 ceil(log2 K) + 1`` columns and more.
    """
    return 2 * int(np.ceil(np.log2(classes))) + 1
