"""pFedES: a small shared extractor before each client's model; the two are trained alternately.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.neural.methods._auxiliary import Auxiliary
from hopfed.neural.models.base import Model
from hopfed.neural.models.registry import drawing
from hopfed.neural.training.losses import cross_entropy
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward, Phase

__all__ = ["PFedES"]


class Preceded(nn.Module):
    """A model, and an optional extractor before it from images to images of the same size."""

    def __init__(self, own: Model, shared: nn.Module):
        super().__init__()
        self.own, self.shared = own, shared

    def forward(self, x: Tensor, extracted: bool) -> Tensor:
        """Return the model's logits (B, classes) of the images or of the extracted images."""
        logits: Tensor = self.own(self.shared(x) if extracted else x)
        return logits


@dataclass(frozen=True)
class PFedES(Auxiliary):
    """Proxy extractor sharing of Yi et al. (2025), with the details of the authors' program.

    The extractor G has two 3 x 3 convolutions, each with ReLU, from the image's channels to
    `kernels` and back. A round has two phases. With G frozen, the model F minimises
    ``(1 - mu) CE(F(x)) + mu CE(F(G(x)))``. With F frozen, G minimises ``CE(F(G(x)))``. The server
    takes the size-weighted mean of G. A client classifies with F alone. If F has batch norms, their
    running statistics are those of plain images.

    Attributes
    ----------
    mu : weight of the extracted images in the loss of the model; 0 is Standalone.
    kernels : number of channels between the two convolutions.
    turns : epochs of the second phase; 0 means as many as the first (the program has 10 more).

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = PFedES(task, Training(way="sequential"))
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [620, 620]
    """

    mu: float = 0.5
    kernels: int = 8
    turns: int = 0

    name: ClassVar[str] = "pfedes"
    source: ClassVar[str] = "Yi et al., AAAI 2025 (from the description and the authors' program)"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.mu <= 1, "mu", "in [0, 1]", self.mu)
        require(self.kernels >= 1, "kernels", "at least 1", self.kernels)
        require(self.turns >= 0, "turns", "at least 0", self.turns)

    def server_start(self, seed: int) -> State:
        """Raise ArgumentError if the data are not images."""
        data = self.loaded.split.dataset
        require(data.is_images, "data", "images for pfedes", self.task.data)
        return super().server_start(seed)

    def wrap(self, model: Model) -> nn.Module:
        """The model and the extractor before it."""
        channels = self.loaded.split.dataset.shape[0]
        with drawing(self.task.seed, "extractor"):
            shared = nn.Sequential(
                nn.Conv2d(channels, self.kernels, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(self.kernels, channels, 3, padding=1),
                nn.ReLU(),
            )
        return Preceded(model, shared)

    def phases(self) -> tuple[Phase, ...]:
        """The model, then the extractor."""
        epochs = self.training.epochs
        return (
            Phase(epochs, self.objective, frozen=("shared.",)),
            Phase(self.turns or epochs, self.through, frozen=("own.",)),
        )

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Loss of the model on the images and on the extracted images."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        plain = cross_entropy(forward(params, x, False), y, mask)
        if not self.mu:
            return plain
        return (1 - self.mu) * plain + self.mu * self.through(net, batch)

    def through(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy on the extracted images."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        del extra
        buffers = {f"own.{n}" for m in self.loaded.templates.values() for n, _ in m.named_buffers()}
        own = {n: params[n].clone() for n in buffers & params.keys()}
        return cross_entropy(forward(params | own, x, True), y, mask)
