"""FedProto: a penalty on the distance of features to the class prototypes of all clients.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.settings import require
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.messages import Message, Spec
from hopfed.neural.classwise import (
    as_rows,
    by_class,
    class_means,
    form,
    labels_of,
    mean_row,
    outputs,
    table,
)
from hopfed.neural.methods.standalone import Standalone
from hopfed.neural.models.base import Model
from hopfed.neural.training.evaluation import Classifier
from hopfed.neural.training.losses import cross_entropy, masked_mean
from hopfed.neural.training.places import beside
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward, Job, forward_of

__all__ = ["FedProto"]


@dataclass(frozen=True)
class FedProto(Standalone):
    """Tan et al. (2022): cross-entropy + lam ||z - C_y||^2 / d.

    A client's prototypes are the mean features of its classes. They are computed in one pass over
    its training examples after training; its FLOPs, about a third of an epoch's, are counted. The
    server's prototype C of a class is the mean over the clients that hold the class, weighted by
    their examples of it. This is the paper's eq. (6) (arXiv:2105.00243) without its second division
    by the number of clients, which the authors' program leaves out too. A class that nobody sent
    this round keeps its last prototype; a class that nobody ever sent has no penalty. The squared
    distance is divided by the feature length d, as in that program, so that `lam` has the same
    effect for wide and narrow features. All clients must have the same d.

    Attributes
    ----------
    lam : strength of the penalty; 0 is Standalone.
    nearest : classify by the nearest prototype, as in the paper, instead of by the head.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedProto(task, Training(way="sequential"), lam=0.5)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [6464, 5656]
    """

    lam: float = 1.0
    nearest: bool = False

    name: ClassVar[str] = "fedproto"
    source: ClassVar[str] = "Tan et al., AAAI 2022"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.lam >= 0, "lam", "at least 0", self.lam)

    def server_start(self, seed: int) -> State:
        """No prototype yet."""
        super().server_start(seed)
        return as_rows({}, self.loaded.feature_dim)

    def extra(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """The prototypes, and a mask of the classes that have one."""
        rows, known = table(down, self.loaded.classes, self.loaded.feature_dim)
        return {"prototypes": rows, "known": known}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy and penalty; examples of a class without prototype have penalty 0."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        features, logits = forward(params, x)
        loss = cross_entropy(logits, y, mask)
        if not self.lam:
            return loss
        far = ((features - extra["prototypes"][y]) ** 2).mean(dim=1) * extra["known"][y]
        return loss + self.lam * masked_mean(far, mask)

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:
        """Send the mean features of the client's classes, and their numbers of examples."""
        state, _ = super().finish(state, params, client)
        features, _ = outputs(self.loaded, client, params)
        return state, class_means(features, labels_of(self.loaded, client))

    def _outcome(self, call: Call, job: Job, flops: float) -> Outcome:
        return super()._outcome(call, job, flops + self._pass_flops(call, job))

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """A row for each class of the client's training examples."""
        held = np.unique(labels_of(self.loaded, context.client or 0))
        return form(len(held), self.loaded.feature_dim, counts=True)

    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Mean rows, class by class."""
        sent = by_class(messages, self.loaded.classes)
        before = dict(zip(np.asarray(state["labels"]).tolist(), state["rows"], strict=True))
        after = before | {label: mean_row(rows) for label, rows in sent.items()}
        prototypes = as_rows(dict(sorted(after.items())), self.loaded.feature_dim)
        return prototypes, {EVERYONE: prototypes}

    def classifier(self, state: State, down: Message, client: int) -> Classifier:
        """The model, or its features and the nearest prototype."""
        if not self.nearest or not len(down.get("labels", ())):
            return super().classifier(state, down, client)
        rows, known = table(down, self.loaded.classes, self.loaded.feature_dim)
        return Nearest(self.loaded.model(client), self.personal(state, down, client), rows, known)


@dataclass(frozen=True, eq=False)
class Nearest:
    """Scores of inputs (B, ...): minus the distances to the prototypes, (B, classes)."""

    model: Model
    params: Params = field(repr=False)
    rows: Tensor = field(repr=False)
    known: Tensor = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", beside(self.params, self.model))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the scores; a class without prototype is never the nearest."""
        features, _ = forward_of(self.model.eval())(self.params, x)
        far = torch.cdist(features, self.rows.to(features))
        return (-far).masked_fill(self.known.to(far) == 0, -torch.inf)
