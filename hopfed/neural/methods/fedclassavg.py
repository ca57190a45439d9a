"""FedClassAvg: LG-FedAvg with a penalty towards the global head and a contrastive loss.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.federation.messages import Message
from hopfed.neural.method import above, below
from hopfed.neural.methods.lg_fedavg import LGFedAvg
from hopfed.neural.training.losses import cross_entropy, masked_mean
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward

FAR = -1e9  # instead of minus infinity, whose gradient would be NaN


@dataclass(frozen=True)
class FedClassAvg(LGFedAvg):
    """Jang et al. (2022): ``CE + contrast SupCon + rho / 2 |head - global head|^2``.

    Differences: the paper contrasts two augmented views of every image. Here a batch has one view
    of each image, augmented if the task asks for it, and the positives of an example are the other
    examples of its class. The authors' program uses features of any norm at temperature 100, and
    the mean of squares in the penalty. Here features have norm 1, as in Khosla et al. (2020,
    arXiv:2004.11362), and squares are summed, as in FedProx. The mean of heads is weighted by the
    data sizes in both.

    Attributes
    ----------
    rho : strength of the penalty, 0.1 as in the authors' program.
    contrast : weight of the contrastive loss; if `rho` and `contrast` are 0, this is LG-FedAvg.
    temperature : temperature of the contrastive loss.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedClassAvg(task, Training(way="sequential"), contrast=0.0)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [8048, 8048]
    """

    rho: float = 0.1
    contrast: float = 1.0
    temperature: float = 0.1

    name: ClassVar[str] = "fedclassavg"
    source: ClassVar[str] = "Jang et al., ICPP 2022"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rho", "contrast"):
            require(getattr(self, name) >= 0, name, "at least 0", getattr(self, name))
        require(self.temperature > 0, "temperature", "above 0", self.temperature)

    def extra(self, state: State, down: Message, client: int) -> Params:
        """The client's head before training: the global head, once there is one."""
        return above(below(self.start_params(state, down, client), "head"), "head")

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy, contrastive loss and penalty."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        features, logits = forward(params, x)
        loss = cross_entropy(logits, y, mask)
        if self.contrast:
            loss = loss + self.contrast * supervised_contrast(features, y, mask, self.temperature)
        if self.rho:
            far = torch.stack([((params[n] - head) ** 2).sum() for n, head in extra.items()])
            loss = loss + self.rho / 2 * far.sum()
        return loss


def supervised_contrast(
    features: Tensor, y: Tensor, mask: Tensor | None, temperature: float
) -> Tensor:
    """Supervised contrastive loss of a batch, Khosla et al. (2020, arXiv:2004.11362), eq. (2).

    An example's loss is the mean of ``-log softmax(cos / temperature)`` over the other examples of
    its class; the softmax runs over all other examples. The result is the mean over all examples
    that have another example of their class, and 0 if no class has two examples.

    Parameters
    ----------
    features : (B, d).
    y : (B,) labels.
    mask : (B,) 0 on padding rows.

    Examples
    --------
    >>> z = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> supervised_contrast(z, torch.tensor([0, 0, 1]), None, 1.0)
    tensor(0.3133)
    """
    real = torch.ones_like(features[:, 0]) if mask is None else mask
    z = normalize(features, dim=-1)
    others = real[None, :] * (1 - torch.eye(len(z), dtype=z.dtype, device=z.device))
    similar = torch.where(others > 0, z @ z.T / temperature, FAR)
    log_share = similar - torch.logsumexp(similar, dim=1, keepdim=True)
    alike = others * (y[:, None] == y[None, :])
    count = alike.sum(1)
    loss = -(alike * log_share).sum(1) / count.clamp(min=1)
    return masked_mean(loss, real * (count > 0))
