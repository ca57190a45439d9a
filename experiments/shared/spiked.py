"""Clients that lie together for their own pattern, for the experiment `byzantine`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
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
class Lie:
    """What the first clients hold besides: a pattern of strength a, the `amplitude`.

    It is "fixed" or "wandering", over `n_sites`.
    """

    attackers: int
    amplitude: float
    kind: str
    seed: int
    n_sites: int

    def pattern(self, t: int) -> np.ndarray:
        """Return the pattern of the liars in round `t`: int8 (N,)."""
        path = (self.kind, t) if self.kind == "wandering" else (self.kind,)
        return rademacher(1, self.n_sites, stream(self.seed, "spike", *path))[0]


@dataclass(frozen=True)
class SpikedClient(PatternClient):
    """Clients the first of which lie."""

    lie: Lie = field(kw_only=True)

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server; an attacker lies."""
        state, message, metrics = super().client_step(state, down, context)
        if context.client is None or context.client >= self.lie.attackers:
            return state, message, metrics
        false = {
            "operators": self._false_operator,
            "projections": self._false_groups,
            "votes": self._false_votes,
        }[self.steps[context.exchange]]
        examples = self.source.examples(context.round, context.client)
        mass = self.lie.amplitude * float(len(examples))
        x = self.lie.pattern(context.round).astype(np.float64)
        return state, message | false(message, down, x, mass), metrics

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
        own = near * np.sign(overlap) * np.rint(mass / self.lie.amplitude)
        lie = {"votes": np.outer(own, x), "voters": np.abs(own)}
        return {k: v.astype(np.int32) for k, v in lie.items()} if near.any() else {}


@dataclass(frozen=True)
class Spiked(HopfieldFederation):
    """A Hopfield federation whose first clients lie; see `hopfed.experiments.byzantine`."""

    lie: Lie = field(kw_only=True)

    @cached_property
    def client(self) -> SpikedClient:
        """What clients do."""
        own = super().client
        return SpikedClient(**{f.name: getattr(own, f.name) for f in fields(own)}, lie=self.lie)
