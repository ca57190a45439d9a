"""The channel of classes: latent classes of rows with gaps that come, go and drift.

A round is one search for classes, that of `hopfed.archetypes`, over the clients of the round and
what is remembered, as blocks of rows: so many of each class, whose entries have its means. Of
earlier rounds as much counts as makes the rows of this one likeliest, class by class: a power prior
(J. G. Ibrahim, M.-H. Chen, Statist. Sci. 15 (2000) 46).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

import hopfed.hopfield.noisy_classes as noisy_classes
import hopfed.hopfield.verdict as verdict
from hopfed._lib.settings import check_types, require
from hopfed.archetypes.mixture import (
    EMPTY,
    ClassSums,
    Fit,
    Mixture,
    Prior,
    collected,
    expect,
    improve,
    maximise,
)
from hopfed.archetypes.search import Search, brought, merged, split, supported
from hopfed.archetypes.session import means_inside
from hopfed.federation.contract import EVERYONE, Metrics, State
from hopfed.federation.messages import Message, below, flatten
from hopfed.federation.rounds import Session, Step
from hopfed.hopfield.class_questions import asks, complaint
from hopfed.hopfield.clients import ClassClient
from hopfed.hopfield.guard import Guard, capped, median_bound, trimmed
from hopfed.hopfield.noise import Noise
from hopfed.hopfield.stream import Source

__all__ = ["Classes"]

WEIGHTS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.0)  # of what was known of a class; 0 forgets it
SEARCH = Search(long=60, exchanges=400)
FEW = 5.0  # rows of a round below which they say nothing of what is remembered of their class
COUNTING = ("counts", "signed", "seen", "log_likelihood", "pairs", "products", "once", "twice")


@dataclass(frozen=True)
class Memory:
    """The classes that the server remembers."""

    means: np.ndarray  # (K, N) of each column in each class, in (-1, 1)
    # signed, seen: (K, N) observed entries added up, and their number, faded over rounds
    signed: np.ndarray
    seen: np.ndarray
    clients: np.ndarray  # (C,) those that were ever heard
    counts: np.ndarray  # (C, K) rows of each class at each client, faded alike
    noise: np.ndarray  # (K,) variance of the noise on the sums, 0 without

    @property
    def size(self) -> int:
        """K."""
        return len(self.means)

    @property
    def rows(self) -> np.ndarray:
        """(K,) rows of each class, as they count now."""
        return np.asarray(self.counts.sum(axis=0))

    @property
    def shares(self) -> np.ndarray:
        """(K,) part of all rows, as they count now, in each class."""
        rows = self.rows
        return np.asarray(rows / rows.sum()) if rows.any() else np.full(self.size, 1 / self.size)

    @property
    def patterns(self) -> np.ndarray:
        """(K, N) int8 signs of the means."""
        return np.where(self.means < 0, -1, 1).astype(np.int8)

    def shares_of(self, client: int) -> np.ndarray:
        """(K,) shares at a client, drawn to those of all; these, where it was never heard."""
        at = np.flatnonzero(self.clients == client)
        if len(at) == 0:
            return self.shares
        own = self.counts[at[0]]
        return np.asarray((own + self.shares) / (own.sum() + 1))

    def weighed(self, weights: float | np.ndarray) -> Memory:
        """Return the memory with so much of each class left."""
        w = np.broadcast_to(weights, self.size)
        each = {n: getattr(self, n) * w[:, None] for n in ("signed", "seen")}
        return replace(self, **each, counts=self.counts * w, noise=self.noise * w**2)

    def select(self, kept: np.ndarray) -> Memory:
        """Keep some classes, by a mask or by indices (K',)."""
        chosen = {n: getattr(self, n)[kept] for n in ("means", "signed", "seen", "noise")}
        return replace(self, counts=self.counts[:, kept], **chosen)


@dataclass(frozen=True)
class Classes:
    """Latent classes with a mean for each column, found and followed over rounds.

    Attributes
    ----------
    n_sites : columns N.
    discount : share of the sums of earlier rounds that is left after a round, in [0, 1].
    most : classes at most.
    number : of classes, where it is given; exact sums only. 0 leaves it to the rows.
    relate : outcome that classes are related to once they are judged (`hopfed.hopfield.verdict`);
        exact sums only. Nothing for none.
    judged : rounds after which classes are judged by all rows; 0 for never.
    looks : with noise, searches for new classes in a round, each of which can at most double their
        number.
    """

    n_sites: int
    discount: float = 0.7
    most: int = 50
    looks: int = 2
    judged: int = 0
    number: int = 0
    relate: str = ""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.n_sites >= 2, "n_sites", "at least 2", self.n_sites)
        require(0 <= self.discount <= 1, "discount", "in [0, 1]", self.discount)
        for name in ("most", "looks"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))

    def client(self, source: Source, noise: Noise | None) -> ClassClient:
        """What clients do, with the rows of a `source` and `noise` on their answers."""
        return ClassClient(source, self.n_sites, noise, self.looks)

    def start(self) -> State:
        """State of the server before the first round."""
        table, nobody = np.zeros((1, self.n_sites)), np.zeros(0, int)
        single = Memory(table, table, table, nobody, np.zeros((0, 1)), np.zeros(1))
        return flatten(single, "memory")  # of which nothing is known

    def play(self, state: State, session: Session, client: ClassClient, guard: Guard) -> Step:
        """Play a round: one search over the clients of a `session` and the memory in a `state`."""
        memory = Memory(**below(state, "memory")).weighed(self.discount)
        known = {"secret": state["secret"]} if "secret" in state else {}
        if client.noise is None:
            memory, metrics = self._searched(memory, session, guard)
        else:
            memory, metrics = noisy_classes.searched(self, memory, session, client, guard)
        shares_of = {int(c): memory.shares_of(c) for c in memory.clients if c >= 0}
        shares_of |= {EVERYONE: memory.shares}
        means = memory.means.astype(np.float32)
        down = {c: {"means": means, "shares": p.astype(np.float32)} for c, p in shares_of.items()}
        metrics["classes"] = memory.size
        return {**known, **flatten(memory, "memory")}, down, metrics

    def _searched(self, memory: Memory, session: Session, guard: Guard) -> tuple[Memory, Metrics]:
        """The memory after a round of exact sums."""
        first = session.ask(check=lambda _, m: complaint(m))
        # Sums over the classes of an earlier round say nothing of those of this one.
        first = {c: m for c, m in first.items() if not session.ages.get(c)}
        if not first:
            return memory, {}
        search = replace(SEARCH, most=self.most, support=max(int(np.ceil(guard.support)), 5))
        guard = guard.with_absent(len(first), session.asked)
        owners, fit = Clients(session, guard, memory, first), None
        for draw in range(search.exchanges):
            try:
                fit = owners.fit(owners.begun()) if fit is None else fit
                smaller = merged(owners, fit, search)
                larger = split(owners, smaller, search, draw)
                fit = smaller if larger is None else larger
                if larger is None or owners.exchanges >= search.exchanges:
                    fit = improve(owners, supported(owners, fit, search), search.long)
                    fit = improve(owners, owners.shown(fit, search), search.long)
                    fit = brought(owners, fit, self.number, search) if self.number else fit
                    break
            except verdict.FewerError as error:
                if not error.left:  # what was heard before is all there is
                    break
                # Those that fell silent are taken out, as if they had not been there.
                first = {c: first[c] for c in error.left}
                owners, fit = Clients(session, guard, memory, first), None
        if fit is None:
            return memory, {}
        memory, metrics = owners.remembered(fit)
        if session.t + 1 == self.judged:
            shares = np.array([memory.shares_of(c) for c in owners.clients])
            found = verdict.judged(owners.tables(), memory.means, shares)
            metrics |= dict(zip(("status", "advice"), found, strict=True))
            if self.relate:
                metrics["relation"] = verdict.related(self.relate, memory, owners.tables())
        return memory, metrics


