"""Linear read-outs of bits: ridge regression as a Hebbian operator that has dreamed.

Source: theory/NOTES.md, "One-shot Hebbian read-out". With bits Z (n, D), operator
``A = Z^T Z`` and class sums ``B = Z^T Y``, the ridge solution is
``(A + rho n)^-1 B = t / D (B - t / (1 + t) J(t) B) / n`` with ``J = A / (n D)`` after the dreaming
time ``t = D / rho``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import scipy.linalg
import torch
from scipy.special import log_softmax, logsumexp
from torch import Tensor

from hopfed.kernels import PackedBits, unpack
from hopfed.spectral.operators import DenseOperator, HebbianOperator, explicit
from hopfed.spectral.sketch import SketchOperator


@dataclass(frozen=True, eq=False)
class Sums:
    """All that a read-out needs of examples; those of several clients are added.

    Attributes
    ----------
    operator : of the bits, ``A = Z^T Z`` (D, D), in any form.
    by_class : (D, C), ``B = Z^T Y``; integers, or floats where examples have weights.
    counts : (C,) examples of each class, or their weights.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> bits = np.array([[1, 1, -1], [1, -1, -1]], np.int8)
    >>> sums = Sums.of(pack(bits), np.array([0, 1]), 2)
    >>> (sums + sums).counts.tolist(), sums.by_class.tolist()
    ([2, 2], [[1, 1], [1, -1], [-1, -1]])
    """

    operator: HebbianOperator = field(repr=False)
    by_class: np.ndarray = field(repr=False)
    counts: np.ndarray

    @classmethod
    def of(cls, rows: PackedBits, labels: np.ndarray, classes: int) -> Sums:
        """Sum up packed bits (n, D) and their labels (n,)."""
        one_hot = np.eye(classes, dtype=np.int64)[labels]
        by_class = unpack(rows).astype(np.int64).T @ one_hot
        return cls(DenseOperator.from_examples(rows), by_class, one_hot.sum(axis=0))

    def __add__(self, other: Sums) -> Sums:
        operator = self.operator + other.operator
        return Sums(operator, self.by_class + other.by_class, self.counts + other.counts)

    def __mul__(self, weight: float) -> Sums:
        return Sums(self.operator * weight, self.by_class * weight, self.counts * weight)

    def beside(self, own: Sums, weight: float) -> Sums:
        """Return these with `weight` times a client's own; its own alone if that is below 0."""
        if weight < 0:
            return own
        return self + own * weight if weight else self

    def log_prior(self) -> np.ndarray:
        """Log shares (C,) of the classes, with one example more, spread over all of them."""
        share: np.ndarray = np.log((self.counts + 1 / len(self.counts)) / (self.counts.sum() + 1))
        return share


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of ``A / n``, and what the class sums are along its eigenvectors.

    Attributes
    ----------
    values : (k,) in falling order, none negative.
    vectors : (D, k).
    inside : (k, C), ``V^T B / n``.
    counts : (C,) examples of each class.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> rng = np.random.default_rng(0)
    >>> z, y = np.where(rng.random((50, 8)) < 0.5, 1, -1), rng.integers(3, size=50)
    >>> found = Spectrum.of(Sums.of(pack(z), y, 3))
    >>> round(float(found.values.sum()), 12), found.leading(2).readouts((0.3,)).shape
    (8.0, (1, 8, 3))
    """

    values: np.ndarray
    vectors: np.ndarray = field(repr=False)
    inside: np.ndarray = field(repr=False)
    counts: np.ndarray

    @property
    def examples(self) -> float:
        """n, or the sum of the examples' weights."""
        return float(self.counts.sum())

    @classmethod
    def of(cls, sums: Sums) -> Self:
        """Spectrum of the sums of some examples.

        The bits have ``trace A / n = D``. What factors or a sketch leave out of it is taken for
        noise that is equal in all directions.
        """
        operator, n = sums.operator, float(sums.counts.sum())
        D, C = sums.by_class.shape
        if n == 0:
            return cls(np.zeros(0), np.zeros((D, 0)), np.zeros((0, C)), sums.counts)
        whole = operator.factors() if isinstance(operator, SketchOperator) else operator
        values, vectors = scipy.linalg.eigh(explicit(whole) * (operator.mass / n))
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        if not isinstance(operator, DenseOperator):
            values = values + max(D - float(values.sum()), 0.0) / D
        return cls(values, vectors, vectors.T @ (sums.by_class / n), sums.counts)

    def leading(self, k: int) -> Self:
        """Return the k largest eigenvalues alone: read-outs ignore the other directions."""
        return replace(
            self,
            values=self.values[:k],
            vectors=self.vectors[:, :k],
            inside=self.inside[:k],
        )

    def readouts(self, ridges: tuple[float, ...]) -> np.ndarray:
        """Read-outs (R, D, C), ``(A + rho n)^-1 B`` for each rho above 0 of R `ridges`."""
        shrunk = self.values + np.array(ridges)[:, None]
        return np.asarray(self.vectors @ (self.inside / shrunk[:, :, None]))


