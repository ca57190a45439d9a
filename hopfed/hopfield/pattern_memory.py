"""The server's memory of patterns over rounds, renewed where better evidence is known.

A pattern is read off the evidence, or off the sum of the examples that voted for it. Theory says
how much either overlaps with the archetype, and the larger overlap decides. Source:
theory/NOTES.md, "Renewing what is remembered".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import erf, erfc, erfinv

from hopfed.archetypes.subspace import SAME
from hopfed.federation.messages import AlignedArrays, Message, flatten
from hopfed.hopfield.byzantine_guard import trimmed_mean
from hopfed.theory.resolution import expected_overlap

ASTRAY = 0.1  # share of an archetype's examples that may be nearer to another pattern


def sum_votes(
    messages: Mapping[int, Message],
    weights: Mapping[int, float],
    examples: Mapping[int, float],
    shape: tuple[int, int],
    byzantine: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add up votes for patterns in the server's memory: sums (K, N), weights and squares (K,)."""
    spoken = []
    for c, message in messages.items():
        voters = message["voters"].astype(np.float64)
        if voters.min(initial=0) < 0:
            continue
        share = min(1.0, examples[c] / max(voters.sum(), 1.0))  # an example has one vote
        sums = np.clip(message["votes"], -voters[:, None], voters[:, None]) * share
        voters = voters * share
        spoken.append((weights[c] * sums, weights[c] * voters, weights[c] ** 2 * voters))
    L, cut = len(spoken), min(byzantine, (len(spoken) - 1) // 2)
    if cut <= 0:
        nothing = np.zeros(shape), np.zeros(shape[0]), np.zeros(shape[0])
        sums, voters, squares = (sum(parts) for parts in zip(nothing, *spoken, strict=True))
        return sums, voters, squares

    def total(i: int, k: int | slice = slice(None)) -> np.ndarray:
        return L * trimmed_mean(np.array([votes[i][k] for votes in spoken]), 1.0, cut)

    # Pattern by pattern: all at once would need a copy for each client.
    sums = np.array([total(0, k) for k in range(shape[0])]).reshape(shape)
    # The noise is that of the examples that were not left out.
    return sums, total(1), total(2) * (L / (L - 2 * cut))


def gets_own_votes(sure: np.ndarray, quality: float, n_sites: int) -> np.ndarray:
    """Whether each pattern in the server's memory gets the votes of its own examples, bool (K,).

    An example overlaps with its pattern by about ``r m``, m the overlap of the pattern with the
    archetype, beside noise of size ``1 / sqrt(N)``.
    """
    x = quality * sure * np.sqrt(n_sites)
    return np.asarray(len(sure) * erfc(x / 2) <= ASTRAY)


# Evidence replaces votes when it is worth so many times their examples: the errors of votes are
# spread evenly over the sites, as theory assumes, those of evidence are not.
WORTH = 2.0


@dataclass(frozen=True)
class PatternMemory(AlignedArrays):
    """The server's memory: patterns with their votes, their support, and expected overlaps."""

    patterns: np.ndarray  # int8 (K, N) of +-1
    votes: np.ndarray  # float64 (K, N), weighted sum of the examples assigned to each
    # voters, squares: (K,) sum of the weights of those examples, and of their squares
    voters: np.ndarray
    squares: np.ndarray
    sure: np.ndarray  # (K,) expected overlap of each pattern with its archetype
    seen: np.ndarray  # (K,) round in which fresh evidence last supported each
    rounds: np.ndarray  # (K,) rounds in which fresh evidence supported it
    # (K,) examples of each since it was found, as fresh operators show
    held: np.ndarray

    def __len__(self) -> int:
        return len(self.patterns)

    @classmethod
    def of(cls, patterns: np.ndarray, sure: np.ndarray, t: int) -> PatternMemory:
        """Return patterns (K, N) that were found in round t, without votes or support."""
        none, when, rounds = (np.full(len(patterns), value) for value in (0.0, t, 0))
        votes = np.zeros(patterns.shape)
        return cls(patterns.astype(np.int8), votes, none, none, sure, when, rounds, none)

    def learn(self, patterns: np.ndarray, sure: np.ndarray, t: int) -> PatternMemory:
        """Add the `patterns` (C, N) that are not yet remembered; of similar patterns, the first."""
        both = np.concatenate([self.patterns, patterns]).astype(np.float64)
        alike = np.abs(both @ both.T) >= SAME * both.shape[1]
        kept = list(range(len(self)))
        for i in range(len(self), len(both)):
            if not alike[i, kept].any():
                kept.append(i)
        new = np.array(kept[len(self) :], dtype=int) - len(self)
        own = np.asarray(sure, dtype=np.float64)[new]
        return self.followed_by(PatternMemory.of(patterns[new], own, t))

    def confirm(self, supported: np.ndarray, t: int) -> PatternMemory:
        """Note that fresh evidence of round `t` supports the patterns `supported`, bool (K,)."""
        seen, rounds = np.where(supported, t, self.seen), self.rounds + supported.astype(np.int64)
        return replace(self, seen=seen, rounds=rounds)

    def renew(self, patterns: np.ndarray, sure: np.ndarray, matches: np.ndarray) -> PatternMemory:
        """Replace patterns by their matches in the evidence, where these are more certain."""
        memory, keep = self, np.ones(len(self), dtype=bool)
        renewed: dict[int, int] = {}  # row -> the pattern that it renews
        for k in np.argsort(-self.sure, kind="stable"):
            row = int(matches[k])
            if row >= 0 and renewed.setdefault(row, int(k)) != k:
                memory, keep[k] = memory._joined(renewed[row], int(k)), False
        x, now = memory.patterns.copy(), memory.sure.copy()
        hurdle = np.where(memory.voters > 0, _worth(now), now)
        for row, k in renewed.items():
            if sure[row] > hurdle[k]:
                x[k], now[k] = _sign(patterns[row], x[k]) * patterns[row], sure[row]
        return replace(memory, patterns=x, sure=now).select(keep)

    def vote(self, votes: Sequence[np.ndarray], quality: float, rows: Any) -> PatternMemory:
        """Add votes for the patterns in `rows`; read patterns off totals that are more certain."""
        sums, voters, squares = self.votes.copy(), self.voters.copy(), self.squares.copy()
        for total, fresh in zip((sums, voters, squares), votes, strict=True):
            total[rows] += fresh
        number = voters**2 / np.maximum(squares, 1e-300)  # of examples of equal weight; two may tie
        signal = quality**2 * np.minimum(number, np.maximum(number - 1, 1.0))
        sure = expected_overlap(signal / (signal + max(1 - quality**2, 1e-12)))
        better = (voters > 0) & (_worth(sure) >= self.sure)
        read = np.where(better[:, None] & (sums != 0), np.sign(sums), self.patterns)
        now = {"patterns": read.astype(np.int8), "sure": np.where(better, sure, self.sure)}
        return replace(self, **now, votes=sums, voters=voters, squares=squares)

    def merged(self) -> PatternMemory:
        """Merge patterns that have become the same; the oldest takes all."""
        K, N = self.patterns.shape
        alike = np.abs(self.patterns.astype(np.float64) @ self.patterns.T) >= SAME * N
        memory, keep = self, np.ones(K, dtype=bool)
        for i, j in zip(*np.nonzero(np.triu(alike, 1)), strict=True):
            if keep[i] and keep[j]:
                memory, keep[j] = memory._joined(int(i), int(j)), False
        return self if keep.all() else memory.select(keep)

    def _joined(self, i: int, j: int) -> PatternMemory:
        """Add the votes and the history of pattern j to pattern i; j stays."""
        new = {name: array.copy() for name, array in flatten(self).items()}
        sign = _sign(self.patterns[i], self.patterns[j])
        new["votes"][i] += sign * self.votes[j]
        for name in ("voters", "squares"):
            new[name][i] += new[name][j]
        for name in ("rounds", "seen", "held"):
            new[name][i] = max(new[name][i], new[name][j])
        if self.sure[j] > self.sure[i]:
            new["patterns"][i], new["sure"][i] = sign * self.patterns[j], self.sure[j]
        return PatternMemory(**new)


def _sign(a: np.ndarray, b: np.ndarray) -> int:
    return 1 if a.astype(np.int64) @ b >= 0 else -1


def _worth(sure: np.ndarray) -> np.ndarray:
    """Overlap that evidence needs to replace votes with an expected overlap of `sure`."""
    ratio = WORTH * erfinv(np.minimum(sure, 1 - 1e-15)) ** 2  # gamma / (1 - gamma) / 2
    return np.asarray(erf(np.sqrt(ratio)))
