"""Owners and methods for tests; in a module of its own, which worker processes can import."""

import os
from dataclasses import dataclass
from typing import Any

from hopfed.federation.engines import Outcome
from hopfed.hopfield.clients import PatternClient


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


class Stepped(PatternClient):
    """Steps clients together; whatever one of them raises, all are lost."""

    def client_steps(self, calls):
        return [Outcome(*self.client_step(c.state, c.down, c.context)) for c in calls]
