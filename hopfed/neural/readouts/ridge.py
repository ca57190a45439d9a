"""Linear read-outs of bits from sums: ridge regression as a Hebbian operator after dreaming.

Source: theory/NOTES.md, "One-shot Hebbian read-out" and "Ridge and privacy of the read-out". With
bits Z (n, D), operator ``A = Z^T Z`` and class sums ``B = Z^T Y``, the ridge solution is
``(A + rho n)^-1 B = t / D (B - t / (1 + t) J(t) B) / n`` with ``J = A / (n D)`` after the dreaming
time ``t = D / rho``. Without validation, rho minimises the squared error of a further example
by generalised cross-validation, from the eigenvalues l of ``A / n`` and the class counts:
``n RSS / (n - df)^2`` with the degrees of freedom ``df = sum l / (l + rho)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import add
from typing import Any, Self

import numpy as np
import scipy.linalg
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, ndtr

from hopfed.privacy.private_operator import privatise_operator
from hopfed.spectral.operators import DenseOperator
from hopfed.theory.private import noise_multiplier

LEAST, MOST = 1e-4, 1e3  # range of the ridges
ABSENT = 10.0  # distance of the score of a class without examples below other scores
STEPS = 43  # number of ridges of the grid in this range, before refinement


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over weighted examples for a read-out; sums of several clients can be added."""

    operator: np.ndarray = field(repr=False)  # (D, D), ``A = Z^T Z``
    by_class: np.ndarray = field(repr=False)  # (D, C), ``B = Z^T Y``
    counts: np.ndarray  # (C,) examples of each class

    @classmethod
    def of(cls, bits: np.ndarray, labels: np.ndarray, classes: int) -> Sums:
        """Return exact sums of integers (n, D) and their labels (n,)."""
        z, one_hot = np.asarray(bits, dtype=np.float64), np.eye(classes)[labels]
        return cls(*(a.astype(np.int64) for a in (z.T @ z, z.T @ one_hot, one_hot.sum(axis=0))))

    def __add__(self, other: Sums) -> Sums:
        return Sums(*map(add, vars(self).values(), vars(other).values()))

    def __mul__(self, weight: float) -> Sums:
        return Sums(*(weight * a for a in vars(self).values()))

    @property
    def examples(self) -> float:
        """n, or the sum of the examples' weights."""
        return float(self.counts.sum())

    def log_prior(self) -> np.ndarray:
        """Return log shares (C,) of the classes, with one more example spread over all classes."""
        return np.asarray(np.log((self.counts + 1 / len(self.counts)) / (self.counts.sum() + 1)))


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of ``A / n``, and class sums in the basis of its eigenvectors."""

    values: np.ndarray  # (D,) in falling order, none negative
    vectors: np.ndarray = field(repr=False)  # (D, D)
    inside: np.ndarray = field(repr=False)  # (D, C), ``V^T B / n``
    examples: float  # n, or the sum of the examples' weights

    @property
    def size(self) -> float:
        """Mean eigenvalue, which is 1 for bits."""
        return float(self.values.sum()) / len(self.vectors) if len(self.values) else 1.0

    @classmethod
    def of(cls, sums: Sums) -> Self:
        """Return the spectrum of the sums of examples."""
        n, (D, C) = sums.examples, sums.by_class.shape
        if n == 0:
            return cls(np.zeros(0), np.zeros((D, 0)), np.zeros((0, C)), n)
        values, vectors = scipy.linalg.eigh(sums.operator / n)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        return cls(values, vectors, vectors.T @ (sums.by_class / n), n)

    def readouts(self, ridges: Sequence[float]) -> np.ndarray:
        """Return read-outs (R, D, C), ``(A + rho n)^-1 B`` for each rho > 0 of R `ridges`."""
        shrunk = self.values + np.array(ridges)[:, None]
        return np.asarray(self.vectors @ (self.inside / shrunk[:, :, None]))


def within_classes(sums: Sums) -> tuple[np.ndarray, np.ndarray]:
    """Return class means (C, d), covariance within classes (d, d), of a ridge, without constant."""
    n, counts = sums.examples, sums.counts
    means = sums.by_class[:-1].T / np.maximum(counts, 1e-300)[:, None]
    between = (means * counts[:, None]).T @ means
    return means, (sums.operator[:-1, :-1] - between) / n


def solve_readout(sums: Sums, ridge: float, discriminant: bool = False) -> np.ndarray:
    """Return the read-out (D, C) for a ridge: least squares, or Fisher's linear discriminant.

    The discriminant has equal priors, half of its usual offset, as the ridge shrinks the means, and
    scores in units of the mean squared distance of the means from their mean.
    """
    n, counts, (D, C) = sums.examples, sums.counts, sums.by_class.shape
    if not n:
        return np.zeros((D, C))
    if not discriminant:
        matrix = sums.operator / n
        matrix[np.diag_indices(D)] += ridge
        return np.asarray(scipy.linalg.solve(matrix, sums.by_class / n, assume_a="pos"))
    means, within = within_classes(sums)
    within[np.diag_indices(D - 1)] += ridge
    constant = np.sqrt(sums.operator[-1, -1] / n)
    centre = sums.operator[-1, :-1] / (n * constant)
    apart = np.where(counts[:, None] > 0, means - centre, 0.0)
    weights = scipy.linalg.solve(within, apart.T, assume_a="pos")
    squares = (apart.T * weights).sum(axis=0)
    size = max(float(counts @ squares) / n, 1e-300)
    offset = np.where(counts > 0, -squares / 4, -size * ABSENT) - centre @ weights
    return np.asarray(np.vstack([weights, offset / constant]) / size)


def predicted_error(spectrum: Spectrum, ridge: float) -> float:
    """Return a ridge's squared error of a further example, by generalised cross-validation."""
    n, values = spectrum.examples, spectrum.values
    shrunk, squares = values + ridge, (spectrum.inside**2).sum(axis=1)
    residual = n * (1 - 2 * float(squares @ (1 / shrunk)) + float(squares @ (values / shrunk**2)))
    free = n - float((values / shrunk).sum())
    return n * max(residual, 0.0) / max(free, 1e-9 * n) ** 2 if n else float("nan")


