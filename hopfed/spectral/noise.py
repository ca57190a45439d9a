"""What a rank rule looks at: the eigenvalues of an operator, and the noise they stand in.

The bulk variance is estimated when the quality is not given: ``trace C = N`` for +-1 data, so the
signal ``N r^2`` is what the debiased spikes add up to and ``s2 = 1 - r^2`` is the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import stdtrit

from hopfed.errors import ArgumentError
from hopfed.theory import spikes

__all__ = ["NoiseProfile", "Sample", "noise_variance"]

LEVEL = 1e-3  # rate at which owners with the same noise are told apart


@dataclass(frozen=True)
class NoiseProfile:
    """Noise whose variance depends on the example: owners of different quality or weight.

    Source: theory/NOTES.md, "Clients of unequal quality or weight".

    ``trace C_c = N`` for +-1 data: what an owner's trace holds outside of the k leading
    eigenvectors is spread over N - k directions of noise. That of examples with a weight is
    multiplied by it, over the mean weight.

    Attributes
    ----------
    captured : (L, K) ``v_k^T C_c v_k``, the part of each owner's trace along each eigenvector;
        None when not known, the owners' noise is then taken to be the same.
    weights : (L,) each owner's share of the examples.
    n_sites : N.
    gains : (L,) weight of each owner's examples over the mean weight; None for equal ones.
    n_examples : examples as they are, whatever their weights; None for the sample's own number.
    rows : (L,) rows of each owner; None where not known.
    spreads : (L,) standard deviation, over an owner's rows, of what all K eigenvectors capture.

    >>> captured = np.array([[36.0], [4.0]])  # of N = 100; what the others hold of it is noise
    >>> rows, spreads = np.array([400.0, 400.0]), np.array([8.0, 6.0])
    >>> profile = NoiseProfile(
    ...     captured, weights=np.array([0.5, 0.5]), n_sites=100, rows=rows, spreads=spreads
    ... )
    >>> profile.own_variances(1, common=1.0).round(3), profile.alike()
    (array([0.646, 0.97 ]), False)
    """

    captured: np.ndarray | None
    weights: np.ndarray
    n_sites: int
    gains: np.ndarray | None = None
    n_examples: float | None = None
    rows: np.ndarray | None = None
    spreads: np.ndarray | None = None

    def own_variances(self, k: int, common: float) -> np.ndarray:
        """(L,) noise variances ``1 - r_c^2`` once k eigenvectors are taken for signal.

        `common` stands for all of them where the owners' own are not known.
        """
        if self.captured is None:
            return np.full(len(self.weights), common)
        left = self.n_sites - self.captured[:, :k].sum(axis=1)
        return np.clip(left / max(self.n_sites - k, 1), 1e-6, 1.0)

    def variances(self, k: int, common: float = 1.0) -> np.ndarray:
        """(L,) noise variances as they enter C, `common` where the owners' are not known."""
        own = self.own_variances(k, common)
        return own if self.gains is None else own * self.gains

    def kurtosis(self, k: int, common: float = 1.0) -> float:
        """Excess kurtosis of the pooled noise: owners weigh by the square of their variance.

        `common` as in `own_variances`.
        """
        own = self.own_variances(k, common)
        excess = spikes.excess_kurtosis(np.sqrt(np.clip(1 - own, 0.0, 1 - 1e-9)))
        square = self.weights * self.variances(k, common) ** 2
        return float(square @ excess / square.sum())

    def alike(self, level: float = LEVEL) -> bool:
        """Whether the owners' noise may be the same: a test of false-alarm rate `level`.

        The largest deviation of what an owner's rows capture from the mean of all rows is compared
        with Student's law, with Bonferroni's share of the level for each owner. An ArgumentError
        says that what they capture, or its spread, is not known.
        """
        if self.captured is None or self.rows is None or self.spreads is None:
            raise ArgumentError("profile", "one with the spread of what owners capture", None)
        total, rows = self.captured.sum(axis=1), self.rows
        share = rows / rows.sum()
        error = np.sqrt(share @ self.spreads**2 * (1 / rows - 1 / rows.sum()))
        freedom = max(rows.sum() - len(rows), 1)
        most = stdtrit(freedom, 1 - level / (2 * len(rows)))
        return bool((np.abs(total - share @ total) <= most * error + 1e-9).all())


