"""APFL: each client mixes the weights of a local and the global model, and learns the proportion.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.federation.messages import Message
from hopfed.neural.memory.store import blend
from hopfed.neural.method import above, below, unpack
from hopfed.neural.methods._auxiliary import Auxiliary
from hopfed.neural.model_pair import Pair
from hopfed.neural.models.base import Model
from hopfed.neural.training.losses import cross_entropy
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward, Phase

__all__ = ["APFL"]


class Mixture(Pair):
    """A local and a shared model, and the weight ``alpha`` (1,) of the local one."""

    def __init__(self, own: Model, shared: Model, alpha: float):
        super().__init__(own, shared)
        self.alpha = nn.Parameter(torch.full((1,), float(alpha)))


@dataclass(frozen=True)
class APFL(Auxiliary):
    """Deng et al. (2020): a client classifies by ``alpha v + (1 - alpha) w``.

    v is the local model, w the global one. On each batch, w takes FedAvg's step. v steps along the
    gradient of the mixture's loss, which is alpha times the mixture's gradient. alpha steps along
    ``<v - w, gradient of the mixture>``. All three use the values before the step. The server
    averages w; v and alpha stay with the client.

    Decided here: alpha is updated on every batch by the same optimizer, with momentum and weight
    decay, and is clipped to [0, 1] where it is used. v starts as the first global model that the
    client receives. Running statistics of a norm are those of the mixture. A client that never took
    part trains v and alpha for the epochs of one round.

    Attributes
    ----------
    alpha : initial weight of the local model.
    learn : whether alpha is learned. If not, 0 is FedAvg and 1 is Standalone, bit for bit.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = APFL(task, Training(way="sequential"), alpha=0.25)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    alpha: float = 0.5
    learn: bool = True

    name: ClassVar[str] = "apfl"
    source: ClassVar[str] = "Deng et al., 2020"
    same_model: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.alpha <= 1, "alpha", "in [0, 1]", self.alpha)

    def wrap(self, model: Model) -> nn.Module:
        """Two models that start from the same weights, and alpha."""
        return Mixture(deepcopy(model), deepcopy(model), self.alpha)

    def phases(self) -> tuple[Phase, ...]:
        """One phase, in which both models and alpha are trained together."""
        return (Phase(self.training.epochs, self.objective, () if self.learn else ("alpha",)),)

    def start_params(self, state: State, down: Message, client: int) -> Params:
        """Its local model, the global one and alpha."""
        found = super().start_params(state, down, client)
        return found if state else found | above(below(found, "shared"), "own")

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy of the global model plus that of the mixture, which does not train w."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        del extra
        raw = params["alpha"]
        alpha = raw + (raw.clamp(0, 1) - raw).detach()  # clipped, but with gradient 1
        own, shared = below(params, "own"), below(params, "shared")
        mixture = self.mixture(own, {n: w.detach() for n, w in shared.items()}, alpha)
        (_, mixed), (_, alone) = forward({**params, **above(mixture, "own")}, x)
        return cross_entropy(alone, y, mask) + cross_entropy(mixed, y, mask)

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:
        """Keep the local model and alpha, send the global one."""
        return super().finish(state, {**params, "alpha": params["alpha"].clamp(0, 1)}, client)

    def personal(self, state: State, down: Message, client: int) -> Params:
        """The mixture."""
        kept = unpack(self.after_one_round(state, down, client))
        shared = below(self.start_params({}, down, client), "shared")
        return self.mixture(below(kept, "own"), shared, kept["alpha"])

    def mixture(self, own: Params, shared: Params, alpha: Tensor) -> Params:
        """Return ``alpha v + (1 - alpha) w`` of the weights; buffers are those of v."""
        weights = dict(self.loaded.model(0).named_parameters())
        return {n: blend(shared[n], v, alpha) if n in weights else v for n, v in own.items()}
