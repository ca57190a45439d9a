"""What a rank rule looks at: the eigenvalues of an operator, and the noise they stand in.

The bulk variance is estimated when the quality is not given: ``trace C = N`` for +-1 data, so the
signal ``N r^2`` is what the debiased spikes add up to and ``s2 = 1 - r^2`` is the rest.

Noise of independent columns of any rate: where the law of white noise holds.

Columns that are divided by their own standard deviation have the edge of white noise up to the
factor ``1 - 2 / sqrt(M N)``, whatever their kurtosis (theory/NOTES.md, "Counting in whitened
coordinates"), as long as every column has many of its rarer values. With c of them the next terms
go as 1 / c, and rows that happen to hold many rare values have eigenvalues of their own. There the
largest eigenvalue is simulated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from scipy.special import stdtrit

from hopfed._lib.arrays import Array, blas_threads
from hopfed._lib.random import stream
from hopfed.errors import ArgumentError
from hopfed.spectral.operators import FactorOperator
from hopfed.theory import spikes, tracy_widom

__all__ = ["ColumnNoise", "NoiseProfile", "Sample", "noise_variance"]

REPEATS = 64  # simulated draws: 5% comes out as 5% +- 2% from one set of draws to another
RARE = 0.03  # what rare values may do to the edge, against the width of the Tracy-Widom law
ENTRIES = 20_000_000  # of a draw: beyond, nothing is simulated, and `uncertain` says so
EXPLICIT = 1_500  # side of a matrix up to which its eigenvalue is computed directly
TW_MEAN, TW_SD = -1.2065335745820, 1.2679805339620
GUMBEL_MEAN, GUMBEL_SD = float(np.euler_gamma), float(np.pi / np.sqrt(6))


@dataclass(frozen=True)
class ColumnNoise:
    """Independent columns of -1, 0 (missing) and +1, as they are once their classes are known.

    Attributes
    ----------
    seen : (N,) share of the rows in which the column is observed, in (0, 1].
    variances : (N,) variance of the zero-filled column within its class, in (0, seen].
    n_examples : M.
    seed : of the simulation.
    stretch : edge where owners hold different columns, over that of white noise.

    Examples
    --------
    >>> common = ColumnNoise(np.ones(50), np.full(50, 0.64), 400)
    >>> round(common.scarcity, 4), common.simulated, common.factor(0.05)
    (0.0056, False, 1.0)
    >>> rare = ColumnNoise(np.ones(300), np.full(300, 0.19), 100)  # five in a hundred
    >>> round(rare.scarcity, 2), rare.simulated, 1.0 < rare.factor(0.05) < 1.1
    (0.17, True, True)
    """

    seen: np.ndarray = field(repr=False)
    variances: np.ndarray = field(repr=False)
    n_examples: int
    seed: int = 0
    stretch: float = 1.0

    @cached_property
    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """(N,) shares of the rows that are +1 and -1, columns turned so that +1 is the commoner."""
        lean = np.sqrt(np.clip(self.seen - self.variances, 0.0, None))  # seen * |mean|
        lean = np.minimum(lean, self.seen)
        return (self.seen + lean) / 2, (self.seen - lean) / 2

    @cached_property
    def scarcity(self) -> float:
        """Mean over columns of ``(E z^4 - 1) / M``: about 1 / (number of rarer values)."""
        up, down = self._counts()
        M = self.n_examples
        shares = np.array([up, down, M - up - down]) / M
        values = np.array([1.0, -1.0, 0.0])[:, None] - (shares[0] - shares[1])
        square = (shares * values**2).sum(axis=0)
        fourth = (shares * values**4).sum(axis=0)
        return float((fourth / square**2 - 1).mean() / M)

    @property
    def scarce(self) -> bool:
        """Whether columns are too rare, for this many rows, for the law of white noise."""
        return bool(self.scarcity**2 > RARE * min(self.n_examples, len(self.seen)) ** (-2 / 3))

    @property
    def simulated(self) -> bool:
        """Whether `factor` simulates."""
        return self.scarce and self.n_examples * len(self.seen) <= ENTRIES

    @property
    def uncertain(self) -> bool:
        """Whether the law does not hold and the matrix is too large to be simulated."""
        return self.scarce and not self.simulated

    def factor(self, alpha: float) -> float:
        """What to multiply the white edge of false-alarm rate `alpha` by."""
        if not self.simulated:
            return self.stretch
        M, N = self.n_examples, len(self.seen)
        centre, scale = tracy_widom.wishart_scaling(M - 1, N)
        shift = (1 - 2 / np.sqrt(M * N)) / M
        white = (centre + scale * tracy_widom.critical_value(alpha)) * shift
        sd = max(float(self.tops.std(ddof=1)), scale * TW_SD * shift)
        # What the Tracy-Widom law leaves of the variance is taken to come from the row with the
        # most rare values; the largest of many such rows has Gumbel's law.
        odd = 1 - (scale * TW_SD * shift / sd) ** 2
        wide = (-np.log(-np.log1p(-alpha)) - GUMBEL_MEAN) / GUMBEL_SD
        usual = (tracy_widom.critical_value(alpha) - TW_MEAN) / TW_SD
        found = float(self.tops.mean()) + sd * (odd * wide + (1 - odd) * usual)
        return max(float(found / white), 1.0) * self.stretch

    @cached_property
    def tops(self) -> np.ndarray:
        """(REPEATS,) simulated largest eigenvalues, in the scale of whitened coordinates."""
        return self.draws(REPEATS)

    def draws(self, repeats: int) -> np.ndarray:
        """(repeats,) largest eigenvalues of columns that are permuted independently."""
        up, down = self._counts()
        place = np.arange(self.n_examples)[:, None]
        Z = (place < up).astype(np.float32) - ((place >= up) & (place < up + down))
        Z -= Z.mean(axis=0)
        Z /= np.sqrt((Z**2).mean(axis=0))
        found = np.empty(repeats)
        for i in range(repeats):
            rng = stream(self.seed, "column noise", i)
            rng.permuted(Z, axis=0, out=Z)
            found[i] = largest(Z, rng)
        return found * (1 - 1 / self.n_examples)  # as variances about a mean are estimated

    def _counts(self) -> tuple[np.ndarray, np.ndarray]:
        """(N,) numbers of +1 and of -1 in M rows; no column is constant."""
        M = self.n_examples
        up, down = (np.rint(share * M).astype(np.int64) for share in self.shares)
        up = np.clip(up, 1, M - 1)
        full = np.minimum(down, M - up)
        return up, np.where(up + full == M, np.maximum(full, 1), full)


def largest(Z: Array, rng: np.random.Generator) -> float:
    """Largest eigenvalue of ``Z^T Z / M``."""
    M, N = Z.shape
    short = Z if N <= M else Z.T
    side = short.shape[1]
    if side <= EXPLICIT:
        with blas_threads(1):  # a second thread gains little here, and loses much on a busy machine
            G = (short.T @ short).astype(np.float64)
            last = scipy.linalg.eigh(G, eigvals_only=True, subset_by_index=[side - 1, side - 1])
        return float(float(last[0]) / M)
    product = scipy.sparse.linalg.LinearOperator(
        (side, side), lambda x: short.T @ (short @ x), dtype=np.float32
    )
    start = rng.standard_normal(side).astype(np.float32)
    value = scipy.sparse.linalg.eigsh(product, k=1, v0=start, tol=1e-4, return_eigenvectors=False)
    return float(float(value[0]) / M)


LEVEL = 1e-3  # rate at which owners with the same noise are told apart


@dataclass(frozen=True)
class NoiseProfile:
    """Noise whose variance depends on the example: owners of different quality or weight.

    Source: theory/NOTES.md, "Clients of unequal quality or weight".

    ``trace C_c = N`` for +-1 data: what an owner's trace holds outside of the k leading
    eigenvectors is spread over N - k directions of noise. Examples that enter C with a weight,
    relative to the mean weight, have their noise multiplied by it. Counting them as
    ``mass^2 / sum w^2`` equal examples keeps the second moment of the noise and not its edge: with
    weights that halve from round to round the edge lies higher by more than the width of the
    Tracy-Widom law.

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

    Examples
    --------
    >>> captured = np.array([[36.0], [4.0]])  # of N = 100; what the others hold of it is noise
    >>> rows, spreads = np.array([400.0, 400.0]), np.array([8.0, 6.0])
    >>> profile = NoiseProfile(
    ...     captured, weights=np.array([0.5, 0.5]), n_sites=100, rows=rows, spreads=spreads
    ... )
    >>> profile.own_variances(1, common=1.0).round(3), round(profile.mean(1), 3), profile.alike()
    (array([0.646, 0.97 ]), 0.808, False)
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
        found: np.ndarray = np.clip(left / max(self.n_sites - k, 1), 1e-6, 1.0)
        return found

    def variances(self, k: int, common: float = 1.0) -> np.ndarray:
        """(L,) noise variances as they enter C, `common` where the owners' are not known."""
        own = self.own_variances(k, common)
        return own if self.gains is None else own * self.gains

    def mean(self, k: int) -> float:
        """Bulk variance of the pooled operator beside k spikes."""
        return float(self.weights @ self.variances(k))

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

        Rows dealt at random to owners capture as much at every owner, up to the standard error of
        a mean over that owner's rows. The largest deviation from the mean of all rows is compared
        with Student's law, with Bonferroni's share of the level for each owner.

        Raises
        ------
        ArgumentError : what the owners capture, or how it spreads over their rows, is not known.
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
    operators : those of the owners, in factor form, for `Shuffle`.
    profile : noise that differs between owners, where it does.
    white : whether the eigenvalues are those of whitened coordinates, where the noise of every
        column has variance 1 (`hopfed.spectral.whitening`).
    columns : the columns' noise there, which knows what rare values do to the edge.
    kurtosis : excess kurtosis of the noise in an entry, of equal variance in all columns, where
        entries are no signs (0 for Gaussian noise); None for +-1, whose trace and kurtosis are
        known. `values` must then be complete, for the trace is theirs.

    Raises
    ------
    ArgumentError : a quality outside (0, 1].

    Examples
    --------
    >>> sample = Sample(np.array([20.0, 1.2, 0.9]), n_sites=100, n_examples=400)
    >>> sample.aspect, round(sample.variance(1), 3), round(sample.variance(0), 3)
    (0.25, 0.81, 1.0)
    """

    values: np.ndarray
    n_sites: int
    n_examples: float
    complete: bool = True
    quality: float | None = None
    operators: tuple[FactorOperator, ...] = ()
    profile: NoiseProfile | None = None
    white: bool = False
    columns: ColumnNoise | None = None
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
            return self.profile.mean(k)
        total = 1.0 if self.kurtosis is None else float(self.values.sum()) / self.n_sites
        return total * noise_variance(self.values[:k] / total, self.n_sites, self.aspect)


def noise_variance(leading: np.ndarray, n_sites: int, aspect: float) -> float:
    """Bulk variance ``s2 = 1 - sum(theta) / N`` beside debiased spikes, by fixed point.

    Source: theory/NOTES.md, "Noise variance".

    Each of the `leading` eigenvalues is turned into its spike strength by arXiv:2603.19902, eq.
    (60), under the current s2. Raw eigenvalues in the place of debiased ones diverge for N > M.

    Parameters
    ----------
    leading : the eigenvalues taken for spikes, descending.
    n_sites, aspect : N and q = N / M.

    Examples
    --------
    >>> from hopfed.theory.spikes import outlier
    >>> eigenvalue = outlier(56.25, 0.25, 0.64)  # of r = 0.6, N = 100 and one archetype
    >>> round(noise_variance(np.array([eigenvalue]), n_sites=100, aspect=0.25), 2)
    0.64
    """
    s2, root = 1.0, float(np.sqrt(aspect))
    edge = (1 + root) ** 2
    for _ in range(200):
        kappa = spikes.strength_at(leading / s2 - edge, root)
        new = max(1.0 - s2 * float(kappa.sum()) / n_sites, 1e-6)
        if abs(new - s2) < 1e-12:
            break
        s2 = new
    return s2
