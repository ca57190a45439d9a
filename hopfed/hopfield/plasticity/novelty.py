"""What a batch holds: the shares of its variance that memory explains, and that novelty does.

A remembered archetype is a known spike. The rest of the spectrum, with memory projected out, shows
what is new by its outliers; pure noise has none (theory/NOTES.md, "Structure rule").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from hopfed import kernels
from hopfed.kernels import PackedBits
from hopfed.spectral.eigenpairs import FULL_LIMIT, eigenpairs
from hopfed.spectral.noise import Sample, noise_variance
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator
from hopfed.spectral.rank import TracyWidom

DENSE_SITES = 1_024  # sites up to which an N x N matrix is made


def memory_share(inside: np.ndarray, basis: np.ndarray, novel: np.ndarray, alpha: float) -> float:
    """Share of the batch's variance that the memory explains, ``r_mem^2``.

    An example that has nothing to do with the memory has on average K' of its squared length N
    inside the K' dimensions of Q, an archetype all of it: with the coordinates ``inside = eta Q``,
    ``tr Q^T C Q = K' + (N - K') r_mem^2`` on average, whatever the noise. A random sign vector has
    the variance ``2 (K' - sum_i H_ii^2)``, ``H = Q Q^T``, of its squared length inside; M examples
    of noise, and novel archetypes that hold shares n_k of the variance, leave that times
    ``1/M + sum n_k^2``. This is the standard error squared with nothing remembered; an excess of
    up to its root times the normal quantile at 1 - alpha counts as 0.
    """
    M, rank = inside.shape
    excess = float((inside**2).sum()) / M - rank
    length = 2 * max(rank - float(((basis**2).sum(axis=1) ** 2).sum()), 0.0)
    if excess <= ndtri(1 - alpha) * np.sqrt(length * (1 / M + novel @ novel)):
        return 0.0
    return min(excess / max(len(basis) - rank, 1), 1.0)


def novel_shares(
    rows: PackedBits, inside: np.ndarray, basis: np.ndarray, alpha: float, seed: int
) -> np.ndarray:
    """Shares of the batch's variance in the structures outside of the memory.

    Source: theory/NOTES.md, "Structure rule".

    The remembered archetypes are known spikes: with them projected out, what is left of the +-1
    channel is noise on N - K' sites, and novelty. Outliers of ``P C P`` above the Tracy-Widom
    quantile, moved by the channel's kurtosis as in `hopfed.spectral.rank`, are turned into spikes
    theta by (60); the shares ``theta / (N - K')`` sum to ``r_new^2``. Errors of the patterns look
    novel.

    Above DENSE_SITES sites and FULL_LIMIT examples the leading eigenvalues alone are iterated on,
    and a spike within a few per cent of the edge may be missed.
    """
    M, N = rows.shape
    free = N - basis.shape[1]
    outside = N - float((inside**2).sum()) / M  # trace of P C P
    if outside <= 1e-9 * N:
        return np.zeros(0)
    left = outside / free
    operator = _outside(rows, inside, basis)

    def residual(values: np.ndarray, complete: bool) -> _Residual:
        return _Residual(values, free, M, complete, left=left)

    def wanted(values: np.ndarray, complete: bool) -> int:
        # No vectors are needed: the iteration alone wants to know how many pairs must converge.
        return 0 if complete else TracyWidom(alpha)(residual(values, False)).n_detected

    route = "krylov" if isinstance(operator, FactorOperator) else "dense"
    spectrum = eigenpairs(operator, wanted, route=route, seed=seed)
    found = TracyWidom(alpha)(residual(spectrum.values, spectrum.complete))
    shares = found.variance * found.strengths / free
    return shares / max(1.0, shares.sum() / min(left, 1.0))


@dataclass(frozen=True)
class _Residual(Sample):
    """Spectrum of ``P C P``, of which memory leaves the trace `left` to a site."""

    left: float = 1.0

    def variance(self, k: int) -> float:
        """Bulk variance ``s2 = 1 - r_mem^2 - r_new^2`` beside k novel spikes."""
        return self.left * noise_variance(self.values[:k] / self.left, self.n_sites, self.aspect)


@dataclass(frozen=True)
class _Projected(FactorOperator):
    """``P C P`` of too many examples over too many sites: it is only applied."""

    basis: np.ndarray

    def matmat(self, X: np.ndarray) -> np.ndarray:
        return self._project(super().matmat(self._project(X)))

    def _project(self, X: np.ndarray) -> np.ndarray:
        return X - self.basis @ (self.basis.T @ X)


def _outside(rows: PackedBits, inside: np.ndarray, basis: np.ndarray) -> HebbianOperator:
    """Return an operator with the nonzero spectrum of ``P C P``, the smallest that there is.

    In single precision: what is read off are eigenvalues beside a threshold.
    """
    M, N = rows.shape
    mass, inside, basis = float(M), inside.astype(np.float32), basis.astype(np.float32)
    if N < M and N <= DENSE_SITES:
        S = kernels.second_moment(rows).astype(np.float32)
        half = S - (S @ basis) @ basis.T
        return DenseOperator(N, mass, mass, half - basis @ (basis.T @ half))
    if M <= FULL_LIMIT:
        G = kernels.gram(rows).astype(np.float32)
        return DenseOperator(M, mass, mass, G - inside @ inside.T)
    return _Projected(N, mass, mass, rows, np.ones(M), basis)
