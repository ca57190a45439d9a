"""The channel of classes: latent classes of rows with gaps that come, go and drift.

A round is the search for classes of `hopfed.archetypes`, over the clients of the round and the
memory, which answers with rows drawn from it: rows that are all like a mean would draw classes
together. Each remembered class gets the weight that makes the rows of this round likeliest: a power
prior (J. G. Ibrahim, M.-H. Chen, Statist. Sci. 15 (2000) 46). Shares count rows of all classes
alike. With noise, a round has a few looks: products of columns (*pairs*) show which classes to
halve or to join, and a few steps of a fit (*sums*) follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

import hopfed.hopfield.class_verdict as verdict
from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.archetypes.class_sums import ClassSums, Fit, Mixture, Prior, add_sums, e_step, improve
from hopfed.archetypes.classes import (
    Search,
    join_small_classes,
    merge_classes,
    reach_number,
    split_classes,
    without,
)
from hopfed.archetypes.session import Owner
from hopfed.federation.contract import EVERYONE, Metrics, State
from hopfed.federation.messages import AlignedArrays, Message, flatten, part_of
from hopfed.federation.rounds import Session, Step
from hopfed.hopfield.announcement import STATUS
from hopfed.hopfield.byzantine_guard import Guard, trimmed_mean
from hopfed.hopfield.class_questions import asks, sums_complaint
from hopfed.hopfield.clients import ClassClient
from hopfed.hopfield.example_sources import Source
from hopfed.hopfield.noise import NUMBERS, PARTS, STEPS, Noise
from hopfed.kernels import pack_masked

__all__ = ["Classes"]

WEIGHTS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.0)  # that a remembered class may get; 0 forgets it
SEARCH = Search(long=60, exchanges=400)
FEW = 5.0  # rows of a class in a round, below which its memory keeps its full weight
COUNTING = ("counts", "signed", "seen", "log_likelihood", "pairs", "products", "once", "twice")
NEW = -1  # parent of a class that is not remembered yet
WIDEST = 0.95  # largest magnitude of a mean of a guessed class
NEAREST = 0.98  # largest magnitude of a fitted mean
RAREST = 0.02  # least part of the rows of a class that is taken to have a column
ABOVE = 1.1  # multiple of the edge of noise above which a class is two
CONFIRMED = 0.5  # least part of a variance that clients must show without extremes
DIRECTIONS = 4  # directions of a class that are tried: a liar's may come first
MOST_ROWS = 3.0  # most rows that a client counts for, in medians of all
# rows that are drawn from a memory: of all, and at least of each class
DRAWN, LEAST_DRAWN = 4_000, 200
CERTAIN = 3.0  # standard deviations above which the rows of a class are no noise


@dataclass(frozen=True)
class Sums(AlignedArrays):
    """Sums over the rows of each class, counts and entries, with the variance of their noise."""

    counts: np.ndarray  # counts, signed, seen: (K,), (K, N), (K, N)
    signed: np.ndarray
    seen: np.ndarray
    # (K,) variance of the noise on `signed`; twice that on `seen`, 2 / N times on `counts`
    noise: np.ndarray

    def __add__(self, other: Sums) -> Sums:
        """Add the sums of other rows, class by class."""
        each = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Sums(*(a + b for a, b in each))

    def times(self, factor: float | np.ndarray) -> Self:
        """Scale the sums and their noise by a factor, a number or (K,) for each class."""
        w = np.broadcast_to(np.asarray(factor, np.float64), self.counts.shape)
        each = {"signed": w[:, None] * self.signed, "seen": w[:, None] * self.seen}
        return replace(self, counts=w * self.counts, noise=w**2 * self.noise, **each)

    def of_parents(self, parent: np.ndarray) -> Self:
        """Return the sums of the parents (K,) of classes; 0 for classes that are new."""
        return self.select(np.maximum(parent, 0)).times(parent != NEW)

    def folded(self, groups: list[list[int]]) -> Sums:
        """Return the sums of groups of classes, each group as one class."""
        arrays = flatten(self).items()
        return Sums(**{n: np.array([a[g].sum(axis=0) for g in groups]) for n, a in arrays})

    @property
    def rows(self) -> np.ndarray:
        """(K,) rows of each class, at least 1."""
        return np.maximum(self.counts, 1.0)

    def parts_seen(self) -> np.ndarray:
        """(K, N) part of the rows of a class that has each column."""
        n = self.rows[:, None]
        common = self.seen.sum(axis=0) / n.sum()
        common = _shrink(common, common.mean(), 2 * self.noise.sum() / n.sum() ** 2)
        common, variances = np.clip(common, 0.0, 1.0), 2 * self.noise[:, None] / n**2
        return np.clip(_shrink(self.seen / n, common, variances), RAREST, 1.0)

    def raw_means(self) -> tuple[np.ndarray, np.ndarray]:
        """(K, N) means of the entries, and the variance that rows and noise give them."""
        n = np.maximum(self.rows[:, None] * self.parts_seen(), 1.0)
        means = np.clip(self.signed / n, -1.0, 1.0)
        return means, self.noise[:, None] / n**2 + (1 - means**2 + 1 / n) / n

    def drawn_means(self) -> np.ndarray:
        """(K, N) means, shrunk towards the means of the columns."""
        raw, variances = self.raw_means()
        rows = self.rows[:, None]
        common = (rows * raw).sum(axis=0) / rows.sum()
        common = _shrink(common, 0.0, (rows**2 * variances).sum(axis=0) / rows.sum() ** 2)
        drawn = _shrink(raw, common, variances) if len(raw) > 1 else common[None]
        return np.clip(drawn, -NEAREST, NEAREST)

    @property
    def shares(self) -> np.ndarray:
        """(K,) shares of the classes in all rows."""
        return np.asarray(self.rows / self.rows.sum())

    def nearest(self) -> list[tuple[int, int]]:
        """Pairs of each class and the class most like it, the most similar pairs first."""
        means, variances = self.raw_means()
        gap = ((means[:, None] - means[None]) ** 2 / (variances[:, None] + variances[None])).sum(2)
        np.fill_diagonal(gap, np.inf)
        pairs = {(min(k, int(j)), max(k, int(j))) for k, j in enumerate(gap.argmin(axis=1))}
        return sorted(pairs, key=lambda pair: (gap[pair], pair))

    def supported(self, least: float) -> np.ndarray:
        """Whether each class has enough rows, more than noise gives; true of the largest."""
        N = self.signed.shape[1]
        enough = np.maximum(least, CERTAIN * np.sqrt(2 * self.noise / N))
        return np.asarray((self.counts >= enough) | (self.counts == self.counts.max()))


@dataclass(frozen=True)
class Memory(Sums):
    """The server's memory of classes: their means, and sums that fade over rounds."""

    means: np.ndarray  # (K, N) of each column in each class, in (-1, 1)
    alike: np.ndarray  # (K,) rows of each class; they fade alike, however much means drift

    @property
    def shares(self) -> np.ndarray:
        """(K,) shares of the classes in all rows."""
        rows = np.maximum(self.alike, 1.0)
        return np.asarray(rows / rows.sum())

    @property
    def patterns(self) -> np.ndarray:
        """(K, N) int8 signs of the means."""
        return np.where(self.means < 0, -1, 1).astype(np.int8)