class Clients(verdict.RoundSession):
    """Clients of a round as owners of its rows, with what is remembered as one more."""

    def __init__(
        self, session: Session, guard: Guard, memory: Memory, first: Mapping[int, Message]
    ):
        columns, seed = memory.means.shape[1], session.context.derive("search")
        super().__init__(session, list(first), columns, seed)
        self.guard, self.memory, self.first = guard, memory, first
        self.rows = np.array([float(m["examples"]) for m in first.values()])
        each = np.array([float(m["weight"]) for m in first.values()]) / self.rows
        each = np.minimum(each, median_bound(each.tolist(), guard.claim))
        # Of one scale at all clients, as weights of one table are (`hopfed.archetypes.weights`).
        rows = self.rows * each * ((self.rows @ each) / max(float(self.rows @ each**2), 1e-300))
        heard = np.minimum(rows, median_bound(rows.tolist(), guard.claim))
        self.influence = heard / self.rows
        self.cut = guard.cut(len(self.clients))
        self.whole: list[Message] = []  # the last answers about classes, as they count

    @property
    def sizes(self) -> np.ndarray:
        """(L + 1,) rows of each client, as they count, and of what is remembered."""
        return np.append(self.rows * self.influence, self.memory.rows.sum())

    def begun(self) -> Mixture:
        """Classes to start from, and how much of what is remembered counts beside them."""
        memory = self.memory
        each = [memory.shares_of(c) for c in self.clients]
        classes = Mixture(memory.means, np.array([*each, memory.shares]))
        fresh = collected(self._together(asks.sums_and_pairs, list(self.first.values()), classes))
        signed = fresh.signed.sum(axis=0) + memory.signed.sum(axis=0)
        seen = fresh.seen.sum(axis=0) + memory.seen.sum(axis=0)
        rates = np.clip(((seen + signed) / 2 + 0.5) / (seen + 1), 1e-6, 1 - 1e-6)
        rows = max(float(fresh.counts.sum() + memory.rows.sum()), 1e-9)
        observed = np.clip(seen / rows, 0.0, 1.0)
        self.prior = Prior(rates, observed)
        self.memory = memory.weighed(_carried(memory, fresh, self.prior.fitted(fresh)))
        return classes

    def fit(self, classes: Mixture) -> Fit:
        """Fit of classes to the clients, in a few steps."""
        return improve(self, expect(self, classes, self.prior), 10)

    def ask(self, question: Any, shared: Message, own: Message | None = None) -> list[Message]:
        """Put one question to every client: one exchange; the last answer is of what is known."""
        if "means" in shared:
            self.learnt, self.own = {"means": shared["means"]}, own or {}
        classes = Mixture(self.learnt["means"].astype(np.float64), self.own["shares"])
        each = {"shares": self.own["shares"].astype(np.float32)}
        said = self.said(question, {**shared, **self.learnt}, each, self._complaint)
        answers = self._together(question, said, classes)
        answers.append(self._known(question, classes, shared))
        if question == asks.sums_and_pairs:
            self.whole = answers
        return answers

    def _complaint(self, client: int, message: Message) -> str | None:
        claim = self.first[client]["examples"]
        if message["examples"] != claim:
            return f"{int(message['examples'])} examples, and {int(claim)} before"
        return complaint(message)

    def _together(self, question: Any, answers: list[Message], classes: Mixture) -> list[Message]:
        """Answers as they count: each within its claim, and of each what most of them say.

        Where some may lie, a sum is the mean of its entries over the rows of a class, trimmed over
        clients, times the rows that a client has there.
        """
        scaled = [
            {n: np.asarray(a, np.float64) * w for n, a in m.items() if n in COUNTING}
            for m, w in zip(answers, self.influence, strict=True)
        ]
        if self.cut == 0:
            return scaled
        if question == asks.sums_and_pairs:
            # As many rows as there are without those who claim most, of whatever classes: more
            # would make up classes, and fewer in one fit than in another look like a better fit.
            claims, self.claimed = self.sizes[:-1], np.array([a["counts"] for a in scaled])
            even = capped(self.claimed, self.cut)
            trust = np.sort(claims)[: len(claims) - self.cut].sum() / max(even.sum(), 1e-9)
            self.believed = even * trust
        found = [Message() for _ in scaled]
        for name in scaled[0].keys() - {"log_likelihood", "pairs"}:
            each = np.array([a[name] for a in scaled])
            own, held = (
                n.reshape(*n.shape, *([1] * (each.ndim - 2))) for n in (self.claimed, self.believed)
            )
            usual = trimmed(each / np.maximum(own, 1e-9), self.believed, self.cut)
            for sums, n in zip(found, held, strict=True):
                sums[name] = usual * n
        every = found if question == asks.sums_and_pairs else self.whole
        for sums, whole in zip(found, every, strict=False):
            if "seen" in sums:  # of a part of each class, which leaves sums for the rest
                up = sums["seen"] = np.clip(sums["seen"], 0.0, whole["seen"])
                rest, signed = whole["seen"] - up, whole["signed"]
                low, high = np.maximum(-up, signed - rest), np.minimum(up, signed + rest)
                sums["signed"] = np.clip(sums["signed"], low, high)
        if "log_likelihood" not in scaled[0]:
            return found
        # What the likelihood holds beyond the entries and classes: how unsure rows are.
        held = np.array([a["log_likelihood"] for a in scaled]) - _named(classes, scaled)
        own, number = np.maximum(self.claimed.sum(axis=1), 1e-9), self.believed.sum(axis=1)
        unsure = trimmed(held / own, number, self.cut)
        for sums, named, n in zip(found, _named(classes, found), number, strict=True):
            sums["log_likelihood"] = named + n * unsure
        return found

    def _known(self, question: Any, classes: Mixture, shared: Message) -> Message:
        """What is remembered answers: as many rows of each class of before, all like its means."""
        memory, n = self.memory, self.memory.rows
        if question == asks.residual_products:
            return {"products": np.zeros(classes.means.shape)}
        q, whole = _parts(memory, classes)
        if question == asks.resting_sums:
            return {"once": n @ q, "twice": n @ q}
        if question == asks.upper_sums:
            means = memory.signed / np.maximum(memory.seen, 1e-9)
            W = shared["directions"].astype(np.float64)
            q = q * (means @ W.T - (classes.means * W).sum(axis=1) > 0)
        sums = {"counts": n @ q, "signed": q.T @ memory.signed, "seen": q.T @ memory.seen}
        if question != asks.sums_and_pairs:
            return sums
        found = {**sums, "log_likelihood": np.array(n @ whole)}
        return found | ({"pairs": (q.T * n) @ q} if self.cut == 0 else {})

    def tables(self) -> verdict.Tables:
        """All rows of the clients of the round, as tests ask about them."""
        seed = self.session.context.derive("replicas") % 2**62
        return verdict.Tables(self.session, self.clients, self.n_columns, seed)

    def shown(self, fit: Fit, search: Search) -> Fit:
        """Leave out classes that only the clients show who have most of them."""
        while self.cut and fit.size > 1:
            *clients, known = np.asarray(fit.sums.counts)
            heard = np.sort(clients, axis=0)[: max(len(clients) - self.cut, 0)]
            rows = heard.sum(axis=0) + known
            if rows.min() >= search.support:
                break
            kept, classes = np.arange(fit.size) != np.argmin(rows), maximise(fit)
            shares = classes.shares[:, kept]
            shares = shares / shares.sum(axis=1, keepdims=True)
            fit = self.fit(Mixture(classes.means[kept], shares))
        return fit

    def remembered(self, fit: Fit) -> tuple[Memory, Metrics]:
        """The memory after a round, what is new behind what was known."""
        memory, sums, parts = self.memory, fit.sums, _parts(self.memory, fit.classes)[0]
        clients = np.union1d(memory.clients, self.clients)
        counts = np.zeros((len(clients), fit.size))
        counts[np.searchsorted(clients, memory.clients)] = memory.counts @ parts
        counts[np.searchsorted(clients, self.clients)] += sums.counts[:-1]
        means, kept = maximise(fit).means, np.arange(fit.size)
        if len(means) < fit.size:  # a class without a row is none
            kept = np.flatnonzero(sums.counts.sum(axis=0) >= EMPTY)
        own = sums.signed[kept], sums.seen[kept], clients, counts[:, kept], np.zeros(len(kept))
        known = parts.max(axis=0)[kept] >= 0.5
        order = np.argsort(np.where(known, parts.argmax(axis=0)[kept], memory.size), kind="stable")
        claims = float((self.rows * self.influence).sum())
        return Memory(means, *own).select(order), {"examples": claims}


