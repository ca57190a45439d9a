"""FedAvg+: FedAvg, then a few epochs on a client's own examples before it classifies.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.federation.messages import Message
from hopfed.neural.method import NeuralMethod
from hopfed.neural.methods.fedavg import FedAvg
from hopfed.neural.training.stacked_or_not import train
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Job


@dataclass(frozen=True)
class FedAvgPlus(FedAvg):
    """FedAvg with fine-tuning; the fine-tuned model stays with the client.

    The FLOPs of fine-tuning count in every round in which the client takes part, because a round is
    scored with the fine-tuned model.

    Attributes
    ----------
    tune : epochs of fine-tuning.
    capacity : share of a client's training examples that it is tuned on, the first in random order,
        at least one.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedAvgPlus(task, Training(way="sequential"), tune=2)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    tune: int = 1
    capacity: float = 1.0

    name: ClassVar[str] = "fedavg+"
    source: ClassVar[str] = "Jiang et al., 2019"
    shared: ClassVar[bool] = False
    reads: ClassVar[type[NeuralMethod] | None] = FedAvg

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.tune >= 0, "tune", "at least 0", self.tune)
        require(0 < self.capacity <= 1, "capacity", "in (0, 1]", self.capacity)

    def reading_flops(self, client: int) -> float:
        """FLOPs of fine-tuning."""
        job = self._tuning(self.loaded.initial(client), client)
        return self.tune * len(job.rows) * self._flops(job, client, 0)

    def personal(self, state: State, down: Message, client: int) -> Params:
        """The global model, fine-tuned."""
        job = self._tuning(super().personal(state, down, client), client)
        settings = replace(self.training, epochs=self.tune, way="sequential")
        train([job], self.loaded.tensors, settings, self.objective, self.loaded.augment)
        return job.params

    def _tuning(self, params: Params, client: int) -> Job:
        path = (self.task.seed, "tune", client)
        rows = self.loaded.split.train[client]
        if self.capacity < 1 and len(rows):
            kept = max(1, round(self.capacity * len(rows)))
            seen = stream(self.task.seed, "arrival", client).permutation(len(rows))
            rows = rows[np.sort(seen[:kept])]
        return Job(self.net(client), params, rows, path)
