"""Compression of a client's examples to a few prototypes with soft labels, as in ProtoNN.

Source: theory/NOTES.md, "Compressed stores"; Gupta et al. (2017), without its projection.
Prototypes b_j and their labels z_j are learned together, from k-means on, by the cross-entropy of

    p(y | x) = sum_j a_j z_j[y] exp(-g |x - b_j|^2) / sum_j a_j exp(-g |x - b_j|^2).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from hopfed._lib.arrays import blas_threads
from hopfed._lib.random import derive, stream
from hopfed.neural.training.together import one_thread

WIDTH = 2.5  # the kernel starts as exp(-WIDTH^2) at the median distance, as in ProtoNN
SMOOTH = 0.1  # pseudo-examples of each label at a prototype
FEW = 10  # with fewer examples none is held out to choose the number of steps
TINY = 1e-12
LR = 0.01  # learning rate of Adam on features of unit mean square

Weights = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Prototypes that vote by a Gaussian kernel.

    Attributes
    ----------
    mean : (d,); with `scale` it normalises features to unit mean square.
    weights : float32 arrays: "keys" (p, d), "labels" (p, C), the logits of the soft labels,
        "masses" (p,), the logarithms of a, and "width" (), that of g.
    """

    mean: np.ndarray = field(repr=False)
    scale: float
    weights: Weights = field(repr=False)

    def __len__(self) -> int:
        return len(self.weights["keys"])

    def __call__(self, queries: np.ndarray) -> np.ndarray:
        """Return probabilities (Q, classes)."""
        with torch.no_grad(), one_thread():
            x = torch.as_tensor((queries - self.mean) / self.scale, dtype=torch.float32)
            p = _votes(self.weights, x).double()
            return np.asarray(p / p.sum(dim=1, keepdim=True))


def fit_prototypes(
    features: np.ndarray,
    labels: np.ndarray,
    classes: int,
    *,
    count: int,
    steps: int = 100,
    seed: int = 0,
) -> Prototypes:
    """Learn `count` prototypes of examples (n, d), fewer if there are fewer distinct ones.

    At most `steps` of Adam, each on all examples: the number in use is chosen on a held-out fifth.
    0 returns the k-means prototypes with their label frequencies.
    """
    mean = features.mean(axis=0, dtype=np.float64)
    scale = float(np.sqrt(((features - mean) ** 2).sum(axis=1).mean())) or 1.0
    x = (features - mean) / scale

    everything = np.arange(len(x))
    with one_thread():
        if steps and len(x) >= FEW:
            out, kept = np.split(stream(seed, "left out").permutation(everything), [len(x) // 5])
            trial = _start(x[kept], labels[kept], classes, count, seed)
            losses = _learned(trial, (x[kept], labels[kept]), steps, (x[out], labels[out]))
            steps = int(np.argmin(losses))
        found = _start(x, labels, classes, count, seed)
        _learned(found, (x, labels), steps)
    return Prototypes(mean, scale, found)


Examples = tuple[np.ndarray, np.ndarray]


def _learned(
    weights: Weights, seen: Examples, steps: int, unseen: Examples | None = None
) -> list[float]:
    """Make steps of Adam in place; return the loss of unseen examples before each and after all."""

    def loss(x: np.ndarray, labels: np.ndarray) -> Tensor:
        votes = _votes(weights, torch.as_tensor(x, dtype=torch.float32))
        return nll_loss(votes.clamp(min=TINY).log(), torch.as_tensor(labels))

    optimizer = torch.optim.Adam([w.requires_grad_() for w in weights.values()], lr=LR)
    losses = []
    for step in range(steps + 1):
        if unseen is not None:
            with torch.no_grad():
                losses.append(float(loss(*unseen)))
        if step < steps:
            optimizer.zero_grad()
            loss(*seen).backward()
            optimizer.step()
    for w in weights.values():
        w.requires_grad_(False)
    return losses


def _start(x: np.ndarray, labels: np.ndarray, classes: int, count: int, seed: int) -> Weights:
    """Keys, labels, masses and width by k-means, float32."""
    from sklearn.cluster import KMeans  # seconds on import
    from sklearn.exceptions import ConvergenceWarning

    count = min(count, len(np.unique(x, axis=0)))
    means = KMeans(count, n_init=4, random_state=derive(seed, "k-means") % 2**32)
    with warnings.catch_warnings(), blas_threads(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # points that differ by rounding
        nearest = means.fit(x).labels_
    held = np.zeros((count, classes))
    np.add.at(held, (nearest, labels), 1)
    keys = means.cluster_centers_[held.any(axis=1)]
    held = held[held.any(axis=1)]
    middle = float(np.median(_squared(torch.as_tensor(x), torch.as_tensor(keys)))) or 1.0
    made = {
        "keys": keys,
        "labels": np.log(held + SMOOTH),
        "masses": np.log(held.sum(axis=1)),
        "width": np.log(WIDTH**2 / middle),
    }
    return {name: torch.as_tensor(array, dtype=torch.float32) for name, array in made.items()}


def _votes(weights: Weights, x: Tensor) -> Tensor:
    """Probabilities (Q, C)."""
    squared = _squared(x, weights["keys"])
    near = (weights["masses"] - weights["width"].exp() * squared).softmax(dim=1)
    return near @ weights["labels"].softmax(dim=1)


def _squared(x: Tensor, keys: Tensor) -> Tensor:
    """Squared distances (n, p), computed without an array of all differences."""
    norms = (x**2).sum(dim=1)[:, None] + (keys**2).sum(dim=1)
    return (norms - 2 * x @ keys.T).clamp(min=0)
