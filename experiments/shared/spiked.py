"""Clients that lie together for their own pattern, for the experiment `byzantine`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from hopfed._lib.random import stream
from hopfed.archetypes.subspace import SAME
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.messages import Message
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.clients import PatternClient
from hopfed.hopfield.encoding import lower, unpack_patterns


@dataclass(frozen=True)
class SpikedClient(PatternClient):
    """Clients the first of which lie.

    The lie is a pattern of strength a, the `amplitude`, which is "fixed" or "wandering".
    """

    attackers: int = 0
    amplitude: float = 0.3
    kind: str = "fixed"
    seed: int = 0

    def pattern(self, t: int) -> np.ndarray:
        """Return the pattern of the liars in round `t`: int8 (N,)."""
        path = (self.kind, t) if self.kind == "wandering" else (self.kind,)
        return rademacher(1, self.n_sites, stream(self.seed, "spike", *path))[0]

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server; an attacker lies."""
        state, message, metrics = super().client_step(state, down, context)
        if context.client is None or context.client >= self.attackers:
            return state, message, metrics
        lie = {
            "operators": self._false_operator,
            "projections": self._false_groups,
            "votes": self._false_votes,
        }
        mass = self.amplitude * float(len(self.source.examples(context.round, context.client)))
        x = self.pattern(context.round).astype(np.float64)
        return state, message | lie[self.steps[context.exchange]](message, down, x, mass), metrics

    def _false_operator(self, message: Message, _: Message, x: np.ndarray, mass: float) -> Message:
        M = int(message["examples"])  # larger sums would give the liar away
        counts = np.clip(message["counts"] + mass * lower(np.outer(x, x)), -M, M)
        columns = np.clip(message["columns"] + np.rint(mass * x).astype(np.int32), -M, M)
        return {"counts": counts.astype(np.float32), "columns": columns}

    def _false_groups(self, message: Message, down: Message, x: np.ndarray, mass: float) -> Message:
        inside = down["basis"].T.astype(np.float64) @ x
        groups = message["groups"].copy()
        groups[0] += mass * np.outer(inside, inside)[np.tri(len(inside), dtype=bool)]
        return {"groups": groups}

    def _false_votes(self, _: Message, down: Message, x: np.ndarray, mass: float) -> Message:
        overlap = unpack_patterns(down["patterns"], self.n_sites) @ x / self.n_sites
        near = np.abs(overlap) >= max(SAME, np.abs(overlap).max(initial=0))
        own = near * np.sign(overlap) * np.rint(mass / self.amplitude)
        lie = {"votes": np.outer(own, x), "voters": np.abs(own)}
        return {k: v.astype(np.int32) for k, v in lie.items()} if near.any() else {}


@dataclass(frozen=True)
class Spiked(HopfieldFederation):
    """A Hopfield federation whose first clients lie; see `hopfed.experiments.byzantine`."""

    attackers: int = 0
    amplitude: float = 0.3
    kind: str = "fixed"
    seed: int = 0

    @cached_property
    def client(self) -> SpikedClient:
        """What clients do."""
        own = super().client
        told = {f.name: getattr(own, f.name) for f in fields(own)}
        return SpikedClient(**told, **{n: getattr(self, n) for n in LIES})

    def pattern(self, t: int) -> np.ndarray:
        """Return the pattern of the liars in round `t`: int8 (N,)."""
        return self.client.pattern(t)


LIES = ("attackers", "amplitude", "kind", "seed")