def best_ridge(spectrum: Spectrum) -> float:
    """Return the ridge of least predicted error; 1 without examples."""
    if not spectrum.examples:
        return 1.0

    def loss(x: float) -> float:
        return predicted_error(spectrum, math.exp(x))

    grid = np.linspace(math.log(LEAST), math.log(MOST), STEPS) + math.log(spectrum.size)
    at = int(np.argmin([loss(x) for x in grid]))
    bounds = grid[max(at - 1, 0)], grid[min(at + 1, STEPS - 1)]
    return math.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x)


def weigh_other_clients(every: Sequence[Sums]) -> np.ndarray:
    """Return weights of clients' examples in each other client's ridge, (L, L) from 0 to 1.

    Source: theory/NOTES.md, "Ridge and privacy of the read-out", *Resemblance*. Let ``d^2`` be the
    squared distance of two clients' means of a class, minus its expectation for equal means, and v
    the variance of an example around its mean. Then n examples of the other client count as
    ``n / (1 + n d^2 / v)`` of the client's own, as in a random-effects model.
    """
    by_class = np.array([sums.by_class for sums in every], dtype=np.float64)
    counts = np.array([sums.counts for sums in every])
    L, _, C = by_class.shape
    length = sum(np.trace(s.operator) for s in every) / max(counts.sum(), 1)
    distance, spread = np.zeros((L, L)), np.zeros((L, L))
    for label in range(C):
        n = counts[:, label].astype(np.float64)
        means = by_class[:, :, label] / np.maximum(n, 1)[:, None]
        norms = np.einsum("ld,ld->l", means, means)
        squares = norms[:, None] + norms - 2 * means @ means.T
        several = n > 1
        variance = np.where(several, (length - norms) * n / np.maximum(n - 1, 1), 0.0)
        chance = variance / np.maximum(n, 1)
        weight = np.outer(n, n) / np.maximum(n[:, None] + n, 1) * np.outer(several, several)
        distance += weight * (squares - chance[:, None] - chance)
        spread += weight * (variance[:, None] + variance) / 2
    held = counts.sum(axis=1) / np.maximum((counts > 0).sum(axis=1), 1)  # mean class size
    unlike = np.divide(distance, spread, out=np.zeros((L, L)), where=spread > 0)
    found = 1 / (1 + np.maximum(unlike, 0.0) * held)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


@dataclass(frozen=True)
class ReadoutChoice:
    """Settings of a read-out that validation chooses."""

    ridge: float  # rho; 0 for `best_ridge`
    own: float  # weight of the client's own examples, added to all examples; -1 for only its own
    scale: float  # factor of the scores before the softmax
    prior: float  # exponent of the client's class shares relative to all clients


def log_probabilities(scores: np.ndarray, choice: ReadoutChoice, shift: np.ndarray) -> np.ndarray:
    """Return log-probabilities (n, C) of a ridge's scores; `shift` (C,) are log prior ratios."""
    return np.asarray(log_softmax(choice.scale * scores + choice.prior * shift, axis=1))


