"""Memories of a client's examples: nearest neighbours, Hopfield retrieval, the mix with a model.

Source: arXiv:2111.09360, eqs. (6), (7); theory/NOTES.md, "kNN-Per interpolation", "Softmax
retrieval is a neighbour vote" and "Recall energies". The softmax over stored keys is the update of
a modern Hopfield network (Ramsauer et al., 2021): ``q -> X^T softmax(beta X q)``. With keys of unit
norm, all of them neighbours, the program's kernel and ``sigma = 2 / (beta d)``, kNN-Per
(arXiv:2111.09360) is this retrieval, read out in labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.special import log_softmax, softmax

from hopfed._lib.settings import require

KERNELS = ("paper", "program")
MIXINGS = ("probabilities", "logits")
# Values of lambda that are tried (theory/NOTES.md, "kNN-Per interpolation").
GRID = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)

PAIRS = 1 << 25  # numbers in memory at once


class SmallStoreWarning(UserWarning):
    """A store holds fewer rows than requested; all of its rows were used."""


class Index:
    """Keys (n, d), float32, compared with queries in float64; distances are of differences."""

    def __init__(self, keys: np.ndarray, device: str = "cpu"):
        require(keys.ndim == 2 and keys.shape[1] > 0, "keys", "of shape (n, d)", keys.shape)
        require(bool(np.isfinite(keys).all()), "keys", "finite", "NaN or infinity")
        self.keys = np.array(keys, dtype=np.float32, order="C")
        self.keys.flags.writeable = False
        self._keys = torch.tensor(self.keys, dtype=torch.float64, device=device)

    def __len__(self) -> int:
        return len(self.keys)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances, ascending, and rows of the nearest keys, both (Q, min(k, n))."""
        require(k >= 1, "k", "at least 1", k)
        k, found = min(k, len(self)), []
        if k == 0 or len(queries) == 0:
            return np.zeros((len(queries), k)), np.zeros((len(queries), k), int)
        all_of = torch.tensor(np.float32(queries), dtype=torch.float64, device=self._keys.device)
        squares = (self._keys**2).sum(dim=1)
        for part in all_of.split(max(1, PAIRS // max(len(self), k * self.keys.shape[1]))):
            rows = (squares - 2 * (part @ self._keys.T)).topk(k, dim=1, largest=False).indices
            squared = ((self._keys[rows] - part[:, None]) ** 2).sum(dim=2)
            squared, order = squared.sort(dim=1, stable=True)
            found.append((squared.cpu().numpy(), rows.gather(1, order).cpu().numpy()))
        return tuple(map(np.concatenate, zip(*found, strict=True)))  # type: ignore[return-value]


def log_kernel(squared: np.ndarray, kernel: str, sigma: float, dim: int) -> np.ndarray:
    """Logarithm of a kernel of squared distances, the paper's, eq. (6), or its program's."""
    if kernel == "paper":
        return -np.sqrt(squared) / sigma
    return -squared / (dim * sigma)


def vote(log_weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``sum_i w_i v_i / sum_i w_i``, the labels weighted by the kernel as in eq. (6)."""
    w = softmax(np.asarray(log_weights, dtype=np.float64), axis=1)
    return w @ values if values.ndim == 2 else np.einsum("qk,qkc->qc", w, values)


def mix(logits: np.ndarray, p: np.ndarray, weight: float, mixing: str) -> np.ndarray:
    """Return log-probabilities of the mixture of a global model and a local memory, eq. (7)."""
    model = log_softmax(np.asarray(logits, dtype=np.float64), axis=1)
    if weight == 0:
        return model
    with np.errstate(divide="ignore"):  # a class without a vote
        if weight == 1:
            return np.log(p)
        if mixing == "probabilities":
            return np.log((1 - weight) * np.exp(model) + weight * p)
    return log_softmax((1 - weight) * np.float64(logits) + weight * p, axis=1)


def choose_weight(
    logits: np.ndarray,
    p: np.ndarray,
    labels: np.ndarray,
    mixing: str = "probabilities",
    grid: Sequence[float] = GRID,
) -> float:
    """Return the lambda of `grid` that classifies most examples correctly.

    Of tied values it is the middle one: on small validation sets the ends would be extreme.
    """
    found = [mix(logits, p, weight, mixing).argmax(axis=1) for weight in grid]
    right = np.array([(f == labels).sum() for f in found])
    best = np.flatnonzero(right == right.max())
    return float(grid[best[(len(best) - 1) // 2]])


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Classifier by the labels of the k nearest keys, weighted by a kernel, see `log_kernel`."""

    index: Index  # the keys
    labels: np.ndarray = field(repr=False)  # (n,) labels of the keys
    classes: int  # number of labels
    k: int = 10  # number of neighbours; all keys if there are fewer
    kernel: str = "paper"
    sigma: float = 1.0

    def __len__(self) -> int:
        return len(self.index)

    def __call__(self, queries: np.ndarray) -> np.ndarray:
        """Return probabilities (Q, classes)."""
        squared, rows = self.index.search(queries, self.k)
        log_weights = log_kernel(squared, self.kernel, self.sigma, self.index.keys.shape[1])
        return vote(log_weights, np.eye(self.classes)[self.labels[rows]])


@dataclass(frozen=True, eq=False)
class Associative:
    """Keys of unit norm and the labels of each."""

    keys: np.ndarray = field(repr=False)  # (n, d)
    labels: np.ndarray = field(repr=False)  # (n,)
    classes: int  # number of labels
    mean: np.ndarray = field(repr=False)  # (d,), subtracted from queries before they are normed
    beta: float  # inverse temperature

    def __len__(self) -> int:
        return len(self.keys)

    def log_weights(self, queries: np.ndarray) -> np.ndarray:
        """Return unnormalised log-weights (Q, n)."""
        return self.beta * unit(queries - self.mean) @ self.keys.T

    def update(self, queries: np.ndarray) -> np.ndarray:
        """Return ``X^T softmax(beta X q)`` (Q, d): each query after one update of the network."""
        return vote(self.log_weights(queries), self.keys)

    def __call__(self, queries: np.ndarray) -> np.ndarray:
        """Return probabilities of the labels (Q, C)."""
        return vote(self.log_weights(queries), np.eye(self.classes)[self.labels])


def stored_examples(
    features: np.ndarray, labels: np.ndarray, classes: int, beta: float
) -> Associative:
    """Return the memory of all examples, centred and of unit norm."""
    mean = features.mean(axis=0, dtype=np.float64)
    return Associative(unit(features - mean), labels, classes, mean, beta)


def unit(x: np.ndarray) -> np.ndarray:
    """Rows of unit norm, float64; a row of zeros stays."""
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norm > 0, norm, 1)
