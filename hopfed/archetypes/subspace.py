"""The signal subspace, and tests of which candidate patterns are archetypes in it.

A pattern sigma enters by its coefficients ``a = V^T sigma`` along the signal eigenvectors V;
the operator restricted to V is ``diag(theta gamma) ~ sum_mu e_mu r^2 a_mu a_mu^T``.

Sources: theory/NOTES.md, "Heat bath and self-field", "Score and acceptance", "Duplicates" and
"Exposure fit".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import nnls

from hopfed import kernels
from hopfed._lib.arrays import Array, all_to_host, like, namespace, to_host
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import RankEstimate
from hopfed.theory.resolution import expected_overlap

TIE = 1e-6  # size of a field, a sum of float32 of about 1, up to which it is a tie, and gives +1
SWEEPS = 30  # sweeps of the dynamics, at most
DUPLICATE = 0.7  # overlap, plain and whitened, from which two candidates are one archetype
SLACK = 0.5  # acceptance: score above prediction minus SLACK / sqrt(N); archetypes miss it by 0.13
SHARE = 0.5  # of its own direction in the operator that a kept archetype must explain
SAME = 0.9  # overlap from which two patterns are one: closer than archetypes get
SPREADS = 4.0  # standard deviations below the expected overlap of two estimates of one pattern


@dataclass(frozen=True)
class ExposureFit:
    """Non-negative fit of the signal operator by candidate patterns."""

    weights: np.ndarray  # (C,) estimates of ``e_mu r^2``; zero where a candidate is not needed
    shares: np.ndarray  # (C,) part of its own direction that each explains: 1/2 of two copies
    explained: float  # 1 minus the residual, relative to the operator: 1 is a perfect fit

    def taken(self, order: np.ndarray) -> ExposureFit:
        """The fit with its candidates in another order."""
        return ExposureFit(self.weights[order], self.shares[order], self.explained)


@dataclass(frozen=True)
class Subspace:
    """Signal eigenvectors, their spike strengths and overlaps; keeps coefficients from a device."""

    vectors: Array = field(repr=False)  # (N, K) orthonormal, where they were computed
    strengths: np.ndarray  # (K,) ``theta = s2 kappa = N r^2 d^2``, the population spikes
    overlaps: np.ndarray  # (K,) gamma, squared cosines with the population directions
    floor: float = 0.0  # ``s2 sqrt q``, the weakest detectable spike: the resolution of the metric
    _known: dict[bytes, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, spectrum: Spectrum, rank: RankEstimate) -> Subspace:
        """Cut the signal out of a spectrum."""
        k = min(rank.n_detected, spectrum.vectors.shape[1])
        theta = rank.variance * rank.strengths[:k]
        gamma = np.clip(rank.overlaps[:k], 1e-6, 1.0)
        floor = rank.variance * float(np.sqrt(spectrum.aspect))
        return cls(spectrum.vectors[:, :k], theta, gamma, floor)

    @property
    def n_sites(self) -> int:
        """N, the number of columns."""
        return int(self.vectors.shape[0])

    @property
    def dim(self) -> int:
        """K, the number of signal eigenvectors."""
        return int(self.vectors.shape[1])

    @property
    def signal(self) -> np.ndarray:
        """(K,) ``theta gamma``: the signal part of the operator in the basis V."""
        return np.asarray(self.strengths * self.overlaps)

    @property
    def metric(self) -> np.ndarray:
        """(K,) scale of each direction of the operator, no finer than what can be detected."""
        return self.signal + self.floor

    def _both(self, patterns: np.ndarray) -> tuple[Array, Array]:
        """V and patterns in float32, where V is."""
        xp, states = namespace(self.vectors), like(np.asarray(patterns, np.int8), self.vectors)
        return xp.astype(self.vectors, xp.float32), xp.astype(states, xp.float32)

    def _fetched(self, V: Array, states: Array, *more: Array) -> tuple[np.ndarray, ...]:
        """Patterns, and more, on the host; from a device coefficients come in the same copy."""
        xp = namespace(V)
        patterns = xp.astype(states, xp.int8)
        if type(V) is np.ndarray:
            return patterns, *more
        patterns, a, *here = all_to_host(patterns, states @ V, *more)
        self._known.update(zip(_keys(patterns), a, strict=True))
        return patterns, *here

    def coefficients(self, patterns: np.ndarray) -> np.ndarray:
        """``V^T sigma`` of every pattern: (C, K)."""
        if type(self.vectors) is np.ndarray:
            V, states = self._both(patterns)
            return np.asarray(states @ V)
        keys = _keys(patterns)
        fresh = [i for i, key in enumerate(keys) if key not in self._known]
        if fresh:
            V, states = self._both(patterns[fresh])
            self._known.update(zip([keys[i] for i in fresh], to_host(states @ V), strict=True))
        return np.array([self._known[key] for key in keys], np.float32).reshape(-1, self.dim)

    def whitened(self, patterns: np.ndarray) -> np.ndarray:
        """(C, K) coefficients ``a_k / sqrt(theta_k gamma_k)``: the operator is the identity."""
        return np.asarray(self.coefficients(patterns).astype(np.float64) / np.sqrt(self.metric))

    def judged(self, patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores ``(1/N) sigma^T V V^T sigma`` (C,), and what theory expects of archetypes (C,)."""
        return self._judged(self.coefficients(patterns), self.overlaps)

    def _judged(self, a: Array, overlaps: Array) -> tuple[Any, Any]:
        """Scores of coefficients a, and expected ones: harmonic means of gamma, weighted by a^2."""
        xp = namespace(a)
        a2 = xp.astype(a, xp.float64) ** 2
        expected = a2.sum(axis=1).clip(1e-300) / (a2 / overlaps).sum(axis=1).clip(1e-300)
        return (a**2).sum(axis=1) / self.n_sites, expected

    def polish(self, patterns: np.ndarray, sweeps: int = SWEEPS) -> np.ndarray:
        """Follow the zero-noise dynamics of the projector, self-field removed, to rest."""
        V, states = self._both(patterns)
        return self._fetched(V, self._at_rest(V, states, sweeps))[0]

    def _at_rest(self, V: Array, states: Array, sweeps: int = SWEEPS) -> Array:
        """Result of `polish` for states that lie where V lies."""
        xp, own = namespace(V), (V * V).sum(axis=1)
        for _ in range(sweeps):
            fields = (states @ V) @ V.T - own * states
            new = xp.where(fields >= -TIE, np.float32(1), np.float32(-1))
            if bool(xp.all(new == states)):
                break
            states = new
        return states

    def _fitted(self, V: Array, states: Array, signal: Array, sweeps: int = SWEEPS) -> Array:
        """States that fit the operator together: weights, then the sign of each field."""
        xp, N = namespace(V), self.n_sites
        own, last = (V * V) @ signal, states
        shared = 1e-6 * N**2 * xp.eye(states.shape[0], dtype=xp.float64)  # weight of two copies
        for _ in range(sweeps):
            a, overlaps = states @ V, states @ states.T
            H = xp.astype(overlaps, xp.float64) ** 2 - N + shared
            p = xp.linalg.solve(H, xp.astype(a**2 @ signal - own.sum(), xp.float64))
            p = xp.astype(xp.maximum(p, xp.zeros_like(p)), V.dtype)
            fields = (a * signal) @ V.T - (overlaps * p) @ states
            fields = fields + (N * p[:, None] - own + (p.sum() - p[:, None])) * states
            new = xp.where(fields >= 0, np.float32(1), np.float32(-1))
            if bool(xp.all(new == states) | xp.all(new == last)):
                break
            states, last = new, states
        return states

    def candidates(self, basis: Array, found: np.ndarray) -> np.ndarray:
        """Patterns (C, N) at rest from starts in a basis (K, k) beside those found, best first."""
        signal, gamma = like(np.stack([self.signal, self.overlaps]), self.vectors)
        lifted = (self.vectors @ like(basis, self.vectors)).T
        xp = namespace(self.vectors)
        V = xp.astype(self.vectors, xp.float32)
        states = self._at_rest(V, xp.where(lifted >= 0, np.float32(1), np.float32(-1)))
        if len(found):
            states = xp.concat([self._both(found)[1], states])
        fitted = self._fitted(V, states, xp.astype(signal, xp.float32))
        both, hoped = self._judged(xp.concat([states @ V, fitted @ V]), gamma)
        good, better = xp.reshape(both >= hoped - SLACK / math.sqrt(self.n_sites), (2, -1))
        before, after = xp.reshape(both, (2, -1))
        better = better & (~good | (after > before))
        good = good | better
        chosen, scores = xp.where(better[:, None], fitted, states), xp.where(better, after, before)
        if type(V) is np.ndarray:  # on a device their number would have to be asked for
            chosen, scores, good = chosen[good], scores[good], good[good]
        falls, scores, good = self._fetched(V, self._at_rest(V, chosen), scores, good)
        return np.asarray(falls[good][np.argsort(-scores[good], kind="stable")])

    def accepted(self, patterns: np.ndarray, slack: float = SLACK) -> np.ndarray:
        """Whether patterns score as theory expects of an archetype: bool (C,)."""
        scores, predicted = self.judged(patterns)
        return scores >= predicted - slack / np.sqrt(self.n_sites)

    def merge(self, kept: np.ndarray, new: np.ndarray, duplicate: float = DUPLICATE) -> np.ndarray:
        """Add `new` patterns to those kept, best score first, without duplicates of either sign."""
        if not len(new):
            return kept
        fresh = self.polish(new[np.argsort(-self.judged(new)[0], kind="stable")])
        return self.joined(kept, fresh, duplicate)

    def joined(
        self, kept: np.ndarray, fresh: np.ndarray, duplicate: float = DUPLICATE
    ) -> np.ndarray:
        """Add fresh patterns to those kept as `merge` does: they are at rest, and sorted."""
        both = drop_repeated(np.vstack([kept, fresh]))
        alike = self._likeness(both) > min(duplicate, 1 - 1e-9)
        chosen: list[int] = list(range(len(kept)))
        for i in range(len(kept), len(both)):
            if not alike[i, chosen].any():
                chosen.append(i)
        return both[chosen]

    def _likeness(self, patterns: np.ndarray) -> np.ndarray:
        """Overlaps (C, C) of patterns, plain or whitened, whichever is smaller."""
        b = self.whitened(patterns)
        b /= np.maximum(np.linalg.norm(b, axis=1, keepdims=True), 1e-300)
        return np.minimum(np.abs(b @ b.T), np.abs(overlaps_of(patterns)))

    def match_known(self, known: np.ndarray, sure: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Match known patterns with this operator: candidates, and the row of each or -1."""
        rows = np.full(len(known), -1)
        if len(known) == 0 or self.dim == 0:
            return np.zeros((0, self.n_sites), np.int8), rows
        falls = self.polish(known)
        promise = expected_overlap(self.judged(falls)[1])
        stays = (sure >= promise) & self.accepted(known)
        candidates = np.where(stays[:, None], known, falls)
        shown = self.accepted(candidates) & (stays | _are_one_pattern(known, falls, sure * promise))
        alike = self._likeness(falls) > DUPLICATE
        chosen: list[int] = []
        for i in np.argsort(-sure, kind="stable"):
            if not shown[i]:
                continue
            row = next((row for row, j in enumerate(chosen) if alike[i, j]), len(chosen))
            if row == len(chosen):
                chosen.append(int(i))
            first = chosen[row]
            if first == i or _are_one_pattern(known[i], known[first], sure[i] * sure[first]):
                rows[i] = row
        return candidates[chosen], rows

    def fit_exposures(self, patterns: np.ndarray) -> ExposureFit:
        """Fit ``diag(theta gamma) ~ sum_c p_c a_c a_c^T`` with ``p >= 0``."""
        if len(patterns) == 0 or self.dim == 0:
            return ExposureFit(np.zeros(len(patterns)), np.zeros(len(patterns)), 0.0)
        b = self.whitened(patterns)
        size = (b**2).sum(axis=1)
        target = self.signal / self.metric
        alone = (b**2 @ target) / size
        H = (b @ b.T) ** 2 / np.outer(size, size)  # unit candidates
        weights = self._weights(H, alone)
        total = float((target**2).sum())
        residual = total - 2 * weights @ alone + weights @ H @ weights
        shares = weights / np.maximum(alone, 1e-12)
        return ExposureFit(weights / size, shares, float(1 - residual / total))

    def _weights(self, H: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Weights w >= 0 (C,) for which ``w^T H w - 2 w^T target`` is least."""
        root = np.linalg.cholesky(H + 1e-10 * np.eye(len(H)))
        # Beside a device the host's steps are what lasts, and most fits need no bounds.
        if type(self.vectors) is not np.ndarray and (w := cho_solve((root, 1), target)).min() >= 0:
            return np.asarray(w)
        return np.asarray(nnls(root.T, np.linalg.solve(root, target))[0])

    def debiased_weights(self, patterns: np.ndarray) -> np.ndarray:
        """Estimates (C,) of ``e_mu r^2`` by population spikes (theory/NOTES.md, "Exposure fit")."""
        if len(patterns) == 0 or self.dim == 0:
            return np.zeros(len(patterns))
        least = self.n_sites ** (-1 / 3)  # as near to the threshold gamma is not known
        b = self.coefficients(patterns) / np.sqrt(np.maximum(self.overlaps, least))
        b = b.astype(np.float64) / np.maximum(np.linalg.norm(b, axis=1, keepdims=True), 1e-300)
        weights = self._weights((b @ b.T) ** 2, b**2 @ self.strengths)
        if len(patterns) == self.dim and weights.sum() > 0:
            weights *= self.strengths.sum() / weights.sum()
        return weights / self.n_sites

    def select(self, candidates: np.ndarray) -> tuple[np.ndarray, ExposureFit]:
        """Candidates that the operator needs, heaviest first, with the fit that says so."""
        kept = candidates
        while True:
            fit = self.fit_exposures(kept)
            if len(kept) == 0 or fit.shares.min() > SHARE:
                order = np.argsort(-fit.weights, kind="stable")
                return kept[order], fit.taken(order)
            kept = kept[fit.shares > min(max(fit.shares.min(), 1e-3), SHARE)]


def _keys(patterns: np.ndarray) -> list[bytes]:
    """Keys of patterns (C, N): the signs of each in bits."""
    return [row.tobytes() for row in np.packbits(patterns > 0, axis=1)]


def drop_repeated(patterns: np.ndarray) -> np.ndarray:
    """Candidate patterns (C, N) in a subspace without repetitions, as they come first."""
    first = dict[bytes, int]()
    for i, key in enumerate(_keys(patterns)):
        first.setdefault(key, i)
    return patterns[list(first.values())]


def overlaps_of(patterns: np.ndarray) -> np.ndarray:
    """Overlaps (C, C) of candidate patterns in a subspace, float32, from their bits."""
    together = kernels.gram(kernels.pack(patterns)).astype(np.float32)
    return np.asarray(together / patterns.shape[1])


def _are_one_pattern(a: np.ndarray, b: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Whether patterns (..., N) are as alike as two estimates of one archetype would be."""
    N = a.shape[-1]
    overlap = np.abs((a.astype(np.float64) * b).sum(axis=-1)) / N
    return overlap >= np.minimum(SAME, expected - SPREADS * np.sqrt((1 - expected**2) / N))
