"""FedAvg and what changes one thing about it: the loss, what is shared, or how a client classifies.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.random import stream
from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.neural.method import NeuralMethod, Rule, above, below, pack, size_weighted, unpack
from hopfed.neural.training.evaluation import Classifier
from hopfed.neural.training.losses import Batch, Net, squared_distance
from hopfed.neural.training.stacked_or_not import train
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Job, Phase

__all__ = ["FedAvg", "FedAvgPlus", "FedAvgPrior", "FedProx", "FedRep"]


@dataclass(frozen=True)
class FedAvg(NeuralMethod):
    """McMahan et al. (2017): the mean of parameters and buffers, weighted by size.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedavg").traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    name: ClassVar[str] = "fedavg"
    source: ClassVar[str] = "McMahan et al., AISTATS 2017"
    same_model: ClassVar[bool] = True
    shared: ClassVar[bool] = True
    opens: ClassVar[str | None] = ""

    def fetches(self, known: bool) -> bool:  # noqa: ARG002
        """Every client classifies with the global model."""
        return True

    def start_params(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """The global model."""
        return unpack(down) or self.initial(client)

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:
        """Send the model."""
        return state, pack(params) | self.size(client)

    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Average."""
        mean = size_weighted(messages) if messages else state
        return mean, {EVERYONE: mean}


@dataclass(frozen=True)
class FedProx(FedAvg):
    """Li et al. (2020): cross-entropy + ``mu / 2 |w - w_global|^2``.

    Attributes
    ----------
    mu : strength of the penalty; 0 is FedAvg.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedprox", mu=0.1).traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    mu: float = 0.01

    name: ClassVar[str] = "fedprox"
    source: ClassVar[str] = "Li et al., MLSys 2020"
    rules: ClassVar[Mapping[str, Rule]] = {"mu": "at least 0"}

    def extra(self, state: State, down: Message, client: int) -> Params:
        """The global parameters, without buffers."""
        known, weights = self.start_params(state, down, client), self.net(client).named_parameters()
        return {n: known[n] for n, _ in weights} if self.mu else {}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy and the penalty."""
        loss = super().objective(net, batch)
        return loss + self.mu / 2 * squared_distance(net.params, batch.extra) if self.mu else loss


@dataclass(frozen=True)
class FedAvgPlus(FedAvg):
    """Jiang et al. (2019): FedAvg, then fine-tuning; the fine-tuned model stays with the client.

    The FLOPs of fine-tuning count in every round in which the client takes part, because a round is
    scored with the fine-tuned model.

    Attributes
    ----------
    tune : epochs of fine-tuning.
    capacity : share of a client's training examples that it is tuned on, the first in random order,
        at least one.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedavg+", tune=2).traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    tune: int = 1
    capacity: float = 1.0

    name: ClassVar[str] = "fedavg+"
    source: ClassVar[str] = "Jiang et al., 2019"
    rules: ClassVar[Mapping[str, Rule]] = {"tune": "at least 0", "capacity": "in (0, 1]"}
    shared: ClassVar[bool] = False
    reads: ClassVar[type[NeuralMethod] | None] = FedAvg

    def reading_flops(self, client: int) -> float:
        """FLOPs of fine-tuning."""
        job = self._tuning(self.initial(client), client)
        return self.tune * self.training_flops(job, self.phases()[0])

    def scoring_flops(self, client: int, known: bool, heard: bool) -> float:  # noqa: ARG002
        """FLOPs of fine-tuning where the client did not take part, which is scored too."""
        return 0.0 if heard else self.reading_flops(client)

    def personal(self, state: State, down: Message, client: int) -> Params:
        """The global model, fine-tuned."""
        job = self._tuning(super().personal(state, down, client), client)
        settings = replace(self.training, epochs=self.tune, way="sequential")
        train([job], self.loaded.tensors, settings, self.objective, self.loaded.augment)
        return job.params

    def _tuning(self, params: Params, client: int) -> Job:
        rows = self.loaded.split.train[client]
        if self.capacity < 1 and len(rows):
            kept = max(1, round(self.capacity * len(rows)))
            seen = stream(self.task.seed, "arrival", client).permutation(len(rows))
            rows = rows[np.sort(seen[:kept])]
        return Job(self.net(client), params, rows, (self.task.seed, "tune", client))


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
    """FedAvg with each client's label prior, a control in kNN-Per's tables, proposed here.

    Source: theory/NOTES.md, "Label prior". ``p(y | x)`` is proportional to ``p_global(y | x)
    pi_client(y)``: there are no neighbours, only the frequency of each label at the client. If
    clients differ only in their label frequencies, and the global model was trained on equally
    frequent labels, this is the correct posterior.

    Attributes
    ----------
    smooth : number of pseudo-examples, divided equally among the labels. With 0, a label that the
        client has not seen gets probability 0.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedavg-prior", smooth=0.5).traffic.up.tolist()  # bytes of each client
    [220848, 220848]
    """

    smooth: float = 1.0

    name: ClassVar[str] = "fedavg-prior"
    source: ClassVar[str] = "control, proposed here"
    rules: ClassVar[Mapping[str, Rule]] = {"smooth": "at least 0"}
    shared: ClassVar[bool] = False
    reads: ClassVar[type[NeuralMethod] | None] = FedAvg

    def classifier(self, state: State, down: Message, client: int) -> Classifier:
        """The global model times the prior."""
        classes = self.loaded.classes
        counts = np.bincount(self.loaded.labels_of(client), minlength=classes)
        with np.errstate(divide="ignore"):
            prior = np.log((counts + self.smooth / classes) / (counts.sum() + self.smooth))
        return Shifted(super().classifier(state, down, client), torch.as_tensor(prior))


@dataclass(frozen=True)
class FedRep(FedAvg):
    """Collins et al. (2021): the body is averaged, the head stays local, trained alternately.

    In each round a participant first trains its head with the global body frozen. It then trains
    the body with its head frozen, and sends the body. Frozen parts do not change, running
    statistics included. A client classifies with its head on the latest global body. A client that
    never took part first trains a head on it.

    Attributes
    ----------
    head : epochs of training the head; the body is trained for `training.epochs`.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedrep", head=2).traffic.up.tolist()  # bytes that each client sent
    [212808, 212808]
    """

    head: int = 10

    name: ClassVar[str] = "fedrep"
    source: ClassVar[str] = "Collins et al., ICML 2021"
    rules: ClassVar[Mapping[str, Rule]] = {"head": "at least 0"}
    shared: ClassVar[bool] = False
    opens: ClassVar[str | None] = "features."
    trains_first: ClassVar[bool] = True

    def phases(self) -> tuple[Phase, ...]:
        """The head, then the body."""
        body = Phase(self.training.epochs, self.objective, frozen=("head.",))
        return Phase(self.head, self.objective, frozen=("features.",)), body

    def start_params(self, state: State, down: Message, client: int) -> Params:
        """The global body and its own head."""
        body, head = unpack(down, "body"), unpack(state, "head")
        return self.initial(client) | above(body, "features") | above(head, "head")

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:  # noqa: ARG002
        """Keep the head, send the body."""
        body, head = (below(params, part) for part in ("features", "head"))
        return pack(head, "head"), pack(body, "body") | self.size(client)

    def personal(self, state: State, down: Message, client: int) -> Params:
        """The client's head on the global body."""
        return self.start_params(self.after_one_round(state, down, client), down, client)
