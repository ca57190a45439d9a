"""Memories of a client's examples, from features to class probabilities; mixture with a model.

Source: arXiv:2111.09360, eqs. (6), (7); Gupta et al. (2017); theory/NOTES.md, "kNN-Per
interpolation", "Softmax retrieval is a neighbour vote" and "Compressed stores".
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.special import log_softmax, softmax
from torch import Tensor
from torch.nn.functional import nll_loss

from hopfed._lib.arrays import blas_threads
from hopfed._lib.random import derive
from hopfed._lib.settings import require
from hopfed.memory.energies import field_coefficients
from hopfed.memory.rules import Exponential
from hopfed.neural.training.loops import one_thread
from hopfed.neural.training.losses import Params

# Candidate values of lambda (theory/NOTES.md, "kNN-Per interpolation").
GRID = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)

PAIRS = 1 << 25  # largest number of array entries in memory at once


class SmallStoreWarning(UserWarning):
    """A store holds fewer rows than requested; all of its rows were used."""


class Index:
    """Search index of keys (n, d), float32; distances come from float64 differences."""

    def __init__(self, keys: np.ndarray, device: str = "cpu"):
        require(keys.ndim == 2 and keys.shape[1] > 0, "keys", "of shape (n, d)", keys.shape)
        require(bool(np.isfinite(keys).all()), "keys", "finite", "NaN or infinity")
        self.keys = np.array(keys, dtype=np.float32, order="C")
        self._keys = torch.tensor(self.keys, dtype=torch.float64, device=device)

    def __len__(self) -> int:
        return len(self.keys)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ascending squared distances and rows of the nearest keys, both (Q, min(k, n))."""
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


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Labels of the k nearest keys, weighted by a kernel of squared distances D.

    In the paper, eq. (6), it is ``exp(-sqrt(D) / sigma)``, in its program ``exp(-D / (d sigma))``.
    """

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
        paper, d = self.kernel == "paper", self.index.keys.shape[1]
        weights = softmax(-(np.sqrt(squared) if paper else squared / d) / self.sigma, axis=1)
        return np.einsum("qk,qkc->qc", weights, np.eye(self.classes)[self.labels[rows]])


class Hopfield:
    """Labels of all examples, by one update of a modern Hopfield network (Ramsauer et al., 2021).

    The weights are ``softmax(beta X q)`` of the examples' features X and a query q, both centred
    and of unit norm: kNN-Per with all keys, the program's kernel and ``sigma = 2 / (beta d)``.
    """

    def __init__(self, features: np.ndarray, labels: np.ndarray, classes: int, beta: float):
        self.mean = features.mean(axis=0, dtype=np.float64)
        self.keys, self.rule = normalise_rows(features - self.mean), Exponential(beta)
        self.labels, self.classes = labels, classes

    def __len__(self) -> int:
        return len(self.keys)

    def weights(self, queries: np.ndarray) -> np.ndarray:
        """Return the weights (Q, n) of the examples."""
        near, one = normalise_rows(queries - self.mean) @ self.keys.T, np.ones(len(self))
        return np.asarray(field_coefficients(near, self.rule, self.keys.shape[1], one)[0])

    def __call__(self, queries: np.ndarray) -> np.ndarray:
        """Return probabilities (Q, classes)."""
        return self.weights(queries) @ np.eye(self.classes)[self.labels]


def normalise_rows(x: np.ndarray) -> np.ndarray:
    """Return features in a client's memory at unit norm, float64; rows of zeros are unchanged."""
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norm > 0, norm, 1)


def mix_with_memory(logits: np.ndarray, p: np.ndarray, weight: float, mixing: str) -> np.ndarray:
    """Return log-probabilities of a global model mixed with a client's local memory, eq. (7)."""
    model = log_softmax(np.asarray(logits, dtype=np.float64), axis=1)
    if weight == 0:
        return model
    with np.errstate(divide="ignore"):  # log of 0 for a class without votes
        if weight == 1:
            return np.log(p)
        if mixing == "probabilities":
            return np.log((1 - weight) * np.exp(model) + weight * p)
    return log_softmax((1 - weight) * np.float64(logits) + weight * p, axis=1)


