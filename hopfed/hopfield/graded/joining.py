"""Which classes of a round are one: proposed from sums, and tried on the rows of the round.

Sums over classes count a row that is unsure of its class in each of them by parts, as if every part
were sure. Joined, its parts cost nothing any more, and sums make too much of that: of 16 columns
whose rates differ by .2, three classes that explain the rows better by a thousand nats look like
one. So what sums propose is asked of the clients, as any other fit, and what it is worth on the
rows of the round corrects what the sums say of these and of all that is remembered.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import xlogy

from hopfed.archetypes.graded.fitting.expectation_maximization import Fit
from hopfed.archetypes.graded.fitting.mixture import ClassSums, Mixture, Prior
from hopfed.archetypes.graded.fitting.search import joining, merge_gains
from hopfed.hopfield.graded.memory import STRANGER, Memory, pooled
from hopfed.hopfield.graded.round_state import JOIN, UnderWay
from hopfed.kernels.mixtures import spent

DOUBT = 0.05  # nats of a row by which sums may make too little of a join: a fit gains by it
LEAST = 5.0  # the same of all rows


def proposals(memory: Memory, now: UnderWay, support: float) -> list[tuple[np.ndarray, float]]:
    """Joins worth a trial, each as the numbers (K,) that classes get, and what sums say it gains.

    All at once that the sums are for; failing that, the one that they are most for.
    """
    fit = now.best
    prior, total, _ = pooled(memory, now.fit_parent, fit.sums, now.clients, now.prior)
    kept = total.counts.sum(axis=0) >= support
    if kept.sum() < 2:
        return []
    place, alone = np.cumsum(kept) - 1, kept.sum() + np.cumsum(~kept) - 1
    found = []
    for joins, gain in _chain(
        prior, ClassSums(total.counts[:, kept], total.signed[kept], total.seen[kept]), _doubt(fit)
    ):
        into = np.where(kept, joins[place], alone - kept.sum() + joins.max() + 1)
        found.append((into, gain))
    if fit.size == 2 and found:  # the fit of one class is known from the sums of two
        gain = _by_sums(prior, total, found[0][0]) - unsure(fit, total)
        return [(found[0][0], gain)] if gain > 0 else []
    return [found[-1], *found[:1]] if len(found) > 1 else found


def _chain(prior: Prior, sums: ClassSums, doubt: float) -> list[tuple[np.ndarray, float]]:
    """The best join, the best two, and so on, as long as the sums are for them."""
    into, found = np.arange(sums.counts.shape[1]), list[tuple[np.ndarray, float]]()
    while (K := sums.counts.shape[1]) > 1:
        classes = Mixture(np.zeros((K, 0)), np.ones((1, K)) / K)
        gain, pair = merge_gains(Fit(classes, sums, prior, 0.0))[0]
        if gain <= (0.0 if found else -doubt):
            break
        step = joining(K, pair)
        into, sums = step[into], sums.joined(step)
        found.append((into, gain + (found[-1][1] if found else 0.0)))
        if gain <= 0:
            break
    return found


def try_join(memory: Memory, now: UnderWay, into: np.ndarray) -> UnderWay:
    """Ask about the classes of the fit, joined."""
    prior, total, _ = pooled(memory, now.fit_parent, now.best.sums, now.clients, now.prior)
    both = total.joined(into)
    parent = np.full(int(into.max()) + 1, STRANGER)
    for k in range(len(parent)):
        known = _known(now.fit_parent[into == k])
        if len(known):
            parent[k] = known[memory.numbers[known].argmin()]
    classes = prior.fitted(both).mixture(both)
    return replace(now.trying(JOIN, classes, parent), into=into)


def margin(memory: Memory, now: UnderWay, trial: Fit) -> float:
    """Nats that a join is worth by all that is known, above 0 where it is to be made.

    What the sums misjudge on the rows of this round they misjudge on those that are remembered,
    where they make too much of it; what a fit adds, it adds to these rows alone.
    """
    fit = now.best
    prior, total, _ = pooled(memory, now.fit_parent, fit.sums, now.clients, now.prior)
    error = trial.evidence - fit.evidence - _by_sums(fit.prior, fit.sums, now.into)
    error *= _times(total, fit.sums) if error < 0 else 1.0
    return _by_sums(prior, total, now.into) + error


def joined(memory: Memory, now: UnderWay) -> tuple[Memory, np.ndarray]:
    """Join what is remembered as the trial does, and say which of it each class is."""
    target = np.arange(memory.size)
    for k in range(int(now.into.max()) + 1):
        known = _known(now.fit_parent[now.into == k])
        target[known] = known.min(initial=memory.size)
    target = np.unique(target, return_inverse=True)[1]
    parent = np.where(now.parent == STRANGER, STRANGER, target[now.parent])
    return memory.folded(target), parent


def unsure(fit: Fit, total: ClassSums) -> float:
    """Nats, at most, by which sums make too much of all joins together.

    It is the entropy of the classes of all rows: what their likelihood holds beside the sums.
    """
    entropy = fit.sums.log_likelihood - _sure(fit.classes, fit.sums)
    return max(entropy, 0.0) * _times(total, fit.sums)


def hopeless(fit: Fit, gained: float) -> bool:
    """Whether no fit makes up for what a join of classes of `fit` loses at first."""
    return gained < -_doubt(fit)


def _doubt(fit: Fit) -> float:
    """Nats by which a fit may gain where classes are joined."""
    return DOUBT * float(fit.sums.counts.sum()) + LEAST


def _sure(classes: Mixture, sums: ClassSums) -> float:
    """Log-likelihood of the entries, were rows sure of the classes in which they count."""
    p = np.clip((1 + classes.means) / 2, 1e-9, 1 - 1e-9)
    named = xlogy(sums.counts, np.maximum(classes.shares, 1e-300)).sum()
    return float(spent(sums.plus, sums.minus, p) + named)


def _known(parent: np.ndarray) -> np.ndarray:
    return np.asarray(parent[parent != STRANGER])


def _times(total: ClassSums, fresh: ClassSums) -> float:
    """How many times the rows of a round all are that count."""
    return max(float(total.counts.sum() / max(fresh.counts.sum(), 1e-9)), 1.0)


def _by_sums(prior: Prior, sums: ClassSums, into: np.ndarray) -> float:
    """Evidence that joins would add, were rows sure of their class."""
    return _worth(prior, sums.joined(into)) - _worth(prior, sums)


def _worth(prior: Prior, sums: ClassSums) -> float:
    prior = prior.fitted(sums)
    classes = prior.mixture(sums)
    return prior.evidence(classes, replace(sums, log_likelihood=_sure(classes, sums)))
