"""FedKD: mutual distillation at adaptive weights, and updates of the shared model by SVD.

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
from hopfed.neural.models.base import Model
from hopfed.neural.pair import Pair
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward, cross_entropy, divergence, masked_mean

__all__ = ["FedKD"]

LEAST = 0.1  # of CE_own + CE_shared, by which the lessons are divided


class Matched(Pair):
    """A pair, and the map W_h (own d, shared d) from the shared model's features to the own ones.

    W_h starts as the identity on the coordinates that both have.
    """

    def __init__(self, own: Model, shared: Model):
        super().__init__(own, shared)
        self.match = nn.Parameter(torch.eye(own.feature_dim, shared.feature_dim))

    def forward(self, x: Tensor) -> Any:
        """Return (features, logits) of the own model, and of the other with its features mapped."""
        own, (features, logits) = super().forward(x)
        return own, (functional.linear(features, self.match), logits)


@dataclass(frozen=True)
class FedKD(Proxied):
    """Wu et al. (2022): a local mentor and a small shared mentee.

    Each minimises ``CE + weight (KL + MSE) / (CE_own + CE_shared)``: KL of its outputs from those
    of the other, and the mean squared distance between the own features and the shared ones mapped
    by W_h, a matrix of the client. Whoever teaches is given, and so are the two CE in the divisor;
    W_h is learnt with the mentee. The divisor is at least 0.1: the paper has no floor, but a client
    that fits its examples then divides by nothing (one-class clients on digits, five of them, ten
    epochs at lr 0.05: 3 of 40 client rounds ended in NaN without it, 2 with 0.01, none with 0.1).

    Updates travel, not models: each tensor with two axes or more as a matrix (first axis, others)
    truncated to its leading singular directions that hold the share `energy` of its squares, one
    at least. The client sends that of its training; the server takes the size-weighted mean, and
    sends it truncated in turn. The server's model moves by what it sends, so that both ends stay
    equal. A client that missed a broadcast cannot use the next one: it gets the model whole. The
    share rises linearly over the rounds (the first has `start`, the last `end`), of which the
    server counts those in which it heard anyone.

    Attributes
    ----------
    weight : of the lessons; 0 is Standalone.
    start, end : share of the squares that is kept, at first and at last.
    rounds : over which it rises.

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
        return Matched(model, self.made.build(self.proxy))

    def objective(
        self,
        forward: Forward,
        params: Params,
        x: Tensor,
        y: Tensor,
        mask: Tensor | None,
        extra: Params,
    ) -> Tensor:
        """Sum of what the two minimise."""
        del extra
        (mentor, own), (mentee, shared) = forward(params, x)
        loss = cross_entropy(own, y, mask) + cross_entropy(shared, y, mask)
        if not self.weight:
            return loss

        def lesson(features: Tensor, logits: Tensor, other: Tensor, teacher: Tensor) -> Tensor:
            far = ((features - other.detach()) ** 2).mean(dim=1)
            return divergence(logits, teacher, mask) + masked_mean(far, mask)

        lessons = lesson(mentor, own, mentee, shared) + lesson(mentee, shared, mentor, own)
        return loss + self.weight * lessons / loss.detach().clamp(min=LEAST)

    def starts(self, state: State, down: Message, client: int) -> Params:
        """What it has, with the shared model as the server has it."""
        shared = unpack(_under("model", self._received(state, down)))
        return self.initial(client) | unpack(state) | above(shared, "shared")

    def closes(self, call: Call, params: Params) -> tuple[State, Message]:
        """Send the update of the shared model, and of which version; keep the others and that."""
        state, whole = super().closes(call, params)
        base = self._received(call.state, call.down)
        version = np.asarray(call.down.get("version", 0))
        update = {n: whole[f"model/{n}"] - array for n, array in base.items()}
        message = _under("update", truncated(update, self.energy(int(version))))
        message |= {"version": version, "examples": whole["examples"]}
        return state | _under("base", base), message

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """The truncated update, the version it is of, and the number of examples."""
        one = Field((), "iu")
        return _under("update", form(self._first())) | {"version": one, "examples": one}

    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Move the model by the truncated mean of the updates."""
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
        """The shared model as the server has it, from a message to the client."""
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
