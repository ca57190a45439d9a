"""Messages with one row per class, as prototypes and soft labels use them.

Such a message is ``{"labels": (K,), "rows": (K, d)}`` for the K classes that its sender knows. A
method that weights the rows adds ``"counts": (K,)``, the number of examples behind each row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from hopfed.federation.aggregate import weighted_mean
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.training.places import beside
from hopfed.neural.training.stacked_or_not import one_thread
from hopfed.neural.training.task import Params, Task
from hopfed.neural.training.training import Both

Sent = dict[int, tuple[np.ndarray, int]]  # client -> its row of one class, number of its examples


def labels_of(task: Task, client: int) -> np.ndarray:
    """Labels of a client's training examples, (n,)."""
    return np.asarray(task.split.dataset.labels)[task.split.train[client]]


def outputs(task: Task, client: int, params: Params) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, d) and logits (n, classes) of a client's training examples, in test mode."""
    both, rows = Both(task.model(client).eval()), task.split.train[client]
    named = {f"model.{name}": value for name, value in beside(params, both).items()}
    with one_thread(), torch.inference_mode():
        found = [functional_call(both, named, (x,)) for x, _ in task.tensors.batches(rows)]
    features, logits = zip(*found, strict=True)
    return torch.cat(features).cpu().numpy(), torch.cat(logits).cpu().numpy()


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


def form(classes: int, length: int, *, counts: bool) -> Spec:
    """Names, shapes and kinds of a message of rows for `classes` classes."""
    spec = {"labels": Field((classes,), "iu"), "rows": Field((classes, length), "f")}
    return spec | ({"counts": Field((classes,), "iu")} if counts else {})


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
