"""Methods whose messages have one row for each class: FedProto and FD.

Source: theory/NOTES.md, "Baselines". A message is ``{"labels": (K,), "rows": (K, d)}`` for the K
classes that its sender knows. FedProto adds ``"counts": (K,)``, the number of examples behind each
row, where these are its weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor

from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.federation.rounds import Session
from hopfed.neural.method import Answer, Client, Played, setting
from hopfed.neural.methods.standalone import Standalone
from hopfed.neural.training.evaluation import Classifier, Embedded, Network
from hopfed.neural.training.losses import Batch, Net

__all__ = ["FD", "FedProto"]


@dataclass(frozen=True)
class Classwise(Standalone):
    """Clients that train alone, with a row of each class from the server, and send such rows.

    The rows come from one pass over the training examples after training; its FLOPs, about a third
    of an epoch's, are counted.
    """

    @property
    def length(self) -> int:
        """Numbers in a row."""
        return self.loaded.feature_dim

    def values(self, seen: Embedded) -> np.ndarray:
        """What a row is the mean of, in the examples `seen`: features (n, d)."""
        return seen.features

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train with the rows of the server; send the means of the classes held."""
        return without_counts((yield from self.means_of(client, down)))

    def means_of(self, client: Client, down: Message) -> Answer:
        """Train with the rows of the server; return the means of the classes held, counted."""
        rows, counts = self.table(down)
        known = torch.as_tensor(np.float32(counts > 0))
        extra = {"rows": torch.as_tensor(rows), "known": known}
        trained = yield client.train(self.begin(client, down), extra=extra)
        client.keep(trained.params)
        client.spend(client.pass_flops)
        seen = Network(client.model, trained.params).embed(client.task.tensors, client.rows)
        held, where, counts = np.unique(client.labels, return_inverse=True, return_counts=True)
        sums = np.zeros((len(held), self.length))
        np.add.at(sums, where, self.values(seen))
        means = (sums / counts[:, None]).astype(np.float32)
        labels, counts = held.astype(np.int32), counts.astype(np.int32)
        return {"labels": labels, "rows": means, "counts": counts}

    def table(self, message: Message) -> tuple[np.ndarray, np.ndarray]:
        """Rows (classes, d) of a message, and examples (classes,) behind each, 1 if not told.

        Labels of no class are left out; a class without a row has 0 examples.
        """
        classes = self.loaded.classes
        rows, counts = np.zeros((classes, self.length), np.float32), np.zeros(classes)
        if "labels" in message:
            labels = np.asarray(message["labels"])
            there = (labels >= 0) & (labels < classes)
            rows[labels[there]] = np.asarray(message["rows"])[there]
            told = np.asarray(message.get("counts", np.ones(len(labels))))
            counts[labels[there]] = np.maximum(told, 0)[there]
        return rows, counts

    def means(self, messages: Iterable[Message]) -> tuple[np.ndarray, np.ndarray]:
        """Mean rows (classes, d) of messages, by the examples (classes,) behind them, and these."""
        total, counts = np.zeros((self.loaded.classes, self.length)), np.zeros(self.loaded.classes)
        for rows, number in map(self.table, messages):
            total += number[:, None] * rows
            counts += number
        return (total / np.maximum(counts, 1)[:, None]).astype(np.float32), counts

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """A row for each class of the client's training examples."""
        held = len(np.unique(self.loaded.labels_of(context.client or 0)))
        return {"labels": Field((held,), "iu"), "rows": Field((held, self.length), "f")}


