"""What rows say of all means together, where they are unsure of their class.

`hopfed.archetypes.graded.fitting.unsure_rows.loss` takes the columns one by one. But which class a
row is of is read off all of its columns, so an error in one mean moves the responsibilities, and
with them every other mean. By Louis (1982) the information in the rows is that of rows that are
sure, less the covariance of the scores that their unsureness leaves::

    I = diag(n_k f_j) - sum_rows [delta_kl w_k - w_k w_l] a_kj a_li

with w the responsibilities of a row and ``a_kj = (x_j - T_kj) / sqrt(1 - T_kj^2)`` where its entry
is observed; the shares are one more column of ones. The sum is taken over rows drawn from the
fitted classes, so nobody is asked anything. Errors are the diagonal of the inverse of I and the
prior.

Source: theory/NOTES.md, "Resolution"; T. A. Louis, Journal of the Royal Statistical Society B 44
(1982) 226-233.
"""

from __future__ import annotations

import numpy as np

from hopfed._lib.random import stream
from hopfed.archetypes.graded.fitting.expectation_maximization import Fit
from hopfed.archetypes.graded.fitting.unsure_rows import loss
from hopfed.archetypes.graded.owners.asking import Owner, means_inside
from hopfed.archetypes.graded.verdict.replicas import drawn, drawn_often
from hopfed.spectral.equal_rows import Rows

SURE = 1.02  # loss of columns taken one by one, below which there is nothing to add
QUIET = 0.05  # variance of an entry below which its mean is left to `loss`
MOST = 800  # means; of more, columns are taken one by one
DRAWN = 8  # rows for each mean that are drawn, and
FEWEST = 4_000  # at least
NARROW, MANY = 20, 1 << 18  # columns up to which rows repeat each other, and rows drawn then


def lost(fit: Fit, seed: int) -> np.ndarray:
    """(K, N) by which the variance of each mean is above that of sure rows: at least 1.

    Parameters
    ----------
    fit : the classes, with their `pairs`.
    seed : of the rows that are drawn.
    """
    sums, c = fit.sums, fit.prior.concentration
    counts = sums.counts.sum(axis=0)
    if fit.size == 1 or sums.pairs is None:
        return np.ones(fit.classes.means.shape)
    found = loss(counts, sums.pairs, fit.prior.observed, c)
    told = (1 - fit.classes.means**2 > QUIET) & (fit.prior.observed > 0)
    size = int(told.sum()) + fit.size
    if found.max() < SURE or size > MOST:
        return found
    missing = _missing(fit, told, max(FEWEST, DRAWN * size), seed)
    complete = np.outer(counts, fit.prior.observed)[told]
    shares = counts / counts.sum()
    information = np.diag(np.concatenate([complete, counts])) - missing
    information[-fit.size :, -fit.size :] -= counts.sum() * np.outer(shares, shares)
    values, E = np.linalg.eigh(information)
    prior = np.concatenate([np.full(len(complete), c), np.ones(fit.size)])
    inverse = np.linalg.inv((E * np.maximum(values, 0.0)) @ E.T + np.diag(prior))
    variance = np.diag(inverse)[: len(complete)]
    found[told] = np.maximum(variance * (c + complete), found[told])
    return found


def _missing(fit: Fit, told: np.ndarray, rows: int, seed: int) -> np.ndarray:
    """Information that unsureness takes, over the means in `told` (K, N) and the K shares."""
    counts = fit.sums.counts.sum(axis=0)
    held = _drawn(fit, rows, seed)
    x, often, rows = held.entries, held.weights[:, None], len(held)
    means = means_inside(fit.classes.means)
    owner = Owner(x, 0, fit.prior.variables)
    owner.learn(means, counts / counts.sum())
    scores, columns, left = [], [], []
    for k, (T, w) in enumerate(zip(means, np.asarray(owner.posterior).T, strict=True)):
        j = np.flatnonzero(told[k])
        a = np.where(x[:, j] != 0, (x[:, j] - T[j]) / np.sqrt(1 - T[j] ** 2), 0.0)  # type: ignore[index]
        a = np.hstack([a, np.ones((len(x), 1))])
        scores.append(a * w[:, None])
        left.append((a * often).T @ scores[-1])
        columns.append(np.append(np.full(len(j), False), True))
    every = np.hstack(scores)
    found = -((every * often).T @ every)
    first = 0
    for block in left:
        there = slice(first, first + len(block))
        found[there, there] += block
        first = there.stop
    order = np.argsort(np.concatenate(columns), kind="stable")  # the shares come last
    return np.asarray(found[np.ix_(order, order)] * (counts.sum() / rows))


def _drawn(fit: Fit, rows: int, seed: int) -> Rows:
    """Rows of the classes, with gaps as often as the columns have them, at least so many."""
    N, whole = len(fit.prior.observed), fit.prior.observed.min() == 1
    if N <= NARROW and whole:  # hardly more different rows, however many are drawn
        rows = max(rows, int(min(fit.sums.counts.sum(), MANY)))
        shares = fit.sums.counts.sum(axis=0)
        one = Rows(np.ones((1, N), np.float32), np.array([float(rows)]))
        told = fit.classes.means, shares / shares.sum(), seed
        return drawn_often(one, *told, variables=fit.prior.variables)
    rng = stream(seed, "information")
    variables = fit.prior.variables
    draws = rng.random((rows, len(fit.prior.observed)), dtype=np.float32)
    for group in [] if variables is None else variables.groups():
        draws[:, group] = draws[:, group[:1]]  # a variable is seen as a whole
    seen = (draws < fit.prior.observed).astype(np.float32)
    counts = fit.sums.counts.sum(axis=0)
    shares = counts / counts.sum()
    return Rows(drawn(seen, fit.classes.means, shares, seed, variables=variables))
