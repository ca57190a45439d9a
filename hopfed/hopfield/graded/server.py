"""The server's side of a round of graded classes.

1. *sums*: the classes that are remembered go down; of each the count, the sums and the numbers of
   its observed entries come up, and one log-likelihood. A few steps of expectation maximisation,
   in which what is remembered of a class counts beside its rows of this round.
2. *products*: directions go down, their products with the residual moment of each class come up.
   A class whose residuals stay above the edge of noise holds more than one class.
3. *sides*: its rows are halved along that direction, and the halves are fitted as in 1. They stay
   where the evidence of this round is for them: that is how a new class is born.
4. Classes that the sums may not tell apart are joined, and fitted as in 1; so they stay where that
   is no worse.

Which of these comes when is planned as the round goes on (`planning`). At its end classes are
joined that sums cannot tell apart even if rows are unsure of them, and those of too few rows are
dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hopfed.archetypes.mixture import Mixture, Prior, bounded
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.messages import Message, below
from hopfed.hopfield.flat import flatten, unflatten
from hopfed.hopfield.graded.improving import (
    directions,
    hear_products,
    hear_sides,
    hear_sums,
    latest,
    planned,
    towards,
    unsure,
)
from hopfed.hopfield.graded.memory import STRANGER, Memory, pooled
from hopfed.hopfield.graded.robust import clients_left_out, pooled_sums
from hopfed.hopfield.graded.round_state import UnderWay
from hopfed.hopfield.graded.settings import GradedSettings
from hopfed.hopfield.liars.claims import median_bound

HEAR = {"sums": hear_sums, "products": hear_products, "sides": hear_sides}

Answer = tuple[State, Mapping[int, Message], Metrics]


def hear(
    method: GradedSettings, state: State, messages: Mapping[int, Message], context: Context
) -> Answer:
    """Answer the clients, in any exchange of a round."""
    exchange, metrics = context.exchange, Metrics()
    memory = unflatten(Memory, below(state, "memory"))
    if exchange == 0:
        memory = memory.faded(method.discount)
        # Sums over the classes of an earlier round say nothing of those of this one.
        messages = {c: m for c, m in messages.items() if not context.ages.get(c)}
        now = begun(method, memory, messages) if messages else None
    else:
        now = unflatten(UnderWay, below(state, "now")) if "now/clients" in state else None
        if now is not None:
            now = now.only(np.array(list(messages)), method)
    left = method.exchanges - exchange - 1
    if now is not None and not now.quiet and messages:
        memory, now, over = HEAR[now.stage](method, memory, now, messages, left == 0)
        now = planned(method, memory, now, left) if over else now
    if now is None or left == 0:
        if now is not None:
            memory, found = closed(method, memory, now, context.round)
            metrics |= found
        return flatten(None, memory=memory), broadcast(memory), metrics | {"classes": memory.size}
    now, down = question(now, context)
    return flatten(None, memory=memory, now=now), down, metrics


def begun(method: GradedSettings, memory: Memory, messages: Mapping[int, Message]) -> UnderWay:
    """Start a round: the rates of its columns, and the classes that its clients were told last."""
    clients = np.array(list(messages))
    rows = np.array([float(m["examples"]) for m in messages.values()])
    heard = np.minimum(rows, median_bound(rows.tolist(), method.claim))
    influence = bounded(heard, method.influence) * (heard / rows)
    said = [
        {n: m[n].sum(axis=0, keepdims=True, dtype=np.float64) for n in ("counts", "signed", "seen")}
        for m in messages.values()
    ]
    blank = Prior(np.full(method.n_sites, 0.5), np.ones(method.n_sites), influence)
    sums = pooled_sums(said, blank, clients_left_out(method.liars, len(rows)), method.claim)
    observed = np.clip(sums.seen[0] / max(float(sums.counts.sum()), 1e-9), 0.0, 1.0)
    signed, seen = (
        sums.signed[0] + memory.signed.sum(axis=0),
        sums.seen[0] + memory.seen.sum(axis=0),
    )
    rates = np.clip(((seen + signed) / 2 + 0.5) / (seen + 1), 1e-6, 1 - 1e-6)
    prior = Prior(rates, observed, influence)
    shares = np.array([memory.shares_of(c) for c in clients])
    return UnderWay(clients, rows, prior, Mixture(memory.means, shares), np.arange(memory.size))


def question(now: UnderWay, context: Context) -> tuple[UnderWay, dict[int, Message]]:
    """What to ask next, each client with its own shares; nothing, once there is no more to ask."""
    if now.quiet:
        return now, {EVERYONE: {}}
    told: Message = {"means": now.asked.means.astype(np.float32)}
    if now.stage in ("look", "products"):
        now = directions(now, context.rng("residuals"))
        told["directions"] = latest(now).astype(np.float32)
    elif now.stage == "sides":
        told["halves"] = towards(now).astype(np.float32)
    shares = now.asked.shares.astype(np.float32)
    return now, {int(c): {**told, "shares": shares[i]} for i, c in enumerate(now.clients)}


def closed(method: GradedSettings, memory: Memory, now: UnderWay, t: int) -> tuple[Memory, Metrics]:
    """End round t: remember its classes, join those that are alike, drop those of too few rows."""
    fit, parent = now.best, now.fit_parent
    prior, total, weights = pooled(memory, parent, fit.sums, now.clients, now.prior)
    known = parent != STRANGER
    clients = np.union1d(memory.clients, now.clients)
    counts = np.zeros((len(clients), len(parent)))
    before = np.searchsorted(clients, memory.clients)
    counts[np.ix_(before, known)] = memory.counts[:, parent[known]] * weights[known]
    counts[np.searchsorted(clients, now.clients)] = total.counts
    numbers, born, loud = (np.zeros(len(parent), dtype=np.int64) for _ in range(3))
    numbers[~known] = memory.used + np.arange((~known).sum())
    born[~known] = t
    for held, whole in ((numbers, memory.numbers), (born, memory.born), (loud, memory.loud)):
        held[known] = whole[parent[known]]
    new = Memory(
        means=prior.mixture(total).means,
        signed=total.signed,
        seen=total.seen,
        clients=clients,
        counts=counts,
        numbers=numbers,
        born=born,
        loud=loud,
        used=memory.used + (~known).sum(),
    )
    new = new.select(np.argsort(new.numbers))
    joined = new.joined(prior, unsure(fit, new.sums()))
    kept = joined.supported(method.support, now.cut(method.liars))
    entries = float(fit.sums.seen.sum())
    metrics: Metrics = {
        "born": int(np.isin(kept.numbers, numbers[~known]).sum()),
        "joined": now.joins + new.size - joined.size,
        "dropped": joined.size - kept.size,
        "carried": float(weights[known].mean()) if known.any() else 0.0,
        "moved": kept.moved(memory),
        "examples": float(fit.sums.counts.sum()),
        "log_likelihood": fit.sums.log_likelihood / max(entries, 1.0),
    }
    return kept, metrics | ({} if np.isnan(now.loudest) else {"residual": now.loudest})


def broadcast(memory: Memory) -> dict[int, Message]:
    """What is told of the classes: means to all, and to each client its own shares."""
    means = memory.means.astype(np.float32)
    each = {EVERYONE: memory.shares} | {int(c): memory.shares_of(int(c)) for c in memory.clients}
    return {c: {"means": means, "shares": own.astype(np.float32)} for c, own in each.items()}
