"""Evidence: the operators of all rounds so far, their count, and their support of patterns.

Operators of clients and rounds are added with weights; older ones fade. Evidence is counted alone
("separate", proposed here: archetypes are kept beside it), or blended with the memory ("common"):
``w C_loc / theta + (1 - w) sum_k xihat_k xihat_k^T / N``, theta the mean strength of a spike.
A pattern is tested along its own direction d, the part of it that is orthogonal to all the others:
noise alone gives ``s2_c (1 +- sqrt(2/M_c))`` for ``d^T C_c d``, and an archetype adds its spike.

Source: arXiv:2603.19902, eqs. (30), (44); theory/NOTES.md, "Evidence over rounds", "Broadcast and
blend".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np
from scipy.linalg import pinvh
from scipy.optimize import nnls

from hopfed._lib.random import stream
from hopfed.federation.messages import Message
from hopfed.hopfield.byzantine_guard import CLIENT_GROUPS, LEVEL, trimmed_mean
from hopfed.hopfield.operator_messages import leading_factors, lower_triangle, symmetric_matrix
from hopfed.privacy.private_operator import PrivateOperator
from hopfed.privacy.private_spectrum import private_spectrum
from hopfed.spectral.eigenpairs import Spectrum, eigenpairs
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator, pool
from hopfed.spectral.rank import CountingRule, NoiseProfile, RankEstimate, Sample, TracyWidom

MEMORIES = ("separate", "common")
PILED, KEPT = 8, 4  # multiples of `factors`: rows that are compressed, and rows left after it
FORGOTTEN = 1e-4  # weight, relative to the largest, below which a batch leaves the law of noise
FROZEN = 1e-3  # mean weight below which the blend is the memory alone
UNEQUAL = 1.05  # ratio of two clients' noise variances from which they count as unequal
LIMIT = 1.4  # largest mean of squared residuals over their errors, for any number of them
SPREAD = 5.0  # standard deviations of such a mean, added to LIMIT
COLUMNS = 1_000  # most columns that are tested


@dataclass(frozen=True)
class Evidence:
    """Evidence: the weighted sum of clients' operators over rounds, and the law of its noise."""

    n_sites: int
    factors: int = 0  # number of factors of an operator; 0 for exact counts
    operator: HebbianOperator | None = None  # the weighted sum; None before the first batch
    # columns, atoms: (N,) weighted sum of examples; (3, A) examples, weight and client of a batch
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)
    atoms: np.ndarray = field(default_factory=lambda: np.zeros((3, 0)))

    @property
    def n_examples(self) -> float:
        """Examples of equal weight whose noise has the same second moment."""
        return 0.0 if self.operator is None else self.operator.n_examples

    def discounted(self, discount: float) -> Evidence:
        """Return the evidence with every weight multiplied by `discount`."""
        if discount == 0 or self.operator is None:
            return Evidence(self.n_sites, self.factors)
        operator, columns = pool([self.operator], [discount]), self.columns * discount
        atoms = self.atoms * [[1.0], [discount], [1.0]]
        return replace(self, operator=operator, columns=columns, atoms=atoms)

    def extend(
        self,
        operators: Mapping[int, HebbianOperator],
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
        pooled = pool(joined, each)
        if isinstance(pooled, FactorOperator) and len(pooled.weights) > PILED * self.factors:
            values, rows = leading_factors(pooled, KEPT * self.factors)
            pooled = replace(pooled, rows=rows, weights=values.astype(np.float64) * pooled.mass)
        return replace(self, operator=pooled, columns=sums, atoms=atoms)

    def profile(self, captured: Mapping[int, np.ndarray] | None = None) -> NoiseProfile:
        """Return the law of the noise, from clients' traces along the leading eigenvectors."""
        counts, weights, clients = (row.copy() for row in self.atoms)  # aligned, to the last bit
        total = counts.sum()
        gains = weights * total / float(counts @ weights)
        known = None
        if captured:
            mean = np.mean(list(captured.values()), axis=0)
            known = np.array([captured.get(int(c), mean) for c in clients])
        return NoiseProfile(known, counts / total, self.n_sites, gains, float(total))

    def sample(self, values: np.ndarray, complete: bool, quality: float | None = None) -> Sample:
        """Describe the evidence to a rank rule; equal weights need no law of their own."""
        weights = self.atoms[1]
        profile = None if np.ptp(weights) <= 1e-9 * weights.max() else self.profile()
        whole = complete and not self.factors
        return Sample(values, self.n_sites, self.n_examples, whole, quality, profile=profile)

    def flatten(self) -> Message:
        """Return the evidence as named arrays."""
        op = self.operator
        if op is None:
            return {}
        mass = np.array([op.mass, op.sum_sq_weights, getattr(op, "noise", np.nan)])
        own = {"columns": self.columns, "atoms": self.atoms}
        if isinstance(op, FactorOperator):
            return {"mass": mass, "rows": op.rows, "weights": op.weights, **own}
        return {"mass": mass, "triangle": lower_triangle(cast(DenseOperator, op).matrix), **own}

    @classmethod
    def unflatten(cls, n_sites: int, arrays: Message, factors: int = 0) -> Evidence:
        """Rebuild the evidence from its named arrays."""
        if not arrays:
            return cls(n_sites, factors)
        mass, squares, noise = arrays["mass"].tolist()
        operator: HebbianOperator
        if factors:
            operator = FactorOperator(n_sites, mass, squares, arrays["rows"], arrays["weights"])
        else:
            matrix = symmetric_matrix(arrays["triangle"], n_sites, mass)
            operator = DenseOperator(n_sites, mass, squares, matrix)
            if not np.isnan(noise):
                operator = PrivateOperator(**vars(operator), noise=noise)
        return cls(n_sites, factors, operator, arrays["columns"], arrays["atoms"])


def _with(atoms: np.ndarray, count: float, weight: float, client: int) -> np.ndarray:
    """Add a batch to the atoms (3, A); batches of one client with equal weights are joined."""
    counts, weights, clients = atoms
    same = (clients == client) & (np.abs(weights - weight) <= 1e-9 * weight)
    keep = ~same & (weights > FORGOTTEN * max(weights.max(initial=0.0), weight))
    count += float(counts[same].sum())
    return np.hstack([atoms[:, keep], [[count], [weight], [client]]])


@dataclass(frozen=True)
class Counted:
    """Spectrum of the evidence in a round, the count of its archetypes, and clients' noise."""

    spectrum: Spectrum  # its eigenpairs, vectors only of counted archetypes
    rank: RankEstimate  # their number, and estimates by theory
    variances: dict[int, float]  # noise variance of each client

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        operators: Mapping[int, HebbianOperator],
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
            return cls(*private_spectrum(evidence.operator, alpha), {})
        blend, quality = evidence.operator, None
        if memory == "common" and len(patterns):
            blend, quality = blend_evidence(evidence, patterns, weights, alpha)
        counting = counting_rule(evidence, alpha, quality)
        spectrum = eigenpairs(blend, counting)
        k, rank = spectrum.vectors.shape[1], counting.estimate
        captured = {c: spread(op, spectrum.vectors) for c, op in operators.items()}
        noise = evidence.profile(captured)
        own = noise.own_variances(k, rank.variance)
        if k and operators and own.max() > UNEQUAL * own.min():
            about = spectrum.values[:k], spectrum.n_sites, evidence.n_examples, False
            rank = TracyWidom(alpha)(Sample(*about, profile=noise))
            own = noise.own_variances(rank.n_detected, rank.variance)
        variances = {int(c): float(v) for c, v in zip(evidence.atoms[2], own, strict=True)}
        k = rank.n_detected
        vectors, residuals = spectrum.vectors[:, :k], spectrum.residuals[:k]
        return cls(replace(spectrum, vectors=vectors, residuals=residuals), rank, variances)


def blend_evidence(
    evidence: Evidence, patterns: np.ndarray, weights: Mapping[int, float], alpha: float
) -> tuple[HebbianOperator, float | None]:
    """Blend the evidence with remembered patterns; return this operator, and the quality r."""
    operator, N = cast(HebbianOperator, evidence.operator), evidence.n_sites
    counting = counting_rule(evidence, alpha)
    eigenpairs(operator, lambda *seen: 0 * counting(*seen))  # no vector is needed for the scale
    rank = counting.estimate
    w = max(float(np.mean(list(weights.values()))), FROZEN)
    edge = float(np.sqrt(N / evidence.n_examples))
    mean = float(rank.strengths.mean()) if rank.n_detected else edge
    spike = (1 - w) / w * (rank.variance * mean) / N
    if spike <= 0:
        return operator, None
    xi, mass = patterns.astype(np.float64), operator.mass * spike
    if isinstance(operator, FactorOperator):
        rows = np.concatenate([operator.rows, xi])
        every = np.concatenate([operator.weights, np.full(len(xi), mass)])
        return replace(operator, rows=rows, weights=every), rank.quality or None
    matrix = cast(DenseOperator, operator).matrix + mass * (xi.T @ xi)
    return replace(cast(DenseOperator, operator), matrix=matrix), rank.quality or None


def counting_rule(evidence: Evidence, alpha: float, quality: float | None = None) -> CountingRule:
    """Return the rule that counts eigenvalues of evidence, one noise variance for all clients."""
    return CountingRule(TracyWidom(alpha), partial(evidence.sample, quality=quality))


def spread(operator: HebbianOperator, vectors: np.ndarray) -> np.ndarray:
    """Evidence of an operator along `vectors`, ``v_k^T C v_k`` (K,); what factors omit is white."""
    missing = max(1.0 - operator.trace / operator.n_sites, 0.0)
    return np.asarray((vectors * operator.matmat(vectors)).sum(axis=0) + missing)


def dual_directions(patterns: np.ndarray) -> np.ndarray:
    """Directions (N, K) to test evidence of patterns: of each, the part orthogonal to others."""
    xi = patterns.astype(np.float64)
    dual = xi.T @ pinvh(xi @ xi.T) if len(xi) else xi.T
    return dual / np.maximum(np.linalg.norm(dual, axis=0), 1e-300)


def random_groups(clients: int, secret: int, t: int) -> list[np.ndarray]:
    """Draw random groups of clients, whose evidence is compared, for round t: index arrays."""
    order = stream(int(secret), "groups of clients", t).permutation(clients)
    return np.array_split(order, min(CLIENT_GROUPS, clients))


def added_noise(operator: HebbianOperator) -> float:
    """Variance of privacy noise on an entry of C of an operator in evidence; 0 without noise."""
    return operator.noise / operator.mass**2 if isinstance(operator, PrivateOperator) else 0.0


@dataclass(frozen=True)
class Support:
    """Support of patterns by clients: the part of each client's operator along each pattern."""

    held: np.ndarray  # (L, K) ``d_k^T C_c d_k``
    # examples, weights, variances: (L,) of the clients: M_c, weight per example, s2_c
    examples: np.ndarray
    weights: np.ndarray
    variances: np.ndarray
    rest: np.ndarray  # (L,) s2_c, or the mean of the operator outside of the patterns, if larger
    reach: np.ndarray  # (K,) ``(xi_k . d_k)^2``, the part of one example of the pattern
    added: np.ndarray  # (L,) variance of the clients' privacy noise along a direction

    @classmethod
    def of(
        cls,
        operators: Sequence[HebbianOperator],
        patterns: np.ndarray,
        weights: Sequence[float],
        variances: Sequence[float],
    ) -> Support:
        """Measure the support that `operators`, one for each client, give to `patterns` (K, N)."""
        d = dual_directions(patterns)
        held = np.array([spread(op, d) for op in operators]).reshape(len(operators), len(patterns))
        noise = np.asarray(variances, float)
        added = np.array([2 * added_noise(op) for op in operators])
        N, basis = patterns.shape[1], np.linalg.qr(patterns.T.astype(np.float64))[0]
        inside = np.array([spread(op, basis).sum() for op in operators])
        rest = np.maximum(noise, (N - inside) / max(N - basis.shape[1], 1))
        examples = np.array([op.n_examples for op in operators])
        reach = (patterns * d.T).sum(axis=1) ** 2
        return cls(held, examples, np.asarray(weights, float), noise, rest, reach, added)

    @property
    def mass(self) -> np.ndarray:
        """(L, 1) weighted examples of the clients."""
        return (self.weights * self.examples)[:, None]

    def scores(self, clients: np.ndarray | None = None) -> np.ndarray:
        """Standard scores (K,) of the pooled operators of `clients`, by default of all."""
        chosen = slice(None) if clients is None else clients
        mass = self.mass[chosen, 0]
        total = mass.sum()
        if total <= 0:
            return np.zeros(self.held.shape[1])
        excess = mass @ (self.held - self.variances[:, None])[chosen] / total
        each = 2 * self.variances**2 / self.examples + self.added
        variance = (mass**2 * each[chosen]).sum()
        return excess / np.sqrt(max(variance, 1e-300)) * total

    def alone(self) -> np.ndarray:
        """Standard scores (L, K) of each client's operator alone, against its own rest."""
        spread = np.sqrt(2 * self.rest**2 / self.examples + self.added)
        return (self.held - self.rest[:, None]) / np.maximum(spread, 1e-300)[:, None]

    def doubted(self, byzantine: int) -> np.ndarray:
        """Standard scores (K,) of the pooled operators without each pattern's best supporters."""
        noise = self.rest[:, None]
        gain = self.mass * (self.held - noise)
        spread = self.mass**2 * (2 * noise**2 / self.examples[:, None] + self.added[:, None])
        kept = np.argsort(gain, axis=0, kind="stable")[: len(gain) - byzantine]
        excess, variance = (np.take_along_axis(x, kept, axis=0).sum(axis=0) for x in (gain, spread))
        return np.asarray(excess / np.sqrt(np.maximum(variance, 1e-300)))

    def behind(self, quality: float) -> np.ndarray:
        """Weighted number of examples (K,) behind each pattern."""
        share = (self.held - self.rest[:, None]) / np.maximum(quality**2 * self.reach, 1e-300)
        if not np.any(self.added):  # positive parts of noise would add up
            share = np.clip(share, 0.0, 1.0)
        return np.asarray(np.sort(share * self.mass, axis=0).sum(axis=0))  # in any order of clients

    def agreement(self, groups: Sequence[np.ndarray]) -> np.ndarray:
        """Share of the `groups` of clients, index arrays, that support each pattern: (K,)."""
        return np.mean([self.scores(np.asarray(g)) > LEVEL for g in groups], axis=0)


def correct_patterns(
    patterns: np.ndarray, operators: Sequence[HebbianOperator], weights: Sequence[float], liars: int
) -> np.ndarray:
    """Correct patterns, int8 (K, N): flip sites against the evidence of clients' operators."""
    L, cut = len(operators), min(liars, (len(operators) - 1) // 2)
    if cut <= 0 or len(patterns) == 0:
        return patterns
    d, masses = dual_directions(patterns), np.array([op.n_examples for op in operators])
    shown = np.stack([np.asarray(op.matmat(d)).T for op in operators])  # (L, K, N)
    held = np.einsum("lkn,nk->lk", shown, d)
    scale, added = np.asarray(weights, float) * masses, np.array([*map(added_noise, operators)])
    fixed = patterns.copy()
    for k in range(len(patterns)):
        middle = trimmed_mean(scale[:, None] * shown[:, k], 1.0, cut)
        noise = np.sqrt(np.median(scale**2 * (held[:, k] / masses + added)) / (L - 2 * cut))
        fixed[k, patterns[k] * middle < -LEVEL * noise] *= -1
    return fixed


def misfit(operator: DenseOperator, patterns: np.ndarray, mean: np.ndarray | None = None) -> float:
    """Evidence against patterns: an operator's rest over the most by chance, above 1 a misfit."""

    def most(number: float) -> float:
        return LIMIT + SPREAD * float(np.sqrt(2 / number))

    chosen = np.unique(np.linspace(0, operator.n_sites - 1, COLUMNS).astype(int))
    C = np.asarray(operator.matrix[np.ix_(chosen, chosen)] / operator.mass)
    xi, M, N = patterns[:, chosen].astype(np.float64), operator.n_examples, len(chosen)
    alike = (xi @ xi.T) ** 2 - N  # products of the patterns' own second moments, off the diagonal
    weights = _weights(alike, np.einsum("kn,kn->k", xi @ C, xi) - np.trace(C), N**2)
    variance = (1 - np.minimum(C**2, 1 - 1 / M)) / M + added_noise(operator)
    left = (C - (xi.T * weights) @ xi) ** 2 / variance
    np.fill_diagonal(left, 0.0)
    pairs = N * (N - 1) / 2
    ratios = [left.sum() / 2 / pairs / most(pairs)]
    if mean is not None:
        m, shape = mean[chosen], weights @ xi
        expected = max(float(shape @ m) / max(float(shape @ shape), 1e-300), 0.0) * shape
        far = (m - expected) ** 2 * M / (1 - np.minimum(m**2, 1 - 1 / M))
        ratios.append(far.mean() / most(N))
    return float(max(ratios))


def fit_operators(
    operators: Iterable[HebbianOperator], V: np.ndarray, noise: list[float], patterns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit operators in evidence by patterns along V (N, J): weights (L, K), rest of each (L,)."""
    V, weights, rest = V.astype(np.float64), [], []
    for op, variance in zip(operators, noise, strict=True):
        held = V.T @ op.matmat(V)
        added = np.sqrt(added_noise(op) * op.mass)
        scale = np.sqrt(np.maximum(np.diag(held), 1e-3) + added)
        S = (held - variance * np.eye(len(held))) / np.outer(scale, scale)
        b = patterns @ V / scale
        alike, along_each = (b @ b.T) ** 2, np.einsum("kj,kj->k", b @ S, b)
        weights.append(_weights(alike, along_each, alike.max(initial=0.0)))
        rest.append(op.n_examples / 2 * ((S - (b.T * weights[-1]) @ b) ** 2).sum())
    return np.array(weights), np.array(rest)


def _weights(alike: np.ndarray, held: np.ndarray, size: float) -> np.ndarray:
    """Fit weights (K,), none below 0, of matrices whose products are `alike`, to their parts."""
    if len(held) == 0:
        return np.zeros(0)
    root = np.linalg.cholesky(alike + 1e-9 * size * np.eye(len(held)))
    found: np.ndarray = nnls(root.T, np.linalg.solve(root, held))[0]
    return found
