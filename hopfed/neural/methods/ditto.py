"""Ditto: FedAvg, and for each client a personal model with a penalty on the distance to FedAvg's.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.federation.messages import Message
from hopfed.neural.method import above, below, unpack
from hopfed.neural.methods._auxiliary import Auxiliary
from hopfed.neural.model_pair import Pair
from hopfed.neural.models.base import Model
from hopfed.neural.training.losses import cross_entropy
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward


@dataclass(frozen=True)
class Ditto(Auxiliary):
    """Li et al. (2021): each client keeps ``v = argmin CE(v) + lam / 2 |v - w|^2``.

    v is the personal model; w is the global model that the client received, before this round's
    training and averaging. Both models see the same batches, and their gradients are independent:
    the global model equals FedAvg's bit for bit, and with ``lam = 0`` the personal model equals
    Standalone's.

    Decided here: the personal model is trained for as many epochs as the global one. It starts as
    the first global model that the client receives. A client that never took part trains a personal
    model from the global one for the epochs of one round.

    Attributes
    ----------
    lam : strength of the penalty.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = Ditto(task, Training(way="sequential"), lam=0.5)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    lam: float = 1.0

    name: ClassVar[str] = "ditto"
    source: ClassVar[str] = "Li et al., ICML 2021"
    same_model: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.lam >= 0, "lam", "at least 0", self.lam)

    def wrap(self, model: Model) -> nn.Module:
        """Two models that start from the same weights."""
        return Pair(deepcopy(model), deepcopy(model))

    def start_params(self, state: State, down: Message, client: int) -> Params:
        """Its personal model and the global one."""
        found = super().start_params(state, down, client)
        return found if state else found | above(below(found, "shared"), "own")

    def extra(self, state: State, down: Message, client: int) -> Params:
        """Weights of the global model that the client received."""
        received = below(self.start_params(state, down, client), "shared")
        return {n: received[n] for n, _ in self.loaded.model(client).named_parameters()}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy of both models, and lam / 2 times their squared distance."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        (_, own), (_, shared) = forward(params, x)
        loss = cross_entropy(own, y, mask) + cross_entropy(shared, y, mask)
        if not self.lam:
            return loss
        far = [((params[f"own.{n}"] - w) ** 2).sum() for n, w in extra.items()]
        return loss + self.lam / 2 * sum(far[1:], far[0])

    def personal(self, state: State, down: Message, client: int) -> Params:
        """Its personal model."""
        return below(unpack(self.after_one_round(state, down, client)), "own")
