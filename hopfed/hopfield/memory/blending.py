"""Evidence alone, or blended with what is remembered.

Source: arXiv:2603.19902, eqs. (30), (44); theory/NOTES.md, "Broadcast and blend".

- "separate" (proposed here): the operator is the evidence; archetypes are remembered beside it.
- "common": ``w C_loc / theta + (1 - w) sum_k xihat_k xihat_k^T / N``, both sides with a mean signal
  eigenvalue of one; theta is the mean spike strength that the evidence shows.
- "literal": ``w J_loc + (1 - w) Jhat`` as the paper prints it, whose two sides live on scales that
  differ by the number of archetypes over the quality squared.

A blend is not a sample covariance. Divided by the evidence's own factor it is the evidence plus
known spikes of rank K, whose noise obeys the law of the evidence: that is where it is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hopfed.hopfield.memory.evidence import Evidence
from hopfed.spectral.eigenpairs import Spectrum, eigenpairs
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator
from hopfed.spectral.rank import RankEstimate, TracyWidom
from hopfed.spectral.rows import concatenate

MEMORIES = ("separate", "common", "literal")

FROZEN = 1e-3  # mean weight below which the blend is the memory alone


FEW = 32  # eigenvectors of a first count
UNEQUAL = 1.05  # ratio of two clients' noise variances from which they are not the same


@dataclass(frozen=True)
class Counted:
    """What the spectrum of a round shows.

    Attributes
    ----------
    spectrum : its eigenpairs, cut to those that are real.
    rank : their number, and what theory reads off them.
    variances : noise variance of each client.
    """

    spectrum: Spectrum
    rank: RankEstimate
    variances: dict[int, float]

    @classmethod
    def nothing(cls, n_sites: int) -> Counted:
        """Return the count where there is no evidence."""
        none = np.zeros(0)
        vectors = np.zeros((n_sites, 0))
        spectrum = Spectrum(none, vectors, none, n_sites, 1.0, False, "none", 0, "converged")
        return cls(spectrum, RankEstimate(0, np.nan, 1.0, none, none, "no evidence"), {})


@dataclass(frozen=True)
class Blended:
    """The operator that is factored, and the law its spectrum is counted by.

    Attributes
    ----------
    operator : evidence, with the memory's spikes on it where they are blended.
    evidence : what carries the noise.
    alpha : false-alarm rate of the count.
    quality : of the evidence, where the blend's own spectrum does not tell it.
    """

    operator: HebbianOperator
    evidence: Evidence
    alpha: float
    quality: float | None = None

    @classmethod
    def of(
        cls,
        memory: str,
        evidence: Evidence,
        patterns: np.ndarray,
        weights: Mapping[int, float],
        alpha: float,
    ) -> Blended:
        """Blend `evidence` with `patterns` as `memory` says; see the module's text."""
        if evidence.operator is None:
            raise ValueError("no evidence to blend")
        alone = cls(evidence.operator, evidence, alpha)
        if memory == "separate" or len(patterns) == 0:
            return alone
        own, theta = alone._signal()
        w = max(float(np.mean(list(weights.values()))), FROZEN)
        ratio = (1 - w) / w
        spike = ratio if memory == "literal" else ratio * theta / evidence.encoding.n_sites
        if spike <= 0:
            return alone
        blend = with_spikes(evidence.operator, patterns, spike)
        return cls(blend, evidence, alpha, own.quality or None)

    def count(self, clients: Mapping[int, HebbianOperator], most: int = FEW) -> Counted:
        """Eigenpairs that noise does not explain.

        The clients' own operators tell how noisy each of them is. Where that is unequal the count
        is made again under its law, of the vectors at hand: one common variance lets a noisy
        client's examples pass for archetypes.
        """
        found: list[RankEstimate] = []

        def wanted(values: np.ndarray, complete: bool) -> int:
            found.append(self.rank(values, complete, most))
            return min(found[-1].n_detected, most)

        spectrum, rank = eigenpairs(self.operator, wanted), found[-1]
        k = spectrum.vectors.shape[1]
        captured = {c: along(op, spectrum.vectors) for c, op in clients.items()}
        noise = self.evidence.profile(captured)
        own = noise.own_variances(k, rank.variance)
        if k and clients and own.max() > UNEQUAL * own.min():
            values = spectrum.values[:k]
            rank = TracyWidom(self.alpha)(self.evidence.sample(values, False, None, captured))
            own = noise.own_variances(rank.n_detected, rank.variance)
        if rank.n_detected >= most:
            return self.count(clients, 8 * most)
        variances = {int(c): float(v) for c, v in zip(self.evidence.clients, own, strict=True)}
        return Counted(_cut(spectrum, rank.n_detected), rank, variances)

    def rank(self, values: np.ndarray, complete: bool, most: int | None = None) -> RankEstimate:
        """Count eigenvalues with one noise variance for all clients, `most` of them at most."""
        sample = self.evidence.sample(values, complete, self.quality)
        if most is not None and sample.profile is not None:
            sample = replace(sample, values=values[:most], complete=False)
        return TracyWidom(self.alpha)(sample)

    def _signal(self) -> tuple[RankEstimate, float]:
        """Count of the evidence, and the mean strength of its spikes (its edge if there are none).

        Computed on eigenvalues alone: no vector is needed for the scale.
        """
        found: list[RankEstimate] = []

        def none_wanted(values: np.ndarray, complete: bool) -> int:
            found.append(self.rank(values, complete))
            return 0

        eigenpairs(self.operator, none_wanted)
        rank = found[-1]
        if rank.n_detected == 0:
            aspect = self.evidence.encoding.n_sites / self.evidence.n_examples
            return rank, rank.variance * float(np.sqrt(aspect))
        return rank, rank.variance * float(rank.strengths.mean())


def along(operator: HebbianOperator, vectors: np.ndarray) -> np.ndarray:
    """``v_k^T C v_k`` for the columns of `vectors`, (K,).

    Factors leave out noise; what their trace lacks is spread over all directions.
    """
    missing = max(1.0 - operator.trace / operator.n_sites, 0.0)
    return (vectors * operator.matmat(vectors)).sum(axis=0) + missing


def _cut(spectrum: Spectrum, k: int) -> Spectrum:
    vectors = spectrum.vectors[:, :k]
    return replace(spectrum, vectors=vectors, residuals=spectrum.residuals[:k])


def with_spikes(
    operator: HebbianOperator, patterns: np.ndarray, strength: float
) -> HebbianOperator:
    """Return the operator whose ``C`` is larger by ``strength * sum_k xi_k xi_k^T``."""
    mass = operator.mass * strength
    xi = patterns.astype(np.float64)
    if isinstance(operator, DenseOperator):
        return replace(operator, matrix=operator.matrix + mass * (xi.T @ xi))
    if isinstance(operator, FactorOperator):
        rows: Any = concatenate([operator.rows, xi])
        weights = np.concatenate([operator.weights, np.full(len(xi), mass)])
        return replace(operator, rows=rows, weights=weights)
    return with_spikes(operator.factors(), patterns, strength)  # type: ignore[attr-defined]
