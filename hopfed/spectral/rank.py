"""Number of archetypes in a spectrum: the input of a rank rule, and the rule itself.

A rule is a function from a `Sample`, the descending eigenvalues of ``C`` and properties of their
noise, to a `RankEstimate`. It uses the spectrum *before* sharpening, where
random-matrix theory holds (arXiv:2603.19902, eqs. (57) and (58); theory/NOTES.md, "Counting"). The
bulk variance is estimated if the quality is not given: ``trace C = N`` for +-1 data, so the
signal ``N r^2`` is the sum of the debiased spikes and ``s2 = 1 - r^2`` is the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import stdtrit

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.theory import marchenko_pastur, spikes, tracy_widom
from hopfed.theory.covariance import Population, noise_threshold
from hopfed.theory.planning import FALSE_ALARM, START_LEVEL

__all__ = ["NoiseProfile", "RankEstimate", "Sample", "TracyWidom", "noise_variance"]

Edge = Callable[[int, float], float]  # from spikes and bulk variance to the edge

LARGEST = 5.5  # largest normal deviate among all columns
LEVEL = 1e-3  # false-alarm rate of the test for equal noise of owners
CLEAR = 2.0  # values above so many edges count without a test: an edge falls as spikes are counted


@dataclass(frozen=True)
class NoiseProfile:
    """Noise whose variance depends on the example: owners of different quality or weight.

    Source: theory/NOTES.md, "Clients of unequal quality or weight".

    ``trace C_c = N`` for +-1 data: the part of an owner's trace outside the k leading
    eigenvectors is spread over N - k directions of noise. The noise of weighted examples is
    multiplied by their weight over the mean weight.

    Attributes
    ----------
    captured : (L, K) ``v_k^T C_c v_k``, the part of each owner's trace along each eigenvector;
        None if unknown, and then the noise of all owners is taken to be equal.
    weights : (L,) each owner's share of the examples.
    n_sites : N.
    gains : (L,) weight of each owner's examples over the mean weight; None for equal weights.
    n_examples : number of examples, whatever their weights; None for the sample's own number.
    rows : (L,) number of rows of each owner; None if unknown.
    spreads : (L,) standard deviation, over an owner's rows, of the part in all K eigenvectors.

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
        """(L,) noise variances ``1 - r_c^2`` if k eigenvectors are signal; `common` if unknown."""
        if self.captured is None:
            return np.full(len(self.weights), common)
        left = self.n_sites - self.captured[:, :k].sum(axis=1)
        return np.clip(left / max(self.n_sites - k, 1), 1e-6, 1.0)

    def variances(self, k: int, common: float = 1.0) -> np.ndarray:
        """(L,) noise variances as they enter C; `common` if the owners' own are unknown."""
        own = self.own_variances(k, common)
        return own if self.gains is None else own * self.gains

    def kurtosis(self, k: int, common: float = 1.0) -> float:
        """Excess kurtosis of the pooled noise, with owners weighted by their squared variance."""
        own = self.own_variances(k, common)
        excess = spikes.excess_kurtosis(np.sqrt(np.clip(1 - own, 0.0, 1 - 1e-9)))
        square = self.weights * self.variances(k, common) ** 2
        return float(square @ excess / square.sum())

    def alike(self, level: float = LEVEL) -> bool:
        """Whether the owners' noise may be equal, by a test of false-alarm rate `level`.

        The deviation of each owner's captured part from the mean of all rows is compared
        with Student's law, at the level divided by the number of owners (Bonferroni). Raises
        ArgumentError if the captured part, or its spread, is unknown.
        """
        if self.captured is None or self.rows is None or self.spreads is None:
            raise ArgumentError("profile", "a profile with captured, rows and spreads", None)
        total, rows = self.captured.sum(axis=1), self.rows
        share = rows / rows.sum()
        error = np.sqrt(share @ self.spreads**2 * (1 / rows - 1 / rows.sum()))
        freedom = max(rows.sum() - len(rows), 1)
        most = stdtrit(freedom, 1 - level / (2 * len(rows)))
        return bool((np.abs(total - share @ total) <= most * error + 1e-9).all())


@dataclass(frozen=True)
class Sample:
    """Eigenvalues of C and properties of the sample they came from.

    Attributes
    ----------
    values : descending eigenvalues.
    n_sites, n_examples : N and the effective M.
    complete : whether `values` is the whole nonzero spectrum.
    quality : r in (0, 1] if known.
    profile : noise that differs between owners, or None.
    white : whether the eigenvalues are for whitened coordinates, in which the noise of every
        column has variance 1 (`hopfed.spectral.whitening`).
    kurtosis : excess kurtosis of the noise of an entry, of equal variance in all columns, for
        entries other than signs (0 for Gaussian noise); `values` must then be complete, since they
        give the trace. None for +-1, whose trace and kurtosis are known.

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
        require(self.quality is None or 0 < self.quality <= 1, "quality", "in (0, 1]", self.quality)
        whole = self.kurtosis is None or self.complete
        require(whole, "values", "complete when a kurtosis is given", "leading eigenvalues")

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
        """Bulk variance if the k leading eigenvalues are spikes."""
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
    """Bulk variance for rank rules, ``s2 = 1 - sum(theta) / N`` of debiased spikes, by fixed point.

    Source: theory/NOTES.md, "Noise variance".

    Each of the `leading` eigenvalues, descending, is converted to its spike strength by
    arXiv:2603.19902, eq. (60), at the current s2; `n_sites` and `aspect` are N and q = N / M.

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


