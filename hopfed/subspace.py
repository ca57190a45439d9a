"""The signal subspace: what the server knows once the spectrum has been counted.

The leading eigenvectors V (N, K) of C, the debiased spike strengths ``theta = s2 kappa`` and the
squared cosines gamma. A pattern sigma is seen through its coefficients ``a = V^T sigma``; the
operator restricted to V is ``diag(theta gamma) ~ sum_mu e_mu r^2 a_mu a_mu^T`` (A5, A7).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hopfed.rank import RankEstimate
from hopfed.spectrum import Spectrum


@dataclass(frozen=True)
class Subspace:
    """Signal eigenvectors with their spike strengths and overlaps.

    Attributes
    ----------
    vectors : (N, K) orthonormal.
    strengths : (K,) ``theta = s2 kappa = N r^2 d^2``, the population spikes.
    overlaps : (K,) gamma, squared cosine of each eigenvector with its population direction.
    floor : strength of the weakest detectable spike, ``s2 sqrt q``: the resolution of the metric.
    """

    vectors: np.ndarray = field(repr=False)
    strengths: np.ndarray
    overlaps: np.ndarray
    floor: float = 0.0

    @classmethod
    def of(cls, spectrum: Spectrum, rank: RankEstimate) -> Subspace:
        """Cut the signal out of a spectrum."""
        k = min(rank.khat, spectrum.vectors.shape[1])
        theta = rank.variance * rank.strengths[:k]
        gamma = np.clip(rank.overlaps[:k], 1e-6, 1.0)
        floor = rank.variance * float(np.sqrt(spectrum.aspect))
        return cls(spectrum.vectors[:, :k], theta, gamma, floor)

    @property
    def n_sites(self) -> int:
        """N."""
        return self.vectors.shape[0]

    @property
    def dim(self) -> int:
        """K, the number of signal eigenvectors."""
        return self.vectors.shape[1]

    @property
    def signal(self) -> np.ndarray:
        """(K,) ``theta gamma``: the signal part of the operator in the basis V."""
        return self.strengths * self.overlaps

    def coefficients(self, patterns: np.ndarray) -> np.ndarray:
        """``V^T sigma`` of every pattern: (C, K)."""
        return patterns.astype(np.float32) @ self.vectors.astype(np.float32)

    @property
    def metric(self) -> np.ndarray:
        """(K,) scale of each direction of the operator, no finer than what can be detected."""
        return self.signal + self.floor

    def whitened(self, patterns: np.ndarray) -> np.ndarray:
        """Coefficients in the metric of the operator, ``a_k / sqrt(theta_k gamma_k)``: (C, K).

        There the operator is the identity, so K independent archetypes, each times the root of
        its weight, are orthonormal: resemblance between archetypes drops out. Directions close to
        the threshold, of which gamma is poorly known, are damped by the floor.
        """
        return self.coefficients(patterns).astype(np.float64) / np.sqrt(self.metric)

    def scores(self, patterns: np.ndarray) -> np.ndarray:
        """``(1/N) sigma^T V V^T sigma`` of every pattern: (C,), in [0, 1] (18)."""
        return (self.coefficients(patterns) ** 2).sum(axis=1) / self.n_sites

    def predicted_scores(self, patterns: np.ndarray) -> np.ndarray:
        """Score that theory expects of an archetype with these patterns' coefficients: (C,).

        For an archetype, ``a_k^2 ~ N gamma_k <p_k, u>^2`` with the direction cosines ``<p_k, u>``
        adding up to one; solved for the score this is a harmonic mean of gamma, weighted by
        ``a_k^2`` (A5).
        """
        a2 = self.coefficients(patterns).astype(np.float64) ** 2
        total = np.maximum(a2.sum(axis=1), 1e-300)
        return total / (a2 / self.overlaps).sum(axis=1).clip(1e-300)

    def polish(self, patterns: np.ndarray, sweeps: int = 30) -> np.ndarray:
        """Follow the zero-noise dynamics of the projector, self-field removed, to rest (A7)."""
        V = self.vectors.astype(np.float32)
        own = (V * V).sum(axis=1)
        states = patterns.astype(np.float32)
        for _ in range(sweeps):
            fields = (states @ V) @ V.T - own * states
            new = np.where(fields >= 0, np.float32(1), np.float32(-1))
            if np.array_equal(new, states):
                break
            states = new
        return states.astype(np.int8)
