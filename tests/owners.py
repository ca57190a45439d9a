"""Owners and methods for tests; in a module of its own, which worker processes can import."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from federations import of_patterns

from hopfed.federation.contract import Outcome
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.clients import PatternClient
from hopfed.hopfield.example_sources import ArchetypeStream
from hopfed.hopfield.plasticity import Structure


@dataclass(frozen=True)
class Moody:
    """A source of examples one of whose owners dies or raises."""

    stream: Any
    client: int
    mood: str

    def examples(self, t, client):
        if client == self.client and t == 0:
            if self.mood == "die":
                os._exit(3)
            raise OSError("the disk is gone")
        return self.stream.examples(t, client)


def federation(mood=None, seed=0):
    """A federation of four owners, of which the third is in a mood."""
    xi = rademacher(3, 120, np.random.default_rng(seed))
    source = ArchetypeStream(xi, np.full((4, 4, 3), 1 / 3), 100, 0.8, seed)
    source = source if mood is None else Moody(source, 2, mood)
    return of_patterns(source, 120, rule=Structure(), ema=0.5)


class Stepped(PatternClient):
    """Steps clients together; whatever one of them raises, all are lost."""

    def client_steps(self, calls):
        return [Outcome(*self.client_step(c.state, c.down, c.context)) for c in calls]