def _shrink(
    raw: np.ndarray, centre: np.ndarray | float, variances: np.ndarray | float
) -> np.ndarray:
    """Shrink values towards a centre, more the larger their variances are."""
    between = max(float(((raw - centre) ** 2 - variances).mean()), 1e-4)
    found: np.ndarray = centre + between / (between + variances) * (raw - centre)
    return found


@dataclass(frozen=True)
class Classes:
    """Channel of classes with a mean for each column, found and followed over rounds.

    Attributes
    ----------
    n_sites : columns N.
    discount : share of the sums of earlier rounds that is left after a round, in [0, 1].
    most : largest number of classes.
    number : number of classes from exact sums; 0 estimates it.
    relate : outcome to which classes from exact sums are related after the verdict; empty for none.
    judged : rounds after which all rows decide the verdict on classes; 0 for never.
    looks : with noise, searches for classes in a round; each at most doubles their number.
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
        require(self.most >= 1, "most", "at least 1", self.most)
        require(self.looks >= 1, "looks", "at least 1", self.looks)

    def client(self, source: Source, noise: Noise | None) -> ClassClient:
        """Return a client of the federation, with rows of a `source` and `noise` on its answers."""
        return ClassClient(source, self.n_sites, noise, self.looks)

    def start(self) -> State:
        """State of the server before the first round."""
        row, table = np.zeros(1), np.zeros((1, self.n_sites))
        return flatten(Memory(row, table, table, row, table, row), "memory")  # no knowledge

    def play(self, state: State, session: Session, client: ClassClient, guard: Guard) -> Step:
        """Play a round: one search over the clients of a `session` and the memory in a `state`."""
        memory = Memory(**part_of(state, "memory"))
        memory = replace(memory.times(self.discount), alike=memory.alike * self.discount)
        known = {"secret": state["secret"]} if "secret" in state else {}
        if client.noise is None:
            memory, metrics = self._searched(memory, session, guard)
        else:
            memory, metrics = search_with_noise(self, memory, session, client, guard)
            rows, epsilon = metrics.get("examples", 0), client.noise.epsilon
            metrics |= {"status": STATUS, "advice": verdict.HIDING.format(epsilon, rows)}
        about = {n: getattr(memory, n).astype(np.float32) for n in ("means", "shares")}
        state = {**known, **flatten(memory, "memory")}
        return state, {EVERYONE: about}, {"classes": len(memory.means), **metrics}

    def _searched(self, memory: Memory, session: Session, guard: Guard) -> tuple[Memory, Metrics]:
        """Search for classes by exact sums; return the memory after the round, and metrics."""
        first = session.ask(check=lambda _, m: sums_complaint(m))
        # Late answers are sums over the classes of an earlier round.
        first = {c: m for c, m in first.items() if not session.ages.get(c)}
        if not first:
            return memory, {}
        search = replace(SEARCH, most=self.most, support=max(int(np.ceil(guard.support)), 5))
        guard = guard.with_absent(len(first), session.asked)
        owners, fit = ClientsAndMemory(session, guard, memory, first), None
        for draw in range(search.exchanges):
            try:
                fit = owners.begun() if fit is None else fit
                smaller = merge_classes(owners, fit, search)
                larger = split_classes(owners, smaller, search, draw)
                fit = smaller if larger is None else larger
                if larger is None or owners.exchanges >= search.exchanges:
                    fit = improve(owners, join_small_classes(owners, fit, search), search.long)
                    fit = improve(owners, owners.shown(fit, search.support), search.long)
                    fit = reach_number(owners, fit, self.number, search) if self.number else fit
                    break
            except verdict.SilentClientsError as error:
                if not error.left:  # all are silent, and the last fit stands
                    break
                # Start again without the clients that fell silent.
                first = {c: first[c] for c in error.left}
                owners, fit = ClientsAndMemory(session, guard, memory, first), None
        if fit is None:
            return memory, {}
        memory, metrics = owners.remembered(fit)
        metrics["kept"] = float(memory.counts.sum()) if guard.byzantine else 0.0
        if session.t + 1 == self.judged:
            shares = np.tile(memory.shares, (len(owners.clients), 1))
            found = verdict.class_verdict(
                owners.tables(), memory.means, shares, kept=metrics["kept"]
            )
            metrics |= dict(zip(("status", "advice"), found, strict=True))
            if self.relate:
                metrics["relation"] = verdict.relate_classes(self.relate, memory, owners.tables())
        return memory, metrics


class ClientsAndMemory(verdict.RoundSession):
    """Clients of a round as owners of its rows, asked for classes; the memory is one more."""

    def __init__(
        self, session: Session, guard: Guard, memory: Memory, first: Mapping[int, Message]
    ):
        columns, seed = memory.means.shape[1], session.context.derive("search")
        super().__init__(session, list(first), columns, seed)
        self.guard, self.first = guard, first
        self.before = self.memory = memory  # `memory` is to be weighted beside the first answers
        self.drawn, self.drawn_from = draw_memory(memory, seed)
        self.rows = np.array([float(m["examples"]) for m in first.values()])
        each = np.array([float(m["weight"]) for m in first.values()]) / self.rows
        each = np.minimum(each, guard.bound(each.tolist()))
        # Weights of all clients on one scale, as in one table (`hopfed.archetypes.row_weights`).
        rows = self.rows * each * ((self.rows @ each) / max(float(self.rows @ each**2), 1e-300))
        heard = np.minimum(rows, guard.bound(rows.tolist()))
        self.claims = np.column_stack([self.clients, self.rows, self.rows * heard / rows])
        self.influence = heard / self.rows
        self.cut = guard.cut(len(self.clients))
        self.whole = list[Message]()  # the last answers to `sums_and_pairs`, bounded

    @property
    def sizes(self) -> np.ndarray:
        """(L + 1,) rows that each client, and last the memory, count for."""
        return np.append(self.rows * self.influence, self.memory.counts.sum())

    def begun(self) -> Fit:
        """Return a fit to start from, and set the weight of the memory beside the clients."""
        memory = self.memory
        classes = Mixture(memory.means, np.tile(memory.shares, (len(self.clients) + 1, 1)))
        fresh = add_sums(self._together(asks.sums_and_pairs, list(self.first.values()), classes))
        signed = fresh.signed.sum(axis=0) + memory.signed.sum(axis=0)
        seen = fresh.seen.sum(axis=0) + memory.seen.sum(axis=0)
        rates = np.clip(((seen + signed) / 2 + 0.5) / (seen + 1), 1e-6, 1 - 1e-6)
        rows = max(float(fresh.counts.sum() + memory.counts.sum()), 1e-9)
        observed = np.clip(seen / rows, 0.0, 1.0)
        self.prior = Prior(rates, observed)
        self.memory = memory.times(_memory_weights(memory, fresh, self.prior.fitted(fresh)))
        weights = self.memory.counts / np.bincount(self.drawn_from)
        self.remembering = Owner(replace(pack_masked(self.drawn), counts=weights[self.drawn_from]))
        return improve(self, e_step(self, classes, self.prior), 10)

    def ask(self, question: Any, shared: Message, own: Message | None = None) -> list[Message]:
        """Ask every client a question, in one exchange; the last answer is the memory's."""
        if "means" in shared:
            self.learnt, self.own = {"means": shared["means"]}, own or {}
        classes = Mixture(self.learnt["means"].astype(np.float64), self.own["shares"])
        if "means" in shared:
            self.remembering.learn(classes.means, classes.shares[-1])
        each = {"shares": self.own["shares"].astype(np.float32)}
        said = self.said(question, {**shared, **self.learnt}, each, self._complaint)
        answers = self._together(question, said, classes)
        last = {"shares": self.own["shares"][-1]}
        known = question(self.remembering, {**shared, **last})
        answers.append({n: a for n, a in known.items() if n != "pairs" or self.cut == 0})
        if question == asks.sums_and_pairs:
            self.whole = answers
        return answers

    def _complaint(self, client: int, message: Message) -> str | None:
        claim, now = (int(m["examples"]) for m in (self.first[client], message))
        return sums_complaint(message) if now == claim else f"{now} examples, and {claim} before"

    def _together(self, question: Any, answers: list[Message], classes: Mixture) -> list[Message]:
        """Bring answers within claims; if clients may lie, trim their means over rows."""
        scaled = [
            {n: np.asarray(a, np.float64) * w for n, a in m.items() if n in COUNTING}
            for m, w in zip(answers, self.influence, strict=True)
        ]
        if self.cut == 0:
            return scaled
        if question == asks.sums_and_pairs:
            # Clients count for as many rows as without the largest claims, in any classes: more
            # would make up classes, and fewer in one fit would look like a better fit.
            self.claimed = np.array([a["counts"] for a in scaled])
            even = np.minimum(self.claimed, np.sort(self.claimed, axis=0)[-1 - self.cut])
            claims = np.sort(self.sizes[:-1])
            self.believed = even * (claims[: -self.cut].sum() / max(even.sum(), 1e-9))
        found = [Message() for _ in scaled]
        for name in scaled[0].keys() - {"log_likelihood", "pairs"}:
            each = np.array([a[name] for a in scaled])
            shape = *self.claimed.shape, *([1] * (each.ndim - 2))
            own, held = self.claimed.reshape(shape), self.believed.reshape(shape)
            usual = trimmed_mean(each / np.maximum(own, 1e-9), self.believed, self.cut)
            for sums, n in zip(found, held, strict=True):
                sums[name] = usual * n
        every = found if question == asks.sums_and_pairs else self.whole
        for sums, whole in zip(found, every, strict=False):
            if "seen" in sums:  # of a part of each class; the rest must have room
                up = sums["seen"] = np.clip(sums["seen"], 0.0, whole["seen"])
                rest, signed = whole["seen"] - up, whole["signed"]
                low, high = np.maximum(-up, signed - rest), np.minimum(up, signed + rest)
                sums["signed"] = np.clip(sums["signed"], low, high)
        if "log_likelihood" not in scaled[0]:
            return found
        # The rest of the likelihood, beside entries and classes, is how unsure rows are.
        held = np.array([a["log_likelihood"] for a in scaled]) - _known_likelihood(classes, scaled)
        own, number = np.maximum(self.claimed.sum(axis=1), 1e-9), self.believed.sum(axis=1)
        unsure = trimmed_mean(held / own, number, self.cut)
        for sums, named, n in zip(found, _known_likelihood(classes, found), number, strict=True):
            sums["log_likelihood"] = named + n * unsure
        return found

    def tables(self) -> verdict.ClientTables:
        """Return the tables of all rows of the clients, for the tests of the verdict."""
        seed = self.session.context.derive("replicas") % 2**62
        return verdict.ClientTables(self.session, self.clients, self.n_columns, seed)

    def shown(self, fit: Fit, support: int) -> Fit:
        """Leave out classes that have too few rows without the clients that claim most."""
        while self.cut and fit.size > 1:
            *clients, known = np.asarray(fit.sums.counts)
            rows = np.sort(clients, axis=0)[: -self.cut].sum(axis=0) + known
            if rows.min() >= support:
                break
            fit = without(self, fit, int(rows.argmin()))
        return fit

    def remembered(self, fit: Fit) -> tuple[Memory, Metrics]:
        """Return the memory after a round, new classes behind known ones, and metrics."""
        self.remembering.learn(fit.classes.means, fit.classes.shares[-1])
        own = np.arange(len(self.before.counts))[:, None] == self.drawn_from
        sums, parts = fit.sums, own @ self.remembering.posterior / own.sum(axis=1, keepdims=True)
        means, counts = asks.m_step(fit).means, sums.counts.sum(axis=0)
        alike = sums.counts[:-1].sum(axis=0) + self.before.alike @ parts
        first = np.where(parts.max(axis=0) >= 0.5, parts.argmax(axis=0), len(parts))
        kept = (counts >= asks.EMPTY) | (len(means) == fit.size)  # drops classes without rows
        own = counts[kept], sums.signed[kept], sums.seen[kept], np.zeros(len(means))
        found = Memory(*own, means, alike[kept]).select(np.argsort(first[kept], kind="stable"))
        return found, {"examples": float((self.rows * self.influence).sum()), "claims": self.claims}


