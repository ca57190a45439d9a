"""FML: a client's own model and a small shared model learn from each other.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hopfed._lib.settings import require
from hopfed.neural.memory.store import blend
from hopfed.neural.methods._auxiliary import Proxied
from hopfed.neural.training.losses import cross_entropy
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward


@dataclass(frozen=True)
class FML(Proxied):
    """Shen et al. (2020), federated mutual learning.

    On each batch the own model minimises ``(1 - weight) CE + weight KL(p_shared || p_own)``, and
    the shared model ``(1 - weight_shared) CE + weight_shared KL(p_own || p_shared)``. No gradient
    of a KL flows into the teaching model. One optimizer steps both. Clients classify with their own
    models.

    Attributes
    ----------
    weight : weight of the KL in the loss of the own model, 1 - alpha in the paper; 0 is
        Standalone.
    weight_shared : weight of the KL in the loss of the shared model, 1 - beta in the paper.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FML(task, Training(way="sequential"))
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [1333040, 1333040]
    """

    weight: float = 0.5
    weight_shared: float = 0.5

    name: ClassVar[str] = "fml"
    source: ClassVar[str] = "Shen et al., 2020"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("weight", "weight_shared"):
            value = getattr(self, name)
            require(0 <= value <= 1, name, "in [0, 1]", value)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Sum of the losses of both models."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        del extra
        (_, own), (_, shared) = forward(params, x)

        def loss(logits: Tensor, teacher: Tensor, weight: float) -> Tensor:
            labels = cross_entropy(logits, y, mask)
            taught = batch.divergence(logits, teacher)
            return blend(labels, taught, weight) if weight else labels

        return loss(own, shared, self.weight) + loss(shared, own, self.weight_shared)
