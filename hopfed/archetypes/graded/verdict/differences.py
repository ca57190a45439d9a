"""What classes differ in: how many directions, which columns, and whether these are enough."""

from __future__ import annotations

import numpy as np

from hopfed.archetypes.graded.fitting.expectation_maximization import Fit
from hopfed.archetypes.graded.owners.variables import Variables

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

    Parameters
    ----------
    variances : as in `spanned`.
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
    """Binary columns that these are worth: a variable of L levels log2(L); two variables nothing.

    Examples
    --------
    >>> worth(np.arange(5), None), worth(np.arange(8), Variables.of([(0, 1, 2, 3)], 8))
    (5.0, 6.0)
    """
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

    Examples
    --------
    >>> [needed(K) for K in (1, 2, 3, 4, 5)]
    [1, 3, 5, 5, 7]
    """
    return 2 * int(np.ceil(np.log2(classes))) + 1
