"""What the operators of a round say for patterns: how much, against noise and lies.

A pattern is tried along its own direction d, the part of it that is orthogonal to all the others:
``d^T C_c d`` is the mean of M_c squared projections. Noise alone gives ``s2_c (1 +- sqrt(2/M_c))``
and an archetype adds its spike; noise of variance v on sums of mass m adds ``2 v / m^2``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import pinvh
from scipy.optimize import nnls

from hopfed._lib.random import stream
from hopfed.hopfield.evidence import along
from hopfed.hopfield.guard import CLIENT_GROUPS, LEVEL, trimmed
from hopfed.privacy.mechanism import PrivateOperator
from hopfed.spectral.operators import DenseOperator

LIMIT = 1.4  # of the mean of squares in their error, for any number of them
SPREAD = 5.0  # standard deviations of such a mean beside that
COLUMNS = 1_000  # that are looked at


def dual_directions(patterns: np.ndarray) -> np.ndarray:
    """Unit vectors (N, K), each the part of a pattern that is orthogonal to all the others."""
    # The pseudo-inverse by way of the K x K overlaps: patterns have many more sites than there are.
    xi = patterns.astype(np.float64)
    dual = xi.T @ pinvh(xi @ xi.T) if len(xi) else xi.T
    return dual / np.maximum(np.linalg.norm(dual, axis=0), 1e-300)


def random_groups(clients: int, secret: int, t: int) -> list[np.ndarray]:
    """Indices of clients in random groups, drawn anew in each round t."""
    order = stream(int(secret), "groups of clients", t).permutation(clients)
    return np.array_split(order, min(CLIENT_GROUPS, clients))


def added_noise(operator: DenseOperator) -> float:
    """Variance of the noise that was added on purpose to an entry of C."""
    return operator.noise / operator.mass**2 if isinstance(operator, PrivateOperator) else 0.0


@dataclass(frozen=True)
class Support:
    """What each client's operator holds along each pattern."""

    held: np.ndarray  # (L, K) ``d_k^T C_c d_k``
    # examples, weights, variances: (L,) of the clients: M_c, weight per example, s2_c
    examples: np.ndarray
    weights: np.ndarray
    variances: np.ndarray
    # (L,) what each operator holds, in the mean, along a direction outside of the patterns, s2_c at
    # least; s2_c where that was not measured
    rest: np.ndarray
    # (K,) ``(xi_k . d_k)^2``, what an example of the pattern holds along its direction
    reach: np.ndarray
    n_sites: int  # N; 0 where patterns were not chosen by these operators
    added: np.ndarray  # (L,) variance of the noise that clients added on purpose, along a direction

    @classmethod
    def of(
        cls,
        operators: Sequence[DenseOperator],
        patterns: np.ndarray,
        weights: Sequence[float],
        variances: Sequence[float],
        careful: bool = False,
    ) -> Support:
        """Measure the support that `operators`, one for each client, give to `patterns` (K, N)."""
        d = dual_directions(patterns)
        held = np.array([along(op, d) for op in operators]).reshape(len(operators), len(patterns))
        noise = np.asarray(variances, float)
        added = np.array([2 * added_noise(op) for op in operators])
        rest, N = noise, 0
        if careful:
            basis, N = np.linalg.qr(patterns.T.astype(np.float64))[0], patterns.shape[1]
            inside = np.array([along(op, basis).sum() for op in operators])
            rest = np.maximum(noise, (N - inside) / max(N - basis.shape[1], 1))
        examples = np.array([op.n_examples for op in operators])
        reach = (patterns * d.T).sum(axis=1) ** 2
        return cls(held, examples, np.asarray(weights, float), noise, rest, reach, N, added)

    @property
    def mass(self) -> np.ndarray:
        """(L, 1) weighted examples of the clients."""
        return (self.weights * self.examples)[:, None]

    def scores(self, clients: np.ndarray | None = None) -> np.ndarray:
        """Standard scores (K,) of the operators of `clients` pooled; of all when left out."""
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
        """Standard scores (L, K) of each client's operator by itself, beside what else it holds."""
        spread = np.sqrt(2 * self.rest**2 / self.examples + self.added)
        return (self.held - self.rest[:, None]) / np.maximum(spread, 1e-300)[:, None]

    def doubted(self, byzantine: int) -> np.ndarray:
        """Standard scores (K,) of the pooled operators without the strongest supporters of each."""
        noise = self.rest[:, None]
        gain = self.mass * (self.held - noise)
        spread = self.mass**2 * (2 * noise**2 / self.examples[:, None] + self.added[:, None])
        kept = np.argsort(gain, axis=0, kind="stable")[: len(gain) - byzantine]
        excess, variance = (np.take_along_axis(x, kept, axis=0).sum(axis=0) for x in (gain, spread))
        scores = excess / np.sqrt(np.maximum(variance, 1e-300))
        return np.where(excess > self._by_choice(kept), scores, 0.0)

    def _by_choice(self, kept: np.ndarray) -> np.ndarray:
        """What noise alone adds up to, at most, along a pattern that was chosen for it: (K,)."""
        mass, purpose = self.mass, self.mass**2 * self.added[:, None]
        noise, squares = mass * self.rest[:, None], mass * self.weights[:, None]
        total, held, spread, added = (
            np.take_along_axis(np.broadcast_to(x, self.held.shape), kept, axis=0).sum(axis=0)
            for x in (mass, noise, squares, purpose)
        )
        aspect = self.n_sites * spread / np.maximum(total, 1e-300) ** 2
        edge = np.hypot(2 * held * np.sqrt(aspect), np.sqrt(2 * self.n_sites * added))
        return np.asarray(2 / np.pi * (edge + held * aspect))

    def behind(self, quality: float, byzantine: int = 0) -> np.ndarray:
        """Weighted examples (K,) of each pattern, but those of its strongest supporters."""
        share = (self.held - self.rest[:, None]) / np.maximum(quality**2 * self.reach, 1e-300)
        if not np.any(self.added):  # noise is not to add up by its positive part
            share = np.clip(share, 0.0, 1.0)
        each = np.sort(share * self.mass, axis=0)
        return np.asarray(each[: len(each) - byzantine].sum(axis=0))

    def agreement(self, groups: Sequence[np.ndarray]) -> np.ndarray:
        """Share of the `groups` of clients, index arrays, that support each pattern: (K,)."""
        return np.mean([self.scores(np.asarray(g)) > LEVEL for g in groups], axis=0)


