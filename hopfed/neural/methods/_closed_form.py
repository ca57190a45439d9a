"""Base of methods that train nothing: their models follow from sums in closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hopfed.federation.contract import State
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.faults import Fault
from hopfed.federation.messages import Message
from hopfed.neural.method import NeuralMethod
from hopfed.neural.training.task import Params


@dataclass(frozen=True)
class ClosedForm(NeuralMethod):
    """Base of methods without training: they define `client_step`, `server_step`, `classifier`."""

    def client_steps(self, calls: Sequence[Call]) -> list[Outcome]:
        """Make the steps one after the other; the error of a client is its own fault."""
        outcomes = []
        for call in calls:
            try:
                outcomes.append(Outcome(*self.client_step(call.state, call.down, call.context)))
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                outcomes.append(Outcome(fault=Fault.RAISED, reason=reason))
        return outcomes

    def start_params(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """The initial model, which nobody trains."""
        return self.loaded.initial(client)

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:  # noqa: ARG002
        """Nothing was trained."""
        return state, {}

    def answer(
        self,
        state: State,
        messages: Mapping[int, Message],  # noqa: ARG002
    ) -> tuple[State, Mapping[int, Message]]:
        """Nothing was trained."""
        return state, {}

    def personal(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """The initial model, which nobody trains."""
        return self.loaded.initial(client)
