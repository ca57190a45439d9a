"""Methods whose messages have one row for each class: FedProto and FD.

Source: theory/NOTES.md, "Baselines". A message is ``{"labels": (K,), "rows": (K, d)}`` for the K
classes that its sender knows. FedProto adds ``"counts": (K,)``, the number of examples behind each
row, where these are its weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hopfed.federation.aggregate import weighted_mean
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.federation.rounds import Session
from hopfed.neural.memory.embedding import Extractor
from hopfed.neural.method import Answer, Client, Played, Rule
from hopfed.neural.methods.standalone import Standalone
from hopfed.neural.training.evaluation import Classifier
from hopfed.neural.training.losses import Batch, Net

__all__ = ["FD", "FedProto"]


@dataclass(frozen=True)
class Classwise(Standalone):
    """Clients that train alone, with a row of each class from the server, and send such rows.

    The rows come from one pass over the training examples after training; its FLOPs, about a third
    of an epoch's, are counted.
    """

    lam: float = 1.0

    rules: ClassVar[Mapping[str, Rule]] = {"lam": "at least 0"}

    @property
    def length(self) -> int:
        """Numbers in a row."""
        return self.loaded.feature_dim

    def values(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        """What a row is the mean of: features (n, d)."""
        return features

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train with the rows of the server; send the means of the classes held."""
        rows, known = table(down, self.loaded.classes, self.length)
        first = self.begin(client, {})
        trained = yield client.train(first, extra={"rows": rows, "known": known})
        client.keep(trained.params)
        client.spend(client.pass_flops)
        seen = Extractor(client.model, trained.params).outputs(client.task.tensors, client.rows)
        return class_means(self.values(*seen).numpy(), client.labels)

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """A row for each class of the client's training examples."""
        held = len(np.unique(self.loaded.labels_of(context.client or 0)))
        return {"labels": Field((held,), "iu"), "rows": Field((held, self.length), "f")}


@dataclass(frozen=True)
class FedProto(Classwise):
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

    weights: str = "equal"
    nearest: bool = False

    name: ClassVar[str] = "fedproto"
    source: ClassVar[str] = "Tan et al., AAAI 2022"
    rules: ClassVar[Mapping[str, Rule]] = {"weights": ("size", "equal")}

    def fetches(self, known: bool) -> bool:  # noqa: ARG002
        """Prototypes are needed only by the nearest."""
        return self.nearest

    def server_start(self, seed: int) -> State:
        """No prototype yet."""
        super().server_start(seed)
        return as_rows({}, self.length)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy and penalty; examples of a class without prototype have penalty 0."""
        features, logits = net(batch.x)
        if not self.lam:
            return batch.cross_entropy(logits)
        far = ((features - batch.extra["rows"][batch.y]) ** 2).mean(dim=1)
        penalty = batch.mean(far * batch.extra["known"][batch.y])
        return batch.cross_entropy(logits) + self.lam * penalty

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        """Send the mean features of the classes held, and perhaps their numbers."""
        means = yield from super().answer(client, question, down)
        return without_counts(means) if self.weights == "equal" else means

    def expects(self, down: Message, context: Context) -> Spec:
        """Rows, and their counts if these are weights."""
        spec = super().expects(down, context)
        return spec if self.weights == "equal" else {**spec, "counts": spec["labels"]}

    def play(self, state: State, session: Session) -> Played:
        """Mean rows, class by class; a class that nobody sent keeps its last row."""
        sent = by_class(session.ask(), self.loaded.classes)
        before = dict(zip(np.asarray(state["labels"]).tolist(), state["rows"], strict=True))
        after = before | {label: mean_row(rows) for label, rows in sent.items()}
        prototypes = as_rows(dict(sorted(after.items())), self.length)
        return prototypes, {EVERYONE: prototypes}, {}

    def decide(self, client: Client, down: Message) -> Classifier:
        """The model, or its features and the nearest prototype."""
        if not self.nearest or not len(down.get("labels", ())):
            return super().decide(client, down)
        rows, known = table(down, self.loaded.classes, self.length)
        return Nearest(Extractor(client.model, self.personal(client, down)), rows, known)


@dataclass(frozen=True, eq=False)
class Nearest:
    """Scores of inputs (B, ...): minus the distances to the prototypes, (B, classes)."""

    extractor: Extractor
    rows: Tensor = field(repr=False)
    known: Tensor = field(repr=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the scores; a class without prototype is never the nearest."""
        features, _ = self.extractor(x)
        far = torch.cdist(features, self.rows.to(features))
        return (-far).masked_fill(self.known.to(far) == 0, -torch.inf)