def corrected(
    patterns: np.ndarray,
    operators: Sequence[DenseOperator],
    weights: Sequence[float],
    byzantine: int,
) -> np.ndarray:
    """Turn those sites of the patterns, int8 (K, N), that the operators contradict."""
    L, cut = len(operators), min(byzantine, (len(operators) - 1) // 2)
    if cut <= 0 or len(patterns) == 0:
        return patterns
    d, masses = dual_directions(patterns), np.array([op.n_examples for op in operators])
    shown = np.stack([np.asarray(op.matmat(d)).T for op in operators])  # (L, K, N)
    held = np.einsum("lkn,nk->lk", shown, d)
    scale, added = np.asarray(weights, float) * masses, np.array([*map(added_noise, operators)])
    fixed = patterns.copy()
    for k in range(len(patterns)):
        middle = trimmed(scale[:, None] * shown[:, k], 1.0, cut)
        noise = np.sqrt(np.median(scale**2 * (held[:, k] / masses + added)) / (L - 2 * cut))
        fixed[k, patterns[k] * middle < -LEVEL * noise] *= -1
    return fixed


def misfit(operator: DenseOperator, patterns: np.ndarray, mean: np.ndarray | None = None) -> float:
    """What patterns leave of an operator, over what chance leaves at most: above 1 it is more."""

    def most(number: float) -> float:
        return LIMIT + SPREAD * float(np.sqrt(2 / number))

    chosen = np.unique(np.linspace(0, operator.n_sites - 1, COLUMNS).astype(int))
    C = np.asarray(operator.matrix[np.ix_(chosen, chosen)] / operator.mass)
    xi, M, N = patterns[:, chosen].astype(np.float64), operator.n_examples, len(chosen)
    weights = _weights(C, xi)
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


def _weights(C: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """Weights (K,) of patterns, none below 0, that fit C (N, N) best off its diagonal."""
    K, N = xi.shape
    if K == 0:
        return np.zeros(0)
    alike = (xi @ xi.T) ** 2 - N  # products of the patterns' own second moments, off the diagonal
    along_each = np.einsum("kn,kn->k", xi @ C, xi) - np.trace(C)
    root = np.linalg.cholesky(alike + 1e-9 * N**2 * np.eye(K))
    found: np.ndarray = nnls(root.T, np.linalg.solve(root, along_each))[0]
    return found
