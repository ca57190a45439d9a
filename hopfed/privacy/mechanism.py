"""Differentially private operators: calibrated noise, accounting.

A client releases ``S = sum_m eta_m eta_m^T`` with Gaussian noise (theory/NOTES.md, "Sensitivity and
Gaussian mechanism"). Neighbouring data sets differ by one example that is replaced; their number is
public. Of +-1 examples the entries above the diagonal move by at most N; they get noise of standard
deviation ``z N``, z the noise multiplier, and the diagonal needs none. Other examples have norm at
most ``clip sqrt N``, N becomes ``clip^2 N``, and the diagonal is sent with noise of twice the
variance: ``(D_ij, D_ii / sqrt 2)`` has the Frobenius norm over sqrt 2 again.

The guarantee is for the releases of one mechanism. Noise is drawn in floating point, for
experiments and for parties that trust each other. What leaves the machine of an owner has the
integer noise of `hopfed.privacy.discrete_gaussian` instead (`hopfed.hopfield.noise`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from hopfed._lib.arrays import namespace, to_host
from hopfed._lib.settings import require
from hopfed.errors import BackendError
from hopfed.privacy.discrete_gaussian import Coins
from hopfed.spectral.operators import DenseOperator
from hopfed.theory import private


@dataclass(frozen=True)
class GaussianMechanism:
    """Gaussian noise that makes a release (epsilon, delta)-private; an error where none does.

    Attributes
    ----------
    epsilon, delta : the budget; epsilon inf adds no noise.
    clip : None for +-1 examples; otherwise rows have norm at most ``clip sqrt N``.

    Examples
    --------
    >>> mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5)
    >>> round(mechanism.noise_multiplier, 4), round(mechanism.scale(256), 2)
    (3.7306, 955.04)
    """

    epsilon: float
    delta: float
    clip: float | None = None

    def __post_init__(self) -> None:
        _ = self.noise_multiplier  # checks the budget
        holds = self.clip is None or 0 < self.clip < np.inf
        require(holds, "clip", "a finite number above 0, or None for +-1 examples", self.clip)

    @property
    def noise_multiplier(self) -> float:
        """z, the standard deviation of the noise of one release over its sensitivity."""
        return private.noise_multiplier(self.epsilon, self.delta)

    def sensitivity(self, n_sites: int) -> float:
        """Norm of the largest change of a triangle of sums over `n_sites` between neighbours."""
        return float(n_sites * (self.clip or 1.0) ** 2)

    def scale(self, n_sites: int) -> float:
        """Standard deviation of the noise on sums over `n_sites` sites (off the diagonal)."""
        return self.noise_multiplier * self.sensitivity(n_sites)


@dataclass(frozen=True, eq=False)
class PrivateOperator(DenseOperator):
    """A dense operator with noise of variance `noise` on its entries; pooling adds that up.

    Examples
    --------
    >>> own = DenseOperator.from_examples(np.ones((50, 40)))
    >>> found = noisy(own, GaussianMechanism(epsilon=1.0, delta=1e-5), np.random.default_rng(0))
    >>> round(found.noise**0.5, 1), round((found + found).noise**0.5, 1), round(found.radius, 1)
    (149.2, 211.0, 37.8)
    """

    noise: float = 0.0

    @property
    def radius(self) -> float:
        """Radius of the semicircle that the noise adds to the spectrum of C."""
        return float(2 * np.sqrt(self.noise * self.n_sites) / self.mass)

    def _added(self, other: Self) -> Self:
        return replace(super()._added(other), noise=self.noise + other.noise)

    def __mul__(self, weight: float) -> Self:
        return replace(super().__mul__(weight), noise=self.noise * weight**2)


def noisy(
    operator: DenseOperator, mechanism: GaussianMechanism, rng: np.random.Generator | Coins
) -> PrivateOperator:
    """Release a client's operator: symmetric Gaussian noise on its sums of products.

    Parameters
    ----------
    operator : sums over examples of weight one, of +-1 entries unless the mechanism clips.
    rng : secret source of the noise.

    Raises
    ------
    ArgumentError : the operator is noisy already, weighted, or not of what the mechanism is for.

    Examples
    --------
    >>> x = np.random.default_rng(0).choice([-1, 1], size=(500, 100))
    >>> mechanism = GaussianMechanism(epsilon=2.0, delta=1e-5)
    >>> released = noisy(DenseOperator.from_examples(x), mechanism, np.random.default_rng())
    >>> released.trace, round(released.radius, 3)
    (100.0, 7.975)
    """
    n, diagonal = operator.n_sites, to_host(operator.matrix.diagonal())
    limit = operator.mass * n * (mechanism.clip or 1.0) ** 2
    signs = mechanism.clip is not None or bool((diagonal == operator.mass).all())
    for rule, holds in {
        "one without noise": not isinstance(operator, PrivateOperator),
        "over examples of weight one": operator.mass == operator.sum_sq_weights,
        "of rows no longer than the mechanism says": diagonal.sum() <= limit * (1 + 1e-9),
        "of +-1 examples, or the mechanism one with a clip": signs,
    }.items():
        require(holds, "operator", rule, f"another, of trace {diagonal.sum():g}")
    scale = mechanism.scale(n)
    draw = np.zeros((n, n))
    draw[np.triu_indices(n, 1)] = scale * rng.standard_normal(n * (n - 1) // 2)
    draw += draw.T
    if mechanism.clip is not None:
        draw[np.diag_indices(n)] = np.sqrt(2) * scale * rng.standard_normal(n)
    matrix = operator.matrix + namespace(operator.matrix).asarray(draw)
    return PrivateOperator(n, operator.mass, operator.mass, matrix, noise=scale**2)


def accountant(
    noise_multiplier: float, rounds: int = 1, *, delta: float, rate: float = 1.0
) -> float:
    """Epsilon of `rounds` releases by the privacy loss distribution of `dp-accounting`.

    There is a closed form for a rate of 1, `hopfed.theory.private.gaussian_epsilon`.

    Parameters
    ----------
    noise_multiplier, rounds : z of one release, relative to its sensitivity; number of releases.
    delta : of the guarantee, in (0, 1).
    rate : probability that what is protected is in a release, by itself (Poisson sampling).

    Raises
    ------
    BackendError : `dp-accounting` is not installed; it comes with the extra `privacy`.

    Examples
    --------
    >>> round(accountant(3.73, delta=1e-5), 2), round(accountant(1.0, 10, delta=1e-5, rate=0.1), 2)
    (1.0, 2.85)
    """
    private.gaussian_epsilon(noise_multiplier, delta, rounds)  # checks its arguments
    require(0 < rate <= 1, "rate", "in (0, 1]", rate)
    try:
        import dp_accounting as dp
        from dp_accounting import pld
    except ImportError:
        advice = "the accountant needs dp-accounting: pip install 'hopfed[privacy]'"
        raise BackendError(advice) from None
    # Only the distance of neighbours counts: one sensitivity, in the library's relation too.
    found = pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    event = dp.GaussianDpEvent(noise_multiplier)
    found.compose(dp.PoissonSampledDpEvent(rate, event) if rate < 1 else event, int(rounds))
    return float(found.get_epsilon(delta))
