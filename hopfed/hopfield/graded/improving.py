"""What the server makes of each answer within a round: better classes, and new ones.

Each function takes the answers of one exchange and returns what is remembered and under way next,
and whether it is time to plan what comes then (`planning`).

Which classes of a round are one: proposed from sums, and tried on the rows of the round.

Sums over classes count a row that is unsure of its class in each of them by parts, as if every part
were sure. Joined, its parts cost nothing any more, and sums make too much of that: of 16 columns
whose rates differ by .2, three classes that explain the rows better by a thousand nats look like
one. So what sums propose is asked of the clients, as any other fit, and what it is worth on the
rows of the round corrects what the sums say of these and of all that is remembered.

What to ask next in a round: joins, a look for new classes, or more steps, as exchanges are left.

The server chooses, and says in each message what it asks for (`client.asked`). Nothing is asked in
the exchanges that are left once nothing promises anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import xlogy

from hopfed.archetypes.mixture import ClassSums, Fit, Mixture, Prior
from hopfed.archetypes.search import Halves, following, halved, joining, merge_gains, pairs, scales
from hopfed.federation.messages import Message
from hopfed.hopfield.graded.memory import STRANGER, Memory, pooled, rows_without
from hopfed.hopfield.graded.robust import pooled_products
from hopfed.hopfield.graded.round_state import JOIN, NONE, SPLIT, UnderWay
from hopfed.hopfield.graded.settings import GradedSettings
from hopfed.hopfield.robust import loss
from hopfed.kernels.mixtures import spent
from hopfed.theory import tracy_widom

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


HOPE = 3.0  # a trial may still gain so many times what its last step gained
STILL = 0.5  # nats that a step gains where classes do not move any more

Messages = Mapping[int, Message]
Step = tuple[UnderWay, Fit, Message]


def hear_sums(
    method: GradedSettings, memory: Memory, now: UnderWay, messages: Messages, last: bool
) -> tuple[Memory, UnderWay, bool]:
    """Take a step of expectation maximisation; after those of a trial, judge it."""
    sums = now.collect(messages, method)
    prior, total, _ = pooled(memory, now.parent, sums, now.clients, now.prior)
    fit = Fit(now.asked, sums, prior, prior.evidence(now.asked, sums))
    following = now.asking(prior.mixture(total), now.parent)
    if now.trial:
        return _judged(method, memory, now, (following, fit, now.said(messages)), last)
    steps, rising = now.steps + 1, 0.0 if now.fit is None else fit.evidence - now.fit.evidence
    still = steps > 1 and (abs(rising) < STILL or fit.size == 1)
    found: dict[str, Any] = {"fit": fit, "parts": now.said(messages), "fit_parent": now.parent}
    found |= {"steps": steps, "rising": rising, "settled": still}
    over = last or still or steps >= method.steps
    return memory, replace(now if over else following, **found), over


def _judged(
    method: GradedSettings, memory: Memory, now: UnderWay, step: Step, last: bool
) -> tuple[Memory, UnderWay, bool]:
    """Say whether a trial goes on, failed, or replaces the fit."""
    following, fit, parts = step
    gained = _gained(method, memory, now, fit)
    more = gained - now.margin  # than after the step before
    going = gained + HOPE * more > 0
    if now.steps == 0:
        going = now.trial == SPLIT or not hopeless(now.best, gained)
    if going and not last and (gained <= 0 or now.steps + 1 < method.steps):
        return memory, replace(following, steps=now.steps + 1, margin=gained), False
    split = now.trial == SPLIT
    if gained <= 0:
        failures, refused = now.failures + split, now.refused + (not split)
        return memory, replace(now, trial=NONE, failures=failures, refused=refused), True
    parent, joins = now.parent, now.joins
    if not split:
        memory, parent = joined(memory, now)
        joins += now.best.size - fit.size
    rising = more if now.steps else 0.0
    found = replace(now, fit=fit, parts=parts, fit_parent=parent, rising=rising, joins=joins)
    found = replace(found, trial=NONE, failures=0, refused=0)
    return memory, replace(found, looked=False, dull=False, settled=False), True


def _gained(method: GradedSettings, memory: Memory, now: UnderWay, fit: Fit) -> float:
    """By how much a trial is better than the fit; above 0 it replaces it."""
    if now.trial == JOIN:
        return margin(memory, now, fit)
    gained = fit.evidence - now.best.evidence - 1.0 - HOPE * max(now.rising, 0.0)
    born = rows_without(fit.sums.counts, now.cut(method.liars))[now.parent == STRANGER]
    return gained if (born >= method.support).all() else min(gained, 0.0)


def directions(now: UnderWay, rng: np.random.Generator) -> UnderWay:
    """Add the direction in which the residuals of each class are looked at next."""
    if now.stage != "products":  # a search begins
        q = rng.standard_normal(now.best.classes.means.shape)
        basis = (q / np.linalg.norm(q, axis=1, keepdims=True))[:, None]
        return replace(now, stage="products", basis=basis, images=basis[:, :0])
    q = following(now.basis, now.images)
    return replace(now, stage="products", basis=np.concatenate([now.basis, q[:, None]], axis=1))


def latest(now: UnderWay) -> np.ndarray:
    """(K, N) the direction of each class that was added last, as it is told."""
    return np.asarray(now.basis[:, -1] * scales(now.best))


def hear_products(
    method: GradedSettings, memory: Memory, now: UnderWay, messages: Messages, _last: bool
) -> tuple[Memory, UnderWay, bool]:
    """Add the products of a direction; after the last one, see which classes stand out."""
    fit = now.best
    answers = np.array([messages[int(c)]["products"] for c in now.clients], dtype=np.float64)
    answers *= now.prior.influence[:, None, None]
    cut = now.cut(method.liars)
    image = answers.sum(axis=0) if cut == 0 else pooled_products(answers, fit.sums.counts, cut)
    image = image * scales(fit)
    now = replace(now, images=np.concatenate([now.images, image[:, None]], axis=1))
    if now.images.shape[1] < method.products:
        return memory, now, False
    n = fit.sums.counts.sum(axis=0) / loss(cut / len(now.clients))
    values = pairs(now.basis, now.images)[0][:, 0]
    ratios = values / np.maximum(n, 1.0) / np.array([_edge(method, rows) for rows in n])
    if np.isnan(now.loudest):  # the first look of the round counts, before new classes explain some
        loud, known = memory.loud.copy(), now.fit_parent != STRANGER
        at = now.fit_parent[known]
        loud[at] = np.where(ratios[known] > 1, loud[at] + 1, 0)
        memory, now = replace(memory, loud=loud), replace(now, loudest=float(ratios.max()))
    now = replace(now, ratios=ratios, looked=True)
    return memory, replace(now, dull=not candidates(method, memory, now).any()), True


def _edge(method: GradedSettings, rows: float) -> float:
    """Largest eigenvalue of the residuals of so many rows, were they noise."""
    M = max(round(rows), 2)
    centre, scale = tracy_widom.wishart_scaling(M, method.n_sites)
    return float(centre + scale * tracy_widom.critical_value(method.alpha)) / M


def candidates(method: GradedSettings, memory: Memory, now: UnderWay) -> np.ndarray:
    """Which classes (K,) stay above noise, and have rows enough for two."""
    known = now.fit_parent != STRANGER
    rounds = np.ones(len(now.ratios), dtype=np.int64)
    rounds[known] = np.maximum(memory.loud[now.fit_parent[known]], 1)
    enough = now.best.sums.counts.sum(axis=0) >= 2 * method.support
    return np.asarray((now.ratios > 1) & (rounds >= method.patience) & enough)


def towards(now: UnderWay) -> np.ndarray:
    """(K, N) the direction along which each class is halved."""
    return np.asarray(pairs(now.basis, now.images)[1][:, 0] * scales(now.best))


def hear_sides(
    method: GradedSettings, memory: Memory, now: UnderWay, messages: Messages, _last: bool
) -> tuple[Memory, UnderWay, bool]:
    """Halve the classes that stand out: all that promise a gain, or one where that failed."""
    fit, prior = now.best, now.prior
    parts = halved(fit, _within(fit.sums, now.collect(messages, method)))
    loud = candidates(method, memory, now)
    order = np.argsort(-np.where(loud, parts.gains, -np.inf))[: loud.sum()]
    sure = order[parts.gains[order] > 0]
    choices = ([sure] if len(sure) > 1 else []) + [order[i : i + 1] for i in range(len(order))]
    if now.failures >= len(choices):
        return memory, replace(now, dull=True), True
    chosen = choices[now.failures][: method.most - fit.size]
    parent = _parents(memory, now, parts, chosen)
    prior, total = pooled(memory, parent, parts.sums(chosen), now.clients, prior)[:2]
    return memory, now.trying(SPLIT, prior.mixture(total), parent), False


def _within(whole: ClassSums, upper: ClassSums) -> ClassSums:
    """Sums over the upper sides of classes that leave sums for the lower ones.

    They do where all are added up; what is trimmed may be a little off.
    """
    seen = np.clip(upper.seen, 0.0, whole.seen)
    rest = whole.seen - seen
    low, high = np.maximum(-seen, whole.signed - rest), np.minimum(seen, whole.signed + rest)
    counts = np.minimum(upper.counts, whole.counts)
    return ClassSums(counts, np.clip(upper.signed, low, high), seen)


def _parents(memory: Memory, now: UnderWay, parts: Halves, chosen: np.ndarray) -> np.ndarray:
    """Which remembered class each class of a trial is: of two halves the more alike one."""
    stay = np.setdiff1d(np.arange(now.best.size), chosen)
    own = now.fit_parent[chosen]
    upper, lower = own.copy(), own.copy()
    known = np.flatnonzero(own != STRANGER)
    if len(known):
        at, which = own[known], chosen[known]
        old = ClassSums(memory.counts, memory.signed[at], memory.seen[at])
        prior = now.best.prior.fitted(parts.sums(chosen))

        def like(half: ClassSums) -> np.ndarray:
            new = ClassSums(half.counts, half.signed[which], half.seen[which])
            both = ClassSums(half.counts, old.signed + new.signed, old.seen + new.seen)
            return prior.gain(both) - prior.gain(new)

        heir = like(parts.upper) >= like(parts.lower)
        upper[known[~heir]] = STRANGER
        lower[known[heir]] = STRANGER
    return np.concatenate([now.fit_parent[stay], upper, lower])


def planned(method: GradedSettings, memory: Memory, now: UnderWay, left: int) -> UnderWay:
    """Say what to ask next.

    1. Joins that the sums of the fit are for: fewer classes are cheaper to look at.
    2. A look, where exchanges are left for it and a trial: products, then sides.
    3. A join that the sums are not for, but by less than a fit may gain.
    4. Further steps of the fit, until they change nothing.
    """
    if left == 0:
        return replace(now, quiet=True)
    joins = proposals(memory, now, method.support)[now.refused :]
    if joins and joins[0][1] > 0:
        return try_join(memory, now, joins[0][0])
    if now.best.size < method.most and not now.dull:
        if now.looked and left >= 2 and candidates(method, memory, now).any():
            return replace(now, stage="sides", asked=now.best.classes, parent=now.fit_parent)
        if not now.looked and left >= method.products + 2:
            return replace(now, stage="look", asked=now.best.classes, parent=now.fit_parent)
    if joins:
        return try_join(memory, now, joins[0][0])
    if now.settled:
        return replace(now, quiet=True)
    fit = now.best
    prior, total, _ = pooled(memory, now.fit_parent, fit.sums, now.clients, now.prior)
    return now.asking(prior.mixture(total), now.fit_parent)
