"""How well clients classify: every client scored on all of its examples, none dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from hopfed.neural.data.tensors import Tensors
from hopfed.neural.task import Params

BATCH = 1024  # examples in a forward pass


Classifier = Callable[[Tensor], Tensor]  # inputs (B, ...) -> scores (B, classes), the largest wins


@dataclass(frozen=True, eq=False)
class Network:
    """A model with given parameters, as a classifier."""

    model: nn.Module
    params: Params = field(repr=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = functional_call(self.model.eval(), self.params, (x,))
        return logits


def correct(classifier: Classifier, data: Tensors, rows: np.ndarray) -> np.ndarray:
    """Which of the examples `rows` are classified right: bool (n,)."""
    found = []
    with torch.inference_mode():
        for i in range(0, len(rows), BATCH):
            x, y = data.batch(data.rows(rows[i : i + BATCH]))
            found.append((classifier(x).argmax(dim=1) == y).cpu().numpy())
    return np.concatenate(found) if found else np.zeros(0, dtype=bool)


def accuracies(
    classifiers: Sequence[Classifier],
    data: Tensors,
    parts: Sequence[Sequence[np.ndarray]],
) -> np.ndarray:
    """Share of right answers of every client in every part, (parts, clients).

    Clients with one and the same classifier are scored together, in full batches.

    Parameters
    ----------
    classifiers : of each client.
    parts : for each part (validation, test) the rows of each client.
    """
    shares = np.full((len(parts), len(classifiers)), np.nan)
    for clients in _sharing(classifiers):
        rows = [np.concatenate([part[c] for c in clients]) for part in parts]
        right = correct(classifiers[clients[0]], data, np.concatenate(rows))
        cuts = np.cumsum([len(part[c]) for part in parts for c in clients])[:-1]
        means = [piece.mean() if len(piece) else np.nan for piece in np.split(right, cuts)]
        shares[:, clients] = np.reshape(means, (len(parts), len(clients)))
    return shares


def bottom_decile(accuracy: np.ndarray) -> np.ndarray:
    """Mean over the worst tenth of the clients, one at least: over the last axis.

    Examples
    --------
    >>> float(bottom_decile(np.linspace(0.1, 2.0, 20)).round(2))
    0.15
    """
    count = max(1, accuracy.shape[-1] // 10)
    return np.asarray(np.sort(accuracy, axis=-1)[..., :count].mean(axis=-1))


def _sharing(classifiers: Sequence[Classifier]) -> list[list[int]]:
    """Clients by the classifier they share, which is the same object then."""
    groups: dict[int, list[int]] = {}
    for c, classifier in enumerate(classifiers):
        groups.setdefault(id(classifier), []).append(c)
    return list(groups.values())
