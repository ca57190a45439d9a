"""Differentially private operators: calibrated noise, accounting.

A client releases ``S = sum_m eta_m eta_m^T`` with Gaussian noise (theory/NOTES.md, "Sensitivity and
Gaussian mechanism"). Neighbouring data sets differ in one replaced example; the number of examples
is public. For +-1 examples the entries above the diagonal move by at most N; they get noise of
standard deviation ``z N``, z of `hopfed.theory.private.noise_multiplier`, and the diagonal needs no
noise. Other examples, of norm at most ``c``, move them by ``c^2``, and the diagonal gets noise of
twice the variance, since ``(D_ij, D_ii / sqrt 2)`` has the Frobenius norm over sqrt 2 as well.

The guarantee is for one release. Noise is drawn in floating point, for experiments and for parties
that trust each other; answers that leave an owner's machine use `discrete_gaussian` instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from hopfed._lib.arrays import namespace, to_host
from hopfed._lib.settings import require
from hopfed.errors import BackendError
from hopfed.privacy.integer_noise import Coins
from hopfed.spectral.operators import DenseOperator
from hopfed.theory import private


@dataclass(frozen=True, eq=False)
class PrivateOperator(DenseOperator):
    """Dense operator with noise of variance `noise` on its entries; pooling adds the variances."""

    noise: float = 0.0

    @property
    def radius(self) -> float:
        """Radius of the semicircle that the noise adds to the spectrum of C."""
        return float(2 * np.sqrt(self.noise * self.n_sites) / self.mass)

    def _pooled(self, every: Sequence[Self], weights: Sequence[float]) -> Self:
        noise = sum(op.noise * w**2 for op, w in zip(every, weights, strict=True))
        return replace(super()._pooled(every, weights), noise=noise)


def privatise_operator(
    operator: DenseOperator, scale: float, rng: np.random.Generator | Coins, diagonal: bool = False
) -> PrivateOperator:
    """Make a client's operator private: add symmetric Gaussian noise from a secret `rng`.

    `scale` is the standard deviation off the diagonal. If the examples are not +-1, set
    `diagonal`, so that the diagonal gets noise too.
    """
    n = operator.n_sites
    signs = diagonal or bool((to_host(operator.matrix.diagonal()) == operator.mass).all())
    fits = signs and operator.mass == operator.sum_sq_weights
    rule = "without noise, over +-1 examples of weight one"
    require(fits and not isinstance(operator, PrivateOperator), "operator", rule, "another")
    draw = np.zeros((n, n))
    draw[np.triu_indices(n, 1)] = scale * rng.standard_normal(n * (n - 1) // 2)
    draw += draw.T
    if diagonal:
        draw[np.diag_indices(n)] = np.sqrt(2) * scale * rng.standard_normal(n)
    matrix = operator.matrix + namespace(operator.matrix).asarray(draw)
    return PrivateOperator(n, operator.mass, operator.mass, matrix, noise=scale**2)


def accountant(
    noise_multiplier: float, rounds: int = 1, *, delta: float, rate: float = 1.0
) -> float:
    """Epsilon of `rounds` releases of private operators, of examples at a `rate` (Poisson)."""
    private.gaussian_epsilon(noise_multiplier, delta, rounds)  # checks its arguments
    require(0 < rate <= 1, "rate", "in (0, 1]", rate)
    try:
        import dp_accounting as dp
        from dp_accounting import pld
    except ImportError:
        advice = "the accountant needs dp-accounting: pip install 'hopfed[privacy]'"
        raise BackendError(advice) from None
    # The guarantee depends only on the distance of neighbours, for which this relation serves too.
    z = noise_multiplier
    step = max(1e-4, 1e-5 * (0.5 / z**2 + 5 / z))  # losses range wide where noise is small
    found = pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE, step)
    found.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise_multiplier)), int(rounds))
    return float(found.get_epsilon(delta))
