"""Which clients take part in a round, and which are late.

Source: theory/NOTES.md, "Partial participation".

Cohorts are drawn from (seed, round) and delays from (seed, round, client), so they do not depend
on the engine. A client that is late answers to what it got, and its message arrives rounds later;
until then it takes no part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require


@dataclass(frozen=True)
class Participation:
    """How clients take part.

    Attributes
    ----------
    rate : share of the clients in each round's cohort, in (0, 1]; at least one takes part.
    late : share of the cohort whose message is delayed, in [0, 1).
    delay : longest delay in rounds; delays are uniform on 1..delay.
    poisson : whether each client is in a cohort by itself, with probability `rate`, as privacy by
        subsampling wants it; a cohort may be empty, and nobody is late.

    Raises
    ------
    ArgumentError : a setting outside of its range.

    Examples
    --------
    >>> Participation(rate=0.5).cohort(1, 0, clients=4)
    [1, 2]
    """

    rate: float = 1.0
    late: float = 0.0
    delay: int = 1
    poisson: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        require(0 < self.rate <= 1, "rate", "in (0, 1]", self.rate)
        require(0 <= self.late < 1, "late", "in [0, 1)", self.late)
        require(not (self.late and self.poisson), "late", "0 where updates are private", self.late)
        require(self.delay >= 1, "delay", "at least 1 round", self.delay)

    def cohort(self, seed: int, t: int, clients: int) -> list[int]:
        """Clients that are asked in round `t`, in order; `seed` is that of the run."""
        rng = stream(seed, "cohort", t)
        if self.poisson:
            return np.flatnonzero(rng.random(clients) < self.rate).tolist()
        return sorted(rng.permutation(clients)[: max(1, round(self.rate * clients))].tolist())

    def delays(self, seed: int, t: int, clients: int) -> np.ndarray:
        """(L,) rounds by which each client's message of round `t` is late, 0 for most.

        `seed` is that of the run.
        """
        rng = stream(seed, "delay", t)
        late = rng.random(clients) < self.late
        return np.where(late, rng.integers(1, self.delay + 1, size=clients), 0)
