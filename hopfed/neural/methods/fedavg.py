"""FedAvg and what changes one thing about it: the loss, what is shared, or how a client classifies.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.cache import Recent
from hopfed._lib.random import stream
from hopfed.federation.contract import Context
from hopfed.federation.messages import Message, digest
from hopfed.neural.averaged import Averaged
from hopfed.neural.method import (
    Answer,
    Client,
    above,
    below,
    pack,
    setting,
    unpack,
)
from hopfed.neural.training.cost import training_flops
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.losses import Batch, Net, squared_distance
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Job, is_batch_norm

__all__ = ["FedAvg", "FedAvgPlus", "FedAvgPrior", "FedBABU", "FedBN", "FedPer", "FedProx", "FedRep"]

_NETWORKS = Recent(1 << 28)


@dataclass(frozen=True)
class FedAvg(
    Averaged,
    name="fedavg",
    source="McMahan et al., AISTATS 2017",
    same_model=True,
    shared=True,
    opens="",
):
    """McMahan et al. (2017): the mean of parameters and buffers, weighted by size.

    Attributes
    ----------
    bound, noise, delta : of private means, see `hopfed.neural.averaged.Averaged`: the norm to which
        a client's update is cut, the noise multiplier, and the delta at which epsilon is told.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedavg").traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    def fetches(self, known: bool) -> bool:  # noqa: ARG002
        """Every client classifies with the global model."""
        return True

    def begin(self, client: Client, down: Message) -> Params:
        """The global model."""
        return unpack(down) or client.initial

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train the global model and send it."""
        trained = yield client.train(self.begin(client, down))
        return pack(trained.params) | client.size

    def network(self, client: Client, down: Message) -> Network:
        """Return the model in the server's message to all, one object for all clients."""
        found: Network = _NETWORKS.get(
            (self.name, self.task, digest(down)),
            lambda: Network(client.model, self.personal(client, down)),
        )
        return found


@dataclass(frozen=True)
class FedProx(FedAvg, name="fedprox", source="Li et al., MLSys 2020"):
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

    mu: float = setting(0.01, "at least 0")

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train near the global model, of which buffers do not count, and send it."""
        first = self.begin(client, down)
        received = {n: first[n] for n, _ in client.net.named_parameters()} if self.mu else {}
        trained = yield client.train(first, extra=received)
        return pack(trained.params) | client.size

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy and the penalty."""
        loss = super().objective(net, batch)
        return loss + self.mu / 2 * squared_distance(net.params, batch.extra) if self.mu else loss


@dataclass(frozen=True)
class Tuned(FedAvg, shared=False, tunes=True):
    """FedAvg whose clients adapt the global model to be scored.

    The FLOPs of this count in every round in which the client takes part, because a round is
    scored with the adapted model.
    """

    def tuning(self, client: Client, down: Message) -> Job:
        """Training by which a client adapts the global model."""
        raise NotImplementedError

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        """Train the global model; what adapting it costs is counted."""
        message = yield from super().answer(client, question, down)
        client.spend(self.reading_flops(client.number))
        return message

    def ready(self, client: Client, down: Message) -> Answer:
        """Adapt the global model."""
        tuned = yield self.tuning(client, down)
        client.keep(tuned.params, "tuned")
        return {}

    def personal(self, client: Client, down: Message) -> Params:  # noqa: ARG002
        """The adapted model."""
        return client.kept("tuned")

    def reading_flops(self, client: int) -> float:
        """FLOPs of adapting the global model."""
        made = Client(self, {}, Context(self.task.seed, 0, 0, client))
        return training_flops(self.tuning(made, {}), self.loaded.tensors)


@dataclass(frozen=True)
class FedAvgPlus(Tuned, name="fedavg+", source="Jiang et al., 2019", reads=FedAvg):
    """Jiang et al. (2019): FedAvg, then fine-tuning; the fine-tuned model stays with the client.

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

    tune: int = setting(1, "at least 0")
    capacity: float = setting(1.0, "in (0, 1]")

    def tuning(self, client: Client, down: Message) -> Job:
        """Fine-tuning of the whole model."""
        rows = client.rows
        if self.capacity < 1 and len(rows):
            kept = max(1, round(self.capacity * len(rows)))
            seen = stream(self.task.seed, "arrival", client.number).permutation(len(rows))
            rows = rows[np.sort(seen[:kept])]
        first, path = self.begin(client, down), ("tune", client.number)
        return client.train(first, rows=rows, path=path, training=self.training, epochs=self.tune)


@dataclass(frozen=True, eq=False)
class Shifted:
    """Scores of another classifier plus a constant for each class."""

    base: Classifier
    by: Tensor = field(repr=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the shifted scores."""
        return self.base(x) + self.by.to(x.device)


