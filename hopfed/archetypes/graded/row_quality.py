"""Classes that are others in rows of lower quality, or rows that answer like coins.

A row of quality q has the means ``q T`` of its kind. Where rows of two qualities are many, each
quality becomes a class of its own, and as classes these are right: only their means tell that they
are one kind. Careless rows, of quality 0, become one class whose means are 0 throughout.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from hopfed.archetypes.graded.em import Fit

LEVEL = 1e-3  # at which means are told from those of another class times a number
FADED = 0.9  # quality below which a class counts as another one, faded
SURE = 50.0  # gain in squared deviations from which the likeness is none of chance
COLUMNS = 10  # that are needed at least


def faded(fit: Fit) -> np.ndarray:
    """Quality (K,) of classes that are others, faded: 0 for coins; NaN for classes of their own.

    Means are compared within their errors. Columns that are levels of a variable are left out.
    """
    plain = fit.prior.part == 0
    n = np.maximum(fit.sums.seen[:, plain], 1e-9)
    means = fit.sums.signed[:, plain] / n
    variance = (1 - means**2 + 1 / (n + 1)) / n  # of one entry or two it is not 0
    found = np.full(fit.size, np.nan)
    if fit.size < 2 or plain.sum() < COLUMNS:
        return found
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


def in_words(qualities: np.ndarray) -> str:
    """Sentences about classes of these qualities; none where all are of their own.

    Examples
    --------
    >>> in_words(np.array([np.nan, 0.5, np.nan])).endswith("in rows of lower quality.")
    True
    >>> in_words(np.array([np.nan, 0.0]))
    ' One of these classes has means of 0 throughout: rows that answer like coins.'
    """
    coins, weaker = qualities == 0, np.sort(qualities[qualities > 0])[::-1]
    said = ""
    if len(weaker) == 1:
        said += (
            f" The means of one of these classes are {weaker[0]:.2f} of those of another: one "
            "kind, in rows of lower quality."
        )
    elif len(weaker):
        said += (
            f" The means of {len(weaker)} of these classes are {weaker[-1]:.2f} to "
            f"{weaker[0]:.2f} of those of others: the same kinds, in rows of lower quality."
        )
    if coins.any():
        said += " One of these classes has means of 0 throughout: rows that answer like coins."
    return said