@dataclass(frozen=True)
class FD(Classwise):
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

    name: ClassVar[str] = "fd"
    source: ClassVar[str] = "Jeong et al., 2018"

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

    def values(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        """What a row is the mean of: outputs (n, classes)."""
        return logits.softmax(dim=1)

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        """Send the mean outputs of the classes held."""
        return without_counts((yield from super().answer(client, question, down)))

    def play(self, state: State, session: Session) -> Played:
        """Mean rows, class by class; a client's own row is left out of its message."""
        heard = session.ask()
        sent = by_class(heard, self.length)
        down = {EVERYONE: as_rows({label: mean_row(s) for label, s in sent.items()}, self.length)}
        for c in heard:
            others = {label: mean_row(s, without=c) for label, s in sent.items() if c in s}
            down[c] = as_rows(others, self.length)
        return state, down, {}


Sent = dict[int, tuple[np.ndarray, int]]  # client -> its row of one class, number of its examples


def class_means(values: np.ndarray, labels: np.ndarray) -> Message:
    """Return the mean of the values (n, d) for each class that occurs, and its count.

    Examples
    --------
    >>> class_means(np.array([[1.0], [3.0], [5.0]]), np.array([4, 4, 2]))["rows"].tolist()
    [[5.0], [2.0]]
    """
    held, where, counts = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.zeros((len(held), values.shape[1]))
    np.add.at(sums, where, values)
    means = (sums / counts[:, None]).astype(values.dtype)
    return {"labels": held.astype(np.int32), "rows": means, "counts": counts.astype(np.int32)}


def without_counts(means: Message) -> Message:
    """Return the rows of `class_means` and their labels alone."""
    return {name: array for name, array in means.items() if name != "counts"}


def by_class(messages: Mapping[int, Message], classes: int) -> dict[int, Sent]:
    """Sort the rows of all clients by class, clients in order; unknown labels are left out."""
    found: dict[int, Sent] = {}
    for c, message in sorted(messages.items()):
        counts = message.get("counts", np.ones(len(message["labels"]), dtype=np.int32))
        for label, row, n in zip(message["labels"], message["rows"], counts, strict=True):
            if 0 <= label < classes and n > 0:
                found.setdefault(int(label), {})[c] = row, int(n)
    return dict(sorted(found.items()))


def mean_row(sent: Sent, without: int | None = None) -> np.ndarray | None:
    """Mean of the rows of a class, weighted by their counts; None if there are no rows.

    Parameters
    ----------
    without : client whose row is left out.
    """
    parts = [part for c, part in sent.items() if c != without]
    if not parts:
        return None
    return np.asarray(weighted_mean([row for row, _ in parts], [n for _, n in parts]))


def as_rows(rows: Mapping[int, np.ndarray | None], length: int) -> Message:
    """Return the message of all rows that are not None."""
    known = {label: row for label, row in rows.items() if row is not None}
    stacked = np.stack(list(known.values())) if known else np.zeros((0, length), np.float32)
    return {"labels": np.array(list(known), dtype=np.int32), "rows": stacked}


def table(message: Message, classes: int, length: int) -> tuple[Tensor, Tensor]:
    """Return the rows of a message as (classes, d), and (classes,) of 1 where there is a row."""
    rows, known = torch.zeros(classes, length), torch.zeros(classes)
    if "labels" in message:
        where = torch.as_tensor(np.array(message["labels"], dtype=np.int64))
        rows[where] = torch.as_tensor(np.array(message["rows"], dtype=np.float32))
        known[where] = 1.0
    return rows, known