def choose_weight(logits: np.ndarray, p: np.ndarray, labels: np.ndarray, mixing: str) -> float:
    """Return a memory's weight, of `GRID`, with most examples correct; middle of any ties."""
    found = [mix_with_memory(logits, p, weight, mixing).argmax(axis=1) for weight in GRID]
    right = np.equal(found, labels).sum(axis=1)
    best = np.flatnonzero(right == right.max())
    return GRID[best[(len(best) - 1) // 2]]


WIDTH = 2.5  # the kernel starts as exp(-WIDTH^2) at the median distance, as in ProtoNN
SMOOTH = 0.1  # pseudo-examples of each label at a prototype
TINY = 1e-12
LR = 0.01  # learning rate of Adam on features of unit mean square


class Prototypes:
    """A few prototypes b_j with soft labels z_j, learned from examples (n, d), as in ProtoNN.

    They start as k-means centres, and are learned together with masses a_j and a width g by the
    cross-entropy of ``p(y | x) = sum_j a_j z_j[y] exp(-g |x - b_j|^2) / sum_j a_j exp(-g |x -
    b_j|^2)``, in `steps` of Adam, each on all examples; with 0 steps, the k-means centres keep
    their label frequencies. There are `count` prototypes, or as many as distinct examples if fewer.
    """

    def __init__(
        self,
        features: np.ndarray,
        labels: np.ndarray,
        classes: int,
        *,
        count: int,
        steps: int = 100,
        seed: int = 0,
    ):
        self.mean = features.mean(axis=0, dtype=np.float64)
        self.scale = float(np.sqrt(((features - self.mean) ** 2).sum(axis=1).mean())) or 1.0
        x = (features - self.mean) / self.scale
        with one_thread():
            self.weights = _start(x, labels, classes, count, seed)
            optimizer = torch.optim.Adam([w.requires_grad_() for w in self.weights.values()], lr=LR)
            for _ in range(steps):
                optimizer.zero_grad()
                chances = _votes(self.weights, x).clamp(min=TINY)
                nll_loss(chances.log(), torch.as_tensor(labels)).backward()
                optimizer.step()

    def __len__(self) -> int:
        return len(self.weights["keys"])

    def __call__(self, queries: np.ndarray) -> np.ndarray:
        """Return probabilities (Q, classes)."""
        with torch.no_grad(), one_thread():
            p = _votes(self.weights, (queries - self.mean) / self.scale).double()
            return np.asarray(p / p.sum(dim=1, keepdim=True))


def _start(x: np.ndarray, labels: np.ndarray, classes: int, count: int, seed: int) -> Params:
    """Return keys (p, d), and logarithms of soft labels (p, C), masses (p,) and the width ()."""
    from sklearn.cluster import KMeans  # seconds on import
    from sklearn.exceptions import ConvergenceWarning

    count = min(count, len(np.unique(x, axis=0)))
    means = KMeans(count, n_init=4, random_state=derive(seed, "k-means") % 2**32)
    with warnings.catch_warnings(), blas_threads(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # if points differ only by rounding
        nearest = means.fit(x).labels_
    held = np.zeros((count, classes))
    np.add.at(held, (nearest, labels), 1)
    keys, held = means.cluster_centers_[held.any(axis=1)], held[held.any(axis=1)]
    middle = float(np.median(_squared(torch.as_tensor(x), torch.as_tensor(keys)))) or 1.0
    made = {"keys": keys, "labels": np.log(held + SMOOTH), "masses": np.log(held.sum(axis=1))}
    made["width"] = np.log(WIDTH**2 / middle)
    return {name: torch.as_tensor(array, dtype=torch.float32) for name, array in made.items()}


def _votes(weights: Params, x: np.ndarray) -> Tensor:
    """Return class probabilities (Q, C) of the queries x."""
    squared = _squared(torch.as_tensor(x, dtype=torch.float32), weights["keys"])
    near = (weights["masses"] - weights["width"].exp() * squared).softmax(dim=1)
    return near @ weights["labels"].softmax(dim=1)


def _squared(x: Tensor, keys: Tensor) -> Tensor:
    """Return squared distances (n, p), without an array of all differences."""
    return ((x**2).sum(dim=1)[:, None] + (keys**2).sum(dim=1) - 2 * x @ keys.T).clamp(min=0)
