"""The signal subspace: what the server knows once the spectrum has been counted.

The leading eigenvectors V (N, K) of C, the debiased spike strengths ``theta = s2 kappa`` and the
squared cosines gamma. A pattern sigma is seen through its coefficients ``a = V^T sigma``; the
operator restricted to V is ``diag(theta gamma) ~ sum_mu e_mu r^2 a_mu a_mu^T`` (theory/NOTES.md,
"Exposure fit").

Zero-noise dynamics and scores of many patterns at once, on the arrays of any library.

Patterns sigma (C, N) are float32 of +-1, V (N, K) are the signal eigenvectors in float32, and both
lie where the work is done. On a device, too, every sweep asks whether all is at rest. It waits for
the answer, but a sweep is dozens of launches, and a few sweeps are enough.

Signal eigenvectors on a device, and what the host knows of the patterns that came from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from hopfed._lib.arrays import Array, all_to_host, like, namespace, to_host
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import RankEstimate

TIE = 1e-6  # field that is a sum of float32 of about 1 which cancel: a tie, and +1


def polished(V: Array, states: Array, sweeps: int) -> Array:
    """Follow the dynamics of the projector ``V V^T``, self-field removed, to rest.

    Source: theory/NOTES.md, "Heat bath and self-field".
    """
    xp, own = namespace(V), (V * V).sum(axis=1)
    for _ in range(sweeps):
        fields = (states @ V) @ V.T - own * states
        new = xp.where(fields >= -TIE, np.float32(1), np.float32(-1))
        if _at_rest(new, states):
            break
        states = new
    return states


def refined(V: Array, signal: Array, states: Array, sweeps: int) -> Array:
    """Fit all patterns to the operator together; see `hopfed.archetypes.subspace.Subspace.refine`.

    Parameters
    ----------
    V, states : (N, K) and (C, N), C at least 1.
    signal : (K,) float32, the operator in the basis V.
    """
    xp, N = namespace(V), V.shape[0]
    own = (V * V) @ signal
    last = states
    for _ in range(sweeps):
        a, overlaps = states @ V, states @ states.T
        p = xp.astype(_pair_weights(overlaps, a**2 @ signal - own.sum(), N), V.dtype)
        fields = (a * signal) @ V.T - (overlaps * p) @ states
        fields = fields + (N * p[:, None] - own + (p.sum() - p[:, None])) * states
        new = xp.where(fields >= 0, np.float32(1), np.float32(-1))
        if _at_rest(new, states, last):
            break
        states, last = new, states
    return states


def judged(coefficients: Array, overlaps: Array, n_sites: int) -> tuple[Array, Array]:
    """Scores (C,) of patterns, and those that theory expects of archetypes like them.

    Parameters
    ----------
    coefficients : (C, K) of the patterns.
    overlaps : (K,) gamma, squared cosine of each eigenvector with its population direction.
    """
    xp = namespace(coefficients)
    a2 = xp.astype(coefficients, xp.float64) ** 2
    predicted = a2.sum(axis=1).clip(1e-300) / (a2 / overlaps).sum(axis=1).clip(1e-300)
    return (coefficients**2).sum(axis=1) / n_sites, predicted


def _at_rest(new: Array, *before: Array) -> bool:
    """Whether `new` is one of the states before it."""
    if isinstance(new, np.ndarray):
        return any(np.array_equal(new, x) for x in before)
    xp = namespace(new)
    return bool(reduce(xp.logical_or, [xp.all(new == x) for x in before]))  # one wait


def _pair_weights(overlaps: Array, energies: Array, n_sites: int) -> Array:
    """Weights (C,) that fit an operator by patterns, over pairs of different sites."""
    xp = namespace(overlaps)
    H = xp.astype(overlaps, xp.float64) ** 2 - n_sites
    # Two copies of one pattern share its weight.
    ridge = 1e-6 * n_sites**2 * xp.eye(H.shape[0], dtype=xp.float64)
    weights = xp.linalg.solve(H + ridge, xp.astype(energies, xp.float64))
    return xp.maximum(weights, xp.zeros_like(weights))


class Held:
    """Signal eigenvectors where they were computed.

    Patterns come to the host together with their coefficients, in one copy. The host scores,
    compares and fits them from these, without asking the device again.

    Parameters
    ----------
    vectors : (N, K) of the device.
    """

    def __init__(self, vectors: Array):
        self.vectors = vectors
        self.basis = namespace(vectors).astype(vectors, np.float32)
        self._known: dict[bytes, np.ndarray] = {}

    def put(self, patterns: np.ndarray) -> Array:
        """Copy patterns (C, N) to the device, where they are float32."""
        there = like(np.asarray(patterns, np.int8), self.basis)
        return namespace(there).astype(there, self.basis.dtype)

    def fetch(self, states: Array, *more: Array) -> tuple[np.ndarray, ...]:
        """Copy patterns (C, N) and whatever else to the host, in one piece; patterns are int8."""
        small = namespace(states).astype(states, np.int8)
        patterns, coefficients, *others = all_to_host(small, states @ self.basis, *more)
        self._remember(patterns, coefficients)
        return patterns, *others

    def coefficients(self, patterns: np.ndarray) -> np.ndarray:
        """``V^T sigma`` of patterns (C, N): (C, K) float32; the device is asked for new ones."""
        known = [self._known.get(key) for key in _keys(patterns)]
        new = [i for i, row in enumerate(known) if row is None]
        if new:
            (found,) = all_to_host(self.put(patterns[new]) @ self.basis)
            self._remember(patterns[new], found)
        rows = [self._known[key] for key in _keys(patterns)]
        return np.array(rows, np.float32).reshape(len(rows), self.basis.shape[1])

    def _remember(self, patterns: np.ndarray, coefficients: np.ndarray) -> None:
        self._known.update(zip(_keys(patterns), coefficients.copy(), strict=True))


def _keys(patterns: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in np.packbits(np.asarray(patterns) > 0, axis=1)]


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
        """
        if len(patterns) == 0:
            return patterns.astype(np.int8)
        V = self._basis
        signal = like(self.signal.astype(np.float32), V)
        return self._fetch(refined(V, signal, self._put(patterns), sweeps))
