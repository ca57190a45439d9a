"""Who takes part in a round, who is late, who joins and leaves.

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
    rate : share of the members in each round's cohort, in (0, 1]; at least one takes part.
    late : share of the cohort whose message is delayed, in [0, 1).
    delay : longest delay in rounds; delays are uniform on 1..delay.
    joins, leaves : for each client the round it joins in, and the first it is gone in; clients
        beyond the end of a list are there from the start, and to the end.
    poisson : whether each member is in a cohort by itself, with probability `rate`, as privacy by
        subsampling wants it; a cohort may be empty, and nobody is late.

    Raises
    ------
    ArgumentError : a setting outside of its range.

    Examples
    --------
    >>> half = Participation(rate=0.5, leaves=(3,))  # client 0 is gone from round 3 on
    >>> half.cohort(1, 0, clients=4), half.members(3, clients=4)
    ([1, 2], [1, 2, 3])
    """

    rate: float = 1.0
    late: float = 0.0
    delay: int = 1
    joins: tuple[int, ...] = ()
    leaves: tuple[int, ...] = ()
    poisson: bool = False

    def __post_init__(self) -> None:
        for name in ("joins", "leaves"):
            value = getattr(self, name)
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
        check_types(self)
        require(0 < self.rate <= 1, "rate", "in (0, 1]", self.rate)
        require(0 <= self.late < 1, "late", "in [0, 1)", self.late)
        require(not (self.late and self.poisson), "late", "0 where updates are private", self.late)
        require(self.delay >= 1, "delay", "at least 1 round", self.delay)

    def members(self, t: int, clients: int) -> list[int]:
        """Clients that belong to the federation in round `t`."""
        return [
            c
            for c in range(clients)
            if not (c < len(self.joins) and t < self.joins[c])
            and not (c < len(self.leaves) and t >= self.leaves[c])
        ]

    def cohort(self, seed: int, t: int, clients: int) -> list[int]:
        """Clients that are asked in round `t`, in order; `seed` is that of the run."""
        members = self.members(t, clients)
        if self.poisson:
            taken = stream(seed, "cohort", t).random(len(members)) < self.rate
            return [c for c, there in zip(members, taken, strict=True) if there]
        count = max(1, round(self.rate * len(members))) if members else 0
        chosen = stream(seed, "cohort", t).permutation(len(members))[:count]
        return [members[i] for i in np.sort(chosen)]

    def delays(self, seed: int, t: int, clients: int) -> np.ndarray:
        """(L,) rounds by which each client's message of round `t` is late, 0 for most.

        `seed` is that of the run.
        """
        rng = stream(seed, "delay", t)
        late = rng.random(clients) < self.late
        return np.where(late, rng.integers(1, self.delay + 1, size=clients), 0)
