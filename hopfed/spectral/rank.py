"""How many archetypes a spectrum shows: the rank rules and what they estimate along the way.

Every rule is a frozen dataclass; calling it with the descending eigenvalues of ``C`` answers a
`RankEstimate`. They look at the spectrum *before* sharpening, where random-matrix theory holds
(arXiv:2603.19902, eqs. (57) and (58); theory/NOTES.md, "Counting").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from hopfed.errors import ArgumentError
from hopfed.spectral.noise import Sample
from hopfed.theory import marchenko_pastur, spikes, tracy_widom
from hopfed.theory.covariance import Population, noise_threshold
from hopfed.theory.planning import FALSE_ALARM, START_LEVEL

__all__ = ["RankEstimate", "TracyWidom"]

Edge = Callable[[int, float], float]  # from spikes and bulk variance to the edge

LARGEST = 5.5  # normal deviate that the largest of all columns may have


@dataclass(frozen=True, eq=False)
class RankEstimate:
    """What a rule read off the spectrum.

    Attributes
    ----------
    n_detected : number of eigenvalues that are not noise.
    threshold : the value the (n_detected + 1)-th eigenvalue did not exceed.
    variance : bulk variance ``s2 = 1 - r^2``.
    strengths : (n_detected,) spike strengths kappa in units of the bulk variance, by
        arXiv:2603.19902, eq. (60).
    overlaps : (n_detected,) squared cosines gamma of eigenvectors and population directions, by
        arXiv:2603.19902, eq. (42).
    rule : the rule in words.
    unequal : whether owners of different noise were told apart.

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

    @property
    def quality(self) -> float:
        """Quality r of the channel, ``sqrt(1 - s2)``."""
        return float(np.sqrt(max(1.0 - self.variance, 0.0)))


RankRule = Callable[[Sample], RankEstimate]  # a rule from a sample's spectrum to a rank


class Counting:
    """A rank rule as `eigenpairs` calls it; `estimate` is that of the last call.

    `describe` makes the rule's sample from eigenvalues, and whether these are all nonzero ones.
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

    The k-th test compares the next eigenvalue with the quantile for the noise left beside k
    spikes, an (M - k) x (N - k) Wishart matrix, with Ma's centring and scaling; the edge moved by
    the kurtosis of the +-1 channel, or of the sample's own. `alpha` is in (0, 1).

    >>> from hopfed.theory.spikes import outlier
    >>> values = np.append(outlier([4.0, 1.0], 0.5, 0.64), [0.6] * 98)
    >>> TracyWidom()(Sample(values, n_sites=100, n_examples=200, quality=0.6)).n_detected
    1
    """

    alpha: float = FALSE_ALARM

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ArgumentError("alpha", "a false-alarm rate in (0, 1)", self.alpha)

    def __call__(self, sample: Sample) -> RankEstimate:
        """Estimate the rank of `sample`."""
        start = min(START_LEVEL, self.alpha)
        k = robust_start(sample, lambda k, s2: _edge(sample, k, s2, start))
        k = climb(sample, k, lambda k, s2: _edge(sample, k, s2, self.alpha))
        s2 = sample.variance(k)
        rule = f"Tracy-Widom at a false-alarm rate of {self.alpha:g}"
        return _estimate(sample, k, _edge(sample, k, s2, self.alpha), s2, rule)


def robust_start(sample: Sample, edge: Edge) -> int:
    """First count of a `sample` above an `edge`, the variance read off the median of the bulk."""
    # The trace counts undetected spikes as noise: with many archetypes per site the sequential test
    # would stop at its first step. They hardly move the median of the bulk.
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
        k = 0
        while k < _most(sample) and sample.values[k] > edge(k, s2):
            k += 1
        if k <= before:
            return before
    return k


_white_median = lru_cache(maxsize=1 << 10)(marchenko_pastur.median_nonzero)


def climb(sample: Sample, k: int, edge: Edge) -> int:
    """Sequential test of a `sample` from `k` on against an `edge`, the variance anew each time."""
    while k > 0 and sample.values[k - 1] <= edge(k - 1, sample.variance(k)):
        k -= 1
    while k < _most(sample) and sample.values[k] > edge(k, sample.variance(k)):
        k += 1
    return k


def _most(sample: Sample) -> int:
    return int(min(len(sample.values), sample.n_sites - 1, np.ceil(sample.n_examples) - 1))


def _edge(sample: Sample, k: int, s2: float, alpha: float) -> float:
    """Value that the largest noise eigenvalue beside k spikes exceeds with probability alpha."""
    m, n = max(round(sample.drawn) - k, 1), max(sample.n_sites - k, 1)
    if sample.profile is None:
        tau = s2 * white_edge(m, n, alpha) / sample.drawn
        if not sample.white and sample.kurtosis is None:
            rough = float(f"{s2:.2g}")  # so that few are computed, in units of s2
            rare = _rare_flips(rough, round(sample.drawn), sample.n_sites, alpha)
            return max(tau * _shift(sample, k, s2), s2 * rare)
    else:
        # The law of the variances lives on the examples: they take the place of the sites.
        law = Population(sample.profile.variances(k, s2), sample.profile.weights)
        m, n = max(m, 2), max(n, 2)
        tau = n / sample.drawn * noise_threshold(law, m, n, alpha)
    return tau * _shift(sample, k, s2)


@lru_cache(maxsize=1 << 14)
def white_edge(m: int, n: int, alpha: float) -> float:
    """Value that the largest eigenvalue of white ``X^T X`` exceeds with this probability."""
    centre, scale = tracy_widom.wishart_scaling(m, n)
    return float(centre + scale * tracy_widom.critical_value(alpha))


@lru_cache(maxsize=1 << 10)
def _rare_flips(s2: float, m: int, n: int, alpha: float) -> float:
    """Eigenvalue of noise that rare flips make by chance, over s2; 0 where they are not rare."""
    r = min(float(np.sqrt(max(1.0 - s2, 0.0))), 1 - 1e-9)
    # A column stands out if 2 r z > sqrt(s2 N), z the normal deviate of its flips; twice that here.
    if 4 * r * LARGEST < np.sqrt(s2 * min(m, n)):
        return 0.0
    return spikes.rare_flip_edge(r, m, n, alpha) / max((1 - r) * (1 + r), 1e-12)


def _shift(sample: Sample, k: int, s2: float) -> float:
    if sample.white:  # columns of sample variance 1: the kurtosis of -2 that +-1 entries have
        return _channel_shift(1.0, max(round(sample.n_examples), 1), sample.n_sites)
    if sample.kurtosis is not None:  # no signs: neither their edge nor their rare flips
        size = max(round(sample.n_examples), 1), sample.n_sites
        return float(spikes.small_table_shift(sample.kurtosis, *size))
    if sample.profile is not None:
        return float(
            1 + sample.profile.kurtosis(k, s2) / np.sqrt(sample.n_examples * sample.n_sites)
        )
    return _channel_shift(s2, max(round(sample.n_examples), 1), sample.n_sites)


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