def mix_readouts(logs: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return log-probabilities (n, C) of a mixture, by `shares` (R,), of ridges' (R, n, C)."""
    return logs[0] if len(logs) == 1 else logsumexp(logs, axis=0, b=shares[:, None, None])


NODES = np.polynomial.hermite_e.hermegauss(41)  # quadrature for the normal law


@dataclass(frozen=True)
class PrivateSums:
    """Mechanism that releases sums of examples' bits and labels with (epsilon, delta)-privacy.

    A row of the mechanism (`hopfed.privacy.private_operator`) is an example's bits z and its label,
    ``(z, w e_y)``: D + C numbers of norm ``sqrt(D + w^2)``, so no row is clipped. A triangle
    of the sum of products holds ``A``, ``w B`` and the class counts, and changes by at most ``D +
    w^2`` when an example is replaced. The noise on B is least at ``w^2 = D``. Rounding afterwards
    costs no privacy; the number of a client's examples is public.
    """

    n_bits: int  # D
    classes: int  # C
    epsilon: float  # epsilon, delta: privacy of a release if one example is replaced
    delta: float

    @property
    def weight(self) -> int:
        """Weight w of a label relative to the bits."""
        return math.isqrt(self.n_bits)

    @cached_property
    def scale(self) -> float:
        """Standard deviation of the noise on an entry of A and of w B."""
        width = self.n_bits + self.classes
        clip = math.sqrt((self.n_bits + self.weight**2) / width)
        return noise_multiplier(self.epsilon, self.delta) * float(width * clip**2)

    def radius(self, releases: int) -> float:
        """Return the norm of the noise on a sum of `releases` operators (semicircle law)."""
        return 2 * self.scale * math.sqrt(releases * self.n_bits)

    def release(self, bits: np.ndarray, labels: np.ndarray, rng: Any) -> Sums:
        """Return sums of bits (n, D) and labels (n,) times `weight`, with noise by secret `rng`."""
        D, n = self.n_bits, len(labels)
        label = self.weight * np.eye(self.classes)[labels]
        rows = np.concatenate([np.asarray(bits, dtype=np.float64), label], axis=1)
        whole = DenseOperator(rows.shape[1], float(n), float(n), rows.T @ rows)
        noisy = privatise_operator(whole, self.scale, rng, diagonal=True).matrix
        found = np.rint(noisy).astype(np.int64)
        np.fill_diagonal(found[:D, :D], n)  # equal for any bits, so it reveals nothing
        return Sums(found[:D, :D], np.ascontiguousarray(found[:D, D:]), np.zeros(self.classes))

    def read(self, released: Sums, examples: int) -> Sums:
        """Return sums estimated from `released` sums of `examples`; class shares are cut at 0."""
        operator, by_class = released.operator.astype(float), released.by_class / self.weight
        np.fill_diagonal(operator, examples)
        shares = np.maximum(by_class[-1], 0.0) + 1e-9
        return Sums(operator, by_class, shares * examples / shares.sum())

    def predicted_accuracy(
        self, spectrum: Spectrum, ridge: float, releases: int, bits: np.ndarray, labels: np.ndarray
    ) -> float:
        """Return the expected accuracy of a common read-out with noise.

        To first order, with ``R = (A / n + rho)^-1`` and noise E on A, F on B, the read-out moves
        by ``R (F - E W) / n``: a score of an example z has independent normal noise of variance
        ``v_c^2 = f^2 |R z|^2 + e^2 (|R z|^2 |W_c|^2 + (z^T R W_c)^2)`` over n^2. Its own class wins
        with probability ``E prod_c Phi((s_y + v_y g - s_c) / v_c)`` over a normal g.
        """
        z, W = np.asarray(bits, dtype=np.float64), spectrum.readouts((ridge,))[0]
        scores, seen = z @ W, (z @ spectrum.vectors) / (spectrum.values + ridge)
        squares = (seen**2).sum(axis=1)[:, None]
        along = seen @ (spectrum.vectors.T @ W)
        variance = squares / self.weight**2 + squares * (W**2).sum(axis=0) + along**2
        noise = np.sqrt(releases * self.scale**2 * variance) / spectrum.examples
        at = np.arange(len(labels))
        own = scores[at, labels][:, None] + noise[at, labels][:, None] * NODES[0]
        chance = ndtr((own[:, None] - scores[:, :, None]) / np.maximum(noise, 1e-300)[:, :, None])
        chance[at, labels] = 1.0
        return float((chance.prod(axis=1) @ (NODES[1] / NODES[1].sum())).mean())