def _memory_weights(memory: Memory, fresh: ClassSums, prior: Prior) -> np.ndarray:
    """Choose the weight (K,) of each remembered class, beside the rows of this round."""
    if np.isinf(prior.concentration):  # a single class, whose rates are those of the columns
        prior = replace(prior, rates=np.full(len(prior.rates), 0.5), concentration=2.0)
    values = []
    for w in WEIGHTS:
        before = ClassSums(fresh.counts, w * memory.signed, w * memory.seen)
        signed, seen = before.signed + fresh.signed, before.seen + fresh.seen
        values.append(prior.gain(ClassSums(fresh.counts, signed, seen)) - prior.gain(before))
    weights = np.asarray(WEIGHTS)[np.argmax(values, axis=0)]
    # The few rows of an absent class are there by chance, and do not show how much it moved.
    return np.asarray(np.where(fresh.counts.sum(axis=0) < FEW, 1.0, weights))


def draw_memory(memory: Memory, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows (R, N) of -1, 0 and 1 with the classes and the sums of a memory; their classes."""
    n = np.maximum(memory.counts, 1e-9)[:, None]
    rates = np.stack([memory.seen + memory.signed, 2 * memory.seen]) / (2 * n)  # of 1, of entries
    part = memory.counts / max(float(memory.counts.sum()), 1e-9)
    sizes, rng = np.maximum(DRAWN * part, LEAST_DRAWN).astype(int), stream(seed, "memory")
    rows = []
    for k, size in enumerate(sizes):  # evenly spread, so that sums of each column are the memory's
        spread = rng.permuted(np.tile(np.arange(size), (memory.means.shape[1], 1)), axis=1).T
        up, seen = (spread + rng.random(spread.shape[1])) / size < rates[:, k, None]
        rows.append(np.where(up, 1, -1) * seen)
    return np.concatenate(rows).astype(np.int8), np.repeat(np.arange(len(sizes)), sizes)


def _known_likelihood(classes: Mixture, answers: Sequence[Message]) -> list[float]:
    """Log-likelihood of each client's rows and classes, as if each row's class were known."""
    flat = Prior(*np.full((2, classes.means.shape[1]), 0.5))
    each = [ClassSums(a["counts"][None], a["signed"], a["seen"]) for a in answers]
    shares = (Mixture(classes.means, p[None]) for p in classes.shares)
    return [flat.joint(own, sums) for own, sums in zip(shares, each, strict=False)]


@dataclass(frozen=True)
class PairSums:
    """Sums over classes with products of columns, by which classes are halved or joined."""

    sums: Sums
    pairs: np.ndarray  # (K, N (N - 1) / 2)
    unit: float  # ratio of the noise on pairs to the noise on sums
    clients: list[Message]  # the answers; `cut` of them may be lies
    cut: int

    def direction(self, group: list[int]) -> tuple[float, np.ndarray]:
        """Variance of a group along a direction, above 1 for two classes, and half their gap."""
        whole, pairs = self.sums.folded([group]), self.pairs[group].sum(axis=0)
        N, n = whole.signed.shape[1], float(whole.rows[0])
        i, j = np.triu_indices(N, 1)
        mean = whole.signed[0] / n  # over all rows: fewer would add noise
        C = np.zeros((N, N))
        C[i, j] = pairs / n - mean[i] * mean[j]
        values, vectors = np.linalg.eigh(C + C.T)
        part = float(np.clip(whole.seen[0].mean() / n, RAREST, 1.0))
        noise = 2 * float(np.sqrt(N * whole.noise[0])) / n
        edge = part * 2 * np.sqrt(N / n) + N / n
        edge += noise * np.hypot(self.unit, float(np.linalg.norm(mean)))
        tops = np.maximum(values[::-1][:DIRECTIONS], 0.0)
        for top, v in zip(tops, vectors.T[::-1], strict=False):
            if top <= ABOVE * edge or self.cut == 0 or self.shown(group, v) >= CONFIRMED * top:
                return float(top / (ABOVE * edge)), np.sqrt(top) / part * v
        return 0.0, v

    def shown(self, group: list[int], v: np.ndarray) -> float:
        """Variance of a group along a direction (N,), without the most extreme clients."""
        i, j = np.triu_indices(len(v), 1)
        shown, rows = np.zeros((2, len(self.clients)))
        for c, message in enumerate(self.clients):
            sums = (message[n][group].sum(axis=0) / PARTS for n in ("counts", "signed", "pairs"))
            counts, signed, pairs = sums
            rows[c] = max(float(counts), 1.0)
            mean = np.clip(signed / rows[c], -1.0, 1.0)
            centre = (v @ mean) ** 2 - (v**2) @ mean**2
            shown[c] = float(2 * (v[i] * v[j]) @ pairs / rows[c] - centre)
        return float(trimmed_mean(shown, np.minimum(rows, MOST_ROWS * np.median(rows)), self.cut))

    def joined(self) -> list[list[int]]:
        """Join similar classes unless together they vary as two; return all groups."""
        groups, tried = [[k] for k in range(len(self.pairs))], set[tuple[int, ...]]()
        nearest = self.sums.nearest()
        while nearest:
            a, b = nearest.pop(0)
            both = sorted(groups[a] + groups[b])
            if tuple(both) not in tried and self.direction(both)[0] <= 1:
                groups = [both, *(g for k, g in enumerate(groups) if k not in (a, b))]
                nearest = self.sums.folded(groups).nearest()
            tried.add(tuple(both))
        return groups

    def halved(
        self, groups: list[list[int]], parent: np.ndarray, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Halve groups that vary as two; return means, shares and parents of the classes."""
        whole, found = self.sums.folded(groups), [self.direction(group) for group in groups]
        ratios, ways = np.array([r for r, _ in found]), np.array([way for _, way in found])
        K, N = whole.signed.shape
        room = max(min(most, NUMBERS // ((N + 2) ** 2 // 2)) - K, 0)
        order = np.argsort(-ratios * whole.rows, kind="stable")[:room]
        chosen = order[ratios[order] > 1]
        stay, T, p = np.setdiff1d(np.arange(K), chosen), whole.drawn_means(), whole.shares
        halves = np.concatenate([T[chosen] + ways[chosen], T[chosen] - ways[chosen]])
        means = np.concatenate([T[stay], np.clip(halves, -WIDEST, WIDEST)])
        shares = np.concatenate([p[stay], p[chosen] / 2, p[chosen] / 2])
        return means, shares, np.concatenate([parent[stay], np.full(2 * len(chosen), NEW)])


def search_with_noise(
    channel: Classes, memory: Memory, session: Session, client: ClassClient, guard: Guard
) -> tuple[Memory, Metrics]:
    """Search for classes by sums with noise; return the memory after the round, and metrics."""
    noise = client.hiding
    parent, best, metrics = np.arange(len(memory.means)), None, Metrics()

    def gathered(messages: Mapping[int, Message]) -> PairSums | None:
        """Add up answers of all clients, each within its bound, with products if asked for."""
        if not messages:
            return None
        rows = np.array([float(m["examples"]) for m in messages.values()])
        weights = np.minimum(rows, guard.bound(rows.tolist()))
        metrics["claims"] = np.column_stack([[*messages], rows, weights])
        metrics["examples"] = float(weights.sum())  # counts have noise
        cut = guard.with_absent(len(rows), session.asked).cut(len(rows))
        # A client's mean has the noise of its sums over its rows; trimming adds a little.
        share = cut / len(rows)
        variance = float(((weights / rows) ** 2).sum()) * (1 + 0.5 * share + 1.2 * share**2)

        def total(name: str, k: int | slice = slice(None)) -> np.ndarray:
            answers = zip(messages.values(), rows, strict=True)
            each = np.array([m[name][k].astype(np.float64) / (PARTS * r) for m, r in answers])
            return np.asarray(weights.sum() * trimmed_mean(each, weights, cut))

        counts, signed, seen = (total(name) for name in ("counts", "signed", "seen"))
        each = np.full(len(counts), variance * noise.scale("signed") ** 2)
        asked = "pairs" in next(iter(messages.values()))
        pairs = np.array([total("pairs", k) for k in range(len(counts) if asked else 0)])
        sums, unit = Sums(counts, signed, seen, each), noise.scale("pairs") / noise.scale("signed")
        return PairSums(sums, pairs, unit, list(messages.values()), cut)

    def ask(means: np.ndarray, shares: np.ndarray) -> PairSums | None:
        classes = {"means": means.astype(np.float32), "shares": shares.astype(np.float32)}
        return gathered(session.ask({EVERYONE: classes}))

    # Late answers are sums over the classes of an earlier round.
    answers = gathered({c: m for c, m in session.ask().items() if not session.ages.get(c)})
    for look in range(channel.looks + 1):
        if answers is None:
            break
        groups, before = answers.joined(), len(parent)
        parent = parent[[group[int(answers.sums.counts[group].argmax())] for group in groups]]
        if look == 0 or len(groups) < before:
            best = answers.sums.folded(groups), parent
        if look == channel.looks:
            break
        means, shares, parent = answers.halved(groups, parent, channel.most)
        if len(parent) == len(groups) == before and (look or before == 1):
            break
        total = None
        for step in range(STEPS):
            if (answers := ask(means, shares)) is None:
                break
            # The first step after a search is thrown away: its classes were guesses.
            total = answers.sums if step < 2 or total is None else total + answers.sums
            fresh = total.times(1 / max(step, 1))
            whole = fresh + memory.of_parents(parent)
            if step + 1 == STEPS:
                kept = whole.supported(max(guard.support, 1.0))
                whole, fresh, parent = whole.select(kept), fresh.select(kept), parent[kept]
                best = fresh, parent
            means, shares = whole.drawn_means(), whole.shares
        answers = answers and ask(means, shares)
    if best is None:
        return memory, metrics
    fresh, parent = best
    whole = fresh + memory.of_parents(parent)
    place = np.where(parent == NEW, len(memory.means), parent)
    whole = whole.select(np.argsort(place, kind="stable"))
    whole = replace(whole, counts=np.maximum(whole.counts, 0.0))
    return Memory(**flatten(whole), means=whole.drawn_means(), alike=whole.counts), metrics
