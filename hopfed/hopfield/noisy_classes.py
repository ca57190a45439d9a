"""Classes from noisy sums: which are one, and which are two.

A round looks a few times for classes. Each look asks for *pairs*: where the residuals of a class
vary along a direction more than rows and noise let expect, it is two, and where those of two
together do not, they are one. Then come a few *sums*, steps of a fit, of which all but the first
are averaged; last the pairs once more, only to join. How large the noise is is public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from hopfed.federation.contract import EVERYONE, Metrics
from hopfed.federation.messages import Lines, Message, flatten
from hopfed.federation.rounds import Session
from hopfed.hopfield.guard import Guard, median_bound, trimmed
from hopfed.hopfield.noise import NUMBERS, PARTS, STEPS

if TYPE_CHECKING:
    from hopfed.hopfield.classes import Classes, Memory
    from hopfed.hopfield.clients import ClassClient

NEW = -1  # parent of a class that is not remembered yet
WIDEST = 0.95  # magnitude of a mean of a class that is guessed
NEAREST = 0.98  # to +-1 that a mean is taken for
RAREST = 0.02  # part of the rows of a class that is taken to have a column, at least
ABOVE = 1.1  # times the edge of noise from which a class is two
CONFIRMED = 0.5  # of what all clients show along a direction, that the others of them show
DIRECTIONS = 4  # of a class that are looked at: a liar's may be before those of all others
MOST_ROWS = 3.0  # times the median that the rows of a client count for
CERTAIN = 3.0  # standard deviations from which the rows of a class are no noise


@dataclass(frozen=True)
class NoisySums(Lines):
    """Sums over rows and classes, with noise."""

    counts: np.ndarray  # counts, signed, seen: (K,), (K, N), (K, N)
    signed: np.ndarray
    seen: np.ndarray
    # (K,) variance of the noise on `signed`; twice that on `seen`, 2 / N times on `counts`
    noise: np.ndarray

    def __add__(self, other: NoisySums) -> NoisySums:
        """Add the sums of other rows, class by class."""
        each = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return NoisySums(*(a + b for a, b in each))

    def times(self, factor: float | np.ndarray) -> NoisySums:
        """Scale it, noise and all, by a number or by one for each class (K,)."""
        w = np.broadcast_to(np.asarray(factor, np.float64), self.counts.shape)
        signed, seen = w[:, None] * self.signed, w[:, None] * self.seen
        return NoisySums(w * self.counts, signed, seen, w**2 * self.noise)

    def of_parents(self, parent: np.ndarray) -> NoisySums:
        """What is known of classes with these parents (K,); nothing of those that are new."""
        return self.select(np.maximum(parent, 0)).times(parent != NEW)

    def folded(self, groups: list[list[int]]) -> NoisySums:
        """Sums of groups of classes, each taken for one."""
        arrays = flatten(self).items()
        return NoisySums(**{n: np.array([a[g].sum(axis=0) for g in groups]) for n, a in arrays})

    @property
    def rows(self) -> np.ndarray:
        """(K,) rows of each class, 1 at least."""
        return np.maximum(self.counts, 1.0)

    def parts_seen(self) -> np.ndarray:
        """(K, N) part of the rows of a class that has each column."""
        n = self.rows[:, None]
        common = self.seen.sum(axis=0) / n.sum()
        common = _drawn(common, common.mean(), 2 * self.noise.sum() / n.sum() ** 2)
        common, variances = np.clip(common, 0.0, 1.0), 2 * self.noise[:, None] / n**2
        return np.clip(_drawn(self.seen / n, common, variances), RAREST, 1.0)

    def raw_means(self) -> tuple[np.ndarray, np.ndarray]:
        """(K, N) means of the entries, and the variance that rows and noise give them."""
        n = np.maximum(self.rows[:, None] * self.parts_seen(), 1.0)
        means = np.clip(self.signed / n, -1.0, 1.0)
        return means, self.noise[:, None] / n**2 + (1 - means**2 + 1 / n) / n

    def means(self) -> np.ndarray:
        """(K, N) means, drawn to those of the columns."""
        raw, variances = self.raw_means()
        rows = self.rows[:, None]
        common = (rows * raw).sum(axis=0) / rows.sum()
        common = _drawn(common, 0.0, (rows**2 * variances).sum(axis=0) / rows.sum() ** 2)
        drawn = _drawn(raw, common, variances) if len(raw) > 1 else common[None]
        return np.clip(drawn, -NEAREST, NEAREST)

    def shares(self) -> np.ndarray:
        """(K,) parts of all rows."""
        return np.asarray(self.rows / self.rows.sum())

    def nearest(self) -> list[tuple[int, int]]:
        """Pairs of a class and the one that differs least from it, those most alike first."""
        means, variances = self.raw_means()
        gap = ((means[:, None] - means[None]) ** 2 / (variances[:, None] + variances[None])).sum(2)
        np.fill_diagonal(gap, np.inf)
        pairs = {(min(k, int(j)), max(k, int(j))) for k, j in enumerate(gap.argmin(axis=1))}
        return sorted(pairs, key=lambda pair: (gap[pair], pair))

    def supported(self, least: float) -> np.ndarray:
        """Which classes are of so many rows, and of more than noise gives; the largest is."""
        N = self.signed.shape[1]
        enough = np.maximum(least, CERTAIN * np.sqrt(2 * self.noise / N))
        return np.asarray((self.counts >= enough) | (self.counts == self.counts.max()))


def _drawn(
    raw: np.ndarray, centre: np.ndarray | float, variances: np.ndarray | float
) -> np.ndarray:
    """Draw values to a centre, as much as their variances say that they scatter by."""
    between = max(float(((raw - centre) ** 2 - variances).mean()), 1e-4)
    found: np.ndarray = centre + between / (between + variances) * (raw - centre)
    return found


@dataclass(frozen=True)
class Pairs:
    """Sums over classes, with the products of their columns."""

    sums: NoisySums
    pairs: np.ndarray  # (K, N (N - 1) / 2)
    unit: float  # by which the noise on them is larger than that on sums
    clients: list[Message]  # the answers, of which so many may lie
    cut: int

    def direction(self, group: list[int]) -> tuple[float, np.ndarray]:
        """How much a group of classes varies along one direction: above 1 it is two.

        With half the difference of the two (N,).
        """
        whole, pairs = self.sums.folded([group]), self.pairs[group].sum(axis=0)
        N, n = whole.signed.shape[1], float(whole.rows[0])
        i, j = np.triu_indices(N, 1)
        mean = whole.signed[0] / n  # over all rows: to divide by those that have it adds noise
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
        """What clients but those who show most and least of it show along a direction (N,)."""
        i, j = np.triu_indices(len(v), 1)
        shown, rows = np.zeros((2, len(self.clients)))
        for c, message in enumerate(self.clients):
            counts, signed, pairs = (
                message[name][group].sum(axis=0) / PARTS for name in ("counts", "signed", "pairs")
            )
            rows[c] = max(float(counts), 1.0)
            mean = np.clip(signed / rows[c], -1.0, 1.0)
            centre = (v @ mean) ** 2 - (v**2) @ mean**2
            shown[c] = float(2 * (v[i] * v[j]) @ pairs / rows[c] - centre)
        return float(trimmed(shown, np.minimum(rows, MOST_ROWS * np.median(rows)), self.cut))

    def joined(self) -> list[list[int]]:
        """Classes in groups: each with the one most alike, where both together are no two."""
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
        """Means, shares and parents of groups of classes, those that are two in halves."""
        whole, found = self.sums.folded(groups), [self.direction(group) for group in groups]
        ratios, ways = np.array([r for r, _ in found]), np.array([way for _, way in found])
        K, N = whole.signed.shape
        room = max(min(most, NUMBERS // ((N + 2) ** 2 // 2)) - K, 0)
        order = np.argsort(-ratios * whole.rows, kind="stable")[:room]
        chosen = order[ratios[order] > 1]
        stay, T, p = np.setdiff1d(np.arange(K), chosen), whole.means(), whole.shares()
        halves = np.concatenate([T[chosen] + ways[chosen], T[chosen] - ways[chosen]])
        means = np.concatenate([T[stay], np.clip(halves, -WIDEST, WIDEST)])
        shares = np.concatenate([p[stay], p[chosen] / 2, p[chosen] / 2])
        return means, shares, np.concatenate([parent[stay], np.full(2 * len(chosen), NEW)])


def searched(
    channel: Classes, memory: Memory, session: Session, client: ClassClient, guard: Guard
) -> tuple[Memory, Metrics]:
    """The memory after a round of sums with noise."""
    held, noise = NoisySums(memory.rows, memory.signed, memory.seen, memory.noise), client.hiding
    parent, best, metrics = np.arange(memory.size), None, Metrics()

    def gathered(messages: Mapping[int, Message]) -> Pairs | None:
        """Sums of all clients, each within its bound, and products where they were asked for."""
        if not messages:
            return None
        rows = np.array([float(m["examples"]) for m in messages.values()])
        weights = np.minimum(rows, median_bound(rows.tolist(), guard.claim))
        metrics["examples"] = float(weights.sum())  # counts have noise
        cut = guard.with_absent(len(rows), session.asked).cut(len(rows))
        # A client's mean has the noise of its sums over its rows; without extremes it is larger, of
        # normal values by about that factor.
        share = cut / len(rows)
        variance = float(((weights / rows) ** 2).sum()) * (1 + 0.5 * share + 1.2 * share**2)

        def total(name: str, k: int | slice = slice(None)) -> np.ndarray:
            answers = zip(messages.values(), rows, strict=True)
            each = np.array([m[name][k].astype(np.float64) / (PARTS * r) for m, r in answers])
            return np.asarray(weights.sum() * trimmed(each, weights, cut))

        counts, signed, seen = (total(name) for name in ("counts", "signed", "seen"))
        each = np.full(len(counts), variance * noise.scale("signed") ** 2)
        asked = "pairs" in next(iter(messages.values()))
        pairs = [total("pairs", k) for k in range(len(counts) if asked else 0)]
        unit = noise.scale("pairs") / noise.scale("signed")
        sums = NoisySums(counts, signed, seen, each)
        return Pairs(sums, np.array(pairs), unit, list(messages.values()), cut)

    def ask(means: np.ndarray, shares: np.ndarray) -> Pairs | None:
        classes = {"means": means.astype(np.float32), "shares": shares.astype(np.float32)}
        return gathered(session.ask({EVERYONE: classes}))

    # Sums over the classes of an earlier round say nothing of those of this one.
    answers = gathered({c: m for c, m in session.ask().items() if not session.ages.get(c)})
    for look in range(channel.looks + 1):
        if answers is None:
            break
        groups, before = answers.joined(), len(parent)
        largest = [max(group, key=lambda k: float(answers.sums.counts[k])) for group in groups]
        parent = parent[largest]
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
            whole = fresh + held.of_parents(parent)
            if step + 1 == STEPS:
                kept = whole.supported(max(guard.support, 1.0))
                whole, fresh, parent = whole.select(kept), fresh.select(kept), parent[kept]
                best = fresh, parent
            means, shares = whole.means(), whole.shares()
        answers = answers and ask(means, shares)
    if best is None:
        return memory, metrics
    fresh, parent = best
    whole = fresh + held.of_parents(parent)
    whole = whole.select(np.argsort(np.where(parent == NEW, memory.size, parent), kind="stable"))
    counts, nobody = np.maximum(whole.counts, 0.0)[None], np.array([NEW])  # whose is not kept
    known = replace(memory, means=whole.means(), signed=whole.signed, seen=whole.seen)
    return replace(known, clients=nobody, counts=counts, noise=whole.noise), metrics
