"""Standalone with a learned vector added to the features: the control in SoHip's tables.

Source: theory/NOTES.md, "SoHip with a linear head".

After training, SoHip's memory for all examples (arXiv:2603.25614) is a constant added to the
features. Any gain must come from training with this constant. Here the constant is a parameter that
starts at zero, without memory, gates or exchange.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.federation.messages import Message
from hopfed.neural.memory.recall import HEADS, Scorer, Shifted
from hopfed.neural.method import below
from hopfed.neural.methods.standalone import Standalone
from hopfed.neural.models.base import Model
from hopfed.neural.training.evaluation import Classifier
from hopfed.neural.training.task import Params


@dataclass(frozen=True)
class StandaloneBias(Standalone):
    """Training with a learned vector and without exchange; a control, proposed here.

    Attributes
    ----------
    head : "linear", or "mlp" with a hidden layer before the classes, as in SoHip.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = StandaloneBias(task, Training(way="sequential"))
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [0, 0]
    """

    head: str = "linear"

    name: ClassVar[str] = "standalone-bias"
    source: ClassVar[str] = "control, proposed here"

    def __post_init__(self) -> None:
        super().__post_init__()
        known = ", ".join(HEADS)
        require(self.head in HEADS, "head", f"one of {known}", repr(self.head))

    def wrap(self, model: Model) -> nn.Module:
        """The model with the vector added to its features."""
        return Shifted(model, self.head, self.task.seed)

    def personal(self, state: State, down: Message, client: int) -> Params:
        """The client's model without the vector."""
        return below(self.start_params(state, down, client), "model")

    def classifier(self, state: State, down: Message, client: int) -> Classifier:
        """The model with the vector."""
        return Scorer(self.net(client), self.start_params(state, down, client))
