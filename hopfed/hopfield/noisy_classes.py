"""Classes from noisy sums: which are one, which are two, and which client says so.

A round looks a few times for classes. Each look asks for *pairs*: where the residuals of a class
vary along a direction more than rows and noise let expect, it is two, and where those of two
together do not, they are one. Then come a few *sums*, steps of a fit, of which all but the first
are averaged; last the pairs once more, only to join. How large the noise is is public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hopfed.federation.contract import EVERYONE, Metrics
from hopfed.federation.messages import Lines, Message, flatten
from hopfed.federation.rounds import Session
from hopfed.hopfield.guard import Guard, loss, median_bound, trimmed
from hopfed.hopfield.noise import NUMBERS, PARTS, STEPS, ClassNoise

if TYPE_CHECKING:
    from hopfed.hopfield.classes import Classes, Memory
    from hopfed.hopfield.clients import ClassClient

NEW = -1  # parent of a class that is not remembered yet
WIDEST = 0.95  # magnitude of a mean of a class that is guessed
NEAREST = 0.98  # to +-1 that a mean is taken for
RAREST = 0.02  # part of the rows of a class that is taken to have a column, at least
ABOVE = 1.1  # times the edge of noise from which a class is two
CERTAIN = 3.0  # standard deviations from which the rows of a class are no noise
CONFIRMED = 0.5  # of what all clients show along a direction, that the others of them show
DIRECTIONS = 4  # of a class that are looked at: a liar's may be before those of all others
MOST_ROWS = 3.0  # times the median that the rows of a client count for


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


class Direction(NamedTuple):
    """Along which the columns of a class vary together beyond what rows and noise let expect."""

    ratio: float  # of the variance along it and the edge of noise; above 1 the class is two
    way: np.ndarray  # (N,) half the difference of the two
    top: float  # that variance
    along: np.ndarray  # (N,) its unit vector


def directions(sums: NoisySums, pairs: np.ndarray, noise: float, most: int = 1) -> list[Direction]:
    """The direction in which a single class varies most, then others above the edge."""
    N, n = sums.signed.shape[1], float(sums.rows[0])
    i, j = np.triu_indices(N, 1)
    mean = sums.signed[0] / n  # over all rows: to divide by those that have it adds noise
    C = np.zeros((N, N))
    C[i, j] = pairs / n - mean[i] * mean[j]
    C += C.T
    values, vectors = np.linalg.eigh(C)
    part = float(np.clip(sums.seen[0].mean() / n, RAREST, 1.0))
    of_means = 2 * float(np.linalg.norm(mean) * np.sqrt(N * sums.noise[0])) / n
    edge = part * 2 * np.sqrt(N / n) + N / n + np.hypot(2 * np.sqrt(N) * noise / n, of_means)
    tops = np.maximum(values[::-1][:most], 0.0)
    found = [
        Direction(top / (ABOVE * edge), np.sqrt(top) / part * along, top, along)
        for top, along in zip(tops.tolist(), vectors.T[::-1], strict=False)
    ]
    return found[:1] + [each for each in found[1:] if each.ratio > 1]


@dataclass(frozen=True)
class Looked(NoisySums):
    """Sums over classes with the products of their columns."""

    pairs: np.ndarray  # (K, N (N - 1) / 2)
    parent: np.ndarray  # (K,) which remembered class each is
    members: np.ndarray  # (K, asked) bool, which of those that were asked about are in it

    @property
    def sums(self) -> NoisySums:
        """The sums alone."""
        return NoisySums(self.counts, self.signed, self.seen, self.noise)

    def together(self, *classes: int) -> Looked:
        """Some classes, taken for one; of the largest of them in what is remembered."""
        k = list(classes)
        largest = max(k, key=lambda c: float(self.counts[c]))
        sums = {name: array[k].sum(axis=0)[None] for name, array in flatten(self).items()}
        members = np.any(self.members[k], axis=0, keepdims=True)
        return Looked(**{**sums, "parent": self.parent[[largest]], "members": members})


class Answers:
    """What a guard lets count of the answers to one question."""

    def __init__(
        self, guard: Guard, session: Session, noise: ClassNoise, messages: Mapping[int, Message]
    ):
        self.messages, self.noise = list(messages.values()), noise
        self.rows = np.array([float(m["examples"]) for m in self.messages])  # that clients claim
        # Rows that they count for, and how many are left out at either end.
        self.weights = np.minimum(self.rows, median_bound(self.rows.tolist(), guard.claim))
        self.cut = guard.with_absent(len(self.rows), session.asked).cut(len(self.rows))

    def total(self, name: str, k: int | slice = slice(None)) -> np.ndarray:
        """One array, of all clients, each within its bound."""
        pairs = zip(self.messages, self.rows, strict=True)
        each = np.array([m[name][k].astype(np.float64) / (PARTS * r) for m, r in pairs])
        return np.asarray(self.weights.sum() * trimmed(each, self.weights, self.cut))

    def sums(self) -> NoisySums:
        """Sums of all clients."""
        # A client's mean has the noise of its sums over its rows.
        variance = float(((self.weights / self.rows) ** 2).sum()) * loss(self.cut / len(self.rows))
        counts, signed, seen = (self.total(name) for name in ("counts", "signed", "seen"))
        each = np.full(len(counts), variance * self.noise.scale("signed") ** 2)
        return NoisySums(counts, signed, seen, each)

    def classes(self, parent: np.ndarray) -> Looked:
        """The classes that were asked about, of these parents, with products of columns."""
        K, sums = len(parent), flatten(self.sums())
        pairs = np.array([self.total("pairs", k) for k in range(K)])
        return Looked(**sums, pairs=pairs, parent=parent, members=np.eye(K, dtype=bool))

    def direction(self, one: Looked) -> Direction:
        """How a single class varies; it is one where only its strongest supporters show two."""
        unit = self.noise.scale("pairs") / self.noise.scale("signed")
        noise = unit * float(np.sqrt(one.noise[0]))
        found = directions(one, one.pairs[0], noise, DIRECTIONS)
        if found[0].ratio <= 1 or self.cut == 0:
            return found[0]
        confirmed = (each for each in found if self._confirmed(one, each))
        return next(confirmed, found[0]._replace(ratio=0.0))

    def _confirmed(self, one: Looked, found: Direction) -> bool:
        """Whether others than its strongest supporters show a direction of a single class."""
        group, v = np.flatnonzero(one.members[0]), found.along
        i, j = np.triu_indices(len(v), 1)
        shown, rows = np.zeros((2, len(self.messages)))
        for c, message in enumerate(self.messages):
            counts, signed, pairs = (
                message[name][group].sum(axis=0) / PARTS for name in ("counts", "signed", "pairs")
            )
            rows[c] = max(float(counts), 1.0)
            mean = np.clip(signed / rows[c], -1.0, 1.0)
            centre = (v @ mean) ** 2 - (v**2) @ mean**2
            shown[c] = float(2 * (v[i] * v[j]) @ pairs / rows[c] - centre)
        rows = np.minimum(rows, MOST_ROWS * np.median(rows))
        # As many of the weakest as of the strongest: neither a claim nor a denial of one decides.
        kept = np.argsort(shown, kind="stable")[self.cut : len(shown) - self.cut]
        others = float((shown[kept] * rows[kept]).sum() / rows[kept].sum())
        return others >= CONFIRMED * found.top

    def joined(self, classes: Looked) -> Looked:
        """Join each class with the one most alike where both together are no two."""
        tried = set[bytes]()
        while len(classes.parent) > 1:
            for a, b in classes.nearest():
                both = classes.together(a, b)
                name = both.members.tobytes()
                if name not in tried and self.direction(both).ratio <= 1:
                    rest = np.delete(np.arange(len(classes.parent)), [a, b])
                    classes = both.followed_by(classes.select(rest))
                    break
                tried.add(name)
            else:
                break
        return classes

    def halved(self, classes: Looked, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """Means, shares and parents of classes once those that are two are halved; if any are."""
        parent = classes.parent
        found = [self.direction(classes.together(k)) for k in range(len(parent))]
        ratios, ways = np.array([r.ratio for r in found]), np.array([r.way for r in found])
        order = np.argsort(-ratios * classes.rows, kind="stable")
        N = classes.signed.shape[1]
        room = max(min(most, NUMBERS // ((N + 2) ** 2 // 2)) - len(found), 0)
        chosen = np.array([k for k in order[:room] if ratios[k] > 1], dtype=int)
        stay, T, p = np.setdiff1d(np.arange(len(found)), chosen), classes.means(), classes.shares()
        halves = np.concatenate([T[chosen] + ways[chosen], T[chosen] - ways[chosen]])
        means = np.concatenate([T[stay], np.clip(halves, -WIDEST, WIDEST)])
        shares = np.concatenate([p[stay], p[chosen] / 2, p[chosen] / 2])
        parents = np.concatenate([parent[stay], np.full(2 * len(chosen), NEW)])
        return means, shares, parents, len(chosen) > 0


def searched(
    channel: Classes, memory: Memory, session: Session, client: ClassClient, guard: Guard
) -> tuple[Memory, Metrics]:
    """The memory after a round of sums with noise."""
    held, noise = NoisySums(memory.rows, memory.signed, memory.seen, memory.noise), client.hiding
    parent, best, metrics = np.arange(memory.size), None, Metrics()

    def asked(means: np.ndarray, shares: np.ndarray) -> Answers | None:
        classes = {"means": means.astype(np.float32), "shares": shares.astype(np.float32)}
        messages = session.ask({EVERYONE: classes})
        return Answers(guard, session, noise, messages) if messages else None

    # Sums over the classes of an earlier round say nothing of those of this one.
    first = {c: m for c, m in session.ask().items() if not session.ages.get(c)}
    answers = Answers(guard, session, noise, first) if first else None
    for look in range(channel.looks + 1):
        if answers is None:
            break
        metrics["examples"] = float(answers.weights.sum())  # counts have noise
        found, before = answers.joined(answers.classes(parent)), len(parent)
        if look == 0 or len(found.parent) < before:
            best = found.sums, found.parent
        if look == channel.looks:
            break
        means, shares, parent, halved = answers.halved(found, channel.most)
        if not halved and len(found.parent) == before and (look or before == 1):
            break
        total = None
        for step in range(STEPS):
            if (answers := asked(means, shares)) is None:
                break
            sums = answers.sums()
            # The first step after a search is thrown away: its classes were guesses.
            total = sums if step < 2 or total is None else total + sums
            fresh = total.times(1 / max(step, 1))
            whole = fresh + held.of_parents(parent)
            if step + 1 == STEPS:
                kept = whole.supported(max(guard.support, 1.0))
                whole, fresh, parent = whole.select(kept), fresh.select(kept), parent[kept]
                best = fresh, parent
            means, shares = whole.means(), whole.shares()
        answers = answers and asked(means, shares)
    if best is None:
        return memory, metrics
    fresh, parent = best
    whole = fresh + held.of_parents(parent)
    counts = np.maximum(whole.counts, 0.0)[None]  # whose rows are of which class is not kept
    known, nobody = (whole.means(), whole.signed, whole.seen), np.array([NEW])
    return memory.joined_by(known, parent, nobody, counts, session.t, whole.noise), metrics
