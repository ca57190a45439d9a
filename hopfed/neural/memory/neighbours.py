"""Nearest neighbours: exact search, kernels, votes, and the mix with a model.

Source: arXiv:2111.09360, eqs. (6), (7); theory/NOTES.md, "kNN-Per interpolation".

The functions take and return NumPy arrays. Candidates are found in float32 by comparing all pairs.
Their distances are then recomputed in float64, and the first of tied rows wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.special import log_softmax, softmax

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.neural.memory.store import blend

KERNELS = ("paper", "program")
MIXINGS = ("probabilities", "logits")
# Values of lambda that are tried (theory/NOTES.md, "kNN-Per interpolation").
GRID = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)

EXTRA = 8  # candidates beyond k; float64 distances choose the k nearest among all of them
ROUNDING = 64 * np.finfo(np.float32).eps  # error of float32 distances, relative to squared norms
BLOCK = 1 << 23  # largest number of entries in a block of differences
PAIRS = 1 << 26  # largest number of distances in memory at once


class SmallStoreWarning(UserWarning):
    """A store holds fewer rows than requested; all of its rows were used."""


class Index:
    """Keys that can be searched for the nearest neighbours of a query, by comparing all pairs.

    Parameters
    ----------
    keys : (n, d).
    device : where pairs are compared; the result is the same anywhere.

    Attributes
    ----------
    keys : (n, d) float32, read-only.
    """

    def __init__(self, keys: np.ndarray, device: str = "cpu"):
        require(keys.ndim == 2 and keys.shape[1] > 0, "keys", "of shape (n, d)", keys.shape)
        require(bool(np.isfinite(keys).all()), "keys", "finite", "NaN or infinity")
        self.keys = np.array(keys, dtype=np.float32, order="C")
        self.keys.flags.writeable = False
        squares = np.einsum("nd,nd->n", self.keys, self.keys)
        self._largest = float(squares.max(initial=0.0))
        self._keys = torch.tensor(self.keys, device=device)
        self._squares = torch.as_tensor(squares, device=device)

    def __len__(self) -> int:
        return len(self.keys)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return squared distances, ascending, and rows of the nearest keys, both (Q, min(k, n)).

        Parameters
        ----------
        queries : (Q, d).
        k : neighbours.
        """
        require(k >= 1, "k", "at least 1", k)
        queries, k = np.ascontiguousarray(queries, dtype=np.float32), min(k, len(self))
        if k == 0 or len(queries) == 0:
            return np.zeros((len(queries), k)), np.zeros((len(queries), k), int)
        rows = self._candidates(queries, min(k + EXTRA, len(self)))
        squared = _differences(queries, self.keys, rows)
        for i in self._unsure(queries, rows, squared, k):
            every = _differences(queries[i : i + 1], self.keys, np.arange(len(self))[None])[0]
            rows[i] = np.argsort(every, kind="stable")[: rows.shape[1]]
            squared[i] = every[rows[i]]
        order = np.lexsort((rows, squared), axis=1)[:, :k]
        return np.take_along_axis(squared, order, 1), np.take_along_axis(rows, order, 1)

    def _candidates(self, queries: np.ndarray, width: int) -> np.ndarray:
        """Rows (Q, width) of keys that may be nearest."""
        found, step = [], max(1, PAIRS // len(self))
        for part in torch.as_tensor(queries, device=self._keys.device).split(step):
            far = self._squares - 2 * (part @ self._keys.T)
            found.append(far.topk(width, dim=1, largest=False).indices)
        return torch.cat(found).cpu().numpy()

    def _unsure(
        self, queries: np.ndarray, rows: np.ndarray, squared: np.ndarray, k: int
    ) -> np.ndarray:
        """Queries for which float32 may have missed a neighbour."""
        if rows.shape[1] == len(self):
            return np.zeros(0, int)
        near, far = np.partition(squared, k - 1, axis=1)[:, k - 1], squared.max(axis=1)
        room = ROUNDING * ((queries**2).sum(axis=1) + self._largest)
        return np.flatnonzero(far - near <= room)


def log_kernel(squared: np.ndarray, kernel: str, sigma: float, dim: int) -> np.ndarray:
    """Return the logarithm of a kernel of squared distances D.

    "paper" is the kernel of eq. (6), ``-sqrt(D) / sigma``. "program" is the kernel of the authors'
    program, ``-D / (dim sigma)`` (theory/NOTES.md, "kNN-Per interpolation").
    """
    if kernel == "paper":
        return -np.sqrt(squared) / sigma
    if kernel == "program":
        return -squared / (dim * sigma)
    raise ArgumentError("kernel", f"one of {', '.join(KERNELS)}", kernel)


def vote(log_weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``sum_i w_i v_i / sum_i w_i``, the labels weighted by the kernel as in eq. (6).

    All weights are first divided by the largest one, so that a narrow kernel cannot give 0 / 0.

    Parameters
    ----------
    log_weights : (Q, k).
    values : (Q, k, C) rows that each sum to one, or (k, C) when all queries have the same.
    """
    w = softmax(np.asarray(log_weights, dtype=np.float64), axis=1)
    return w @ values if values.ndim == 2 else np.einsum("qk,qkc->qc", w, values)


def mix(logits: np.ndarray, p: np.ndarray, weight: float, mixing: str) -> np.ndarray:
    """Return log-probabilities of the mixture of a global model and a local memory, eq. (7).

    Parameters
    ----------
    logits : (Q, C) of the global model.
    p : (Q, C) probabilities of the memory.
    weight : lambda; 0 gives exactly the model and 1 exactly the memory.
    mixing : "probabilities" as in the paper, or "logits" as in the authors' program, which adds
        probabilities to raw logits; the sums are then normalised.
    """
    model = log_softmax(np.asarray(logits, dtype=np.float64), axis=1)
    if weight == 0:
        return model
    with np.errstate(divide="ignore"):  # a class without a vote
        if weight == 1:
            return np.log(p)
        if mixing == "probabilities":
            return np.log(blend(np.exp(model), p, weight))
    if mixing == "logits":
        return log_softmax(blend(np.asarray(logits, dtype=np.float64), p, weight), axis=1)
    raise ArgumentError("mixing", f"one of {', '.join(MIXINGS)}", mixing)


def choose_weight(
    logits: np.ndarray,
    p: np.ndarray,
    labels: np.ndarray,
    mixing: str = "probabilities",
    grid: Sequence[float] = GRID,
) -> float:
    """Return the lambda of `grid` that classifies most examples correctly.

    If several values tie, the middle one is returned, or the lower of two in the middle. On a
    small validation set many values tie, and the first or last of them would be extreme
    (theory/NOTES.md, "kNN-Per interpolation").
    """
    found = [mix(logits, p, weight, mixing).argmax(axis=1) for weight in grid]
    right = np.array([(f == labels).sum() for f in found])
    best = np.flatnonzero(right == right.max())
    return float(grid[best[(len(best) - 1) // 2]])


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Classifier by the labels of the k nearest keys, weighted by a kernel.

    Attributes
    ----------
    index : the keys.
    labels : (n,) labels of the keys.
    classes : number of labels.
    k : number of neighbours; all keys if there are fewer.
    kernel, sigma : see `log_kernel`.
    """

    index: Index
    labels: np.ndarray = field(repr=False)
    classes: int
    k: int = 10
    kernel: str = "paper"
    sigma: float = 1.0

    def __len__(self) -> int:
        return len(self.index)

    def __call__(self, queries: np.ndarray) -> np.ndarray:
        """Return probabilities (Q, classes)."""
        squared, rows = self.index.search(queries, self.k)
        log_weights = log_kernel(squared, self.kernel, self.sigma, self.index.keys.shape[1])
        return vote(log_weights, np.eye(self.classes)[self.labels[rows]])

    @property
    def nbytes(self) -> int:
        """Bytes of the keys in float32 and the labels, one or two bytes each."""
        return self.index.keys.nbytes + label_bytes(self.classes) * len(self)


def label_bytes(classes: int) -> int:
    """Number of bytes that encode one of `classes` labels."""
    return int(np.min_scalar_type(classes - 1).itemsize)


def _differences(queries: np.ndarray, keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Squared distances (Q, k) of queries to the keys at `rows`, in float64."""
    squared = np.empty(rows.shape)
    width = max(1, BLOCK // keys.shape[1])
    step = max(1, width // rows.shape[1])
    for i in range(0, len(rows), step):
        for j in range(0, rows.shape[1], width):
            block = slice(i, i + step), slice(j, j + width)
            apart = keys[rows[block]].astype(np.float64) - queries[i : i + step, None]
            squared[block] = np.einsum("qkd,qkd->qk", apart, apart)
    return squared
