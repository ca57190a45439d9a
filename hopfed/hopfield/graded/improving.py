"""What the server makes of each answer within a round: better classes, and new ones.

Each function takes the answers of one exchange and returns what is under way and remembered next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hopfed.archetypes.graded.fitting.expectation_maximization import Fit
from hopfed.archetypes.graded.fitting.lanczos import following, pairs
from hopfed.archetypes.graded.fitting.mixture import ClassSums, Prior
from hopfed.archetypes.graded.fitting.splitting import Halves, halved, scales
from hopfed.federation.messages import Message
from hopfed.hopfield.graded.memory import STRANGER, Memory, rows_without, with_memory
from hopfed.hopfield.graded.robust import pooled_products
from hopfed.hopfield.graded.round_state import UnderWay
from hopfed.hopfield.graded.settings import GradedSettings
from hopfed.hopfield.robust import loss
from hopfed.theory import tracy_widom

Messages = Mapping[int, Message]


def pooled(
    memory: Memory, parent: np.ndarray, fresh: ClassSums, members: np.ndarray, prior: Prior
) -> tuple[Prior, ClassSums, np.ndarray]:
    """Fit the prior, and add what is remembered to the sums of a round.

    Parameters
    ----------
    memory, parent, fresh, members : as in `with_memory`.

    Returns
    -------
    the prior, all sums together, and the weights (K,) of what is remembered.
    """
    total, weights = with_memory(memory, parent, fresh, members, prior.fitted(fresh))
    return prior.fitted(total), total, weights


def hear_sums(
    method: GradedSettings, memory: Memory, now: UnderWay, messages: Messages, exchange: int
) -> tuple[Memory, UnderWay]:
    """Take a step of expectation maximisation; after the last one of a trial, judge it."""
    sums = now.collect(messages, method)
    prior, total, _ = pooled(memory, now.parent, sums, now.clients, now.prior)
    fit = Fit(now.asked, sums, prior, prior.evidence(now.asked, sums))
    over = method.round_steps[exchange + 1 : exchange + 2] != ("sums",)
    if now.trial and not over:
        return memory, now.asking(prior.mixture(total), now.parent)
    if not now.trial or _is_better(method, now, fit):
        failures = 0 if now.trial else now.failures
        parts = now.said(messages)
        now = replace(now, fit=fit, parts=parts, fit_parent=now.parent, failures=failures)
    else:
        now = replace(now, failures=now.failures + 1)
    if not over:
        return memory, now.asking(prior.mixture(total), now.parent)
    now = now.asking(now.best.classes, now.fit_parent)
    return memory, replace(now, trial=False, quiet=now.best.size >= method.most)


def _is_better(method: GradedSettings, now: UnderWay, fit: Fit) -> bool:
    """Whether a trial replaces the fit: by more evidence, and rows of more than a few clients."""
    born = rows_without(fit.sums.counts, now.cut(method.liars))[now.parent == STRANGER]
    supported = bool((born >= method.support).all())
    return supported and fit.evidence > now.best.evidence + 1.0


def directions(method: GradedSettings, now: UnderWay, rng: np.random.Generator) -> UnderWay:
    """Add the direction in which the residuals of each class are looked at next."""
    if now.images.shape[1] in (0, method.products):  # a search begins
        q = rng.standard_normal(now.best.classes.means.shape)
        basis = (q / np.linalg.norm(q, axis=1, keepdims=True))[:, None]
        return replace(now, basis=basis, images=basis[:, :0])
    q = following(now.basis, now.images)
    return replace(now, basis=np.concatenate([now.basis, q[:, None]], axis=1))


def latest(now: UnderWay) -> np.ndarray:
    """(K, N) the direction of each class that was added last, as it is told."""
    return np.asarray(now.basis[:, -1] * scales(now.best))


def hear_products(
    method: GradedSettings, memory: Memory, now: UnderWay, messages: Messages, exchange: int
) -> tuple[Memory, UnderWay]:
    """Add the products of a direction; after the last one, see which classes stand out."""
    fit = now.best
    answers = np.array([messages[int(c)]["products"] for c in now.clients], dtype=np.float64)
    answers *= now.prior.influence[:, None, None]
    cut = now.cut(method.liars)
    image = answers.sum(axis=0) if cut == 0 else pooled_products(answers, fit.sums.counts, cut)
    image = image * scales(fit)
    now = replace(now, images=np.concatenate([now.images, image[:, None]], axis=1))
    if now.images.shape[1] < method.products:
        return memory, now
    n = fit.sums.counts.sum(axis=0) / loss(cut / len(now.clients))
    values = pairs(now.basis, now.images)[0][:, 0]
    ratios = values / np.maximum(n, 1.0) / np.array([_edge(method, rows) for rows in n])
    now = replace(now, ratios=ratios)
    if exchange < method.steps + method.products:  # the first look of the round counts
        loud, known = memory.loud.copy(), now.fit_parent != STRANGER
        at = now.fit_parent[known]
        loud[at] = np.where(ratios[known] > 1, loud[at] + 1, 0)
        memory = replace(memory, loud=loud)
    return memory, replace(now, quiet=not candidates(method, memory, now).any())


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
    method: GradedSettings, memory: Memory, now: UnderWay, messages: Messages, _exchange: int
) -> tuple[Memory, UnderWay]:
    """Halve the classes that stand out: all that promise a gain, or one where that failed."""
    fit, prior = now.best, now.prior
    parts = halved(fit, _within(fit.sums, now.collect(messages, method)))
    loud = candidates(method, memory, now)
    order = np.argsort(-np.where(loud, parts.gains, -np.inf))[: loud.sum()]
    sure = order[parts.gains[order] > 0]
    choices = ([sure] if len(sure) > 1 else []) + [order[i : i + 1] for i in range(len(order))]
    if now.failures >= len(choices):
        return memory, replace(now, quiet=True)
    chosen = choices[now.failures][: method.most - fit.size]
    parent = _parents(memory, now, parts, chosen)
    prior, total = pooled(memory, parent, parts.sums(chosen), now.clients, prior)[:2]
    return memory, replace(now.asking(prior.mixture(total), parent), trial=True)


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
