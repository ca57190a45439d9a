"""Methods that average the head and keep bodies local.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from hopfed._lib.settings import require
from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.averaged import Averaged
from hopfed.neural.method import Client, NeuralMethod, Played, above, below, pack, setting, unpack
from hopfed.neural.training.losses import Batch, Net, masked_mean, squared_distance
from hopfed.neural.training.task import Params

__all__ = ["FedClassAvg", "LGFedAvg"]

FAR = -1e9  # instead of minus infinity, whose gradient would be NaN


@dataclass(frozen=True)
class LGFedAvg(
    Averaged,
    name="lg-fedavg",
    source="Liang et al., 2020",
    opens="head.",
    averages=True,
    by_record=True,
):
    """Liang et al. (2020); the shared part is the last layer.

    A participant replaces its head by the latest mean of heads, trains its whole model, and sends
    the head: ``classes (dim + 1)`` numbers each way. It also sends its number of examples if
    `weights` is "size".

    Attributes
    ----------
    weights : weights of the mean: "size", as in the paper, or "equal".
    scored : model with which a client classifies: "local" is its model after training, as FedSSA's
        paper states for all methods that it compares; "global" is its body with the latest mean
        head, as in the authors' program.
    """

    weights: str = setting("size", ("size", "equal"))
    scored: str = setting("local", ("local", "global"))

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_head(self)

    def fetches(self, known: bool) -> bool:  # noqa: ARG002
        """The global head is scored only where `scored` says so."""
        return self.scored == "global"

    def begin(self, client: Client, down: Message) -> Params:
        """The client's own body and the global head."""
        return super().begin(client, down) | above(unpack(down, "head"), "head")

    def sent(self, client: Client, params: Params) -> Message:
        """Keep the model and send its head."""
        client.keep(params)
        size = client.size if self.weights == "size" else {}
        return pack(below(params, "head"), "head") | size

    def play(self, state: State, session: Session) -> Played:
        """Average the heads."""
        heard = session.ask()
        if not heard and not self.noise:
            return state, {}, {}
        mean = self.average(heard, state, session, sized=self.weights == "size")
        return mean, {EVERYONE: mean}, {}

    def personal(self, client: Client, down: Message) -> Params:
        """The client's own model; with `scored` "global" it has the global head."""
        return self.begin(client, down if self.scored == "global" else {})


def require_one_head(method: NeuralMethod) -> None:
    """Raise ArgumentError if the heads of the clients' models have different shapes."""
    inputs = {name: model.head.in_features for name, model in method.loaded.templates.items()}
    got = ", ".join(f"{name} {width}" for name, width in inputs.items())
    rule = f"of one feature dimension for {method.name}, which shares the head"
    require(len(set(inputs.values())) == 1, "models", rule, got)


@dataclass(frozen=True)
class FedClassAvg(LGFedAvg, name="fedclassavg", source="Jang et al., ICPP 2022"):
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
    """

    rho: float = setting(0.1, "at least 0")
    contrast: float = setting(1.0, "at least 0")
    temperature: float = setting(0.1, "above 0")

    def extra(self, client: Client, first: Params, down: Message) -> Params:  # noqa: ARG002
        """The global head."""
        return above(below(first, "head"), "head")

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy, contrastive loss and penalty."""
        features, logits = net(batch.x)
        loss = batch.cross_entropy(logits)
        if self.contrast:
            contrast = supervised_contrast(features, batch.y, batch.mask, self.temperature)
            loss = loss + self.contrast * contrast
        return loss + self.rho / 2 * squared_distance(net.params, batch.extra) if self.rho else loss


def supervised_contrast(
    features: Tensor, y: Tensor, mask: Tensor | None, temperature: float
) -> Tensor:
    """Supervised contrastive loss of a batch, Khosla et al. (2020, arXiv:2004.11362), eq. (2).

    The mean over all examples that have another one of their class; 0 if there are none.
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
