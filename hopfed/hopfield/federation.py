"""The Hopfield federation: clients, a channel, a policy of noise, and what the server believes.

Source: arXiv:2603.19902, Sections 2.2 and 3; theory/NOTES.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hopfed._lib.random import derive
from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.federation.rounds import Session, Step
from hopfed.hopfield.batches import Source
from hopfed.hopfield.classes import Classes
from hopfed.hopfield.clients import ClassClient, PatternClient
from hopfed.hopfield.guard import Guard
from hopfed.hopfield.noise import Noise
from hopfed.hopfield.patterns import Patterns


@dataclass(frozen=True)
class HopfieldFederation:
    """Archetypes of the rows of many clients, round after round.

    A round is one fit: sums of the clients' rows join the discounted ones of earlier rounds, and
    archetypes are found in all of them and told to everybody. `noise` hides what answers tell about
    a row, the `guard` says which of them the server believes.

    Attributes
    ----------
    source : the clients' rows of each round.
    channel : what archetypes are: `Patterns` of +-1, or `Classes` with a mean for each column.
    noise : what all answers of a round may tell about a row; None for exact sums, where clients
        trust the server.
    guard : what the server believes of its clients.

    Raises
    ------
    ArgumentError : parts of another kind.

    Examples
    --------
    >>> from hopfed.hopfield.channel import rademacher
    >>> from hopfed.hopfield.stream import ArchetypeStream
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.hopfield.encoding import Encoding
    >>> xi = rademacher(2, 100, np.random.default_rng(0))
    >>> source = ArchetypeStream(xi, np.full((1, 3, 2), 0.5), 2000, 0.7, seed=0)
    >>> exact = HopfieldFederation(source, Patterns(Encoding(100)))
    >>> private = HopfieldFederation(source, Patterns(Encoding(100)), Noise(epsilon=2.0))
    >>> for method in (exact, private):
    ...     played = play_round(method, None, 0, seed=0, clients=3, engine=LocalEngine())
    ...     played.server_metrics["n_detected"], len(played.state.server["memory/patterns"])
    (2, 2)
    (2, 2)
    """

    source: Source
    channel: Patterns | Classes
    noise: Noise | None = None
    guard: Guard = field(default_factory=Guard)

    def __post_init__(self) -> None:
        kinds = {"channel": Patterns | Classes, "noise": Noise | None, "guard": Guard}
        for name, kind in kinds.items():
            value = getattr(self, name)
            require(isinstance(value, kind), name, f"of type {kind}", repr(value))
        _ = self.client  # checks the rest

    @cached_property
    def client(self) -> PatternClient | ClassClient:
        """What clients do, which is all that they are told of the settings."""
        return self.channel.client(self.source, self.noise)

    @property
    def n_sites(self) -> int:
        """N."""
        return self.channel.n_sites

    def server_start(self, seed: int) -> State:
        """State of the server before the first round, with a secret that it tells nobody."""
        return {"secret": np.array(derive(seed, "secret of the server")), **self.channel.start()}

    def play(self, state: State, session: Session) -> Step:
        """Play a round at the server, from its `state` and with the clients of a `session`."""
        channel: Any = self.channel
        found: Step = channel.play(state, session, self.client, self.guard)
        return found
