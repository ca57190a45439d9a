"""Nearest neighbours: exact and approximate search, kernels, votes, and the mix with a model.

Source: arXiv:2111.09360, eqs. (6), (7); theory/NOTES.md, "kNN-Per interpolation".

The functions take and return NumPy arrays. FAISS finds candidates in float32. Their distances are
then recomputed in float64, and the first of tied rows wins. So an exact search gives the result of
comparing all pairs, in whatever order FAISS adds.

Of the two approximate indexes, "ivf" is faster to build and to search.
It sorts keys of many dimensions into lists by their principal axes, and computes full distances
only for the best candidates.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, BackendError
from hopfed.neural.memory.device_search import OnDevice
from hopfed.neural.memory.store import blend

KINDS = ("exact", "hnsw", "ivf")
KERNELS = ("paper", "program")
MIXINGS = ("probabilities", "logits")
# Values of lambda that are tried (theory/NOTES.md, "kNN-Per interpolation").
GRID = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)

EXTRA = 8  # candidates beyond k; float64 distances choose the k nearest among all of them
ROUNDING = 64 * np.finfo(np.float32).eps  # error of FAISS's distances, relative to squared norms
LINKS = 32  # neighbours of a node of the HNSW graph
EFFORT = {"hnsw": 64, "ivf": 48}  # nodes kept open, lists visited
TRAINING = 39  # FAISS warns about its centroids below this number of keys per list
SAMPLE = 50_000  # keys from which axes and centroids are learned
AXES = 64  # principal axes along which lists are made and scanned
POOL = 4  # this many candidates per requested neighbour are compared in full dimension
BLOCK = 1 << 23  # largest number of entries in a block of differences


class SmallStoreWarning(UserWarning):
    """A store holds fewer rows than requested; all of its rows were used."""


def parse_index(index: str) -> tuple[str, int]:
    """Split "exact", "hnsw[:EF]" or "ivf[:LISTS]" into kind and search effort (0 for exact).

    Examples
    --------
    >>> parse_index("hnsw"), parse_index("ivf:16")
    (('hnsw', 64), ('ivf', 16))
    """
    kind, colon, text = index.partition(":")
    rule = "exact, hnsw[:EF] or ivf[:LISTS]"
    require(kind in KINDS and not (kind == "exact" and colon), "index", rule, index)
    require(not colon or (text.isdigit() and int(text) > 0), "index", rule, index)
    return kind, int(text) if colon else EFFORT.get(kind, 0)


class Index:
    """Keys that can be searched for the nearest neighbours of a query.

    Parameters
    ----------
    keys : (n, d).
    index : "exact"; or approximate: "hnsw:EF", a graph searched with EF open nodes, or
        "ivf:LISTS", of the about sqrt(n) lists of keys the LISTS nearest.
    device : where an exact search compares; the result is the same anywhere.

    Attributes
    ----------
    keys : (n, d) float32, read-only, as the searchable form holds them: there is no second copy.

    Raises
    ------
    BackendError : FAISS is not installed.

    Examples
    --------
    >>> squared, rows = Index(np.array([[0.0], [1.0], [3.0]])).search(np.array([[0.9]]), 2)
    >>> rows.tolist(), squared.round(2).tolist()
    ([[1, 0]], [[0.01, 0.81]])
    """

    def __init__(self, keys: np.ndarray, index: str = "exact", device: str = "cpu"):
        require(keys.ndim == 2 and keys.shape[1] > 0, "keys", "of shape (n, d)", keys.shape)
        require(bool(np.isfinite(keys).all()), "keys", "finite", "NaN or infinity")
        self.keys = np.ascontiguousarray(keys, dtype=np.float32)
        self.kind, self.effort = parse_index(index)
        self._index: Any = None
        if len(keys) and self.kind == "exact" and device != "cpu":
            self._index = OnDevice(self.keys, device)
        elif len(keys):
            self._index = _built(self.keys, self.kind, self.effort)
            self.keys = _held(self._index, self.keys.shape)
        self._largest = float(np.einsum("nd,nd->n", self.keys, self.keys).max(initial=0.0))

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes of the index when written to a file, keys included."""
        sizes: list[int] = []
        if isinstance(self._index, OnDevice):
            return self._index.nbytes
        if self._index is not None:
            module = faiss()
            count = module.PyCallbackIOWriter(lambda block: sizes.append(len(block)))
            module.write_index(self._index, count)
        return sum(sizes)

    def search(
        self, queries: np.ndarray, k: int, own: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return squared distances, ascending, and rows of the nearest keys, both (Q, min(k, n)).

        Parameters
        ----------
        queries : (Q, d).
        own : (Q,) row of the key that equals each query; it is left out, so n - 1 rows remain.
        """
        require(k >= 1, "k", "at least 1", k)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        left = len(self) - (own is not None)
        k = min(k, left)
        if k <= 0 or len(queries) == 0 or self._index is None:
            return np.zeros((len(queries), max(k, 0))), np.zeros((len(queries), max(k, 0)), int)
        width = min(k + EXTRA + (own is not None), len(self))
        rows = np.asarray(self._index.search(queries, width)[1])
        squared = _differences(queries, self.keys, np.maximum(rows, 0))
        squared[rows < 0] = np.inf
        for i in self._unsure(queries, rows, squared, k + (own is not None)):
            everything = _scan(queries[i], self.keys)
            rows[i] = np.argsort(everything, kind="stable")[:width]
            squared[i] = everything[rows[i]]
        if own is not None:
            squared[rows == np.asarray(own)[:, None]] = np.inf
        order = np.lexsort((rows, squared), axis=1)[:, :k]
        return np.take_along_axis(squared, order, 1), np.take_along_axis(rows, order, 1)

    def _unsure(
        self, queries: np.ndarray, rows: np.ndarray, squared: np.ndarray, k: int
    ) -> np.ndarray:
        """Queries with too few candidates or, if exact, where float32 may have missed one."""
        few = (rows >= 0).sum(axis=1) < k
        if self.kind == "exact" and rows.shape[1] < len(self):
            near, far = np.partition(squared, k - 1, axis=1)[:, k - 1], squared.max(axis=1)
            scale = (queries**2).sum(axis=1) + self._largest
            few |= far - near <= ROUNDING * scale
        return np.flatnonzero(few)


def log_kernel(squared: np.ndarray, kernel: str, sigma: float, dim: int) -> np.ndarray:
    """Return the logarithm of a kernel of squared distances D.

    "paper" is the kernel of eq. (6), ``-sqrt(D) / sigma``. "program" is the kernel of the authors'
    program, ``-D / (dim sigma)`` (theory/NOTES.md, "kNN-Per interpolation").

    Examples
    --------
    >>> log_kernel(np.array([4.0]), "paper", 2.0, 8), log_kernel(np.array([4.0]), "program", 2.0, 8)
    (array([-1.]), array([-0.25]))
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

    Examples
    --------
    >>> vote(np.log([[1.0, 3.0]]) - 1e4, np.eye(2)).round(6).tolist()
    [[0.25, 0.75]]
    """
    w = softmax(np.asarray(log_weights, dtype=np.float64), axis=1)
    return w @ values if values.ndim == 2 else np.einsum("qk,qkc->qc", w, values)


def mix(logits: np.ndarray, p: np.ndarray, weight: float, mixing: str) -> np.ndarray:
    """Return log-probabilities of the mixture of a global model and a local memory, eq. (7).

    The result is float64.

    Parameters
    ----------
    logits : (Q, C) of the global model.
    p : (Q, C) probabilities of the memory.
    weight : lambda; 0 gives exactly the model and 1 exactly the memory.
    mixing : "probabilities" as in the paper, or "logits" as in the authors' program, which adds
        probabilities to raw logits; the sums are then normalised.

    Examples
    --------
    >>> np.exp(mix(np.zeros((1, 2)), np.array([[1.0, 0.0]]), 0.5, "probabilities")).tolist()
    [[0.75, 0.25]]
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

    Examples
    --------
    >>> choose_weight(np.zeros((1, 2)), np.array([[0.2, 0.8]]), np.array([1]))
    0.5
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

    Examples
    --------
    >>> expected_weight(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0, int))
    0.5
    >>> expected_weight(np.zeros((50, 2)), np.tile([0.9, 0.1], (50, 1)), np.zeros(50, int)) > 0.9
    True
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
    """Number of bytes that encode one of `classes` labels.

    Examples
    --------
    >>> label_bytes(10), label_bytes(1000)
    (1, 2)
    """
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
    """Return the number of lists of "ivf" for n keys, and the number of axes that it uses.

    Examples
    --------
    >>> layout(200_000, 1280), layout(1000, 1280)
    ((447, 64), (25, 1280))
    """
    learned = min(n, SAMPLE)
    lists = max(1, min(round(n**0.5), learned // TRAINING))
    return lists, AXES if d > AXES and learned >= TRAINING * AXES else d


def _built(keys: np.ndarray, kind: str, effort: int) -> Any:
    module, (n, d) = faiss(), keys.shape
    if kind == "hnsw":
        index = module.IndexHNSWFlat(d, LINKS)
        index.hnsw.efSearch = effort
    elif kind == "ivf":
        lists, axes = layout(n, d)
        index = module.IndexIVFFlat(module.IndexFlatL2(axes), axes, lists)
        index.nprobe = min(effort, lists)
        if axes < d:
            index = module.IndexPreTransform(module.PCAMatrix(d, axes), index)
        index = module.IndexRefineFlat(index)
        index.k_factor = POOL
        index.train(keys[:: -(-n // SAMPLE)])
    else:
        index = module.IndexFlatL2(d)
    index.add(keys)
    return index


@dataclass(frozen=True, eq=False)
class _View:
    """Read-only array interface to memory of FAISS; it keeps the owning index alive."""

    index: Any
    __array_interface__: dict[str, Any]


def _held(index: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return a view of the keys in FAISS's own memory."""
    module, part = faiss(), index
    for name in ("refine_index", "storage"):
        if hasattr(part, name):
            part = module.downcast_index(getattr(part, name))
    flat = module.rev_swig_ptr(part.get_xb(), shape[0] * shape[1])
    where = flat.__array_interface__["data"][0], True
    return np.asarray(_View(index, {**flat.__array_interface__, "data": where, "shape": shape}))


def _scan(query: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Squared distances (n,) of a query to every key, in float64."""
    step = max(1, BLOCK // keys.shape[1])
    blocks = [np.arange(i, min(i + step, len(keys)))[None] for i in range(0, len(keys), step)]
    return np.concatenate([_differences(query[None], keys, rows)[0] for rows in blocks])


def _differences(queries: np.ndarray, keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Squared distances (Q, k) of queries to the keys at `rows`, in float64."""
    squared = np.empty(rows.shape)
    step = max(1, BLOCK // (rows.shape[1] * keys.shape[1]))
    for i in range(0, len(rows), step):
        apart = keys[rows[i : i + step]].astype(np.float64) - queries[i : i + step, None]
        squared[i : i + step] = np.einsum("qkd,qkd->qk", apart, apart)
    return squared