@dataclass(frozen=True)
class Prototypical(Classwise):
    """Clients that pull features to prototypes C from the server: CE + lam ||z - C_y||^2 / d.

    The squared distance is divided by the feature length d, as in FedProto's program, so that
    `lam` has the same effect for wide and narrow features.
    """

    lam: float = setting(1.0, "at least 0")
    nearest: bool = False

    def fetches(self, known: bool) -> bool:  # noqa: ARG002
        """Prototypes are needed only by the nearest."""
        return self.nearest

    def server_start(self, seed: int) -> State:
        """No prototype yet."""
        super().server_start(seed)
        return as_message(*self.table({}))

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy and penalty; examples of a class without prototype have penalty 0."""
        features, logits = net(batch.x)
        if not self.lam:
            return batch.cross_entropy(logits)
        far = ((features - batch.extra["rows"][batch.y]) ** 2).mean(dim=1)
        penalty = batch.mean(far * batch.extra["known"][batch.y])
        return batch.cross_entropy(logits) + self.lam * penalty

    def decide(self, client: Client, down: Message) -> Classifier:
        """The model, or its features and the nearest prototype."""
        if not self.nearest or not len(down.get("labels", ())):
            return super().decide(client, down)
        rows, known = map(torch.as_tensor, self.table(down))
        return Nearest(Network(client.model, self.personal(client, down)), rows, known)


@dataclass(frozen=True)
class FedProto(Prototypical, name="fedproto", source="Tan et al., AAAI 2022"):
    """Tan et al. (2022): cross-entropy + lam ||z - C_y||^2 / d.

    A client's prototypes are the mean features of its classes. The server's prototype C of a class
    is the mean over the clients that hold the class. A class that nobody sent this round keeps its
    last prototype; a class that nobody ever sent has no penalty. The squared distance is divided by
    the feature length d, as in the authors' program, so that `lam` has the same effect for wide and
    narrow features. All clients must have the same d.

    Attributes
    ----------
    lam : strength of the penalty; 0 is Standalone.
    weights : of the mean over clients: "equal", as in the authors' program; or "size", by their
        examples of the class, as in the paper's eq. (6) (arXiv:2105.00243) without its second
        division by the number of clients, which that program leaves out too.
    nearest : classify by the nearest prototype, as in the paper, instead of by the head.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedproto", lam=0.5).traffic.up.tolist()  # bytes that each client sent
    [6432, 5628]
    """

    weights: str = setting("equal", ("size", "equal"))

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Send the mean features of the classes held, and perhaps their numbers."""
        means = yield from self.means_of(client, down)
        return means if self.weights == "size" else without_counts(means)

    def expects(self, down: Message, context: Context) -> Spec:
        """Rows, and their counts if these are weights."""
        spec = super().expects(down, context)
        return spec if self.weights == "equal" else {**spec, "counts": spec["labels"]}

    def play(self, state: State, session: Session) -> Played:
        """Mean rows, class by class; a class that nobody sent keeps its last row."""
        rows, counts = self.means(session.ask().values())
        before, known = self.table(state)
        rows = np.where(counts[:, None] > 0, rows, before)
        prototypes = as_message(rows, (counts > 0) | (known > 0))
        return prototypes, {EVERYONE: prototypes}, {}


@dataclass(frozen=True, eq=False)
class Nearest:
    """Scores of inputs (B, ...): minus the distances to the prototypes, (B, classes)."""

    network: Network
    rows: Tensor = field(repr=False)
    known: Tensor = field(repr=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the scores; a class without prototype is never the nearest."""
        features, _ = self.network.outputs(x)
        far = torch.cdist(features, self.rows.to(features))
        return (-far).masked_fill(self.known.to(far) == 0, -torch.inf)


@dataclass(frozen=True)
class FD(Classwise, name="fd", source="Jeong et al., 2018"):
    """Jeong et al. (2018), federated distillation: cross-entropy + lam CE(t_y, softmax).

    For each class that it holds, a client sends the mean softmax output over its examples of the
    class. The target t_y of class y at a client is the unweighted mean of the outputs that the
    *other* clients sent for y. The server computes the targets. Each participant gets its own
    message, for the classes that it and at least one other client hold. Absent clients get the mean
    over all participants. A class that no other client sent has no target.

    The paper averages outputs during training. Here the trained model computes them in one pass
    after training.

    Attributes
    ----------
    lam : weight of the soft labels; 0 is Standalone.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fd", lam=0.5).traffic.up.tolist()  # bytes that each client sent
    [352, 308]
    """

    lam: float = setting(1.0, "at least 0")

    @property
    def length(self) -> int:
        """Numbers in a row."""
        return self.loaded.classes

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Sum of both cross-entropies; examples without a target add 0 to the second."""
        _, logits = net(batch.x)
        if not self.lam:
            return batch.cross_entropy(logits)
        soft = -(batch.extra["rows"][batch.y] * logits.log_softmax(dim=1)).sum(dim=1)
        taught = batch.mean(soft * batch.extra["known"][batch.y])
        return batch.cross_entropy(logits) + self.lam * taught

    def values(self, seen: Embedded) -> np.ndarray:
        """What a row is the mean of, in the examples `seen`: outputs (n, classes)."""
        outputs: np.ndarray = softmax(seen.logits, axis=1)
        return outputs

    def play(self, state: State, session: Session) -> Played:
        """Mean rows, class by class; a client's own row is left out of its message."""
        heard = session.ask()
        rows, counts = self.means(heard.values())
        down = {EVERYONE: as_message(rows, counts)}
        for c, own in heard.items():
            rows, counts = self.means(m for other, m in heard.items() if other != c)
            down[c] = as_message(rows, counts * self.table(own)[1])
        return state, down, {}


def as_message(rows: np.ndarray, known: np.ndarray) -> Message:
    """Return the rows (classes, d) of those classes that are known, and their labels."""
    held = np.flatnonzero(known)
    return {"labels": held.astype(np.int32), "rows": rows[held]}


def without_counts(means: Message) -> Message:
    """Return rows and labels alone."""
    return {name: array for name, array in means.items() if name != "counts"}
