"""Nearest neighbours: exact and approximate search, kernels, votes, and the mix with a model.

Source: arXiv:2111.09360, eqs. (6), (7); theory/NOTES.md, "kNN-Per interpolation".

The functions take and return NumPy arrays. Candidates are found in float32, by comparing all pairs
where networks are trained, or by FAISS. Their distances are then recomputed in float64, and the
first of tied rows wins. So an exact search gives the result of comparing all pairs anywhere. The
approximate index sorts keys, by their principal axes where they have many dimensions, into lists.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax, softmax

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, BackendError
from hopfed.neural.memory.store import blend

KERNELS = ("paper", "program")
MIXINGS = ("probabilities", "logits")
# Values of lambda that are tried (theory/NOTES.md, "kNN-Per interpolation").
GRID = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)

EXTRA = 8  # candidates beyond k; float64 distances choose the k nearest among all of them
POOL = 4  # times as many candidates of an approximate search, whose distances are of few axes
ROUNDING = 64 * np.finfo(np.float32).eps  # error of float32 distances, relative to squared norms
LISTS = 48  # lists that an approximate search visits
TRAINING = 39  # FAISS warns about its centroids below this number of keys per list
SAMPLE = 50_000  # keys from which axes and centroids are learned
AXES = 64  # principal axes along which lists are made and scanned
BLOCK = 1 << 23  # largest number of entries in a block of differences
PAIRS = 1 << 26  # largest number of distances in memory at once


class SmallStoreWarning(UserWarning):
    """A store holds fewer rows than requested; all of its rows were used."""


def parse_index(index: str) -> tuple[str, int]:
    """Split "exact" or "ivf[:LISTS]" into kind and lists to visit (0 for exact)."""
    kind, colon, text = index.partition(":")
    fits = kind == "ivf" if colon else kind in ("exact", "ivf")
    fits = fits and (not colon or (text.isdigit() and int(text) > 0))
    require(fits, "index", "exact or ivf[:LISTS]", index)
    return kind, int(text) if colon else LISTS * (kind == "ivf")


class Index:
    """Keys that can be searched for the nearest neighbours of a query.

    Parameters
    ----------
    keys : (n, d).
    index : "exact"; or "ivf:LISTS", approximate by FAISS: of the about sqrt(n) lists of keys the
        LISTS nearest are searched.
    device : where an exact search compares; the result is the same anywhere.

    Attributes
    ----------
    keys : (n, d) float32, read-only.

    Raises
    ------
    BackendError : FAISS is not installed, for an approximate search.
    """

    def __init__(self, keys: np.ndarray, index: str = "exact", device: str = "cpu"):
        require(keys.ndim == 2 and keys.shape[1] > 0, "keys", "of shape (n, d)", keys.shape)
        require(bool(np.isfinite(keys).all()), "keys", "finite", "NaN or infinity")
        self.keys = np.array(keys, dtype=np.float32, order="C")
        self.keys.flags.writeable = False
        self.kind, self.effort = parse_index(index)
        squares = np.einsum("nd,nd->n", self.keys, self.keys)
        self._largest = float(squares.max(initial=0.0))
        if self.kind == "exact":
            self._keys = torch.tensor(self.keys, device=device)
            self._squares = torch.as_tensor(squares, device=device)
        else:
            self._lists: Any = _inverted(self.keys, self.effort) if len(keys) else None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes of the keys, and of an approximate index when written to a file."""
        held = self.kind != "exact" and len(self)
        more = len(faiss().serialize_index(self._lists)) if held else 0
        return self.keys.nbytes + more

    def search(
        self, queries: np.ndarray, k: int, own: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return squared distances, ascending, and rows of the nearest keys, both (Q, min(k, n)).

        Parameters
        ----------
        queries : (Q, d).
        k : neighbours.
        own : (Q,) row of the key that equals each query; it is left out, so n - 1 rows remain.
        """
        require(k >= 1, "k", "at least 1", k)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        more = own is not None
        k = min(k, len(self) - more)
        if k <= 0 or len(queries) == 0:
            return np.zeros((len(queries), max(k, 0))), np.zeros((len(queries), max(k, 0)), int)
        pool = 1 if self.kind == "exact" else POOL
        width = min(pool * (k + EXTRA + more), len(self))
        rows = self._candidates(queries, width)
        squared = _differences(queries, self.keys, np.maximum(rows, 0))
        squared[rows < 0] = np.inf
        for i in self._unsure(queries, rows, squared, k + more):
            every = _differences(queries[i : i + 1], self.keys, np.arange(len(self))[None])[0]
            rows[i] = np.argsort(every, kind="stable")[:width]
            squared[i] = every[rows[i]]
        if own is not None:
            squared[rows == np.asarray(own)[:, None]] = np.inf
        order = np.lexsort((rows, squared), axis=1)[:, :k]
        return np.take_along_axis(squared, order, 1), np.take_along_axis(rows, order, 1)

    def _candidates(self, queries: np.ndarray, width: int) -> np.ndarray:
        """Rows (Q, width) of keys that may be nearest; -1 where an approximate search has less."""
        if self.kind != "exact":
            return np.asarray(self._lists.search(queries, width)[1])
        found, step = [], max(1, PAIRS // len(self))
        for part in torch.as_tensor(queries, device=self._keys.device).split(step):
            far = self._squares - 2 * (part @ self._keys.T)
            found.append(far.topk(width, dim=1, largest=False).indices)
        return torch.cat(found).cpu().numpy()

    def _unsure(
        self, queries: np.ndarray, rows: np.ndarray, squared: np.ndarray, k: int
    ) -> np.ndarray:
        """Queries with too few candidates or, if exact, where float32 may have missed one."""
        few = (rows >= 0).sum(axis=1) < k
        if self.kind == "exact" and rows.shape[1] < len(self):
            near, far = np.partition(squared, k - 1, axis=1)[:, k - 1], squared.max(axis=1)
            few |= far - near <= ROUNDING * ((queries**2).sum(axis=1) + self._largest)
        return np.flatnonzero(few)


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


def expected_weight(
    logits: np.ndarray,
    p: np.ndarray,
    labels: np.ndarray,
    mixing: str = "probabilities",
    grid: Sequence[float] = GRID,
) -> float:
    """Return the posterior mean of lambda given the labels, with a uniform prior on `grid`.

    This rule is proposed here. With few labels it stays near the middle of the grid, where the
    number of correct answers is not a reliable guide.
    """
    rows = np.arange(len(labels))
    told = np.array([mix(logits, p, weight, mixing)[rows, labels].sum() for weight in grid])
    chances = np.exp(told - told.max())
    return float(chances @ np.asarray(grid) / chances.sum())


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

    def __call__(self, queries: np.ndarray, own: np.ndarray | None = None) -> np.ndarray:
        """Return probabilities (Q, classes)."""
        squared, rows = self.index.search(queries, self.k, own)
        log_weights = log_kernel(squared, self.kernel, self.sigma, self.index.keys.shape[1])
        return vote(log_weights, np.eye(self.classes)[self.labels[rows]])

    @property
    def nbytes(self) -> int:
        """Bytes of the keys in float32 and the labels, one or two bytes each."""
        return self.index.keys.nbytes + label_bytes(self.classes) * len(self)


def label_bytes(classes: int) -> int:
    """Number of bytes that encode one of `classes` labels."""
    return int(np.min_scalar_type(classes - 1).itemsize)


def faiss() -> Any:
    """Return FAISS, set to one thread: a second thread pool would compete with PyTorch's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # its bindings warn on import
            import faiss as module
    except ImportError:
        raise BackendError("faiss is not installed: pip install 'hopfed[neural]'") from None
    module.omp_set_num_threads(1)
    return module


def layout(n: int, d: int) -> tuple[int, int]:
    """Return the number of lists of "ivf" for n keys, and the number of axes that it uses."""
    learned = min(n, SAMPLE)
    lists = max(1, min(round(n**0.5), learned // TRAINING))
    return lists, AXES if d > AXES and learned >= TRAINING * AXES else d


def _inverted(keys: np.ndarray, visited: int) -> Any:
    """FAISS's lists of the keys along their axes."""
    module, (n, d) = faiss(), keys.shape
    lists, axes = layout(n, d)
    index = module.index_factory(
        d, f"PCA{axes},IVF{lists},Flat" if axes < d else f"IVF{lists},Flat"
    )
    index.train(keys[:: -(-n // SAMPLE)])
    index.add(keys)
    module.extract_index_ivf(index).nprobe = min(visited, lists)
    return index


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
