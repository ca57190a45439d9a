"""Methods that average heads and keep bodies local: whole heads, or their rows by class in FedSSA.

Source: theory/NOTES.md, "Baselines", "FedSSA head aggregation"; arXiv:2312.09006, eqs. (3) to (6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from hopfed._lib.settings import require
from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.averaged import Averaged, mean_of_holders
from hopfed.neural.method import Client, NeuralMethod, Played, setting
from hopfed.neural.training.losses import Batch, Net, masked_mean, squared_distance
from hopfed.neural.training.task import Params

__all__ = ["FedClassAvg", "FedSSA", "LGFedAvg"]

LITERAL = 2  # largest T_stable of FedSSA with the literal sum
FAR = -1e9  # instead of minus infinity, whose gradient would be NaN


@dataclass(frozen=True)
class LGFedAvg(
    Averaged,
    name="lg-fedavg",
    source="Liang et al., 2020",
    shares="head.",
    keeps=True,
    one_head=True,
    by_record=True,
):
    """Liang et al. (2020): heads are averaged, bodies stay local; the head is the last layer.

    Attributes
    ----------
    weights : weights of the mean: "size", as in the paper, or "equal".
    scored : model with which a client classifies: "local" is its model after training, as FedSSA's
        paper states for all methods that it compares; "global" is its body with the latest mean
        head, as in the authors' program.
    """

    weights: str = setting("size", ("size", "equal"))
    scored: str = setting("local", ("local", "global"))

    def fetches(self, known: bool) -> bool:
        return self.scored == "global"

    def sent(self, client: Client, params: Params) -> Message:
        message = super().sent(client, params)
        return {n: a for n, a in message.items() if n != "examples" or self.weights == "size"}

    def personal(self, client: Client, down: Message) -> Params:
        return self.begin(client, down if self.scored == "global" else {})


@dataclass(frozen=True)
class FedClassAvg(LGFedAvg, name="fedclassavg", source="Jang et al., ICPP 2022"):
    """Jang et al. (2022): ``CE + contrast SupCon + rho / 2 |head - global head|^2``.

    Differences: the paper contrasts two augmented views of every image; here a batch has one view,
    and the positives of an example are the others of its class. The authors' program uses features
    of any norm at temperature 100, and the mean of squares in the penalty; here features have norm
    1, as in Khosla et al. (2020, arXiv:2004.11362), and squares are summed.

    Attributes
    ----------
    rho : strength of the penalty, 0.1 as in the authors' program.
    contrast : weight of the contrastive loss; if `rho` and `contrast` are 0, this is LG-FedAvg.
    temperature : temperature of the contrastive loss.
    """

    rho: float = setting(0.1, "at least 0")
    contrast: float = setting(1.0, "at least 0")
    temperature: float = setting(0.1, "above 0")

    def extra(self, client: Client, first: Params, down: Message) -> Params:
        return {n: t for n, t in first.items() if n.startswith("head.")}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        features, logits = net(batch.x)
        contrast = supervised_contrast(features, batch.y, batch.mask, self.temperature)
        far = squared_distance(net.params, batch.extra)
        return batch.cross_entropy(logits) + self.contrast * contrast + self.rho / 2 * far


def supervised_contrast(
    features: Tensor, y: Tensor, mask: Tensor | None, temperature: float
) -> Tensor:
    """Khosla et al. (2020), eq. (2): the mean over examples with another of their class; or 0."""
    real = torch.ones_like(features[:, 0]) if mask is None else mask
    z = normalize(features, dim=-1)
    others = real[None, :] * (1 - torch.eye(len(z), dtype=z.dtype, device=z.device))
    similar = torch.where(others > 0, z @ z.T / temperature, FAR)
    log_share = similar - torch.logsumexp(similar, dim=1, keepdim=True)
    alike = others * (y[:, None] == y[None, :])
    count = alike.sum(1)
    loss = -(alike * log_share).sum(1) / count.clamp(min=1)
    return masked_mean(loss, real * (count > 0))


@dataclass(frozen=True)
class FedSSA(NeuralMethod, name="fedssa", source="Yi et al., IJCAI 2024", one_head=True):
    """FedSSA of Yi et al. (IJCAI 2024): head rows are averaged class by class, over their holders.

    A client sends the rows of its head, with biases, for the classes s that it has seen; the server
    averages each over its holders, ``theta^s = mean_k theta_k^s``, eq. (3). In the next round a
    client blends, ``theta_k^s <- theta^s + mu_t theta_k^s``, eq. (4), and trains its whole model,
    eq. (6).

    Decided here: eq. (4) as printed multiplies the rows by prod(1 + mu_t), which costs up to 39
    points with T_stable = 20, so the literal sum is refused above 2. A class that nobody held this
    round keeps its last global row; one that nobody ever sent has a zero row, which clients ignore.
    Clients tell once which classes they have seen. The mean is over the clients that answered; a
    client classifies with its own model after training.

    Attributes
    ----------
    fusion : "literal", eq. (4), or "normalised", eq. (4) divided by ``1 + mu_t``.
    mu_0 : in [0, 1]; ``mu_t = mu_0 cos(pi t / (2 T_stable))`` until round T_stable, then 0.
    stable : T_stable in rounds, at most 2 with "literal".
    ablation : "" is the full method. Without aggregation by class all rows are sent and averaged:
        "m1-a" is LG-FedAvg, "m1-b" LG-FedAvg with blending. Without blending the whole global head
        replaces the client's, "m2-a", or its rows of seen classes do, "m2-b".
    """

    fusion: str = setting("literal", ("literal", "normalised"))
    mu_0: float = setting(0.5, "in [0, 1]")
    stable: int = setting(2, "at least 1")
    ablation: str = setting("", ("", "m1-a", "m1-b", "m2-a", "m2-b"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "ablation", self.ablation.lower())  # the paper has capitals
        super().__post_init__()
        rule = f"at most {LITERAL} with the literal sum, which grows the head: try normalised"
        require(self.fusion != "literal" or self.stable <= LITERAL, "stable", rule, self.stable)

    def seen(self, client: int) -> np.ndarray:
        """Classes among the client's training examples: bool (classes,)."""
        return np.bincount(self.loaded.labels_of(client), minlength=self.loaded.classes) > 0

    def mu(self, t: int) -> float:
        """Weight of the client's own rows in round t."""
        if t > self.stable or self.ablation in ("m1-a", "m2-a", "m2-b"):
            return 0.0
        return self.mu_0 * math.cos(math.pi * t / (2 * self.stable))

    def sent(self, client: Client, params: Params) -> Message:
        super().sent(client, params)
        held = self.or_all(self.seen(client.number), "m1-a", "m1-b")
        return {"rows": np.asarray(_rows(params))[held]}

    def play(self, state: State, session: Session) -> Played:
        heard = session.ask()
        if not heard:
            return state, {}, {}
        held = [self.or_all(state["seen"][c], "m1-a", "m1-b") for c in heard]
        head = mean_of_holders([m["rows"] for m in heard.values()], held, state["head"])  # eq. (3)
        down = {c: {"rows": head[seen]} for c, seen in enumerate(state["seen"])}
        if self.ablation in ("m1-a", "m2-a"):
            down = {EVERYONE: {"rows": head}}
        return state | {"head": head}, down, {}

    def begin(self, client: Client, down: Message) -> Params:
        params = super().begin(client, down)
        if "rows" not in down:
            return params
        head, rows = _rows(params), torch.tensor(down["rows"])
        read = torch.as_tensor(self.or_all(self.seen(client.number), "m1-a", "m2-a"))
        mu, sent = self.mu(client.context.round), rows.any(dim=1, keepdim=True)
        total = 1 + mu if self.fusion == "normalised" else 1.0
        blend = mu / total * head[read] + rows / total  # eq. (4)
        head[read] = torch.where(sent, blend, head[read])
        if "head.bias" in params:
            params |= {"head.bias": head[:, -1].clone()}
            head = head[:, :-1]
        return params | {"head.weight": head.clone()}

    def server_start(self, seed: int) -> State:
        """The classes that clients have seen, (clients, classes), and no rows yet."""
        super().server_start(seed)
        seen = np.stack([self.seen(c) for c in range(len(self.loaded.split))])
        width = _rows(self.loaded.initial(0)).shape[1]
        return {"seen": seen, "head": np.zeros((self.loaded.classes, width), np.float32)}

    def or_all(self, seen: np.ndarray, *ablations: str) -> np.ndarray:
        """Return the classes `seen`; in some ablations all."""
        return seen | (self.ablation in ablations)


def _rows(params: Params) -> Tensor:
    """Return the head as one row for each class, (classes, dim + 1), with any bias last."""
    bias = [params["head.bias"][:, None]] if "head.bias" in params else []
    return torch.cat([params["head.weight"], *bias], dim=1)
