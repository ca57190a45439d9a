"""Operators and class sums with noise, which bounds what they reveal about one example.

Source: theory/NOTES.md, "Ridge and privacy of the read-out".

A row of the mechanism (`hopfed.privacy.mechanism`) is an example's bits z with its label behind
them, ``(z, w e_y)``: D + C numbers of norm ``sqrt(D + w^2)``, whatever the example, so no row is
clipped. One triangle of the sum of products holds ``A``, ``w B`` and the class counts, and changes
by at most ``D + w^2`` when an example is replaced. The noise on B is least at ``w^2 = D``.

The release is rounded to whole numbers afterwards, which costs no privacy. The noise of clients
adds up. The number of a client's examples is treated as public.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isqrt, sqrt

import numpy as np
from scipy.special import ndtr

from hopfed.neural.readouts.ridge import Spectrum, Sums
from hopfed.privacy.discrete_gaussian import Coins
from hopfed.privacy.mechanism import GaussianMechanism, noisy
from hopfed.spectral.operators import DenseOperator

NODES = np.polynomial.hermite_e.hermegauss(41)  # of the normal law


@dataclass(frozen=True)
class PrivateSums:
    """Mechanism that releases sums of examples' bits and labels with (epsilon, delta)-privacy.

    Attributes
    ----------
    n_bits, classes : D and C.
    epsilon, delta : privacy of a release if one example is replaced by another.
    """

    n_bits: int
    classes: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        self.mechanism  # noqa: B018  (checks the budget)

    @property
    def weight(self) -> int:
        """w, of a label among the bits."""
        return isqrt(self.n_bits)

    @cached_property
    def mechanism(self) -> GaussianMechanism:
        """What adds the noise to rows of D + C numbers."""
        clip = sqrt((self.n_bits + self.weight**2) / (self.n_bits + self.classes))
        return GaussianMechanism(self.epsilon, self.delta, clip=clip)

    @property
    def scale(self) -> float:
        """Standard deviation of the noise on an entry of A and of w B."""
        return self.mechanism.scale(self.n_bits + self.classes)

    def radius(self, releases: int) -> float:
        """Norm of the noise on the sum of the operators of so many releases: a semicircle's."""
        return 2 * self.scale * sqrt(releases * self.n_bits)

    def release(
        self, bits: np.ndarray, labels: np.ndarray, rng: np.random.Generator | Coins
    ) -> Sums:
        """Release bits (n, D) and labels (n,) with noise from `rng`, which must be secret.

        The class sums are times `weight`; the class counts are left to `read`.
        """
        D, n = self.n_bits, len(labels)
        label = self.weight * np.eye(self.classes)[labels]
        rows = np.concatenate([np.asarray(bits, dtype=np.float64), label], axis=1)
        whole = DenseOperator(rows.shape[1], float(n), float(n), rows.T @ rows)
        found = np.rint(noisy(whole, self.mechanism, rng).matrix).astype(np.int64)
        np.fill_diagonal(found[:D, :D], n)  # as of all bits, so it tells nothing
        return Sums(found[:D, :D], np.ascontiguousarray(found[:D, D:]), np.zeros(self.classes))

    def read(self, released: Sums, examples: int) -> Sums:
        """Sums as releases of so many examples tell them; class shares are cut at 0."""
        operator, by_class = released.operator.astype(float), released.by_class / self.weight
        np.fill_diagonal(operator, examples)
        shares = np.maximum(by_class[-1], 0.0) + 1e-9
        return Sums(operator, by_class, shares * examples / shares.sum())

    def predicted_accuracy(
        self, spectrum: Spectrum, ridge: float, releases: int, bits: np.ndarray, labels: np.ndarray
    ) -> float:
        """Share of examples that a read-out for all with noise will classify correctly.

        To first order, with ``R = (A / n + rho)^-1`` and noise E on A, F on B, the read-out moves
        by ``R (F - E W) / n``: a score of an example z has independent normal noise of variance
        ``v_c^2 = f^2 |R z|^2 + e^2 (|R z|^2 |W_c|^2 + (z^T R W_c)^2)`` over n^2. Its own class wins
        with ``E prod_c Phi((s_y + v_y g - s_c) / v_c)`` over a normal g.
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
        weights = NODES[1] / NODES[1].sum()
        return float((chance.prod(axis=1) @ weights).mean())
