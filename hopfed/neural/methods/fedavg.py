"""FedAvg: the size-weighted mean of the participants' parameters and buffers.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hopfed.federation.aggregate import mean_tree
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.method import NeuralMethod, pack, spec_of, unpack
from hopfed.neural.training.task import Params


@dataclass(frozen=True)
class FedAvg(NeuralMethod):
    """FedAvg of McMahan et al. (2017); weights are normalised over the clients that answered.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedAvg(task, Training(way="sequential"))
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    name: ClassVar[str] = "fedavg"
    source: ClassVar[str] = "McMahan et al., AISTATS 2017"
    same_model: ClassVar[bool] = True
    shared: ClassVar[bool] = True

    def start_params(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """The global model."""
        return unpack(down) or self.loaded.initial(client)

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:
        """Send the model."""
        size = np.asarray(len(self.loaded.split.train[client]))
        return state, pack(params) | {"examples": size}

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Parameters, buffers, and the number of examples."""
        return spec_of(self.loaded.initial(0)) | {"examples": Field((), "iu")}

    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Average."""
        sizes = [float(m["examples"]) for m in messages.values()]
        models = [{n: a for n, a in m.items() if n != "examples"} for m in messages.values()]
        mean = mean_tree(models, sizes) if models else state
        return mean, {EVERYONE: mean}

    def personal(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """The global model."""
        return unpack(down) or self.loaded.initial(client)
