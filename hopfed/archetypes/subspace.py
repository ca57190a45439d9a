"""The signal subspace: what the server knows once the spectrum has been counted.

The leading eigenvectors V (N, K) of C, the debiased spike strengths ``theta = s2 kappa`` and the
squared cosines gamma. A pattern sigma is seen through its coefficients ``a = V^T sigma``; the
operator restricted to V is ``diag(theta gamma) ~ sum_mu e_mu r^2 a_mu a_mu^T`` (theory/NOTES.md,
"Exposure fit").
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from hopfed._lib.arrays import Array, like, to_host
from hopfed.archetypes.dynamics import judged, polished, refined
from hopfed.archetypes.on_device import Held
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import RankEstimate

SWEEPS = 30  # of the dynamics at most


@dataclass(frozen=True)
class Subspace:
    """Signal eigenvectors with their spike strengths and overlaps.

    Attributes
    ----------
    vectors : (N, K) orthonormal, on the host or on the device where they were computed.
    strengths : (K,) ``theta = s2 kappa = N r^2 d^2``, the population spikes.
    overlaps : (K,) gamma, squared cosine of each eigenvector with its population direction.
    floor : strength of the weakest detectable spike, ``s2 sqrt q``: the resolution of the metric.
    held : the vectors, if they are on a device: patterns come from the host and go back there, and
        products are made on the device.
    """

    vectors: Array = field(repr=False)
    strengths: np.ndarray
    overlaps: np.ndarray
    floor: float = 0.0
    held: Held | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        held = None if isinstance(self.vectors, np.ndarray) else Held(self.vectors)
        object.__setattr__(self, "held", held)

    @classmethod
    def of(cls, spectrum: Spectrum, rank: RankEstimate) -> Subspace:
        """Cut the signal out of a spectrum."""
        k = min(rank.n_detected, spectrum.vectors.shape[1])
        theta = rank.variance * rank.strengths[:k]
        gamma = np.clip(rank.overlaps[:k], 1e-6, 1.0)
        floor = rank.variance * float(np.sqrt(spectrum.aspect))
        return cls(spectrum.vectors[:, :k], theta, gamma, floor)

    def on_host(self) -> Subspace:
        """The same subspace with its vectors copied to the host, where it is worked on then."""
        return self if self.held is None else replace(self, vectors=to_host(self.vectors))

    @property
    def n_sites(self) -> int:
        """N."""
        return int(self.vectors.shape[0])

    @property
    def dim(self) -> int:
        """K, the number of signal eigenvectors."""
        return int(self.vectors.shape[1])

    @property
    def signal(self) -> np.ndarray:
        """(K,) ``theta gamma``: the signal part of the operator in the basis V."""
        found: np.ndarray = self.strengths * self.overlaps
        return found

    def coefficients(self, patterns: np.ndarray) -> np.ndarray:
        """``V^T sigma`` of every pattern: (C, K)."""
        if self.held is not None:
            return self.held.coefficients(patterns)
        found: np.ndarray = self._put(patterns) @ self._basis
        return found

    @property
    def _basis(self) -> Array:
        """The vectors in float32, where products are made."""
        return self.vectors.astype(np.float32) if self.held is None else self.held.basis

    def _put(self, patterns: np.ndarray) -> Array:
        """Patterns in float32, where products are made."""
        return patterns.astype(np.float32) if self.held is None else self.held.put(patterns)

    def _fetch(self, states: Array) -> np.ndarray:
        """Patterns from where products are made, int8."""
        return states.astype(np.int8) if self.held is None else self.held.fetch(states)[0]

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
        found: np.ndarray = self.coefficients(patterns).astype(np.float64) / np.sqrt(self.metric)
        return found

    def scores(self, patterns: np.ndarray) -> np.ndarray:
        """``(1/N) sigma^T V V^T sigma`` of every pattern: (C,), in [0, 1].

        Source: arXiv:2603.19902, eq. (18).
        """
        return self.judged(patterns)[0]

    def predicted_scores(self, patterns: np.ndarray) -> np.ndarray:
        """Score that theory expects of an archetype with these patterns' coefficients: (C,).

        For an archetype, ``a_k^2 ~ N gamma_k <p_k, u>^2`` with the direction cosines ``<p_k, u>``
        adding up to one; solved for the score this is a harmonic mean of gamma, weighted by
        ``a_k^2`` (theory/NOTES.md, "Score and acceptance").
        """
        return self.judged(patterns)[1]

    def judged(self, patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`scores` and `predicted_scores`, (C,) both, from one product."""
        return judged(self.coefficients(patterns), self.overlaps, self.n_sites)

    def polish(self, patterns: np.ndarray, sweeps: int = SWEEPS) -> np.ndarray:
        """Follow the zero-noise dynamics of the projector, self-field removed, to rest.

        Source: theory/NOTES.md, "Heat bath and self-field".
        """
        return self._fetch(polished(self._basis, self._put(patterns), sweeps))

    def refine(self, patterns: np.ndarray, sweeps: int = SWEEPS) -> np.ndarray:
        """Fit all patterns to the operator together: each is cleared of what the others explain.

        Lowers ``|| S - sum_c p_c sigma_c sigma_c^T ||`` off the diagonal, where
        ``S = V diag(theta gamma) V^T`` is the signal: the weights p by least squares, then every
        site by the sign of its field, in turn. The fields of a pattern are those of the operator
        with the others deflated, so a pattern that is mostly right repairs those it disturbs; near
        the load limit a mixture of two archetypes turns into the one that nothing else explains.

        Parameters
        ----------
        patterns : (C, N), close to as many archetypes; the others should be few.
        sweeps : alternations at most; fewer once nothing changes, or sites only go to and fro.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> xi = rng.choice(np.array([-1, 1], np.int8), (2, 500))
        >>> V, s, _ = np.linalg.svd(xi.T / 500**0.5, full_matrices=False)
        >>> space = Subspace(V, s**2, np.ones(2))
        >>> mixture = np.where(rng.random(500) < 0.8, xi[0], xi[1])
        >>> bool((space.refine(np.stack([mixture, xi[1]])) == xi).all())
        True
        """
        if len(patterns) == 0:
            return patterns.astype(np.int8)
        V = self._basis
        signal = like(self.signal.astype(np.float32), V)
        return self._fetch(refined(V, signal, self._put(patterns), sweeps))
