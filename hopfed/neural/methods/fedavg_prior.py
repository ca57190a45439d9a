"""FedAvg times the client's label prior, a control in kNN-Per's tables.

Source: theory/NOTES.md, "Label prior".

    p(y | x) proportional to p_global(y | x) pi_client(y)

There are no neighbours, only the frequency of each label at the client. If clients differ only in
their label frequencies, and the global model was trained on equally frequent labels, this is the
correct posterior. For other training frequencies the correct factor is ``pi_client / pi_pooled``,
which `divide` selects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.settings import require
from hopfed.federation.contract import Context, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.method import NeuralMethod
from hopfed.neural.methods.fedavg import FedAvg
from hopfed.neural.training.evaluation import Classifier
from hopfed.neural.training.task import Params

__all__ = ["FedAvgPrior"]


@dataclass(frozen=True, eq=False)
class Shifted:
    """Scores of another classifier plus a constant for each class."""

    base: Classifier
    by: Tensor = field(repr=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the shifted scores."""
        return self.base(x) + self.by.to(x.device)


@dataclass(frozen=True)
class FedAvgPrior(FedAvg):
    """FedAvg with each client's label prior; a control, proposed here.

    Attributes
    ----------
    smooth : number of pseudo-examples, divided equally among the labels. With 0, a label that the
        client has not seen gets probability 0.
    divide : whether to divide by the label frequencies of all participants together. Every client
        then sends its label frequencies, one number per class, and receives their mean.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedAvgPrior(task, Training(way="sequential"), divide=True)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [220928, 220928]
    """

    smooth: float = 1.0
    divide: bool = False

    name: ClassVar[str] = "fedavg-prior"
    source: ClassVar[str] = "control, proposed here"
    shared: ClassVar[bool] = False
    reads: ClassVar[type[NeuralMethod] | None] = FedAvg

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.smooth >= 0, "smooth", "at least 0", self.smooth)
        rule = "above 0 where divided by"
        require(self.smooth > 0 or not self.divide, "smooth", rule, self.smooth)

    def trained_as(self) -> NeuralMethod:
        """FedAvg, unless label frequencies travel too."""
        return self if self.divide else super().trained_as()

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:
        """Send the model, and with `divide` the label frequencies."""
        state, message = super().finish(state, params, client)
        if self.divide:  # FedAvg's size-weighted mean gives the frequencies of all together
            message["labels"] = self._counts(client) / self._counts(client).sum()
        return state, message

    def expects(self, down: Message, context: Context) -> Spec:
        """FedAvg's message, and the label frequencies."""
        more = {"labels": Field((self.loaded.classes,), "f")} if self.divide else {}
        return {**super().expects(down, context), **more}

    def classifier(self, state: State, down: Message, client: int) -> Classifier:
        """The global model times the prior."""
        counts = self._counts(client)
        shift = self._log(counts)
        if "labels" in down:
            shift = shift - self._log(np.asarray(down["labels"]) * counts.sum())
        return Shifted(super().classifier(state, down, client), torch.as_tensor(shift))

    def _counts(self, client: int) -> np.ndarray:
        labels = self.loaded.split.dataset.labels[self.loaded.split.train[client]]
        return np.bincount(labels, minlength=self.loaded.classes)

    def _log(self, counts: np.ndarray) -> np.ndarray:
        smoothed = counts + self.smooth / len(counts)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(smoothed / smoothed.sum()))
