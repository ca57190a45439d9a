"""What the rounds have shown so far: one weighted operator, its law of noise, and its count.

Operators of clients and rounds are added with weights; older ones fade by `discount` each round.
The sum is a second-moment matrix of weighted examples, so the thresholds of random-matrix theory
hold for it, with the law of the weights on the side of the examples. Where clients add noise of
known variance to their operators, the sum has the sum of the variances.

Evidence is counted alone, or blended with what is remembered:

- "separate" (proposed here): the operator is the evidence; archetypes are remembered beside it.
- "common": ``w C_loc / theta + (1 - w) sum_k xihat_k xihat_k^T / N``, both sides with a mean signal
  eigenvalue of one; theta is the mean spike strength that the evidence shows.
- "literal": ``w J_loc + (1 - w) Jhat`` as the paper prints it, whose two sides live on scales that
  differ by the number of archetypes over the quality squared.

A blend is not a sample covariance. Divided by the evidence's own factor it is the evidence plus
known spikes of rank K, whose noise obeys the law of the evidence: that is where it is counted.

Source: arXiv:2603.19902, eqs. (30), (44); theory/NOTES.md, "Evidence over rounds", "Broadcast and
blend".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from hopfed.federation.messages import Message
from hopfed.hopfield.encoding import Encoding, leading_factors, lower, symmetric
from hopfed.privacy.mechanism import PrivateOperator
from hopfed.privacy.recover import private_spectrum
from hopfed.spectral.eigenpairs import Spectrum, eigenpairs
from hopfed.spectral.noise import NoiseProfile, Sample
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator, pool
from hopfed.spectral.rank import Counting, RankEstimate, TracyWidom
from hopfed.spectral.rows import concatenate

MEMORIES = ("separate", "common", "literal")
PILED, KEPT = 8, 4  # times the width: rows from which factors are compressed, and to how many
FORGOTTEN = 1e-4  # weight, relative to the largest, from which a batch no longer counts in the law
FROZEN = 1e-3  # mean weight below which the blend is the memory alone
FEW = 32  # eigenvectors of a first count
UNEQUAL = 1.05  # ratio of two clients' noise variances from which they are not the same


@dataclass(frozen=True)
class Evidence:
    """Weighted operators of batches."""

    encoding: Encoding  # their form
    operator: HebbianOperator | None = None  # the weighted sum; None before the first batch
    # (N,) weighted sum of the examples themselves, which orients patterns
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)
    # counts, weights, clients: (A,) examples, weight and client of each batch
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0))
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    clients: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def mass(self) -> float:
        """Sum of the weights of all examples."""
        return 0.0 if self.operator is None else self.operator.mass

    @property
    def n_examples(self) -> float:
        """Examples of equal weight whose noise has the same second moment."""
        return 0.0 if self.operator is None else self.operator.n_examples

    def discounted(self, discount: float) -> Evidence:
        """Return the evidence with every weight multiplied by `discount`."""
        if discount == 0 or self.operator is None:
            return Evidence(self.encoding)
        if discount == 1:
            return self
        faded = {name: getattr(self, name) * discount for name in ("columns", "weights")}
        return replace(self, operator=self.operator * discount, **faded)

    def extend(
        self,
        operators: Mapping[int, HebbianOperator],
        messages: Mapping[int, Message],
        weights: Mapping[int, float],
    ) -> Evidence:
        """Return the evidence with the operators of more clients, and the sums of their columns."""
        joined = [] if self.operator is None else [self.operator]
        each, nothing = [1.0] * len(joined), np.zeros(self.encoding.n_sites)
        sums = self.columns if joined else nothing
        atoms = self.counts, self.weights, self.clients
        for client, operator in operators.items():
            if (weight := weights[client]) > 0:
                joined.append(operator)
                each.append(weight)
                sums = sums + messages[client].get("columns", nothing) * weight
                atoms = _with(*atoms, (operator.mass, weight, client))
        if not joined:
            return self
        pooled, width = pool(joined, each), self.encoding.width
        # Factors that have piled up over rounds are compressed to their leading part.
        if isinstance(pooled, FactorOperator) and len(pooled.weights) > PILED * width:
            values, rows = leading_factors(pooled, KEPT * width)
            pooled = replace(pooled, rows=rows, weights=values.astype(np.float64) * pooled.mass)
        return Evidence(self.encoding, pooled, sums, *atoms)

    def profile(self, captured: Mapping[int, np.ndarray] | None = None) -> NoiseProfile:
        """Law of the noise, from what each client's trace holds along the leading eigenvectors."""
        total = self.counts.sum()
        gains = self.weights * total / float(self.counts @ self.weights)
        known = None
        if captured:
            mean = np.mean(list(captured.values()), axis=0)
            known = np.array([captured.get(int(c), mean) for c in self.clients])
        return NoiseProfile(known, self.counts / total, self.encoding.n_sites, gains, float(total))

    def sample(
        self,
        values: np.ndarray,
        complete: bool,
        quality: float | None = None,
        captured: Mapping[int, np.ndarray] | None = None,
    ) -> Sample:
        """Describe the evidence to a rank rule; equal weights need no law of their own."""
        equal = captured is None and np.ptp(self.weights) <= 1e-9 * self.weights.max()
        profile = None if equal else self.profile(captured)
        whole = complete and self.encoding.exact
        N = self.encoding.n_sites
        return Sample(values, N, self.n_examples, whole, quality, profile=profile)

    def flatten(self) -> Message:
        """Return the evidence as named arrays."""
        op = self.operator
        if op is None:
            return {}
        arrays: Message = {
            "mass": np.array([op.mass, op.sum_sq_weights, getattr(op, "noise", np.nan)]),
            "columns": self.columns,
            "atoms": np.array([self.counts, self.weights, self.clients]),
        }
        if isinstance(op, FactorOperator):
            return arrays | {"rows": np.asarray(op.rows), "weights": op.weights}
        return arrays | {"triangle": lower(cast(DenseOperator, op).matrix)}

    @classmethod
    def unflatten(cls, encoding: Encoding, arrays: Message) -> Evidence:
        """Rebuild the evidence from its named arrays."""
        if not arrays:
            return cls(encoding)
        mass, squares, noise = arrays["mass"].tolist()
        about, operator = (encoding.n_sites, mass, squares), cast(HebbianOperator, None)
        if "rows" in arrays:
            operator = FactorOperator(*about, arrays["rows"], arrays["weights"])
        else:
            operator = DenseOperator(*about, symmetric(arrays["triangle"], about[0], mass))
            if not np.isnan(noise):
                operator = PrivateOperator(**vars(operator), noise=noise)
        counts, weights, clients = arrays["atoms"]
        return cls(encoding, operator, arrays["columns"], counts, weights, clients.astype(np.int64))