@dataclass(frozen=True)
class Sample:
    """The eigenvalues of C and what is known of the sample they came from.

    Attributes
    ----------
    values : descending eigenvalues.
    n_sites, n_examples : N and the effective M.
    complete : whether `values` is the whole nonzero spectrum.
    quality : r in (0, 1] when known.
    profile : noise that differs between owners, where it does.
    white : whether the eigenvalues are those of whitened coordinates, where the noise of every
        column has variance 1 (`hopfed.spectral.whitening`).
    kurtosis : excess kurtosis of the noise in an entry, of equal variance in all columns, where
        entries are no signs (0 for Gaussian noise); None for +-1, whose trace and kurtosis are
        known. `values` must then be complete, for the trace is theirs.

    >>> sample = Sample(np.array([20.0, 1.2, 0.9]), n_sites=100, n_examples=400)
    >>> sample.aspect, round(sample.variance(1), 3), round(sample.variance(0), 3)
    (0.25, 0.81, 1.0)
    """

    values: np.ndarray
    n_sites: int
    n_examples: float
    complete: bool = True
    quality: float | None = None
    profile: NoiseProfile | None = None
    white: bool = False
    kurtosis: float | None = None

    def __post_init__(self) -> None:
        if self.quality is not None and not 0 < self.quality <= 1:
            raise ArgumentError("quality", "in (0, 1]", self.quality)
        if self.kurtosis is not None and not self.complete:
            raise ArgumentError("values", "complete beside a kurtosis", "the leading ones")

    @property
    def aspect(self) -> float:
        """``q = N / M``."""
        return self.n_sites / self.n_examples

    @property
    def drawn(self) -> float:
        """Number of examples, whatever their weights."""
        given = None if self.profile is None else self.profile.n_examples
        return self.n_examples if given is None else given

    def variance(self, k: int) -> float:
        """Bulk variance once the k leading eigenvalues are taken for spikes."""
        if self.quality is not None:
            return max(1.0 - self.quality**2, 1e-12)
        if self.white and (self.profile is None or self.profile.captured is None):
            return 1.0
        if self.profile is not None and self.profile.captured is not None:
            return float(self.profile.weights @ self.profile.variances(k))
        if k not in self._found:
            total = 1.0 if self.kurtosis is None else float(self.values.sum()) / self.n_sites
            part = noise_variance(self.values[:k] / total, self.n_sites, self.aspect)
            self._found[k] = total * part
        return self._found[k]

    @cached_property
    def _found(self) -> dict[int, float]:
        return {}


def noise_variance(leading: np.ndarray, n_sites: int, aspect: float) -> float:
    """Bulk variance ``s2 = 1 - sum(theta) / N`` beside debiased spikes, by fixed point.

    Source: theory/NOTES.md, "Noise variance".

    Each of the `leading` eigenvalues, descending, is turned into its spike strength by
    arXiv:2603.19902, eq. (60), under the current s2; `n_sites` and `aspect` are N and q = N / M.

    >>> from hopfed.theory.spikes import outlier
    >>> eigenvalue = outlier(56.25, 0.25, 0.64)  # of r = 0.6, N = 100 and one archetype
    >>> round(noise_variance(np.array([eigenvalue]), n_sites=100, aspect=0.25), 2)
    0.64
    """
    s2, root = 1.0, float(np.sqrt(aspect))
    edge = (1 + root) ** 2
    for _ in range(200 if len(leading) else 0):
        kappa = spikes.strength_at(leading / s2 - edge, root)
        new = max(1.0 - s2 * float(kappa.sum()) / n_sites, 1e-6)
        if abs(new - s2) < 1e-12:
            break
        s2 = new
    return s2
