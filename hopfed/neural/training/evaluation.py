"""Evaluation of classifiers: every client is scored on all of its examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from hopfed.neural.data.partitions import Partition
from hopfed.neural.data.tensors import Tensors
from hopfed.neural.training.places import beside
from hopfed.neural.training.task import Params

Classifier = Callable[[Tensor], Tensor]  # inputs (B, ...) -> scores (B, classes), the largest wins


@dataclass(frozen=True, eq=False)
class Network:
    """A model with given parameters, as a classifier."""

    model: nn.Module
    params: Params = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", beside(self.params, self.model))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = functional_call(self.model.eval(), self.params, (x,))
        return logits


def correct(classifier: Classifier, data: Tensors, rows: np.ndarray) -> np.ndarray:
    """Whether each of the examples `rows` is classified correctly: bool (n,)."""
    if len(rows) == 0:
        return np.zeros(0, dtype=bool)
    with torch.inference_mode():
        found = [classifier(x).argmax(dim=1) == y for x, y in data.batches(rows)]
        return np.asarray(torch.cat(found).cpu())


def accuracies(
    classifiers: Sequence[Classifier],
    data: Tensors,
    parts: Sequence[Sequence[np.ndarray]],
) -> np.ndarray:
    """Accuracy of every client in every part, (parts, clients).

    Clients that share one classifier object are scored together, in full batches.

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


@dataclass(frozen=True, eq=False)
class Domains:
    """Accuracy of every client's model in every domain.

    Source: arXiv:2101.11296, Section IV; theory/NOTES.md, "Domains and public data".

    Attributes
    ----------
    accuracy : (clients, domains) share of the domain's examples classified correctly; NaN without
        examples.
    sizes : (domains,) number of examples of each domain.
    own : (clients,) domain of each client.
    """

    accuracy: np.ndarray
    sizes: np.ndarray
    own: np.ndarray

    @property
    def wdp(self) -> np.ndarray:
        """(clients,) accuracy within the client's own domain."""
        return self.accuracy[np.arange(len(self.own)), self.own]

    @property
    def cdp(self) -> np.ndarray:
        """(clients,) accuracy on the examples of all other domains; NaN where there are none."""
        others = np.arange(len(self.sizes)) != self.own[:, None]
        return self._over(others)

    @property
    def acc(self) -> np.ndarray:
        """(clients,) accuracy on the examples of all domains."""
        return self._over(np.ones(self.accuracy.shape, dtype=bool))

    def means(self) -> dict[str, float]:
        """ACC, WDP and CDP, means over clients.

        Examples
        --------
        >>> two = Domains(np.array([[1.0, 0.5], [0.25, 0.5]]), np.array([10, 30]), np.array([0, 1]))
        >>> two.means()
        {'ACC': 0.53125, 'WDP': 0.75, 'CDP': 0.375}
        """
        scores = {"ACC": self.acc, "WDP": self.wdp, "CDP": self.cdp}
        return {name: float(score.mean()) for name, score in scores.items()}

    def _over(self, which: np.ndarray) -> np.ndarray:
        weights = which * self.sizes
        total = weights.sum(axis=1)
        known = np.where(weights, self.accuracy, 0.0)  # a domain may have no examples
        return np.where(total, (known * weights).sum(axis=1) / np.maximum(total, 1), np.nan)


def domain_of(split: Partition, part: str = "test") -> np.ndarray:
    """Domain (clients,) of each client; if clients mix domains, every client is its own domain."""
    rows, code = getattr(split, part), split.dataset.domain
    if code is None or any(len(np.unique(code[r])) != 1 for r in rows):
        return np.arange(len(split))
    return np.unique([code[r[0]] for r in rows], return_inverse=True)[1]


def domains(
    classifiers: Sequence[Classifier], data: Tensors, split: Partition, part: str = "test"
) -> Domains:
    """Score every client on the examples of every domain.

    Parameters
    ----------
    classifiers : of each client.
    part : "test" or "validation"; a domain's examples are this part of all its clients.
    """
    rows, own = getattr(split, part), domain_of(split, part)
    parts = [np.concatenate([rows[c] for c in np.flatnonzero(own == d)]) for d in np.unique(own)]
    sizes = np.array([len(r) for r in parts])
    accuracy = np.empty((len(split), len(parts)))
    for clients in _sharing(classifiers):
        right = correct(classifiers[clients[0]], data, np.concatenate(parts))
        pieces = np.split(right, np.cumsum(sizes)[:-1])
        accuracy[clients] = [piece.mean() if len(piece) else np.nan for piece in pieces]
    return Domains(accuracy, sizes, own)


def bottom_decile(accuracy: np.ndarray) -> np.ndarray:
    """Mean accuracy of the worst tenth of the clients, at least one client; over the last axis.

    Examples
    --------
    >>> float(bottom_decile(np.linspace(0.1, 2.0, 20)).round(2))
    0.15
    """
    count = max(1, accuracy.shape[-1] // 10)
    return np.asarray(np.sort(accuracy, axis=-1)[..., :count].mean(axis=-1))


def low_quantile(accuracy: np.ndarray) -> np.ndarray:
    """Accuracy that a tenth of the clients does not exceed; over the last axis.

    The smallest accuracy of which at least a tenth of the clients have it or less, without
    interpolation. `bottom_decile` is the mean of these clients instead.

    Examples
    --------
    >>> float(low_quantile(np.linspace(0.1, 2.0, 20)).round(2))
    0.2
    """
    found = np.quantile(accuracy, 0.1, axis=-1, method="inverted_cdf")
    return np.asarray(found)


def _sharing(classifiers: Sequence[Classifier]) -> list[list[int]]:
    """Group clients that share the same classifier object."""
    groups: dict[int, list[int]] = {}
    for c, classifier in enumerate(classifiers):
        groups.setdefault(id(classifier), []).append(c)
    return list(groups.values())
