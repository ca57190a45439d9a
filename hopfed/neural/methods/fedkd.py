"""FedKD: mutual distillation with adaptive weights; updates are compressed by an SVD.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from hopfed.federation.aggregate import mean_tree
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.federation.messages import below as inside
from hopfed.federation.rounds import Session
from hopfed.neural.method import Answer, Client, Played, above, below, setting, unpack
from hopfed.neural.methods.pairs import Pair, Proxied
from hopfed.neural.models import Model
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params

__all__ = ["FedKD"]

LEAST = 0.1  # lower bound of the divisor CE_own + CE_shared

Arrays = Mapping[str, np.ndarray]


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
class FedKD(Proxied, name="fedkd", source="Wu et al., Nature Communications 2022"):
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
    >>> from hopfed.neural.methods import first_round
    >>> sent = first_round("fedkd", start=0.5).traffic.up
    >>> bool(max(sent) < 220_848 // 10)  # bytes, beside what FedAvg sends
    True
    """

    weight: float = setting(1.0, "at least 0")
    start: float = setting(0.95, "in (0, 1]")
    end: float = setting(0.98, "in (0, 1]")
    rounds: int = setting(20, "at least 1")

    def energy(self, round_: int) -> float:
        """Share of the squares that is kept in round `round_`, counted from 0."""
        passed = min(round_ / max(self.rounds - 1, 1), 1.0)
        return self.start + passed * (self.end - self.start)

    def wrap(self, model: Model) -> nn.Module:
        """A pair and the map between their features."""
        return Matched(model, self.small())

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Sum of the losses of both models."""
        (mentor, own), (mentee, shared) = net(batch.x)
        loss = batch.cross_entropy(own) + batch.cross_entropy(shared)
        if not self.weight:
            return loss

        def lesson(features: Tensor, logits: Tensor, other: Tensor, teacher: Tensor) -> Tensor:
            far = ((features - other.detach()) ** 2).mean(dim=1)
            return batch.divergence(logits, teacher) + batch.mean(far)

        lessons = lesson(mentor, own, mentee, shared) + lesson(mentee, shared, mentor, own)
        return loss + self.weight * lessons / loss.detach().clamp(min=LEAST)

    def begin(self, client: Client, down: Message) -> Params:
        """Return the client's own parts, and the server's shared model."""
        shared = unpack(_under("model", self._received(client, down)))
        return client.initial | client.kept() | above(shared, "shared")

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Send the update of the shared model and its version; keep the own parts and the base."""
        base, version = self._received(client, down), np.asarray(down.get("version", 0))
        trained = yield client.train(self.begin(client, down))
        whole = self.sent(client, trained.params)
        client.state = client.state | _under("base", base)
        update = {n: whole[f"model/{n}"] - array for n, array in base.items()}
        message = _under("update", truncated(update, self.energy(int(version))))
        return message | {"version": version, "examples": whole["examples"]}

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """The truncated update, the version that it updates, and the number of examples."""
        one = Field((), "iu")
        return _under("update", form(self._first())) | {"version": one, "examples": one}

    def play(self, state: State, session: Session) -> Played:
        """Add the truncated mean of the updates to the model."""
        heard = session.ask()
        if not heard:
            return state, {}, {}
        version = int(state.get("version", 0))
        model = inside(state, "model") or self._first()
        updates = [expanded(inside(m, "update"), model) for m in heard.values()]
        mean = mean_tree(updates, [float(m["examples"]) for m in heard.values()])
        step = truncated(mean, self.energy(version))
        moved = expanded(step, model)
        new = {"version": np.asarray(version + 1)}
        whole = new | _under("model", {n: array + moved[n] for n, array in model.items()})
        current = [c for c, m in heard.items() if int(m["version"]) == version]
        return whole, {EVERYONE: whole} | dict.fromkeys(current, new | _under("update", step)), {}

    def _received(self, client: Client, down: Message) -> Arrays:
        """Reconstruct the server's shared model from a message to the client."""
        if "version" not in down:
            return self._first()
        step = inside(down, "update")
        if not step:
            return inside(down, "model")
        base = inside(client.state, "base")
        moved = expanded(step, base)
        return {n: array + moved[n] for n, array in base.items()}

    def _first(self) -> Arrays:
        return {n: np.asarray(t) for n, t in below(self.initial(0), "shared").items()}


def _under(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def truncate(matrix: np.ndarray, energy: float) -> np.ndarray:
    """Keep the fewest singular directions of (m, n) that hold the share `energy` of the squares.

    At least one direction is kept.
    """
    m, n = matrix.shape
    if not np.isfinite(matrix).all():
        return np.full((1, m + n), np.nan, dtype=matrix.dtype)
    short = (matrix if m <= n else matrix.T).astype(np.float64)
    # The eigenvalues of the smaller Gram matrix are the squared singular values. To compute them
    # costs less than a full singular value decomposition.
    squares, directions = np.linalg.eigh(short @ short.T)
    held = np.cumsum(squares[::-1].clip(min=0))
    rank = min(int(np.searchsorted(held, energy * held[-1])) + 1, len(held))
    kept = directions[:, ::-1][:, :rank].T
    parts = (kept, kept @ short) if m <= n else (kept @ short, kept)
    return np.concatenate(parts, axis=1).astype(matrix.dtype)


def truncated(update: Arrays, energy: float) -> dict[str, np.ndarray]:
    """Truncate every array with two axes or more, as a matrix (first axis, all other axes)."""
    return {
        name: truncate(array.reshape(len(array), -1), energy) if array.ndim > 1 else array
        for name, array in update.items()
    }


def expanded(sent: Arrays, like: Arrays) -> dict[str, np.ndarray]:
    """Return the arrays that `truncated` compressed, in the shapes of `like`."""
    found = {}
    for name, array in like.items():
        rows, m = sent[name], len(array) if array.ndim > 1 else 0
        found[name] = (rows[:, :m].T @ rows[:, m:]).reshape(array.shape) if m else rows
    return found


def form(like: Arrays) -> dict[str, Field]:
    """Names, shapes and kinds of the result of `truncated`, for any number of directions."""
    return {
        name: Field((None, len(array) + array[0].size), "f")
        if array.ndim > 1
        else Field(array.shape, "f" if array.dtype.kind == "f" else "iu")
        for name, array in like.items()
    }