@dataclass(frozen=True, eq=False)
class RankEstimate:
    """Result of a rule on a spectrum.

    Attributes
    ----------
    n_detected : number of eigenvalues that are not noise.
    threshold : the value that the (n_detected + 1)-th eigenvalue did not exceed.
    variance : bulk variance ``s2 = 1 - r^2``.
    strengths : (n_detected,) spike strengths kappa in units of the bulk variance, by
        arXiv:2603.19902, eq. (60).
    overlaps : (n_detected,) squared cosines gamma of eigenvectors and population directions, by
        arXiv:2603.19902, eq. (42).
    rule : the rule in words.
    unequal : whether the rule used different noise for the owners.
    hidden : whether noise was added to hide rows.

    >>> from hopfed.theory.spikes import outlier
    >>> values = np.append(outlier([4.0, 2.0], 0.5, 0.64), [0.6] * 98)
    >>> found = TracyWidom()(Sample(values, n_sites=100, n_examples=200, quality=0.6))
    >>> found.n_detected, found.strengths.round(2), found.overlaps.round(2), found.quality
    (2, array([4., 2.]), array([0.86, 0.7 ]), 0.6)
    """

    n_detected: int
    threshold: float
    variance: float
    strengths: np.ndarray = field(repr=False)
    overlaps: np.ndarray = field(repr=False)
    rule: str
    unequal: bool = False
    hidden: bool = False

    @property
    def quality(self) -> float:
        """Quality r of the channel, ``sqrt(1 - s2)``."""
        return float(np.sqrt(max(1.0 - self.variance, 0.0)))


RankRule = Callable[[Sample], RankEstimate]  # a rule from a sample's spectrum to a rank


class CountingRule:
    """A rank rule in the form that `eigenpairs` calls; `estimate` is from the last call.

    `describe` makes the rule's sample from the eigenvalues and whether they are complete.
    """

    def __init__(self, rule: RankRule, describe: Callable[[np.ndarray, bool], Sample]):
        self.rule, self.describe = rule, describe
        self.estimate: RankEstimate

    def __call__(self, values: np.ndarray, complete: bool) -> int:
        self.estimate = self.rule(self.describe(values, complete))
        return self.estimate.n_detected


@dataclass(frozen=True)
class TracyWidom:
    """Sequential test against the Tracy-Widom law, false-alarm rate `alpha`.

    Source: theory/NOTES.md, "Counting: Tracy-Widom threshold".

    The k-th test compares the next eigenvalue with the quantile for the noise without k spikes,
    an (M - k) x (N - k) Wishart matrix, with Ma's centring and scaling; the kurtosis of the +-1
    channel, or of the sample, moves the edge. `alpha` is in (0, 1).

    >>> from hopfed.theory.spikes import outlier
    >>> values = np.append(outlier([4.0, 1.0], 0.5, 0.64), [0.6] * 98)
    >>> TracyWidom()(Sample(values, n_sites=100, n_examples=200, quality=0.6)).n_detected
    1
    """

    alpha: float = FALSE_ALARM

    def __post_init__(self) -> None:
        require(0 < self.alpha < 1, "alpha", "a false-alarm rate in (0, 1)", self.alpha)

    def __call__(self, sample: Sample) -> RankEstimate:
        """Estimate the rank of `sample`."""
        start = min(START_LEVEL, self.alpha)
        k = robust_start(sample, lambda k, s2: _edge(sample, k, s2, start))
        k = count_sequentially(sample, k, lambda k, s2: _edge(sample, k, s2, self.alpha))
        s2 = sample.variance(k)
        rule = f"Tracy-Widom at a false-alarm rate of {self.alpha:g}"
        return _estimate(sample, k, _edge(sample, k, s2, self.alpha), s2, rule)