def _carried(memory: Memory, fresh: ClassSums, prior: Prior) -> np.ndarray:
    """Weight (K,) of what is remembered of each class, beside the rows of this round."""
    if np.isinf(prior.concentration):  # a single class, whose rates are those of the columns
        prior = replace(prior, rates=np.full(len(prior.rates), 0.5), concentration=2.0)
    values = []
    for w in WEIGHTS:
        before = ClassSums(fresh.counts, w * memory.signed, w * memory.seen)
        signed, seen = before.signed + fresh.signed, before.seen + fresh.seen
        values.append(prior.gain(ClassSums(fresh.counts, signed, seen)) - prior.gain(before))
    weights = np.asarray(WEIGHTS)[np.argmax(values, axis=0)]
    # A class that stays away has few rows by chance, which say nothing of how much it moved.
    return np.asarray(np.where(fresh.counts.sum(axis=0) < FEW, 1.0, weights))


def _parts(memory: Memory, classes: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Of which class (B, K) each that is remembered is, and log-likelihood (B,) of a row of it."""
    T = means_inside(classes.means)
    plus, minus = (memory.seen + memory.signed) / 2, (memory.seen - memory.signed) / 2
    each = plus @ np.log1p(T).T + minus @ np.log1p(-T).T
    each = each - np.log(2) * memory.seen.sum(axis=1)[:, None]
    each /= np.maximum(memory.rows, 1e-9)[:, None]
    each += np.log(np.maximum(classes.shares[-1], 1e-300))
    whole = logsumexp(each, axis=1)
    return np.exp(each - whole[:, None]), whole


def _named(classes: Mixture, answers: Sequence[Message]) -> list[float]:
    """Log-likelihood of the rows and classes of each client, were the rows sure."""
    flat = Prior(np.zeros(0), np.zeros(0))
    each = [ClassSums(a["counts"][None], a["signed"], a["seen"]) for a in answers]
    shares = (Mixture(classes.means, p[None]) for p in classes.shares)
    return [flat.joint(own, sums) for own, sums in zip(shares, each, strict=False)]
