"""What the server makes of each answer within a round: better classes, and new ones.

Each function takes the answers of one exchange and returns what is under way and remembered next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hopfed.archetypes.graded.em import Fit
from hopfed.archetypes.graded.lanczos import following, pairs
from hopfed.archetypes.graded.mixture import ClassSums, Mixture, Prior
from hopfed.archetypes.graded.splitting import Halves, halved, scales
from hopfed.federation.messages import Message
from hopfed.hopfield.graded.memory import STRANGER, Memory, with_memory
from hopfed.hopfield.graded.settings import GradedSettings
from hopfed.hopfield.graded.under_way import UnderWay
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
    who, sums, prior = now.collect(messages)
    asked = Mixture(now.asked.means, now.asked.shares[now.rows_of(who)])
    prior, total, _ = pooled(memory, now.parent, sums, who, prior)
    fit = Fit(asked, sums, prior, prior.evidence(asked, sums))
    over = method.round_steps[exchange + 1 : exchange + 2] != ("sums",)
    if now.trial and not over:
        return memory, now.asking(prior.mixture(total), who, now.parent)
    if not now.trial or _is_better(method, now, fit, who):
        failures = 0 if now.trial else now.failures
        now = replace(now, fit=fit, fit_clients=who, fit_parent=now.parent, failures=failures)
    else:
        now = replace(now, failures=now.failures + 1)
    if not over:
        return memory, now.asking(prior.mixture(total), who, now.parent)
    now = now.asking(now.best.classes, now.fit_clients, now.fit_parent)
    return memory, replace(now, trial=False, quiet=now.best.size >= method.most)


def _is_better(method: GradedSettings, now: UnderWay, fit: Fit, who: np.ndarray) -> bool:
    """Whether a trial replaces the fit: by the same clients, with more evidence and enough rows."""
    born = fit.sums.counts.sum(axis=0)[now.parent == STRANGER]
    same = np.array_equal(who, now.fit_clients)
    supported = bool((born >= method.support).all())
    return same and supported and fit.evidence > now.best.evidence + 1.0


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
    weights = now.prior.influence[now.rows_of(np.array(list(messages)))]
    answers = np.array([m["products"] for m in messages.values()], dtype=np.float64)
    image = np.tensordot(weights, answers, 1) * scales(fit)
    now = replace(now, images=np.concatenate([now.images, image[:, None]], axis=1))
    if now.images.shape[1] < method.products:
        return memory, now
    n = fit.sums.counts.sum(axis=0)
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
    who, upper, prior = now.collect(messages)
    fit = now.best
    # Rows of clients that fell silent since the fit are on neither side, so on the lower one.
    counts = np.zeros((len(now.fit_clients), fit.size))
    counts[np.isin(now.fit_clients, who)] = upper.counts[np.isin(who, now.fit_clients)]
    parts = halved(fit, replace(upper, counts=counts))
    loud = candidates(method, memory, now)
    order = np.argsort(-np.where(loud, parts.gains, -np.inf))[: loud.sum()]
    sure = order[parts.gains[order] > 0]
    choices = ([sure] if len(sure) > 1 else []) + [order[i : i + 1] for i in range(len(order))]
    if now.failures >= len(choices):
        return memory, replace(now, quiet=True)
    chosen = choices[now.failures][: method.most - fit.size]
    parent = _parents(memory, now, parts, chosen)
    # Shares of clients that fell silent in between are those of the others.
    sums = parts.sums(chosen)
    rows = np.isin(now.fit_clients, who)
    sums = ClassSums(_of_same(sums.counts, rows), sums.signed, sums.seen)
    prior, total = pooled(memory, parent, sums, now.fit_clients[rows], prior)[:2]
    now = now.asking(prior.mixture(total), now.fit_clients[rows], parent)
    return memory, replace(now, trial=True)


def _of_same(counts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return counts[rows] if rows.any() else counts


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
