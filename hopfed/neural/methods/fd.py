"""FD: each client also learns the soft labels that the other clients give to its classes.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
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
from hopfed.neural.training.losses import cross_entropy, masked_mean
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward, Job


@dataclass(frozen=True)
class FD(Standalone):
    """Jeong et al. (2018), federated distillation: cross-entropy + lam CE(t_y, softmax).

    For each class that it holds, a client sends the mean softmax output over its examples of the
    class. The target t_y of class y at a client is the unweighted mean of the outputs that the
    *other* clients sent for y. The server computes the targets. Each participant gets its own
    message, for the classes that it and at least one other client hold. Absent clients get the mean
    over all participants. A class that no other client sent has no target.

    The paper averages outputs during training. Here the trained model computes them in one pass
    after training; the FLOPs of this pass, about a third of an epoch's, are counted.

    Attributes
    ----------
    lam : weight of the soft labels; 0 is Standalone.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FD(task, Training(way="sequential"), lam=0.5)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [352, 308]
    """

    lam: float = 1.0

    name: ClassVar[str] = "fd"
    source: ClassVar[str] = "Jeong et al., 2018"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.lam >= 0, "lam", "at least 0", self.lam)

    def extra(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """The targets, and a mask of the classes that have one."""
        rows, known = table(down, self.loaded.classes, self.loaded.classes)
        return {"targets": rows, "known": known}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Sum of both cross-entropies; examples without a target add 0 to the second."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        _, logits = forward(params, x)
        loss = cross_entropy(logits, y, mask)
        if not self.lam:
            return loss
        soft = -(extra["targets"][y] * logits.log_softmax(dim=1)).sum(dim=1) * extra["known"][y]
        return loss + self.lam * masked_mean(soft, mask)

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:
        """Send the mean outputs of the classes held."""
        state, _ = super().finish(state, params, client)
        _, logits = outputs(self.loaded, client, params)
        exps = np.exp(logits - logits.max(axis=1, keepdims=True))
        soft = exps / exps.sum(axis=1, keepdims=True)
        message = class_means(soft, labels_of(self.loaded, client))
        return state, {name: message[name] for name in ("labels", "rows")}

    def _outcome(self, call: Call, job: Job, flops: float) -> Outcome:
        return super()._outcome(call, job, flops + self._pass_flops(call, job))

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """A row for each class of the client's training examples."""
        held = np.unique(labels_of(self.loaded, context.client or 0))
        return form(len(held), self.loaded.classes, counts=False)

    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Mean rows, class by class; a client's own row is left out of its message."""
        classes = self.loaded.classes
        sent = by_class(messages, classes)
        down = {EVERYONE: as_rows({label: mean_row(s) for label, s in sent.items()}, classes)}
        for c in messages:
            others = {label: mean_row(s, without=c) for label, s in sent.items() if c in s}
            down[c] = as_rows(others, classes)
        return state, down
