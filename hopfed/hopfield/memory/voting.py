"""Votes of a round: sums of clients' own examples, as far as they can be told apart and believed.

An example votes with the sign of its overlap with the nearest pattern. Its overlap with its own
archetype is about ``r m``, m the overlap of the pattern with that archetype, and with any other
noise of size ``1 / sqrt(N)``: where that is not little beside ``r m``, examples take their side by
chance and their sums confirm whatever the pattern was before. Such votes do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import erfc

from hopfed.federation.aggregate import trimmed_mean
from hopfed.federation.messages import Message

ASTRAY = 0.1  # share of an archetype's examples that may be nearer to another pattern


@dataclass(frozen=True)
class Votes:
    """Weighted votes of examples for K patterns.

    Attributes
    ----------
    sums : (K, N) weighted sum of the examples for each.
    voters, squares : (K,) sum of their weights, and of the squares of these.
    """

    sums: np.ndarray
    voters: np.ndarray
    squares: np.ndarray

    @classmethod
    def none(cls, K: int, n_sites: int) -> Votes:
        """No vote for any of K patterns."""
        return cls(np.zeros((K, n_sites)), np.zeros(K), np.zeros(K))

    @classmethod
    def gather(
        cls,
        messages: Mapping[int, Message],
        weights: Mapping[int, float],
        examples: Mapping[int, float],
        shape: tuple[int, int],
        liars: int = 0,
    ) -> Votes:
        """Add up what clients say, each example having one vote."""
        total, spoken = cls.none(*shape), []
        for c, message in messages.items():
            voters = message["voters"].astype(np.float64)
            if voters.min(initial=0) < 0:
                continue
            share = min(1.0, examples[c] / max(voters.sum(), 1.0))
            sums = np.clip(message["votes"], -voters[:, None], voters[:, None]) * share
            voters = voters * share
            spoken.append((weights[c] * sums, weights[c] * voters, weights[c] ** 2 * voters))
        cut = min(liars, (len(spoken) - 1) // 2)
        if cut > 0:
            return cls(*_trimmed(spoken, cut))
        for sums, voters, squares in spoken:
            total.sums[:] += sums
            total.voters[:] += voters
            total.squares[:] += squares
        return total

    def among(self, K: int, rows: np.ndarray, counted: np.ndarray) -> Votes:
        """Votes for K patterns of which these are the `rows`, those for `counted` ones kept."""
        wide = Votes.none(K, self.sums.shape[1])
        wide.sums[rows[counted]] = self.sums[counted]
        wide.voters[rows[counted]] = self.voters[counted]
        wide.squares[rows[counted]] = self.squares[counted]
        return wide


def _trimmed(
    spoken: Sequence[tuple[np.ndarray, ...]], cut: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums, voters and squares of all, from the means without the `cut` extremes of either end."""
    L, share = len(spoken), (cut + 0.5) / len(spoken)
    sums = np.zeros_like(spoken[0][0])
    for k in range(len(sums)):  # pattern by pattern: all at once are as many copies as clients
        sums[k] = L * trimmed_mean([said[0][k] for said in spoken], share)
    voters, squares = (L * trimmed_mean([said[i] for said in spoken], share) for i in (1, 2))
    # The noise is that of the examples that were not left out.
    return sums, voters, squares * (L / (L - 2 * cut))


def told_apart(sure: np.ndarray, quality: float, n_sites: int) -> np.ndarray:
    """Which of K patterns get their own examples' votes: bool (K,).

    An example is nearer to a given other pattern with the probability ``erfc(x / 2) / 2`` for
    either sign, x the overlap with its own in units of ``1 / sqrt(N)``; K times that bounds the
    share that goes astray.
    """
    x = quality * sure * np.sqrt(n_sites)
    return np.asarray(len(sure) * erfc(x / 2) <= ASTRAY)
