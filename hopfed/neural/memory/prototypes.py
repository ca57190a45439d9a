"""Compression of a client's examples to a few prototypes with soft labels, as in ProtoNN.

Source: theory/NOTES.md, "Compressed stores"; Gupta et al. (2017).

A projection W to few dimensions, prototypes b_j in these dimensions and their labels z_j are
learned together:

    p(y | x) = sum_j a_j z_j[y] exp(-g |W x - b_j|^2) / sum_j a_j exp(-g |W x - b_j|^2).

Training starts from principal axes, k-means, and the labels of each cluster. Three things differ
from ProtoNN. The votes are normalised to probabilities, which kNN-Per can mix with a model
(arXiv:2111.09360, eq. (7)). The loss is their cross-entropy, not a squared error. Nothing is made
sparse.
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
from hopfed._lib.settings import require
from hopfed.neural.training.optimizers import Adam
from hopfed.neural.training.stacked_or_not import one_thread

WIDTH = 2.5  # the kernel starts as exp(-WIDTH^2) at the median distance, as in ProtoNN
SMOOTH = 0.1  # pseudo-examples of each label at a prototype
FEW = 10  # with fewer examples none is held out to choose the number of steps
TINY = 1e-12
LR = 0.01  # learning rate of Adam on features of unit mean square


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Prototypes that vote by a Gaussian kernel.

    Attributes
    ----------
    mean : (d,); with `scale` it normalises features to unit mean square.
    weights : float32 arrays: "projection" (d, m) if there is one, "keys" (p, m), "labels" (p, C),
        the logits of the soft labels, "masses" (p,), the logarithms of a, and "width" (), that of
        g.
    """

    mean: np.ndarray = field(repr=False)
    scale: float
    weights: dict[str, Tensor] = field(repr=False)

    def __len__(self) -> int:
        return len(self.weights["keys"])

    def __call__(self, queries: np.ndarray) -> np.ndarray:
        """Return probabilities (Q, classes)."""
        with torch.no_grad(), one_thread():
            x = torch.as_tensor((queries - self.mean) / self.scale, dtype=torch.float32)
            p = _votes(self.weights, x).double()
            return np.asarray(p / p.sum(dim=1, keepdim=True))

    @property
    def nbytes(self) -> int:
        """Bytes of the learned weights and of the mean."""
        return 4 * (sum(t.numel() for t in self.weights.values()) + len(self.mean) + 1)


def fit_prototypes(
    features: np.ndarray,
    labels: np.ndarray,
    classes: int,
    *,
    count: int,
    dim: int = 0,
    steps: int = 100,
    seed: int = 0,
) -> Prototypes:
    """Learn `count` prototypes of the examples (n, d), fewer if there are fewer distinct examples.

    Parameters
    ----------
    dim : length of the projection, 0 for none.
    steps : largest number of Adam's steps, each on all examples. The number in use is chosen on a
        held-out fifth of them. 0 returns the k-means prototypes with their label frequencies.

    Examples
    --------
    >>> x = np.array([[0.0, 0.1], [0.1, 0.0], [4.0, 4.1], [4.1, 4.0]])
    >>> found = fit_prototypes(x, np.array([0, 0, 1, 1]), 2, count=2, dim=1)
    >>> len(found), found(x).argmax(axis=1).tolist()
    (2, [0, 0, 1, 1])
    """
    require(count >= 1, "count", "at least 1", count)
    require(dim >= 0 and steps >= 0, "dim and steps", "at least 0", (dim, steps))
    mean = features.mean(axis=0, dtype=np.float64)
    scale = float(np.sqrt(((features - mean) ** 2).sum(axis=1).mean())) or 1.0
    x = (features - mean) / scale

    def begin(rows: np.ndarray) -> _Fit:
        return _Fit(_start(x[rows], labels[rows], classes, count, dim, seed), x[rows], labels[rows])

    everything = np.arange(len(x))
    with one_thread():
        if steps and len(x) >= FEW:
            out, kept = np.split(stream(seed, "left out").permutation(everything), [len(x) // 5])
            trial, losses = begin(kept), []
            unseen = torch.as_tensor(x[out], dtype=torch.float32), torch.as_tensor(labels[out])
            for _ in range(steps):
                losses.append(float(_loss(trial.weights, *unseen)))
                trial.step()
            losses.append(float(_loss(trial.weights, *unseen)))
            steps = int(np.argmin(losses))
        found = begin(everything)
        for _ in range(steps):
            found.step()
    return Prototypes(mean, scale, found.weights)


class _Fit:
    """Weights in training, and the examples that they learn from."""

    def __init__(self, weights: dict[str, np.ndarray], x: np.ndarray, labels: np.ndarray):
        self.weights = {n: torch.as_tensor(w, dtype=torch.float32) for n, w in weights.items()}
        self.x, self.labels = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(labels)
        self.optimizer = Adam(lr=LR, momentum=0.0, weight_decay=0.0)

    def step(self) -> None:
        """Make one step of Adam."""
        free = [w.requires_grad_() for w in self.weights.values()]
        grads = torch.autograd.grad(_loss(self.weights, self.x, self.labels), free)
        for w in free:
            w.requires_grad_(False)
        self.optimizer.step(free, grads)


def _start(
    x: np.ndarray, labels: np.ndarray, classes: int, count: int, dim: int, seed: int
) -> dict[str, np.ndarray]:
    """Return principal axes, and keys, labels, masses and width by k-means among them."""
    if not 0 < dim < x.shape[1]:
        return _clusters(x, labels, classes, count, seed)
    with blas_threads(1):
        axes = np.linalg.svd(x, full_matrices=False)[2][:dim].T
    return {"projection": axes} | _clusters(x @ axes, labels, classes, count, seed)


def _clusters(
    x: np.ndarray, labels: np.ndarray, classes: int, count: int, seed: int
) -> dict[str, np.ndarray]:
    """Return keys, labels, masses and width by k-means."""
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
    return {
        "keys": keys,
        "labels": np.log(held + SMOOTH),
        "masses": np.log(held.sum(axis=1)),
        "width": np.log(WIDTH**2 / middle),
    }


def _votes(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """Probabilities (Q, C)."""
    if "projection" in weights:
        x = x @ weights["projection"]
    squared = _squared(x, weights["keys"])
    near = (weights["masses"] - weights["width"].exp() * squared).softmax(dim=1)
    return near @ weights["labels"].softmax(dim=1)


def _loss(weights: dict[str, Tensor], x: Tensor, labels: Tensor) -> Tensor:
    return nll_loss(_votes(weights, x).clamp(min=TINY).log(), labels)


def _squared(x: Tensor, keys: Tensor) -> Tensor:
    """Squared distances (n, p), computed without an array of all differences."""
    norms = (x**2).sum(dim=1)[:, None] + (keys**2).sum(dim=1)
    return (norms - 2 * x @ keys.T).clamp(min=0)
