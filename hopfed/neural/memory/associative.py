"""A client's examples as an associative memory: Hopfield retrieval, and class archetypes.

Source: theory/NOTES.md, "Softmax retrieval is a neighbour vote" and "Recall energies". The softmax
over stored keys is the update of a modern Hopfield network (Ramsauer et al., 2021):
``q -> X^T softmax(beta X q)``. With keys of unit norm, all of them neighbours, the program's kernel
and ``sigma = 2 / (beta d)``, kNN-Per (arXiv:2111.09360) is this retrieval, read out in labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hopfed.neural.memory.neighbours import label_bytes, vote
from hopfed.recovery.recover import recover

FEW = 16  # a class with fewer examples is represented by their majority vote


@dataclass(frozen=True, eq=False)
class Associative:
    """Keys of unit norm and the labels that they stand for.

    Attributes
    ----------
    counts : (n,) number of examples that a key represents; its weight is multiplied by it.
    mean : (d,) vector subtracted from a query before normalisation to unit norm.
    """

    keys: np.ndarray = field(repr=False)  # (n, d)
    values: np.ndarray = field(repr=False)  # (n, C) labels of the keys, rows that sum to one
    counts: np.ndarray = field(repr=False)
    mean: np.ndarray = field(repr=False)
    beta: float  # inverse temperature
    binary: bool = False  # whether queries are reduced to their signs, as the keys are

    def __len__(self) -> int:
        return len(self.keys)

    def log_weights(self, queries: np.ndarray) -> np.ndarray:
        """Return unnormalised log-weights (Q, n)."""
        return self.beta * self.cue(queries) @ self.keys.T + np.log(self.counts)

    def cue(self, queries: np.ndarray) -> np.ndarray:
        """Return the queries (Q, d) centred, reduced to signs if `binary`, and of unit norm."""
        return unit(signs(queries, self.mean) if self.binary else queries - self.mean)

    def update(self, queries: np.ndarray) -> np.ndarray:
        """Return ``X^T softmax(beta X q)`` (Q, d): each query after one update of the network."""
        return vote(self.log_weights(queries), self.keys)

    def __call__(self, queries: np.ndarray) -> np.ndarray:
        """Return probabilities of the labels (Q, C)."""
        return vote(self.log_weights(queries), self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of keys (a sign takes one bit, a number is float32), labels, counts and mean."""
        n, d = self.keys.shape
        row = (d + 7) // 8 if self.binary else 4 * d
        return n * (row + label_bytes(self.values.shape[1]) + 4 * self.binary) + 4 * d


def stored_examples(
    features: np.ndarray, labels: np.ndarray, classes: int, beta: float
) -> Associative:
    """Return the memory of all examples, centred and of unit norm."""
    mean = features.mean(axis=0, dtype=np.float64)
    keys = unit(features - mean)
    return Associative(keys, np.eye(classes)[labels], np.ones(len(keys)), mean, beta)


def class_archetypes(
    features: np.ndarray, labels: np.ndarray, classes: int, beta: float, seed: int
) -> Associative:
    """Return the memory of the archetypes of each class, sign patterns around the mean feature.

    They are recovered from `FEW` examples or more; else, or without any, a majority represents the
    class.
    """
    mean = features.mean(axis=0, dtype=np.float64)
    binary = signs(features, mean)
    keys, owners, counts = [], [], []
    for label in np.unique(labels):
        mine = binary[labels == label]
        patterns = _patterns(mine, seed)
        nearest = (mine.astype(np.float32) @ patterns.T.astype(np.float32)).argmax(axis=1)
        stands = np.bincount(nearest, minlength=len(patterns))
        keys.append(patterns[stands > 0])
        counts.append(stands[stands > 0])
        owners += [label] * int((stands > 0).sum())
    values = np.eye(classes)[owners]
    return Associative(
        unit(np.concatenate(keys)), values, np.concatenate(counts), mean, beta, binary=True
    )


def signs(features: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Signs of features around `mean`, int8; sign(0) = +1."""
    return np.where(features >= mean, 1, -1).astype(np.int8)


def unit(x: np.ndarray) -> np.ndarray:
    """Rows of unit norm, float64; a row of zeros stays."""
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norm > 0, norm, 1)


def _patterns(mine: np.ndarray, seed: int) -> np.ndarray:
    """Archetypes of one class (K, d), at least one."""
    if len(mine) >= FEW:
        found = recover(mine, seed=seed, channel="symmetric")
        if len(found):
            return found.patterns
    return np.where(mine.sum(axis=0, dtype=np.int64) >= 0, 1, -1)[None].astype(np.int8)
