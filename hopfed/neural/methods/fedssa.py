"""FedSSA: head rows are averaged class by class, over the clients that have the class.

Source: arXiv:2312.09006, eqs. (3) to (6); theory/NOTES.md, "FedSSA head aggregation". A client
sends the rows of its head, with biases, for the classes that it has seen; the server averages each
class over its holders, eq. (3). In the next round a client blends its rows of these classes with
the server's, eq. (4), and trains its whole model, eq. (6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.settings import require
from hopfed.federation.aggregate import weighted_mean
from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.method import Client, NeuralMethod, Played, setting
from hopfed.neural.methods.lg_fedavg import require_one_head
from hopfed.neural.training.task import Params

LITERAL = 2  # largest T_stable with the literal sum


@dataclass(frozen=True)
class FedSSA(NeuralMethod, name="fedssa", source="Yi et al., IJCAI 2024"):
    """FedSSA of Yi et al. (IJCAI 2024).

    Decided here: eq. (4) as printed multiplies the rows by prod(1 + mu_t), which costs up to 39
    points with T_stable = 20, so the literal sum is refused above 2. In round 0 there is nothing to
    blend. A class that nobody held this round keeps its last global row; one that nobody ever sent
    has a zero row, which clients ignore. Clients tell once which classes they have seen. The mean
    is over the clients that answered; a client classifies with its own model after training.

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
        require_one_head(self)

    def seen(self, client: int) -> np.ndarray:
        """Classes among the client's training examples: bool (classes,)."""
        return np.bincount(self.loaded.labels_of(client), minlength=self.loaded.classes) > 0

    def mu(self, t: int) -> float:
        """Weight of the client's own rows in round t."""
        if t > self.stable or self.ablation in ("m1-a", "m2-a", "m2-b"):
            return 0.0
        return self.mu_0 * math.cos(math.pi * t / (2 * self.stable))

    def sent(self, client: Client, params: Params) -> Message:
        """Keep the model, and send the rows of the classes seen."""
        client.keep(params)
        return {"rows": np.asarray(_rows(params))[self._sent(self.seen(client.number))]}

    def play(self, state: State, session: Session) -> Played:
        """Average class by class over the clients that hold the class, eq. (3)."""
        heard = session.ask()
        if not heard:
            return state, {}, {}
        masks, parts = [self._sent(state["seen"][c]) for c in heard], []
        for mask, message in zip(masks, heard.values(), strict=True):
            parts.append(np.zeros_like(state["head"]))
            parts[-1][mask] = message["rows"]
        head = weighted_mean(parts, masks=masks, default=state["head"])
        down = {c: {"rows": head[seen]} for c, seen in enumerate(state["seen"])}
        if self.ablation in ("m1-a", "m2-a"):
            down = {EVERYONE: {"rows": head}}
        return {**state, "head": head}, down, {}

    def personal(self, client: Client, down: Message) -> Params:  # noqa: ARG002
        """The client's own model."""
        return super().begin(client, {})

    def begin(self, client: Client, down: Message) -> Params:
        """The client's own model, its head blended with the server's rows, eq. (4)."""
        params = super().begin(client, down)
        if "rows" not in down:
            return params
        head, rows = _rows(params), torch.tensor(down["rows"])
        read = torch.as_tensor(self._read(self.seen(client.number)))
        sent, now = rows.any(dim=1, keepdim=True), client.context.round
        head[read] = torch.where(sent, self.fused(head[read], rows, now), head[read])
        if "head.bias" in params:
            params |= {"head.bias": head[:, -1].clone()}
            head = head[:, :-1]
        return params | {"head.weight": head.clone()}

    def fused(self, own: Tensor, rows: Tensor, t: int) -> Tensor:
        """Blend `own` rows of a client with the server's in round t, eq. (4)."""
        mu = self.mu(t)
        total = 1 + mu if self.fusion == "normalised" else 1.0
        return mu / total * own + rows / total

    def server_start(self, seed: int) -> State:
        """The classes that clients have seen, (clients, classes), and no rows yet."""
        super().server_start(seed)
        seen = np.stack([self.seen(c) for c in range(len(self.loaded.split))])
        width = _rows(self.loaded.initial(0)).shape[1]
        return {"seen": seen, "head": np.zeros((self.loaded.classes, width), np.float32)}

    def _sent(self, seen: np.ndarray) -> np.ndarray:
        """Classes whose rows a client sends, given the classes that it has seen."""
        return np.ones_like(seen) if self.ablation in ("m1-a", "m1-b") else seen

    def _read(self, seen: np.ndarray) -> np.ndarray:
        """Classes whose rows a client receives, given the classes that it has seen."""
        return np.ones_like(seen) if self.ablation in ("m1-a", "m2-a") else seen


def _rows(params: Params) -> Tensor:
    """Return the head as one row for each class, (classes, dim + 1), with any bias last."""
    bias = [params["head.bias"][:, None]] if "head.bias" in params else []
    return torch.cat([params["head.weight"], *bias], dim=1)