def robust_start(sample: Sample, edge: Edge) -> int:
    """First count of a rank rule, from a `sample` and an `edge`: variance by the bulk's median."""
    # The trace includes undetected spikes as noise: with many archetypes per site the sequential
    # test would stop at its first step. The median of the bulk hardly depends on them.
    known = sample.quality is not None or sample.profile is not None or sample.white
    if known or not sample.complete:
        return 0
    k, size = 0, int(min(sample.n_sites, round(sample.n_examples)))
    missing = np.zeros(max(size - len(sample.values), 0))
    for _ in range(50):
        bulk, s2, before = np.concatenate([sample.values[k:], missing]), sample.variance(k), k
        n, m = sample.n_sites - k, sample.n_examples - k
        if len(bulk) >= 8 and n >= 2 and m >= 2:
            median = float(_white_median(n / m)) * m / sample.n_examples
            s2 = max(float(np.median(bulk[: min(len(bulk), size - k)])) / median, 1e-6)
        k = _counted(sample, 0, edge, lambda _: s2)  # noqa: B023 - used at once
        if k <= before:
            return before
    return k


_white_median = lru_cache(maxsize=1 << 10)(marchenko_pastur.median_nonzero)


def count_sequentially(sample: Sample, k: int, edge: Edge) -> int:
    """Rank rule: test a `sample` in sequence from `k` against an `edge`, updating variances."""
    while k > 0 and sample.values[k - 1] <= edge(k - 1, sample.variance(k)):
        k -= 1
    return _counted(sample, k, edge, sample.variance)


def _counted(sample: Sample, k: int, edge: Edge, variance: Callable[[int], float]) -> int:
    """First number from `k` at which the next value of a sample is not above the edge."""
    clear = int((sample.values > CLEAR * edge(k, variance(k))).sum()) if k < _most(sample) else k
    k = max(k, min(clear, _most(sample)))
    while k < _most(sample) and sample.values[k] > edge(k, variance(k)):
        k += 1
    return k


def _most(sample: Sample) -> int:
    return int(min(len(sample.values), sample.n_sites - 1, np.ceil(sample.n_examples) - 1))


def _edge(sample: Sample, k: int, s2: float, alpha: float) -> float:
    """Value that the largest noise eigenvalue after k spikes exceeds with probability alpha."""
    m, n = max(round(sample.drawn) - k, 1), max(sample.n_sites - k, 1)
    if sample.profile is None:
        tau = s2 * white_edge(m, n, alpha) / sample.drawn
        if not sample.white and sample.kurtosis is None:
            rough = float(f"{s2:.2g}")  # rounded, so that few values are computed and cached
            rare = _rare_flips(rough, round(sample.drawn), sample.n_sites, alpha)
            return max(tau * _shift(sample, k, s2), s2 * rare)
    else:
        # The variances belong to the examples, so examples and sites change places.
        law = Population(sample.profile.variances(k, s2), sample.profile.weights)
        m, n = max(m, 2), max(n, 2)
        tau = n / sample.drawn * noise_threshold(law, m, n, alpha)
    return tau * _shift(sample, k, s2)


@lru_cache(maxsize=1 << 14)
def white_edge(m: int, n: int, alpha: float) -> float:
    """Edge of a rank rule: white ``X^T X`` has a larger eigenvalue with probability `alpha`."""
    centre, scale = tracy_widom.wishart_scaling(m, n)
    return float(centre + scale * tracy_widom.critical_value(alpha))


@lru_cache(maxsize=1 << 10)
def _rare_flips(s2: float, m: int, n: int, alpha: float) -> float:
    """Eigenvalue of noise due to rare flips, over s2; 0 if flips are not rare."""
    r = min(float(np.sqrt(max(1.0 - s2, 0.0))), 1 - 1e-9)
    # A column stands out if 2 r z > sqrt(s2 N), z the normal deviate of its flips; with a margin.
    if 4 * r * LARGEST < np.sqrt(s2 * min(m, n)):
        return 0.0
    return spikes.rare_flip_edge(r, m, n, alpha) / max((1 - r) * (1 + r), 1e-12)


def _shift(sample: Sample, k: int, s2: float) -> float:
    size = max(round(sample.n_examples), 1), sample.n_sites
    if sample.white:  # columns of sample variance 1 have the edge of +-1 entries, kurtosis -2
        return _channel_shift(1.0, *size)
    if sample.kurtosis is not None:  # entries other than signs
        return float(spikes.small_table_shift(sample.kurtosis, *size))
    if sample.profile is None:
        return _channel_shift(s2, *size)
    return float(1 + sample.profile.kurtosis(k, s2) / np.sqrt(sample.n_examples * sample.n_sites))


@lru_cache(maxsize=64)
def _channel_shift(s2: float, examples: int, n_sites: int) -> float:
    r = float(np.sqrt(max(1.0 - s2, 0.0)))
    kurtosis = spikes.excess_kurtosis(min(r, 1 - 1e-9))
    return float(1 + kurtosis / np.sqrt(examples * n_sites))


def _estimate(sample: Sample, k: int, tau: float, s2: float, rule: str) -> RankEstimate:
    q = sample.aspect
    kappa = np.nan_to_num(spikes.strength(sample.values[:k], q, s2), nan=np.sqrt(q))
    gamma = np.asarray(spikes.overlap(kappa, q))
    return RankEstimate(k, tau, s2, kappa, gamma, rule, sample.profile is not None)
