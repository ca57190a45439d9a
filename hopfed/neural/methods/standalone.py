"""Standalone: every client trains only on its own examples; the lower baseline of every table.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hopfed.federation.contract import Context, State
from hopfed.federation.messages import Message, Spec
from hopfed.neural.method import NeuralMethod, pack, unpack
from hopfed.neural.training.task import Params


@dataclass(frozen=True)
class Standalone(NeuralMethod):
    """Training without any exchange; also called IND and Local.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = Standalone(task, Training(way="sequential"))
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [0, 0]
    """

    name: ClassVar[str] = "standalone"
    source: ClassVar[str] = "baseline"

    def start_params(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """The client's model after its last training."""
        return unpack(state) or self.initial(client)

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:  # noqa: ARG002
        """Keep the model; send nothing."""
        return pack(params), {}

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Nothing."""
        return {}

    def answer(
        self,
        state: State,
        messages: Mapping[int, Message],  # noqa: ARG002
    ) -> tuple[State, Mapping[int, Message]]:
        """Nothing."""
        return state, {}

    def personal(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """Its own model."""
        return unpack(state) or self.loaded.initial(client)