def readouts(sums: Sums, ridges: tuple[float, ...]) -> np.ndarray:
    """Return a read-out (D, C) for each of R ridges, (R, D, C): ``(A + rho n)^-1 B``.

    Parameters
    ----------
    sums : of n examples.
    ridges : numbers rho above 0, in units of the examples; D / rho is the dreaming time.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> rng = np.random.default_rng(0)
    >>> z, y = np.where(rng.random((50, 8)) < 0.5, 1, -1), rng.integers(3, size=50)
    >>> found = readouts(Sums.of(pack(z), y, 3), (0.3,))[0]
    >>> wanted = np.linalg.solve(z.T @ z + 0.3 * 50 * np.eye(8), z.T @ np.eye(3)[y])
    >>> bool(np.allclose(found, wanted))
    True
    """
    return Spectrum.of(sums).readouts(ridges)


@dataclass(frozen=True)
class Choice:
    """Settings of a read-out that validation chooses.

    Attributes
    ----------
    ridge : rho; 0 for the one that theory finds, see `hopfed.neural.readouts.evidence`.
    own : weight of the client's own examples beside those of all; -1 for them alone.
    scale : of the scores, before they are probabilities.
    prior : power of the client's own class shares over those of all.
    """

    ridge: float
    own: float
    scale: float
    prior: float


def log_probabilities(scores: np.ndarray, choice: Choice, shift: np.ndarray) -> np.ndarray:
    """Return log-probabilities (n, C) of scores (n, C); `shift` (C,) are the log prior ratios.

    Examples
    --------
    >>> even = log_probabilities(np.zeros((1, 2)), Choice(1.0, 0.0, 4.0, 1.0), np.log([3.0, 1.0]))
    >>> np.exp(even).round(2).tolist()
    [[0.75, 0.25]]
    """
    return np.asarray(log_softmax(choice.scale * scores + choice.prior * shift, axis=1))


@dataclass(frozen=True, eq=False)
class Readout:
    """A client's classifier: bits of its inputs, and a read-out.

    Attributes
    ----------
    bits : images (B, ...) -> bits (B, D).
    weights : (D, C) float64.
    choice : settings of the read-out.
    shift : (C,) logarithm of the client's class shares over those of all.
    """

    bits: Callable[[Tensor], Tensor]
    weights: np.ndarray = field(repr=False)
    choice: Choice
    shift: np.ndarray = field(repr=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Return log-probabilities (B, classes), float64."""
        return torch.as_tensor(self.of_bits(self.bits(x).cpu().numpy()), device=x.device)

    def of_bits(self, bits: np.ndarray) -> np.ndarray:
        """Return log-probabilities (n, C) of examples of these bits (n, D)."""
        scores = bits.astype(np.float64) @ self.weights
        return log_probabilities(scores, self.choice, self.shift)

    @classmethod
    def none(cls, classes: int) -> Self:
        """Return the read-out before anything is known: all classes are equal to it."""
        zeros = np.zeros(classes)
        return cls(_no_bits, zeros[None], Choice(1.0, 0.0, 1.0, 0.0), zeros)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Read-outs of one client, mixed by how likely each of them is.

    A client with few validation examples cannot tell which of many settings is best, and need not.

    Attributes
    ----------
    readouts : of the same bits.
    shares : (R,) that add up to 1.
    """

    readouts: tuple[Readout, ...]
    shares: np.ndarray

    def __call__(self, x: Tensor) -> Tensor:
        """Return log-probabilities (B, classes), float64."""
        bits = self.readouts[0].bits(x).cpu().numpy()
        logs = np.array([each.of_bits(bits) for each in self.readouts])
        mixed = logsumexp(logs, axis=0, b=self.shares[:, None, None])
        return torch.as_tensor(mixed, device=x.device)


def _no_bits(x: Tensor) -> Tensor:
    return x.new_zeros((len(x), 1))
