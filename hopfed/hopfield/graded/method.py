"""Graded classes in rounds, as a method of `hopfed.federation`.

Source: theory/NOTES.md, "Latent class channel"; what is decided here, where that is silent, is said
in `server`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hopfed.errors import DataError
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.messages import Message, Spec
from hopfed.hopfield.flat import flatten
from hopfed.hopfield.graded import client, server
from hopfed.hopfield.graded.memory import Memory
from hopfed.hopfield.graded.settings import GradedSettings
from hopfed.hopfield.liars.claims import wary
from hopfed.tables.examples import as_examples


@dataclass(frozen=True)
class GradedFederation(GradedSettings):
    """Latent classes of rows with gaps on the common contract; fields are those of the settings.

    Examples
    --------
    >>> import numpy as np
    >>> from hopfed.hopfield.batches import Batches
    >>> from hopfed.tables.examples import as_examples
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> rng = np.random.default_rng(0)
    >>> T = rng.uniform(-1, 1, (3, 60))
    >>> x = np.where(rng.random((900, 60)) < (1 + T[rng.integers(3, size=900)]) / 2, 1, -1)
    >>> x[rng.random(x.shape) < 0.2] = 0
    >>> owners = tuple(as_examples(part, gaps=True) for part in (x[:500], x[500:]))
    >>> method = GradedFederation(Batches(owners), 60)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.server_metrics["classes"], played.state.server["memory/means"].shape
    (3, (3, 60))
    """

    def server_start(self, seed: int) -> State:  # noqa: ARG002
        """State of the server before the first round."""
        return flatten(None, memory=Memory.start(self.n_sites))

    def expects(self, down: Message, context: Context) -> Spec:
        """Form of a client's answer."""
        if context.exchange and not down:
            return {}
        return client.spec(down, self.n_sites)

    def complaint(self, state: State, message: Message, context: Context) -> str | None:
        """Say why no rows of a client give this answer; None if some may."""
        if message and context.exchange and "now/clients" in state:
            claim = state["now/rows"][state["now/clients"] == context.client]
            if len(claim) and float(message["examples"]) != claim[0]:
                return f"{int(message['examples'])} examples, and {claim[0]:.0f} before"
        return client.complaint(message)

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server from the rows of this round."""
        if context.exchange and not down:  # nothing is left to ask in this round
            return state, {}, {}
        who = context.client if context.client is not None else 0
        rows = as_examples(self.source.examples(context.round, who), gaps=True, least=1)
        if rows.shape[1] != self.n_sites:
            raise DataError(f"examples have {rows.shape[1]} columns, not {self.n_sites}")
        return state, client.answer(rows, down), {}

    def server_step(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        """Answer the clients."""
        method = wary(self, len(messages), context.asked)
        return server.hear(method, state, messages, context)
