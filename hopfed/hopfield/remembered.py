"""Archetypes kept from round to round, and the votes that make them exact (A7, A8).

Remembered archetypes stand apart from the evidence: what is no longer exposed fades from the
operator and not from here, so nothing is forgotten, and new evidence cannot blur them. Each keeps
the sum of the examples that clients assigned to it; the sign of that sum is its pattern, which is
the best estimate that labelled examples would allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

SAME = 0.9  # overlap from which two remembered patterns are one: closer than archetypes get


@dataclass(frozen=True)
class Remembered:
    """Patterns and their history.

    Attributes
    ----------
    patterns : int8 (K, N) of +-1.
    votes : float64 (K, N), weighted sum of the examples assigned to each.
    voters : (K,) weight of those examples.
    born, seen : (K,) round in which each was first found, and last supported by fresh evidence.
    rounds : (K,) rounds in which fresh evidence supported it.
    """

    patterns: np.ndarray
    votes: np.ndarray
    voters: np.ndarray
    born: np.ndarray
    seen: np.ndarray
    rounds: np.ndarray

    def __len__(self) -> int:
        return len(self.patterns)

    @classmethod
    def nothing(cls, n_sites: int) -> Remembered:
        """Return an empty memory of `n_sites` sites."""
        return cls(
            np.zeros((0, n_sites), np.int8),
            np.zeros((0, n_sites)),
            np.zeros(0),
            *(np.zeros(0, np.int64) for _ in range(3)),
        )

    @classmethod
    def unflatten(cls, arrays: Mapping[str, np.ndarray]) -> Remembered:
        """Rebuild the memory from its named arrays."""
        return cls(**{f.name: np.asarray(arrays[f.name]) for f in fields(cls)})

    def flatten(self) -> dict[str, np.ndarray]:
        """Return the memory as named arrays."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def select(self, rows: np.ndarray) -> Remembered:
        """Keep the patterns that `rows`, indices or bool (K,), names."""
        return Remembered(**{name: array[rows] for name, array in self.flatten().items()})

    def near(self, patterns: np.ndarray) -> np.ndarray:
        """Which remembered patterns are among `patterns` (C, N), up to sign: bool (K,)."""
        overlap = np.abs(self.patterns.astype(np.float64) @ patterns.T) / self.patterns.shape[1]
        return (overlap >= SAME).any(axis=1)

    def learn(self, patterns: np.ndarray, t: int) -> Remembered:
        """Add those of `patterns` (C, N) that are not yet remembered; of likenesses, the first."""
        both = np.concatenate([self.patterns, patterns]).astype(np.float64)
        alike = np.abs(both @ both.T) >= SAME * both.shape[1]
        kept = list(range(len(self)))
        for i in range(len(self), len(both)):
            if not alike[i, kept].any():
                kept.append(i)
        patterns = patterns[np.array(kept[len(self) :], dtype=int) - len(self)]
        K = len(patterns)
        new = Remembered(
            patterns.astype(np.int8),
            np.zeros(patterns.shape),
            np.zeros(K),
            np.full(K, t),
            np.full(K, t),
            np.zeros(K, np.int64),
        )
        mine, theirs = self.flatten(), new.flatten()
        return Remembered(**{name: np.concatenate([mine[name], theirs[name]]) for name in mine})

    def confirm(self, supported: np.ndarray, t: int) -> Remembered:
        """Note that fresh evidence of round `t` supports the patterns `supported`, bool (K,)."""
        return replace(
            self,
            seen=np.where(supported, t, self.seen),
            rounds=self.rounds + supported.astype(np.int64),
        )

    def vote(self, votes: np.ndarray, voters: np.ndarray) -> Remembered:
        """Add sums of examples (K, N), and read the patterns off the totals.

        A site on which the votes are even keeps its sign. Patterns that turn out to be one are
        merged.
        """
        total = self.votes + votes
        patterns = np.where(total == 0, self.patterns, np.sign(total)).astype(np.int8)
        return replace(self, patterns=patterns, votes=total, voters=self.voters + voters)._merged()

    def oriented(self, columns: np.ndarray) -> Remembered:
        """Turn the patterns that are new, as the mean of the examples points."""
        from hopfed.exchange import orient

        turned = orient(self.patterns, columns)
        fresh = self.voters == 0
        return replace(self, patterns=np.where(fresh[:, None], turned, self.patterns))

    def _merged(self) -> Remembered:
        K, N = self.patterns.shape
        overlap = self.patterns.astype(np.float64) @ self.patterns.T / N
        keep = np.ones(K, dtype=bool)
        votes, voters = self.votes.copy(), self.voters.copy()
        rounds, seen = self.rounds.copy(), self.seen.copy()
        for i in range(K):  # oldest first
            for j in range(i + 1, K):
                if keep[i] and keep[j] and abs(overlap[i, j]) >= SAME:
                    keep[j] = False
                    votes[i] += np.sign(overlap[i, j]) * votes[j]
                    voters[i] += voters[j]
                    rounds[i], seen[i] = max(rounds[i], rounds[j]), max(seen[i], seen[j])
        if keep.all():
            return self
        patterns = np.where(votes == 0, self.patterns, np.sign(votes)).astype(np.int8)
        return replace(
            self, patterns=patterns, votes=votes, voters=voters, rounds=rounds, seen=seen
        ).select(keep)
