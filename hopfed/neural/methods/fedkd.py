"""FedKD: mutual distillation with adaptive weights; updates are compressed by an SVD.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from hopfed._lib.settings import require
from hopfed.federation.aggregate import mean_tree
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.engines import Call
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.lowrank import expanded, form, truncated
from hopfed.neural.method import above, unpack
from hopfed.neural.methods._auxiliary import Proxied
from hopfed.neural.model_pair import Pair
from hopfed.neural.models.base import Model
from hopfed.neural.training.losses import cross_entropy, masked_mean
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward

__all__ = ["FedKD"]

LEAST = 0.1  # lower bound of the divisor CE_own + CE_shared


class Matched(Pair):
    """A pair of models, and the map W_h (own d, shared d) from shared features to own features.

    W_h starts as the identity on the coordinates that both models have.
    """

    def __init__(self, own: Model, shared: Model):
        super().__init__(own, shared)
        self.match = nn.Parameter(torch.eye(own.feature_dim, shared.feature_dim))

    def forward(self, x: Tensor) -> Any:
        """Return (features, logits) of the own and of the shared model, the latter's mapped."""
        own, (features, logits) = super().forward(x)
        return own, (functional.linear(features, self.match), logits)


@dataclass(frozen=True)
class FedKD(Proxied):
    """Wu et al. (2022): a local mentor and a small shared mentee.

    Each model minimises ``CE + weight (KL + MSE) / (CE_own + CE_shared)``. KL is the divergence of
    its outputs from those of the other model. MSE is the mean squared distance between the own
    features and the shared features mapped by W_h, a matrix that stays with the client. No gradient
    flows into the outputs of the teaching model or into the divisor; W_h is trained with the
    mentee. The divisor is at least 0.1. The paper has no bound, but then a client that fits its
    examples divides by almost 0 (five one-class clients on digits, ten epochs at lr 0.05: 3 of 40
    client rounds ended in NaN without a bound, 2 with 0.01, none with 0.1).

    Clients and server send updates, not models. Each tensor with two axes or more is a matrix
    (first axis, all other axes); it is truncated to its leading singular directions that hold the
    share `energy` of its squares, at least one. A client sends the update of its training. The
    server truncates the size-weighted mean of the updates, sends it, and applies exactly this to
    its own model, so that server and clients hold equal models. A client that missed a broadcast
    cannot use the next one; it gets the whole model. The share rises linearly from `start` in the
    first round to `end` in the last; the server counts only rounds with at least one message.

    Attributes
    ----------
    weight : weight of distillation; 0 is Standalone.
    start, end : share of the squares that is kept in the first and in the last round.
    rounds : number of rounds over which the share rises.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedKD(task, Training(way="sequential"), start=0.5)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> bool(max(played.traffic.up) < 220_848 // 10)  # bytes, beside what FedAvg sends
    True
    """

    weight: float = 1.0
    start: float = 0.95
    end: float = 0.98
    rounds: int = 20

    name: ClassVar[str] = "fedkd"
    source: ClassVar[str] = "Wu et al., Nature Communications 2022"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.weight >= 0, "weight", "at least 0", self.weight)
        for name in ("start", "end"):
            value = getattr(self, name)
            require(0 < value <= 1, name, "in (0, 1]", value)
        require(self.rounds >= 1, "rounds", "at least 1", self.rounds)

    def energy(self, round_: int) -> float:
        """Share of the squares that is kept in round `round_`, counted from 0."""
        passed = min(round_ / max(self.rounds - 1, 1), 1.0)
        return self.start + passed * (self.end - self.start)

    def wrap(self, model: Model) -> nn.Module:
        """A pair and the map between their features."""
        return Matched(model, self.loaded.build(self.proxy, "proxy"))

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Sum of the losses of both models."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        del extra
        (mentor, own), (mentee, shared) = forward(params, x)
        loss = cross_entropy(own, y, mask) + cross_entropy(shared, y, mask)
        if not self.weight:
            return loss

        def lesson(features: Tensor, logits: Tensor, other: Tensor, teacher: Tensor) -> Tensor:
            far = ((features - other.detach()) ** 2).mean(dim=1)
            return batch.divergence(logits, teacher) + masked_mean(far, mask)

        lessons = lesson(mentor, own, mentee, shared) + lesson(mentee, shared, mentor, own)
        return loss + self.weight * lessons / loss.detach().clamp(min=LEAST)

    def start_params(self, state: State, down: Message, client: int) -> Params:
        """Return the client's own parts, and the server's shared model."""
        shared = unpack(_under("model", self._received(state, down)))
        return self.initial(client) | unpack(state) | above(shared, "shared")

    def finish_at(self, call: Call, params: Params) -> tuple[State, Message]:
        """Send the update of the shared model and its version; keep the own parts and the base."""
        state, whole = super().finish_at(call, params)
        base = self._received(call.state, call.down)
        version = np.asarray(call.down.get("version", 0))
        update = {n: whole[f"model/{n}"] - array for n, array in base.items()}
        message = _under("update", truncated(update, self.energy(int(version))))
        message |= {"version": version, "examples": whole["examples"]}
        return state | _under("base", base), message

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """The truncated update, the version that it updates, and the number of examples."""
        one = Field((), "iu")
        return _under("update", form(self._first())) | {"version": one, "examples": one}

    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Add the truncated mean of the updates to the model."""
        if not messages:
            return state, {}
        version = int(state.get("version", 0))
        model = _inside("model", state) or self._first()
        updates = [expanded(_inside("update", m), model) for m in messages.values()]
        mean = mean_tree(updates, [float(m["examples"]) for m in messages.values()])
        sent = truncated(mean, self.energy(version))
        moved = expanded(sent, model)
        new = {"version": np.asarray(version + 1)}
        whole = new | _under("model", {n: array + moved[n] for n, array in model.items()})
        step = new | _under("update", sent)
        current = [c for c, m in messages.items() if int(m["version"]) == version]
        return whole, {EVERYONE: whole} | dict.fromkeys(current, step)

    def _received(self, state: State, down: Message) -> dict[str, np.ndarray]:
        """Reconstruct the server's shared model from a message to the client."""
        if "version" not in down:
            return self._first()
        step = _inside("update", down)
        if not step:
            return _inside("model", down)
        base = _inside("base", state)
        moved = expanded(step, base)
        return {n: array + moved[n] for n, array in base.items()}

    def _first(self) -> dict[str, np.ndarray]:
        return {n: np.asarray(t) for n, t in self.first.items()}


def _under(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def _inside(prefix: str, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    start = prefix + "/"
    found = {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}
    return {name: np.asarray(array) for name, array in found.items()}
