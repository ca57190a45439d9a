"""The Hopfield federation as a method of `hopfed.federation`.

Source: arXiv:2603.19902, Sections 2.2 and 3; theory/NOTES.md, "Hebbian operators" and "Counting"
and "Factorisation" and "Plasticity".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hopfed import kernels
from hopfed._lib.random import derive
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.hopfield import client, server
from hopfed.hopfield.liars import impossible_messages
from hopfed.hopfield.liars.claims import wary
from hopfed.hopfield.settings import HopfieldSettings
from hopfed.kernels import PackedBits


@dataclass(frozen=True)
class HopfieldFederation(HopfieldSettings):
    """The Hopfield federation on the common contract; its fields are those of the settings.

    Examples
    --------
    >>> from hopfed.hopfield.channel import rademacher
    >>> from hopfed.hopfield.stream import ArchetypeStream
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.hopfield.encoding import Encoding
    >>> xi = rademacher(2, 100, np.random.default_rng(0))
    >>> source = ArchetypeStream(xi, np.full((1, 3, 2), 0.5), 80, 0.8, seed=0)
    >>> method = HopfieldFederation(source, Encoding(100))
    >>> played = play_round(method, None, 0, seed=0, clients=3, engine=LocalEngine())
    >>> played.server_metrics["n_detected"], len(played.state.server["memory/patterns"])
    (2, 2)
    """

    def server_start(self, seed: int) -> State:
        """State of the server before the first round, with a secret that it tells nobody.

        In a simulation it follows from the run's seed; where clients must not know it, a server
        starts from a seed of its own.
        """
        return {"secret": np.array(derive(seed, "secret of the server"))}

    def expects(self, down: Message, context: Context) -> Spec:
        """Form of a client's answer."""
        step = self.steps[context.exchange]
        if step == "operators":
            columns = Field((self.n_sites,), "iu", within="examples")
            weight = Field((), "f", least=0.0, most=1 + 1e-9)
            return {**self.encoding.spec, "columns": columns, "weight": weight}
        if step == "projections":
            return client.project_spec(down["basis"].shape[1], self.groups)
        return client.vote_spec(len(down["patterns"]), self.n_sites)

    def complaint(self, state: State, message: Message, context: Context) -> str | None:
        """Say why no examples of +-1 give this answer of a client; None if some may.

        `message` is the answer, `context` says of whom and to which exchange.
        """
        step, who = self.steps[context.exchange], context.client
        if step == "operators":
            return impossible_messages.operator_complaint(self.encoding, message, self.check)
        examples = server.claim_of(state, who)
        if step == "votes":
            return impossible_messages.votes_complaint(message, examples)
        expected = server.expected_projections(self, state, who) if self.check else None
        return impossible_messages.projections_complaint(
            message, examples, self.n_sites, expected, self.check
        )

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server from the examples of this round."""
        who = context.client if context.client is not None else 0
        step = self.steps[context.exchange]
        metrics: Metrics = {}
        if step == "operators":
            rows = client.checked(self.source.examples(context.round, who), self.n_sites)
            state, metrics = self._weigh(state, rows, down, context)
            message = self.encoding.encode(rows) | {
                "columns": kernels.column_sums(rows).astype(np.int32),
                "weight": state["plasticity"][0],
            }
            state |= {"rows": rows.words, "examples": np.array(rows.shape[0])}
        else:
            rows = PackedBits(state["rows"], self.n_sites)
            message = self._later(step, rows, down, context, who)
        if context.exchange == self.exchanges - 1:
            state = {k: v for k, v in state.items() if k not in ("rows", "examples")}
        return state, message, metrics

    def server_step(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        """Answer the clients."""
        hear = {
            "operators": server.hear_operators,
            "projections": server.hear_projections,
            "votes": server.hear_votes,
        }
        step = self.steps[context.exchange]
        # Archetypes that are found with the projections of some are those of all operators.
        heard = server.operators_of(state) if step == "projections" else messages
        method = wary(self, len(heard), context.asked)
        return hear[step](method, state, messages, context)

    def _weigh(
        self, state: State, rows: PackedBits, down: Message, context: Context
    ) -> tuple[State, Metrics]:
        """Read the plasticity off a batch, and smooth it over rounds."""
        known = client.broadcast_of(down, self.n_sites)
        reading = self.rule(rows, known, seed=context.derive("plasticity"))
        smooth = self.smoothing.step(state.get("plasticity"), reading)
        metrics = {
            "weight": float(smooth[0]),
            "reading": reading.weight,
            "agreement": reading.agreement,
            "novelty": reading.novelty,
        }
        return {**state, "plasticity": smooth}, metrics

    def _later(
        self, step: str, rows: PackedBits, down: Message, context: Context, who: int
    ) -> Message:
        if step == "projections":
            basis, seed = down["basis"].astype(np.float64), context.derive("projections")
            return client.project(rows, basis, self.groups, seed, who)
        known = client.broadcast_of(down, self.n_sites)
        return client.vote(rows, known, down["sure"])
