"""FedProx: FedAvg with a penalty towards the global model, ``mu / 2 |w - w_global|^2``.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.federation.messages import Message
from hopfed.neural.methods.fedavg import FedAvg
from hopfed.neural.training.losses import cross_entropy
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedProx of Li et al. (2020).

    Attributes
    ----------
    mu : strength of the penalty; 0 is FedAvg.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedProx(task, Training(way="sequential"), mu=0.1)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    mu: float = 0.01

    name: ClassVar[str] = "fedprox"
    source: ClassVar[str] = "Li et al., MLSys 2020"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.mu >= 0, "mu", "at least 0", self.mu)

    def extra(self, state: State, down: Message, client: int) -> Params:
        """The global parameters, without buffers."""
        if not self.mu:
            return {}
        known = {n for n, _ in self.loaded.model(client).named_parameters()}
        return {n: t for n, t in self.start_params(state, down, client).items() if n in known}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy and mu / 2 times the squared distance to the global model."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        loss = cross_entropy(forward(params, x)[1], y, mask)
        if not self.mu:
            return loss
        far = [((params[n] - there) ** 2).sum() for n, there in extra.items()]
        return loss + self.mu / 2 * sum(far[1:], far[0])
