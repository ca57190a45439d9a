"""What the rounds have shown so far: one weighted operator, its law of noise, and its count.

Operators of clients and rounds are added with weights; older ones fade. The sum is a second-moment
matrix of weighted examples, whose thresholds are those of random-matrix theory with the law of the
weights; where clients add noise, the sum has the sum of the variances.

Evidence is counted alone ("separate", proposed here: archetypes are remembered beside it), or
blended with what is remembered ("common"): ``w C_loc / theta + (1 - w) sum_k xihat_k xihat_k^T /
N``, both sides with a mean signal eigenvalue of one; theta is the mean spike strength that the
evidence shows. Divided by the evidence's own factor a blend is the evidence plus known spikes of
rank K, whose noise obeys the law of the evidence: that is where it is counted.

Source: arXiv:2603.19902, eqs. (30), (44); theory/NOTES.md, "Evidence over rounds", "Broadcast and
blend".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from hopfed.federation.messages import Message
from hopfed.hopfield.encoding import lower, symmetric
from hopfed.privacy.mechanism import PrivateOperator
from hopfed.privacy.recover import private_spectrum
from hopfed.spectral.eigenpairs import Spectrum, eigenpairs
from hopfed.spectral.noise import NoiseProfile, Sample
from hopfed.spectral.operators import DenseOperator, pool
from hopfed.spectral.rank import Counting, RankEstimate, TracyWidom

MEMORIES = ("separate", "common")
FORGOTTEN = 1e-4  # weight, relative to the largest, from which a batch no longer counts in the law
FROZEN = 1e-3  # mean weight below which the blend is the memory alone
FEW = 32  # eigenvectors of a first count
UNEQUAL = 1.05  # ratio of two clients' noise variances from which they are not the same


@dataclass(frozen=True)
class Evidence:
    """Weighted operators of batches."""

    n_sites: int
    operator: DenseOperator | None = None  # the weighted sum; None before the first batch
    # (N,) weighted sum of the examples themselves, which orients patterns
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)
    # (3, A) examples, weight and client of each batch
    atoms: np.ndarray = field(default_factory=lambda: np.zeros((3, 0)))

    @property
    def n_examples(self) -> float:
        """Examples of equal weight whose noise has the same second moment."""
        return 0.0 if self.operator is None else self.operator.n_examples

    def discounted(self, discount: float) -> Evidence:
        """Return the evidence with every weight multiplied by `discount`."""
        if discount == 0 or self.operator is None:
            return Evidence(self.n_sites)
        operator, columns = self.operator * discount, self.columns * discount
        atoms = self.atoms * [[1.0], [discount], [1.0]]
        return replace(self, operator=operator, columns=columns, atoms=atoms)

    def extend(
        self,
        operators: Mapping[int, DenseOperator],
        messages: Mapping[int, Message],
        weights: Mapping[int, float],
    ) -> Evidence:
        """Return the evidence with the operators of more clients, and the sums of their columns."""
        joined = [] if self.operator is None else [self.operator]
        each, nothing = [1.0] * len(joined), np.zeros(self.n_sites)
        sums, atoms = self.columns if joined else nothing, self.atoms
        for client, operator in operators.items():
            if (weight := weights[client]) > 0:
                joined.append(operator)
                each.append(weight)
                sums = sums + messages[client].get("columns", nothing) * weight
                atoms = _with(atoms, operator.mass, weight, client)
        if not joined:
            return self
        pooled = cast(DenseOperator, pool(joined, each))
        return replace(self, operator=pooled, columns=sums, atoms=atoms)

    def profile(self, captured: Mapping[int, np.ndarray] | None = None) -> NoiseProfile:
        """Law of the noise, from what each client's trace holds along the leading eigenvectors."""
        counts, weights, clients = (row.copy() for row in self.atoms)  # aligned, to the last bit
        total = counts.sum()
        gains = weights * total / float(counts @ weights)
        known = None
        if captured:
            mean = np.mean(list(captured.values()), axis=0)
            known = np.array([captured.get(int(c), mean) for c in clients])
        return NoiseProfile(known, counts / total, self.n_sites, gains, float(total))

    def sample(
        self,
        values: np.ndarray,
        complete: bool,
        quality: float | None = None,
        captured: Mapping[int, np.ndarray] | None = None,
    ) -> Sample:
        """Describe the evidence to a rank rule; equal weights need no law of their own."""
        weights = self.atoms[1]
        equal = captured is None and np.ptp(weights) <= 1e-9 * weights.max()
        profile = None if equal else self.profile(captured)
        return Sample(values, self.n_sites, self.n_examples, complete, quality, profile=profile)

    def flatten(self) -> Message:
        """Return the evidence as named arrays."""
        op = self.operator
        if op is None:
            return {}
        mass = np.array([op.mass, op.sum_sq_weights, getattr(op, "noise", np.nan)])
        own = {"columns": self.columns, "atoms": self.atoms}
        return {"mass": mass, **own, "triangle": lower(op.matrix)}

    @classmethod
    def unflatten(cls, n_sites: int, arrays: Message) -> Evidence:
        """Rebuild the evidence from its named arrays."""
        if not arrays:
            return cls(n_sites)
        mass, squares, noise = arrays["mass"].tolist()
        matrix = symmetric(arrays["triangle"], n_sites, mass)
        operator = DenseOperator(n_sites, mass, squares, matrix)
        if not np.isnan(noise):
            operator = PrivateOperator(**vars(operator), noise=noise)
        return cls(n_sites, operator, arrays["columns"], arrays["atoms"])


