"""How near classes are to the true ones, as far as their own rows say.

Rows can show that a class is there long before they show what it is like in every column. What is
known of its means is their posterior: a mean m with the standard error e, so ``m^2 + e^2`` is
expected of the square of the true one.

- In the symmetric channel a class is a pattern of signs. ``m = r E[xi]``, and ``E[xi]^2`` is
  ``m^2 / (m^2 + e^2)``: the overlap of the signs with the true ones is expected to be the mean of
  ``|E[xi_j]|`` over columns.
- In the others it is a profile: how the means differ from those of all rows. The cosine between the
  profile and the true one is expected to be ``sqrt(S / (S + E))``, with S and E the sums of the
  squared differences and of their squared errors.

That holds if there are no more classes than were found. But rows of classes below the threshold lie
in those that were found, and nothing in the table can tell. A class of the same kind whose rows all
lie in class k adds, where it just fails to show in the spectrum, a part ``1 / t^2`` to the squared
errors, t being the length of the profile in units of the noise of a row; and a fit misses classes
somewhat above that. It is much where single rows say little of their class, and nothing where they
are sure. The squared errors of every class are taken for so much larger.

Source: theory/NOTES.md, "Resolution".

What rows say of all means together, where they are unsure of their class.

`hopfed.archetypes.graded.fitting.mixture.loss` takes the columns one by one. But which class a
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
from hopfed.archetypes.channel import Channel
from hopfed.archetypes.graded.fitting.expectation_maximization import Fit
from hopfed.archetypes.graded.fitting.mixture import loss
from hopfed.archetypes.graded.owners.asking import Owner, means_inside
from hopfed.archetypes.replicas import drawn, drawn_often
from hopfed.archetypes.status import Nearness
from hopfed.spectral.equal_rows import Rows
from hopfed.theory.resolution import OPTIMISM, RESOLVED, majority_needed, sure_level

TINY = 1e-300
MISSED = 2.0  # times the squared strength of the weakest spike that a class may have and be missed
LEAST = 1e-3  # variance within classes below which that of a column is not taken
SUREST = 1 - 1e-12
SCARCE = 3.0  # rows of the rarer value, below which a rate is near 0 or 1
CERTAIN = 1.96  # standard errors to each side of an interval of 95%


def expected_overlaps(
    means: np.ndarray,
    errors: np.ndarray,
    shares: np.ndarray,
    channel: str,
    observed: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Overlaps (K,) with the true classes to expect: of signs, or of profiles."""
    signal, noise = _profile(means, errors, shares)
    more = 1 + hidden(means, shares, observed)
    if channel == "symmetric":
        sign = np.abs(means) / np.sqrt(np.maximum(means**2 + errors**2, TINY))
        odds = np.arctanh(np.minimum(sign, SUREST)) / more[:, None]
        return np.asarray(np.where(errors > 0, np.tanh(odds), sign).mean(axis=1))
    return np.asarray(np.sqrt(signal / np.maximum(signal + more * noise, TINY)))


def hidden(means: np.ndarray, shares: np.ndarray, observed: np.ndarray | float = 1.0) -> np.ndarray:
    """Squared errors (K,) that a class below the threshold may add, over those of the means."""
    if len(means) == 1:  # all rows, which differ from nothing
        return np.zeros(1)
    weights = shares / shares.sum()
    noise = np.maximum(weights @ (1 - means**2), LEAST)
    lengths = (observed * (means - weights @ means) ** 2 / noise).sum(axis=1)
    return np.asarray(MISSED / np.maximum(lengths, TINY))


def nearness(
    channel: Channel, shares: np.ndarray, rows: float, observed: np.ndarray | float = 1.0
) -> Nearness:
    """How near classes are to the true ones, and how many rows would resolve all."""
    means, errors, one = channel.means, channel.errors, channel.name == "symmetric"
    overlaps = expected_overlaps(means, errors, shares, channel.name, observed)
    level = float(sure_level(means.shape[1])) if one else profile_level(means.shape[1])
    blurred = np.flatnonzero(overlaps < level)
    if not len(blurred):
        return Nearness(overlaps, level, rows)
    if one:
        quality = float(np.sqrt((means**2 + errors**2).max()))
        now = [majority_needed(float(overlaps[k]), quality) for k in blurred]
        factor = majority_needed(level, quality) / np.array(now)
    else:
        short = 1 / np.maximum(overlaps[blurred], 1e-6) ** 2 - 1
        factor = short * level**2 / (1 - level**2)
    return Nearness(overlaps, level, max(float(factor.max()), 1.01) * rows)


def open_error(channel: Channel, shares: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(K, N) errors of means, wider for rates near 0 and 1, as few rows leave them open.

    Their interval holds that of Agresti and Coull, The American Statistician 52 (1998), 119-126.
    """
    if channel.name == "symmetric":
        return channel.errors
    rows = np.nan_to_num((shares[:, None] if channel.name == "graded" else 1.0) * seen)
    rates = np.clip((1 + channel.means) / 2, 0.0, 1.0)
    return np.where(channel.errors > 0, np.maximum(channel.errors, open_rates(rates, rows)), 0.0)


def open_rates(rates: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Errors of means at rates that were seen in so many rows; 0 where none is near 0 or 1."""
    added = (rows * rates + 2) / (rows + 4)
    half = np.abs(added - rates) + CERTAIN * np.sqrt(added * (1 - added) / (rows + 4))
    near = rows * np.minimum(rates, 1 - rates) < SCARCE
    return np.where(near, 2 * half / CERTAIN, 0.0)


def profile_level(N: int) -> float:
    """Expected cosine from which a profile of N columns is sure to have `RESOLVED`, or nearly so.

    The squared errors of N columns add up to their expectation within a part ``sqrt(2 / N)``.
    """
    return RESOLVED + OPTIMISM + RESOLVED * (1 - RESOLVED**2) / 2 * float(np.sqrt(2 / N))


def _profile(
    means: np.ndarray, errors: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sums over columns (K,) of squared differences from the mean of all rows, and of errors."""
    apart = np.eye(len(means)) - shares / shares.sum()
    return ((apart @ means) ** 2).sum(axis=1), apart**2 @ (errors**2).sum(axis=1)


SURE = 1.02  # loss of columns taken one by one, below which there is nothing to add
QUIET = 0.05  # variance of an entry below which its mean is left to `loss`
MOST = 800  # means; of more, columns are taken one by one
DRAWN = 8  # rows for each mean that are drawn, and
FEWEST = 4_000  # at least
NARROW, MANY = 20, 1 << 18  # columns up to which rows repeat each other, and rows drawn then


def lost(fit: Fit, seed: int) -> np.ndarray:
    """(K, N) by which the variance of each mean is above that of sure rows: at least 1."""
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