def _with(
    counts: np.ndarray, weights: np.ndarray, clients: np.ndarray, new: tuple[float, float, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add a batch to the law; batches of one client with one weight are one."""
    count, weight, client = new
    same = (clients == client) & (np.abs(weights - weight) <= 1e-9 * weight)
    keep = ~same & (weights > FORGOTTEN * max(weights.max(initial=0.0), weight))
    count += float(counts[same].sum())
    new_atoms = (counts, count), (weights, weight), (clients, client)
    return tuple(np.append(old[keep], last) for old, last in new_atoms)  # type: ignore[return-value]


@dataclass(frozen=True)
class Counted:
    """What the spectrum of a round shows."""

    spectrum: Spectrum  # its eigenpairs, cut to those that are real
    rank: RankEstimate  # their number, and what theory reads off them
    variances: dict[int, float]  # noise variance of each client

    @classmethod
    def of(
        cls,
        memory: str,
        evidence: Evidence,
        patterns: np.ndarray,
        operators: Mapping[int, HebbianOperator],
        weights: Mapping[int, float],
        alpha: float,
    ) -> Counted:
        """Count the spectrum of evidence, or of its blend with remembered `patterns` (K, N)."""
        if evidence.operator is None:
            none, N = np.zeros(0), evidence.encoding.n_sites
            spectrum = Spectrum(none, np.zeros((N, 0)), none, N, 1.0, False, "none", 0, "converged")
            return cls(spectrum, RankEstimate(0, np.nan, 1.0, none, none, "no evidence"), {})
        if isinstance(evidence.operator, PrivateOperator):
            spectrum, rank = private_spectrum(evidence.operator, alpha)
            return cls(_cut(spectrum, rank.n_detected), rank, {})
        blended = Blended.of(memory, evidence, patterns, weights, alpha)
        return blended.count(operators, max(FEW, 2 * len(patterns)))


@dataclass(frozen=True)
class Blended:
    """The operator that is factored, and the law its spectrum is counted by."""

    operator: HebbianOperator  # evidence, with the memory's spikes on it where they are blended
    evidence: Evidence  # what carries the noise
    alpha: float  # false-alarm rate of the count
    quality: float | None = None  # of the evidence, where the blend's own spectrum does not tell it

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
        operator = cast(HebbianOperator, evidence.operator)
        alone = cls(operator, evidence, alpha)
        if memory == "separate" or len(patterns) == 0:
            return alone
        own, theta = alone._signal()
        w = max(float(np.mean(list(weights.values()))), FROZEN)
        ratio = (1 - w) / w
        spike = ratio if memory == "literal" else ratio * theta / evidence.encoding.n_sites
        if spike <= 0:
            return alone
        return cls(with_spikes(operator, patterns, spike), evidence, alpha, own.quality or None)

    def count(self, clients: Mapping[int, HebbianOperator], most: int = FEW) -> Counted:
        """Eigenpairs that noise does not explain."""
        counting = self.counting(most)
        spectrum = eigenpairs(self.operator, lambda *seen: min(counting(*seen), most))
        k, rank = spectrum.vectors.shape[1], counting.estimate
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

    def counting(self, most: int | None = None) -> Counting:
        """Count eigenvalues with one noise variance for all clients, `most` of them at most."""

        def sample(values: np.ndarray, complete: bool) -> Sample:
            found = self.evidence.sample(values, complete, self.quality)
            if most is None or found.profile is None:
                return found
            return replace(found, values=values[:most], complete=False)

        return Counting(TracyWidom(self.alpha), sample)

    def _signal(self) -> tuple[RankEstimate, float]:
        """Count of the evidence, and the mean strength of its spikes (its edge if there are none).

        Computed on eigenvalues alone: no vector is needed for the scale.
        """
        counting = self.counting()
        eigenpairs(self.operator, lambda *seen: 0 * counting(*seen))
        rank = counting.estimate
        if rank.n_detected == 0:
            aspect = self.evidence.encoding.n_sites / self.evidence.n_examples
            return rank, rank.variance * float(np.sqrt(aspect))
        return rank, rank.variance * float(rank.strengths.mean())


def along(operator: HebbianOperator, vectors: np.ndarray) -> np.ndarray:
    """``v_k^T C v_k`` for the columns of `vectors`, (K,)."""
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
    if isinstance(operator, FactorOperator):
        rows: Any = concatenate([operator.rows, xi])
        weights = np.concatenate([operator.weights, np.full(len(xi), mass)])
        return replace(operator, rows=rows, weights=weights)
    dense = cast(DenseOperator, operator)
    return replace(dense, matrix=dense.matrix + mass * (xi.T @ xi))
