"""Archetypes that clients agree on: found with all of them, and without each in turn.

The sum of all operators does not say which patterns it is made of: to archetypes a client that lies
adds a product or a majority of them, and the sum is as well that of others, each half of every one
of these. No honest client is made of those. So archetypes are also looked for without each client,
and those count by which all clients but so many liars, whoever these are, are explained best: the
least trimmed squares of P. J. Rousseeuw, J. Amer. Statist. Assoc. 79 (1984) 871. Those of all
clients stay unless others are better by more than noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from hopfed.archetypes.factorize import Archetypes
from hopfed.hopfield.memory.blending import Counted
from hopfed.privacy.mechanism import PrivateOperator
from hopfed.spectral.operators import HebbianOperator

MOST = 12  # clients that are left out in turn; of more, each has little weight


@dataclass(frozen=True)
class Views:
    """What the operator of each client holds along the leading eigenvectors of all.

    Attributes
    ----------
    vectors : V (N, K).
    seen : (L, K, K) ``V^T C_c V`` without noise, and divided by its own scale.
    scales : (L, K) roots of what an operator holds along each eigenvector.
    examples : (L,) of each.
    """

    vectors: np.ndarray
    seen: np.ndarray
    scales: np.ndarray
    examples: np.ndarray

    @classmethod
    def of(cls, operators: Mapping[int, HebbianOperator], counted: Counted) -> Views:
        """Look at the operators of clients along a counted spectrum."""
        V = counted.spectrum.vectors[:, : counted.rank.n_detected].astype(np.float64)
        held = np.stack([V.T @ op.matmat(V) for op in operators.values()])
        noise = [counted.variances.get(c, counted.rank.variance) for c in operators]
        floor = 1e-3 * counted.rank.variance
        scales = np.maximum(np.diagonal(held, axis1=1, axis2=2), floor)
        added = [op.noise / op.mass for op in operators.values() if isinstance(op, PrivateOperator)]
        if added:  # an entry scatters by that as well
            scales = scales + np.sqrt(added)[:, None]
        scales = np.sqrt(scales)
        signal = held - np.asarray(noise)[:, None, None] * np.eye(V.shape[1])
        seen = signal / (scales[:, :, None] * scales[:, None, :])
        return cls(V, seen, scales, np.array([op.n_examples for op in operators.values()]))

    def misfits(self, patterns: np.ndarray) -> np.ndarray:
        """What patterns (C, N) with any shares leave of each view: (L,).

        One for each number of a view where the patterns are those of the client, by the law of
        Wishart: an entry of a view scatters by the root of 1 over the examples.
        """
        K = self.vectors.shape[1]
        upper = np.triu_indices(K)
        factor = np.where(upper[0] == upper[1], np.sqrt(0.5), 1.0)
        a = patterns.astype(np.float64) @ self.vectors
        left = np.zeros(len(self.seen))
        for c, (seen, scale) in enumerate(zip(self.seen, self.scales, strict=True)):
            b = a / scale
            design = (b[:, upper[0]] * b[:, upper[1]] * factor).T
            target = seen[upper] * factor
            left[c] = nnls(design, target)[1] if len(patterns) else np.linalg.norm(target)
        return np.asarray(self.examples * left**2)


def agreed(
    found: Archetypes,
    counted: Counted,
    operators: Mapping[int, HebbianOperator],
    liars: int,
    level: float,
    without: Callable[[Sequence[int]], Archetypes],
) -> Archetypes:
    """Return the archetypes by which all clients but some are explained best.

    Parameters
    ----------
    found, counted : archetypes and spectrum of all clients.
    operators : of the clients.
    liars : clients whose view does not count, for each answer those that it explains worst.
    level : standard deviations by which another answer must be better.
    without : archetypes of all clients but these.
    """
    if not 0 < liars < len(operators) - 1 or counted.rank.n_detected == 0:
        return found
    views, clients = Views.of(operators, counted), list(operators)
    best, misfits = found, views.misfits(found.patterns)
    least = _score(misfits, liars)
    K = views.vectors.shape[1]
    if least <= (len(clients) - liars) * (K * (K + 1) / 2 - len(found)) + level:
        return found  # all is explained but for noise
    least -= level**2
    order = np.argsort(-misfits, kind="stable")  # who lies with others is fitted as they are
    starts = [order[i : i + liars] for i in range(0, len(order), liars)][:MOST]
    tried: set[tuple[int, ...]] = set()
    while starts:
        out = tuple(sorted(map(int, starts.pop(0))))
        if out in tried:
            continue
        tried.add(out)
        answer = without([clients[c] for c in out])
        misfits = views.misfits(answer.patterns)
        if (score := _score(misfits, liars)) < least:
            best, least = answer, score
            starts.append(np.argsort(-misfits, kind="stable")[:liars])
    return best


def _score(misfits: np.ndarray, liars: int) -> float:
    """What is left of all views (L,) but the worst."""
    return float(np.sort(misfits)[: len(misfits) - liars].sum())


def needed(
    patterns: np.ndarray,
    counted: Counted,
    operators: Mapping[int, HebbianOperator],
    liars: int,
    level: float,
) -> np.ndarray:
    """Which patterns (K,) others than their strongest supporters cannot be explained without.

    A pattern may be a sum of others: of three archetypes a majority is, beside another one. Then no
    direction is its own, and it is asked what the views lose without it.

    Parameters
    ----------
    patterns : (K, N).
    counted : spectrum of all clients.
    operators : of the clients.
    liars : clients left out, for every pattern those that need it most.
    level : standard deviations that are a need.
    """
    K, kept = len(patterns), len(operators) - liars
    if counted.rank.n_detected == 0:
        return np.zeros(K, dtype=bool)
    views = Views.of(operators, counted)
    whole = views.misfits(patterns)
    lost = [views.misfits(np.delete(patterns, k, axis=0)) - whole for k in range(K)]
    needs = np.sort(np.reshape(lost, (K, len(whole))), axis=1)[:, :kept].sum(axis=1)
    return np.asarray(needs > level**2 + kept)