@dataclass(frozen=True)
class FedAvgPrior(
    FedAvg, name="fedavg-prior", source="control, proposed here", shared=False, reads=FedAvg
):
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

    smooth: float = setting(1.0, "at least 0")

    def decide(self, client: Client, down: Message) -> Classifier:
        """The global model times the prior."""
        classes = self.loaded.classes
        counts = np.bincount(client.labels, minlength=classes)
        with np.errstate(divide="ignore"):
            prior = np.log((counts + self.smooth / classes) / (counts.sum() + self.smooth))
        return Shifted(super().decide(client, down), torch.as_tensor(prior))


@dataclass(frozen=True)
class FedPer(
    FedAvg,
    name="fedper",
    source="Arivazhagan et al., 2019",
    shared=False,
    opens="features.",
    trains_first=True,
):
    """Arivazhagan et al. (2019): the body is averaged, the head stays local, trained together.

    A client classifies with its head on the latest global body. A client that never took part
    first trains a head, and a body that it drops, from the global body for the epochs of a round.
    The personal layers are the last one.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedper").traffic.up.tolist()  # bytes that each client sent
    [212808, 212808]
    """

    def begin(self, client: Client, down: Message) -> Params:
        """The global body and its own head."""
        body = above(unpack(down, "body"), "features")
        return client.initial | body | above(client.kept("head"), "head")

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train the model; keep the head and send the body."""
        trained = yield client.train(self.begin(client, down))
        return self.divided(client, trained.params)

    def divided(self, client: Client, params: Params) -> Message:
        """Keep the head of a trained model; return the body as a message."""
        client.keep(below(params, "head"), "head")
        return pack(below(params, "features"), "body") | client.size


@dataclass(frozen=True)
class FedRep(FedPer, name="fedrep", source="Collins et al., ICML 2021"):
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

    head: int = setting(10, "at least 0")

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train the head, then the body; keep the first and send the second."""
        first = self.begin(client, down)
        head = yield client.train(first, epochs=self.head, frozen=("features.",))
        body = yield client.train(head.params, frozen=("head.",))
        return self.divided(client, body.params)


@dataclass(frozen=True)
class FedBABU(Tuned, name="fedbabu", source="Oh et al., ICLR 2022"):
    """Oh et al. (2022): bodies are trained and averaged under a head that keeps its first values.

    All clients have the same head, which nobody trains or sends. To be scored, a client fine-tunes
    body and head on its examples.

    Attributes
    ----------
    tune : epochs of fine-tuning, of the whole model.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedbabu").traffic.up.tolist()  # bytes that each client sent
    [212808, 212808]
    """

    tune: int = setting(5, "at least 0")

    def begin(self, client: Client, down: Message) -> Params:
        """The global body and the first head."""
        return client.initial | above(unpack(down, "body"), "features")

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train and send the body; what fine-tuning costs is counted."""
        trained = yield client.train(self.begin(client, down), frozen=("head.",))
        client.spend(self.reading_flops(client.number))
        return pack(below(trained.params, "features"), "body") | client.size

    def tuning(self, client: Client, down: Message) -> Job:
        """Fine-tuning of the whole model."""
        first, path = self.begin(client, down), ("tune", client.number)
        return client.train(first, path=path, training=self.training, epochs=self.tune)


@dataclass(frozen=True)
class FedBN(FedAvg, name="fedbn", source="Li et al., ICLR 2021", shared=False, trains_first=True):
    """Li et al. (2021): FedAvg of all but batch normalisation, which stays local.

    Its scales, shifts and running statistics are neither sent nor averaged. A network without
    batch normalisation makes it FedAvg: those of hopfed have it with ``norm=batch``. A client that
    never took part first trains for the epochs of a round, and keeps what that makes of these
    layers.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedbn").traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    def begin(self, client: Client, down: Message) -> Params:
        """The global model with its own batch normalisation."""
        return client.initial | unpack(down) | client.kept()

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train the model; keep the batch normalisation and send the rest."""
        trained = (yield client.train(self.begin(client, down))).params
        layers = tuple(f"{n}." for n, m in client.net.named_modules() if is_batch_norm(m))
        own = {n: t for n, t in trained.items() if layers and n.startswith(layers)}
        client.state = pack(own) | client.size  # never empty: it took part
        return pack({n: t for n, t in trained.items() if n not in own}) | client.size


def stepped(old: Mapping[str, np.ndarray], new: Message, step: float) -> Message:
    """Return ``old + step (new - old)`` of arrays of the same names, in their dtypes."""
    if step == 1:
        return new
    return {n: (old[n] + step * (a - old[n])).astype(a.dtype) for n, a in new.items()}
