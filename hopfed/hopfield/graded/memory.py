"""Classes that are remembered from round to round, and how much of what was known of them counts.

Source: the sums of one round are those of `hopfed.archetypes.mixture`; what is left
of earlier ones is a power prior (J. G. Ibrahim, M.-H. Chen, Statist. Sci. 15 (2000) 46) whose
exponent is the one under which the rows of this round are likeliest, class by class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hopfed.archetypes.mixture import ClassSums, Fit, Mixture, Prior
from hopfed.archetypes.search import joining, merge_gains

WEIGHTS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.0)  # of what was known of a class; 0 forgets it
STRANGER = -1  # parent of a class that is not remembered yet


@dataclass(frozen=True)
class Memory:
    """The classes that the server remembers.

    Attributes
    ----------
    means : (K, N) of each column in each class, in (-1, 1).
    signed, seen : (K, N) observed entries added up, and their number, faded over rounds.
    clients : (C,) who was ever heard.
    counts : (C, K) rows of each class at each client, faded alike.
    numbers : (K,) a number for each class, in the order of their births, by which it is known.
    born : (K,) rounds in which they were born.
    loud : (K,) rounds in a row that the residuals of a class are above noise.
    used : numbers that were given so far.
    """

    means: np.ndarray
    signed: np.ndarray
    seen: np.ndarray
    clients: np.ndarray
    counts: np.ndarray
    numbers: np.ndarray
    born: np.ndarray
    loud: np.ndarray
    used: np.ndarray

    @classmethod
    def start(cls, n_sites: int) -> Memory:
        """Return the memory before the first round: a single class of which nothing is known."""
        table, row, nobody = np.zeros((1, n_sites)), np.zeros(1, np.int64), np.zeros(0, np.int64)
        return cls(table, table, table, nobody, np.zeros((0, 1)), row, row, row, np.array(1))

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

    def faded(self, discount: float) -> Memory:
        """Return the memory a round later."""
        each = {n: getattr(self, n) * discount for n in ("signed", "seen", "counts")}
        return replace(self, **each)

    def select(self, kept: np.ndarray) -> Memory:
        """Keep some classes, by a mask or by indices (K',)."""
        by_class = ("means", "signed", "seen", "numbers", "born", "loud")
        chosen = {name: getattr(self, name)[kept] for name in by_class}
        return replace(self, counts=self.counts[:, kept], **chosen)

    def supported(self, least: float, cut: int = 0) -> Memory:
        """Keep the classes of so many rows at least, and the largest one in any case."""
        rows = rows_without(self.counts, cut)
        return self.select(rows >= min(least, float(rows.max())))

    def moved(self, before: Memory) -> float:
        """Root mean square by which the means of classes moved that were remembered before."""
        _, now, then = np.intersect1d(self.numbers, before.numbers, return_indices=True)
        if len(now) == 0:
            return 0.0
        return float(np.sqrt(((self.means[now] - before.means[then]) ** 2).mean()))

    def folded(self, into: np.ndarray) -> Memory:
        """Add up classes; the elder of those that become one gives its number and its means."""
        both = self.sums().joined(into)
        order = np.argsort(self.numbers, kind="stable")
        elder = order[np.unique(into[order], return_index=True)[1]]
        found = {"signed": both.signed, "seen": both.seen, "counts": both.counts}
        return replace(self.select(elder), **found)

    def joined(self, prior: Prior, unsure: float = 0.0) -> Memory:
        """Join classes that the sums do not tell apart; the elder one gives its number."""
        memory = self
        while memory.size > 1:
            sums = memory.sums()
            each = np.ones((1, memory.size)) / memory.size
            gain, pair = merge_gains(Fit(Mixture(memory.means, each), sums, prior, 0.0))[0]
            if gain <= unsure:
                break
            memory = memory.folded(joining(memory.size, pair))
            memory = replace(memory, means=prior.mixture(memory.sums()).means)
        return memory

    def sums(self) -> ClassSums:
        """What is remembered, as the sums of one exchange."""
        return ClassSums(self.counts, self.signed, self.seen)


def rows_without(counts: np.ndarray, cut: int) -> np.ndarray:
    """Rows (K,) of each class without those of the `cut` clients that have most of it."""
    found: np.ndarray = np.sort(counts, axis=0)[: max(len(counts) - cut, 0)].sum(axis=0)
    return found


def carried(memory: Memory, parent: np.ndarray, fresh: ClassSums, prior: Prior) -> np.ndarray:
    """Weight (K,) of what is remembered of each class, beside the rows of this round."""
    known = parent != STRANGER
    weights = np.zeros(len(parent))
    if not known.any():
        return weights
    if np.isinf(prior.concentration):  # a single class, whose rates are those of the columns
        prior = replace(prior, rates=np.full(len(prior.rates), 0.5), concentration=2.0)
    old, new = memory.sums(), _rows(fresh, known)
    at = parent[known]
    values = []
    for w in WEIGHTS:
        before = ClassSums(new.counts, w * old.signed[at], w * old.seen[at])
        after = ClassSums(new.counts, before.signed + new.signed, before.seen + new.seen)
        values.append(prior.gain(after) - prior.gain(before))
    weights[known] = np.asarray(WEIGHTS)[np.argmax(values, axis=0)]
    return weights


def with_memory(
    memory: Memory, parent: np.ndarray, fresh: ClassSums, members: np.ndarray, prior: Prior
) -> tuple[ClassSums, np.ndarray]:
    """Sums of this round and of what is remembered together, and the weights of the latter."""
    weights = carried(memory, parent, fresh, prior)
    counts = fresh.counts.copy()
    signed, seen = fresh.signed.copy(), fresh.seen.copy()
    known = np.flatnonzero(parent != STRANGER)
    at = parent[known]
    signed[known] += weights[known, None] * memory.signed[at]
    seen[known] += weights[known, None] * memory.seen[at]
    rows = {int(c): i for i, c in enumerate(memory.clients)}
    for i, c in enumerate(members.tolist()):
        if c in rows:
            counts[i, known] += weights[known] * memory.counts[rows[c], at]
    return ClassSums(counts, signed, seen), weights


def pooled(
    memory: Memory, parent: np.ndarray, fresh: ClassSums, members: np.ndarray, prior: Prior
) -> tuple[Prior, ClassSums, np.ndarray]:
    """Fit the prior, and add what is remembered to the sums of a round."""
    total, weights = with_memory(memory, parent, fresh, members, prior.fitted(fresh))
    return prior.fitted(total), total, weights


def _rows(sums: ClassSums, which: np.ndarray) -> ClassSums:
    return ClassSums(sums.counts[:, which], sums.signed[which], sums.seen[which])
