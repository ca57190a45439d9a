"""Archetypes from private operators: eigenvalues above the bulk and the noise semicircle.

Source: theory/NOTES.md, "Counting beside privacy noise".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hopfed.archetypes.patterns import Search
from hopfed.privacy.private_operator import PrivateOperator
from hopfed.spectral.eigenpairs import Spectrum, eigenpairs
from hopfed.spectral.rank import CountingRule, RankEstimate, Sample
from hopfed.theory import covariance, marchenko_pastur, private
from hopfed.theory.covariance import Population

# Noise moves a score away from its prediction, with standard deviation .5 / sqrt N at an overlap of
# .77. The acceptance test for operators without noise allows no more than that.
PRIVATE_SEARCH = Search(slack=1.0)


def private_spectrum(
    operator: PrivateOperator, alpha: float = 1e-3
) -> tuple[Spectrum, RankEstimate]:
    """Spectrum of a pooled private operator of +-1 examples: eigenvalues above bulk and noise.

    The `n_examples` of the spectrum is the number at which the same spikes would be detectable
    without noise, which sets the resolution of the factorisation.
    """
    size = operator.n_sites, operator.n_examples
    counting = CountingRule(
        lambda sample: private_rank(sample, alpha, operator.radius),
        lambda values, complete: Sample(values, *size, complete),
    )
    spectrum = eigenpairs(operator, counting)
    rank = counting.estimate
    law = Population.flat(rank.variance), spectrum.aspect, operator.radius
    least = covariance.upper_edge(*law).critical / rank.variance - 1
    # `eigenpairs` sets eigenvalues that noise makes negative to 0: the spectrum is not complete.
    return replace(spectrum, complete=False, n_examples=operator.n_sites / least**2), rank


def private_rank(sample: Sample, alpha: float, radius: float) -> RankEstimate:
    """Rank of a private spectrum: sequential Tracy-Widom test at `alpha` beside noise of `radius`.

    For +-1 examples, whose operator has trace N; spikes are debiased for bulk and noise.
    """
    N, M, values = sample.n_sites, round(sample.n_examples), sample.values

    def threshold(k: int, s2: float) -> float:
        return private.noise_threshold(s2, N, M, radius, alpha, stronger=k)

    # Archetypes that are not yet counted inflate the trace; the median hardly depends on them.
    median = np.median(values[: min(N, M)]) / marchenko_pastur.median_nonzero(N / M)
    k = int((values > threshold(0, float(np.clip(median, 1e-3, 1.0)))).sum())
    while k > 0 and values[k - 1] <= threshold(k - 1, _debiased(sample, k, radius)[1]):
        k -= 1
    theta, s2 = _debiased(sample, k, radius)
    while k < min(len(values), N - 1, M - 1) and values[k] > threshold(k, s2):
        k += 1
        theta, s2 = _debiased(sample, k, radius)
    gamma = covariance.overlap(s2 + theta, Population.flat(s2), sample.aspect, radius)
    rule = f"Tracy-Widom at {alpha:g} with privacy noise of radius {radius:g}"
    return RankEstimate(k, threshold(k, s2), s2, theta / s2, gamma, rule, hidden=radius > 0)


def _debiased(sample: Sample, k: int, radius: float) -> tuple[np.ndarray, float]:
    """Strengths theta of the k leading eigenvalues, and the bulk variance."""
    theta, s2 = np.zeros(k), 1.0
    for _ in range(50 if k else 0):
        law = Population.flat(s2), sample.aspect, radius
        ell = covariance.population_eigenvalue(sample.values[:k], *law)
        if np.isnan(ell).any():  # in the bulk at the current s2
            ell = np.where(np.isnan(ell), covariance.upper_edge(*law).critical, ell)
        theta = ell - s2
        new = max(1 - float(theta.sum()) / sample.n_sites, 1e-6)
        if abs(new - s2) < 1e-6:
            break
        s2 = new
    return theta, s2
