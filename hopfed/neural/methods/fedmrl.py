"""FedMRL: a projection of own and shared features, read by two heads of nested width.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.federation.messages import Message
from hopfed.neural.methods._auxiliary import Proxied
from hopfed.neural.models.base import Model
from hopfed.neural.models.registry import drawing
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.losses import cross_entropy
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward

__all__ = ["FedMRL"]


class Matryoshka(nn.Module):
    """A client's own and the shared model; both heads read one projection of both features.

    The projection is as long as the own features. The own head reads all of it, the shared head
    only its first coordinates.
    """

    def __init__(self, own: Model, shared: Model):
        super().__init__()
        self.own, self.shared = own, shared
        self.projector = nn.Linear(own.feature_dim + shared.feature_dim, own.feature_dim)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of the own and of the shared head, (B, classes) each."""
        both = torch.cat([self.shared.features(x), self.own.features(x)], dim=1)
        fused = self.projector(both)
        nested = fused[:, : self.shared.head.in_features]
        return self.own.head(fused), self.shared.head(nested)


class _Own(nn.Module):
    """The network as a classifier, with the logits of the own head."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)[0]
        return logits


@dataclass(frozen=True)
class FedMRL(Proxied):
    """Yi et al. (2024), Matryoshka representations; the loss is the sum of both cross-entropies.

    The small model, extractor and head, is shared. The projector stays with the client from round
    to round. The client classifies with its own head and with the small model as it last trained
    it, because the projector was trained with that copy and not with the next mean; the authors'
    programs do the same. In the paper the small model has narrower features than every client.
    Here it may have any width, because only its head must be narrow.

    Attributes
    ----------
    width : number of coordinates of the projection that the shared head reads; 0 takes the share
        `nested` of the shortest features of a client.
    nested : that share; 1 reads the whole projection of such a client, which is then not nested.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedMRL(task, Training(way="sequential"), width=8)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [1313360, 1313360]
    """

    width: int = 0
    nested: float = 0.5

    name: ClassVar[str] = "fedmrl"
    source: ClassVar[str] = "Yi et al., NeurIPS 2024"
    keeps_shared: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.width >= 0, "width", "at least 0", self.width)
        require(0 < self.nested <= 1, "nested", "in (0, 1]", self.nested)

    def server_start(self, seed: int) -> State:
        """Check the width against the models."""
        self._width()
        return super().server_start(seed)

    def wrap(self, model: Model) -> nn.Module:
        """Both models and the projector."""
        small = self.loaded.build(self.proxy, "proxy")
        with drawing(self.task.seed, "matryoshka"):
            head = nn.Linear(self._width(), self.loaded.classes)
            return Matryoshka(model, Model(small.features, head, small.feature_dim))

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Sum of both heads' cross-entropies."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        del extra
        own, shared = forward(params, x)
        return cross_entropy(own, y, mask) + cross_entropy(shared, y, mask)

    def classifier(self, state: State, down: Message, client: int) -> Classifier:
        """The own head, with the projection and the small model as last trained."""
        del down
        params = self.start_params(state, {}, client)
        return Network(_Own(self.net(client)), {f"net.{n}": t for n, t in params.items()})

    def _width(self) -> int:
        lengths = [model.feature_dim for model in self.loaded.templates.values()]
        rule = f"at most {min(lengths)}, the shortest features of a client"
        require(self.width <= min(lengths), "width", rule, self.width)
        return self.width or max(1, round(self.nested * min(lengths)))
