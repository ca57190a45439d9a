"""A client's examples as an associative memory: Hopfield retrieval.

Source: theory/NOTES.md, "Softmax retrieval is a neighbour vote" and "Recall energies". The softmax
over stored keys is the update of a modern Hopfield network (Ramsauer et al., 2021):
``q -> X^T softmax(beta X q)``. With keys of unit norm, all of them neighbours, the program's kernel
and ``sigma = 2 / (beta d)``, kNN-Per (arXiv:2111.09360) is this retrieval, read out in labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hopfed.neural.memory.neighbours import label_bytes, vote


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

    @property
    def nbytes(self) -> int:
        """Bytes of keys and mean in float32, and labels."""
        n, d = self.keys.shape
        return n * (4 * d + label_bytes(self.classes)) + 4 * d


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
