"""A client's examples compressed to a few prototypes with soft labels, as by ProtoNN.

Source: theory/NOTES.md, "Compressed stores".

After Gupta et al. (2017): a projection W to few dimensions, prototypes b_j there and their labels
z_j are learned together,

    p(y | x) = sum_j a_j z_j[y] exp(-g |W x - b_j|^2) / sum_j a_j exp(-g |W x - b_j|^2).

They start from principal axes, k-means, and the labels of each cluster. Unlike ProtoNN, the votes
are normalised, so that they are probabilities to mix (7), and the loss is their cross-entropy in
place of a squared error; nothing is made sparse.
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
from hopfed.neural.training.ways import one_thread

WIDTH = 2.5  # at the median distance the kernel has fallen to exp(-WIDTH^2), as ProtoNN starts
SMOOTH = 0.1  # pseudo-examples of each label at a prototype
FEW = 10  # examples below which none is left out to say when to stop
TINY = 1e-12
LR = 0.01  # of Adam, on features of unit mean square


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Prototypes that vote by a Gaussian kernel.

    Attributes
    ----------
    mean : (d,) and `scale`, by which features are brought to unit mean square.
    weights : "projection" (d, m) where there is one, "keys" (p, m), "labels" (p, C) logits of the
        soft labels, "masses" (p,) and "width" () logarithms of a and g: float32.
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
        """Bytes of all that is learned, and of the mean."""
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
    """Learn `count` prototypes of the examples (n, d), or as many as there are different ones.

    Parameters
    ----------
    dim : length of the projection, 0 for none.
    steps : most of Adam's, on all examples together; how many is chosen on a fifth of them, left
        out, from the same start. 0 leaves k-means prototypes with their frequencies.

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
    """Weights on the way from their start, and the examples that they learn from."""

    def __init__(self, weights: dict[str, np.ndarray], x: np.ndarray, labels: np.ndarray):
        self.weights = {n: torch.as_tensor(w, dtype=torch.float32) for n, w in weights.items()}
        self.x, self.labels = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(labels)
        self.optimizer = Adam(lr=LR, momentum=0.0, weight_decay=0.0)

    def step(self) -> None:
        """Move along the gradient."""
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
    """Squared distances (n, p), without an array of all differences."""
    norms = (x**2).sum(dim=1)[:, None] + (keys**2).sum(dim=1)
    return (norms - 2 * x @ keys.T).clamp(min=0)