def _with(atoms: np.ndarray, count: float, weight: float, client: int) -> np.ndarray:
    """Add a batch to the law; batches of one client with one weight are one."""
    counts, weights, clients = atoms
    same = (clients == client) & (np.abs(weights - weight) <= 1e-9 * weight)
    keep = ~same & (weights > FORGOTTEN * max(weights.max(initial=0.0), weight))
    count += float(counts[same].sum())
    return np.hstack([atoms[:, keep], [[count], [weight], [client]]])


@dataclass(frozen=True)
class Counted:
    """What the spectrum of a round shows."""

    spectrum: Spectrum  # its eigenpairs, cut to those that are real
    rank: RankEstimate  # their number, and what theory reads off them
    variances: dict[int, float]  # noise variance of each client

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        operators: Mapping[int, DenseOperator],
        weights: Mapping[int, float],
        alpha: float,
        memory: str,
        patterns: np.ndarray,
    ) -> Counted:
        """Count the spectrum of evidence, or of its blend with remembered `patterns` (K, N)."""
        if evidence.operator is None:
            none, N = np.zeros(0), evidence.n_sites
            spectrum = Spectrum(none, np.zeros((N, 0)), none, N, 1.0, False, "none", 0, "converged")
            return cls(spectrum, RankEstimate(0, np.nan, 1.0, none, none, "no evidence"), {})
        if isinstance(evidence.operator, PrivateOperator):
            spectrum, rank = private_spectrum(evidence.operator, alpha)
            return cls(_cut(spectrum, rank.n_detected), rank, {})
        blend, quality = evidence.operator, None
        if memory == "common" and len(patterns):
            blend, quality = blended(evidence, patterns, weights, alpha)
        most = max(FEW, 2 * len(patterns))
        while True:
            counting = counting_of(evidence, alpha, quality, most)
            spectrum = eigenpairs(blend, lambda *seen: min(counting(*seen), most))  # noqa: B023
            k, rank = spectrum.vectors.shape[1], counting.estimate
            captured = {c: along(op, spectrum.vectors) for c, op in operators.items()}
            noise = evidence.profile(captured)
            own = noise.own_variances(k, rank.variance)
            if k and operators and own.max() > UNEQUAL * own.min():
                sample = evidence.sample(spectrum.values[:k], False, None, captured)
                rank = TracyWidom(alpha)(sample)
                own = noise.own_variances(rank.n_detected, rank.variance)
            if rank.n_detected < most:
                break
            most *= 8
        variances = {int(c): float(v) for c, v in zip(evidence.atoms[2], own, strict=True)}
        return cls(_cut(spectrum, rank.n_detected), rank, variances)


def blended(
    evidence: Evidence, patterns: np.ndarray, weights: Mapping[int, float], alpha: float
) -> tuple[DenseOperator, float | None]:
    """Evidence with remembered patterns, and the quality, which its own spectrum does not tell."""
    operator, N = cast(DenseOperator, evidence.operator), evidence.n_sites
    counting = counting_of(evidence, alpha)
    eigenpairs(operator, lambda *seen: 0 * counting(*seen))  # no vector is needed for the scale
    rank = counting.estimate
    w = max(float(np.mean(list(weights.values()))), FROZEN)
    edge = float(np.sqrt(N / evidence.n_examples))
    mean = float(rank.strengths.mean()) if rank.n_detected else edge
    spike = (1 - w) / w * (rank.variance * mean) / N
    if spike <= 0:
        return operator, None
    xi = patterns.astype(np.float64)
    matrix = operator.matrix + operator.mass * spike * (xi.T @ xi)
    return replace(operator, matrix=matrix), rank.quality or None


def counting_of(
    evidence: Evidence, alpha: float, quality: float | None = None, most: int | None = None
) -> Counting:
    """Count eigenvalues with one noise variance for all clients, `most` of them at most."""

    def sample(values: np.ndarray, complete: bool) -> Sample:
        found = evidence.sample(values, complete, quality)
        if most is None or found.profile is None:
            return found
        return replace(found, values=values[:most], complete=False)

    return Counting(TracyWidom(alpha), sample)


def along(operator: DenseOperator, vectors: np.ndarray) -> np.ndarray:
    """``v_k^T C v_k`` for the columns of `vectors`, (K,)."""
    return np.asarray((vectors * operator.matmat(vectors)).sum(axis=0))


def _cut(spectrum: Spectrum, k: int) -> Spectrum:
    vectors = spectrum.vectors[:, :k]
    return replace(spectrum, vectors=vectors, residuals=spectrum.residuals[:k])
