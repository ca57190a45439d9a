"""The signal subspace: what the server knows once the spectrum has been counted.

The leading eigenvectors V (N, K) of C, the debiased spike strengths ``theta = s2 kappa`` and the
squared cosines gamma. A pattern sigma is seen through its coefficients ``a = V^T sigma``; the
operator restricted to V is ``diag(theta gamma) ~ sum_mu e_mu r^2 a_mu a_mu^T`` (theory/NOTES.md,
"Exposure fit").
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import RankEstimate


@dataclass(frozen=True)
class Subspace:
    """Signal eigenvectors with their spike strengths and overlaps.

    Attributes
    ----------
    vectors : (N, K) orthonormal.
    strengths : (K,) ``theta = s2 kappa = N r^2 d^2``, the population spikes.
    overlaps : (K,) gamma, squared cosine of each eigenvector with its population direction.
    floor : strength of the weakest detectable spike, ``s2 sqrt q``: the resolution of the metric.
    held : the vectors where they were computed, if that is another place: patterns come from the
        host and their scores go back there, but products are made on the device. Dynamics there
        never asks whether it has come to rest, for which it would have to wait.
    """

    vectors: np.ndarray = field(repr=False)
    strengths: np.ndarray
    overlaps: np.ndarray
    floor: float = 0.0
    held: Array | None = field(default=None, repr=False)

    @classmethod
    def of(cls, spectrum: Spectrum, rank: RankEstimate) -> Subspace:
        """Cut the signal out of a spectrum."""
        k = min(rank.n_detected, spectrum.vectors.shape[1])
        theta = rank.variance * rank.strengths[:k]
        gamma = np.clip(rank.overlaps[:k], 1e-6, 1.0)
        floor = rank.variance * float(np.sqrt(spectrum.aspect))
        vectors = spectrum.vectors[:, :k]
        return cls(to_host(vectors), theta, gamma, floor, vectors)

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
        V = self._basis
        return to_host(namespace(V).astype(like(patterns, V), V.dtype) @ V)

    @property
    def _basis(self) -> Array:
        """The vectors in float32, where products are made."""
        V = self.vectors if self.held is None else self.held
        return namespace(V).astype(V, np.float32)

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
        """``(1/N) sigma^T V V^T sigma`` of every pattern: (C,), in [0, 1] (18)."""
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
        a = self.coefficients(patterns)
        a2 = a.astype(np.float64) ** 2
        total = np.maximum(a2.sum(axis=1), 1e-300)
        predicted: np.ndarray = total / (a2 / self.overlaps).sum(axis=1).clip(1e-300)
        return (a**2).sum(axis=1) / self.n_sites, predicted

    def polish(self, patterns: np.ndarray, sweeps: int = 30) -> np.ndarray:
        """Follow the zero-noise dynamics of the projector, self-field removed, to rest.

        Source: theory/NOTES.md, "Heat bath and self-field".
        """
        V = self._basis
        xp = namespace(V)
        own = (V * V).sum(axis=1)
        states = xp.astype(like(patterns, V), V.dtype)
        for _ in range(sweeps):
            fields = (states @ V) @ V.T - own * states
            new = xp.where(fields >= 0, np.float32(1), np.float32(-1))
            if _at_rest(new, states):
                break
            states = new
        return to_host(xp.astype(states, np.int8))

    def refine(self, patterns: np.ndarray, sweeps: int = 30) -> np.ndarray:
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
        V = self._basis
        xp, N = namespace(V), self.n_sites
        signal = like(self.signal.astype(np.float32), V)
        own = (V * V) @ signal
        states = last = xp.astype(like(patterns, V), V.dtype)
        for _ in range(sweeps if len(patterns) else 0):
            a, overlaps = states @ V, states @ states.T
            p = xp.astype(_pair_weights(overlaps, a**2 @ signal - own.sum(), N), V.dtype)
            fields = (a * signal) @ V.T - (overlaps * p) @ states
            fields = fields + (N * p[:, None] - own + (p.sum() - p[:, None])) * states
            new = xp.where(fields >= 0, np.float32(1), np.float32(-1))
            if _at_rest(new, states, last):
                break
            states, last = _next(new, states, last)
        return to_host(xp.astype(states, np.int8))


def _at_rest(new: Array, *before: Array) -> bool:
    """Whether `new` is one of the states before it; on a device that is never asked."""
    return isinstance(new, np.ndarray) and any(np.array_equal(new, x) for x in before)


def _next(new: Array, states: Array, last: Array) -> tuple[Array, Array]:
    """States and those before them; on a device they stay where `_at_rest` would have ended."""
    if isinstance(new, np.ndarray):
        return new, states
    xp = namespace(new)
    rest = xp.all(new == states) | xp.all(new == last)
    return xp.where(rest, states, new), xp.where(rest, last, states)


def _pair_weights(overlaps: Array, energies: Array, n_sites: int) -> Array:
    """Weights (C,) that fit an operator by patterns, over pairs of different sites.

    Parameters
    ----------
    overlaps : (C, C) ``sigma_c . sigma_d``.
    energies : (C,) sum of the operator over the pairs, times ``sigma_i sigma_j``.
    """
    xp = namespace(overlaps)
    H = xp.astype(overlaps, xp.float64) ** 2 - n_sites
    # Two copies of one pattern share its weight.
    ridge = 1e-6 * n_sites**2 * xp.eye(H.shape[0], dtype=xp.float64)
    weights = xp.linalg.solve(H + ridge, xp.astype(energies, xp.float64))
    return xp.maximum(weights, xp.zeros_like(weights))
