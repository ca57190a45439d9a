"""Evaluation of classifiers, in which every client is scored on all of its examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from hopfed.neural.data.partitions import Partition, domain_of
from hopfed.neural.data.tensors import Tensors
from hopfed.neural.training.job import forward_of, move_beside
from hopfed.neural.training.loops import one_thread
from hopfed.neural.training.losses import Params

Classifier = Callable[[Tensor], Tensor]  # inputs (B, ...) -> scores (B, classes); highest wins


@dataclass(frozen=True, eq=False)
class Embedded:
    """A model's features (n, d) and logits (n, C) of examples, float32, with labels (n,)."""

    features: np.ndarray = field(repr=False)
    logits: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.features.nbytes + self.logits.nbytes + self.labels.nbytes


class Network:
    """A network that returns features and logits, with its parameters and `more` arguments."""

    def __init__(self, model: nn.Module, params: Params, more: Sequence[Tensor] = ()):
        self.model, self.params = model, move_beside(params, model)
        self.more = tuple(move_beside({str(i): t for i, t in enumerate(more)}, model).values())

    def __call__(self, x: Tensor) -> Tensor:
        """Return the logits."""
        return self.outputs(x)[1]

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and logits of the inputs `x`, without gradients."""
        net = self.model.eval() if self.model.training else self.model
        with torch.inference_mode():
            features, logits, *_ = forward_of(net)(self.params, x, *self.more)
        return features, logits

    def embed(self, data: Tensors, rows: np.ndarray) -> Embedded:
        """Return features and logits of the examples `rows`, computed in batches."""
        with one_thread():
            parts = [(*self.outputs(x), y) for x, y in data.batches(rows)]
        features, logits, labels = (torch.cat(p).cpu().numpy() for p in zip(*parts, strict=True))
        features, logits = (a.astype(np.float32, copy=False) for a in (features, logits))
        return Embedded(features, logits, labels)

    @property
    def nbytes(self) -> int:
        """Bytes of the parameters."""
        return sum(t.nbytes for t in self.params.values())


def mark_correct(classifier: Classifier, data: Tensors, rows: np.ndarray) -> np.ndarray:
    """Evaluate a classifier: 1 for each correct example, else 0; NaN for NaN or infinite scores."""
    if len(rows) == 0:
        return np.zeros(0)
    found = []
    with torch.inference_mode():
        for x, y in data.batches(rows):
            scores = classifier(x)
            lost = (scores.isnan() | (scores == torch.inf)).any(dim=1)
            found.append((scores.argmax(dim=1) == y).float().masked_fill(lost, torch.nan))
        return np.asarray(torch.cat(found).cpu(), dtype=np.float64)


def accuracies(
    classifiers: Sequence[Classifier], data: Tensors, parts: Sequence[Sequence[np.ndarray]]
) -> np.ndarray:
    """Evaluate every client in every part: accuracy (parts, clients), NaN in empty parts."""
    same, found = list(map(id, classifiers)), np.full((len(parts), len(classifiers)), np.nan)
    for one in dict.fromkeys(same):
        clients = [c for c, other in enumerate(same) if other == one]
        rows = [part[c] for part in parts for c in clients]
        right = mark_correct(classifiers[clients[0]], data, np.concatenate(rows))
        pieces = np.split(right, np.cumsum([len(part) for part in rows])[:-1])
        means = [piece.mean() if len(piece) else np.nan for piece in pieces]
        found[:, clients] = np.reshape(means, (len(parts), -1))
    return found


MEASURES = ("auc", "f1", "balanced", "loss")


def chance_measures(chances: np.ndarray, labels: np.ndarray, classes: int) -> dict[str, np.ndarray]:
    """Evaluate chances: `MEASURES` and `confusion` (true classes in rows); NaN if not finite."""
    from sklearn import metrics

    if not len(labels) or not np.isfinite(chances).all():
        none = dict.fromkeys(MEASURES, np.array(np.nan))
        return none | {"confusion": np.zeros((classes, classes), np.int64)}
    said, held = chances.argmax(axis=1), np.unique(labels)
    areas = [metrics.roc_auc_score(labels == k, chances[:, k]) for k in held if len(held) > 1]
    recalls = metrics.recall_score(labels, said, labels=held, average="macro", zero_division=0)
    found = {
        "auc": np.mean(areas) if areas else np.nan,
        "f1": metrics.f1_score(labels, said, average="macro", zero_division=0),
        "balanced": recalls,
        "loss": metrics.log_loss(labels, chances, labels=np.arange(classes)),
        "confusion": metrics.confusion_matrix(labels, said, labels=np.arange(classes)),
    }
    return {name: np.asarray(value) for name, value in found.items()}


def score_domains(
    classifiers: Sequence[Classifier], data: Tensors, split: Partition, part: str = "test"
) -> dict[str, np.ndarray]:
    """Evaluate clients in every domain (arXiv:2101.11296, IV): scores in own, others, and all."""
    rows, own = getattr(split, part), domain_of(split, part)
    parts = [np.concatenate([rows[c] for c in np.flatnonzero(own == d)]) for d in np.unique(own)]
    accuracy = accuracies(classifiers, data, [[rows] * len(split) for rows in parts]).T
    sizes, mine = np.array([len(r) for r in parts]), np.arange(len(parts)) == own[:, None]

    def over(which: np.ndarray) -> np.ndarray:
        known = np.ma.masked_invalid(accuracy)  # a domain may have no examples
        mean = np.ma.average(known, axis=1, weights=which * sizes)
        return np.asarray(np.ma.filled(mean, np.nan))

    named = {"accuracy": accuracy, "sizes": sizes, "own": own, "wdp": accuracy[mine]}
    return named | {"cdp": over(~mine), "acc": over(mine | ~mine)}


def bottom_decile(accuracy: np.ndarray) -> np.ndarray:
    """Evaluate clients: mean accuracy of the worst tenth (at least one), over the last axis."""
    count = max(1, accuracy.shape[-1] // 10)
    return np.asarray(np.sort(accuracy, axis=-1)[..., :count].mean(axis=-1))
