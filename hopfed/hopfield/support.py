"""How much the operators of a round speak for a pattern, beyond other patterns and noise.

A pattern is tried along its own direction d, the part of it that is orthogonal to all the others:
``d^T C_c d`` is the mean of M_c squared projections. Noise alone gives ``s2_c (1 +- sqrt(2/M_c))``
and an archetype adds its spike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import pinvh

from hopfed.hopfield.blending import along
from hopfed.operators import HebbianOperator
from hopfed.rng import stream


def dual_directions(patterns: np.ndarray) -> np.ndarray:
    """Unit vectors (N, K), each the part of a pattern that is orthogonal to all the others.

    Examples
    --------
    >>> dual_directions(np.array([[1, 1, 1, 1], [1, 1, 1, -1]])).T.round(2).tolist()
    [[0.29, 0.29, 0.29, 0.87], [0.29, 0.29, 0.29, -0.87]]
    """
    # The pseudo-inverse by way of the K x K overlaps: patterns have many more sites than there are.
    xi = patterns.astype(np.float64)
    dual = xi.T @ pinvh(xi @ xi.T) if len(xi) else xi.T
    return dual / np.maximum(np.linalg.norm(dual, axis=0), 1e-300)


def random_groups(clients: int, groups: int, secret: int, t: int) -> list[np.ndarray]:
    """Indices of clients in at most `groups` random groups, drawn anew in each round t.

    Under a `secret` that only the server has: a client that knew its group, or those of others,
    could choose whom to lie with.

    Examples
    --------
    >>> [len(g) for g in random_groups(5, 3, secret=7, t=0)]
    [2, 2, 1]
    """
    order = stream(int(secret), "groups of clients", t).permutation(clients)
    return np.array_split(order, min(groups, clients))


@dataclass(frozen=True)
class Support:
    """What each client's operator holds along each pattern.

    Attributes
    ----------
    held : (L, K) ``d_k^T C_c d_k``.
    examples, weights, variances : (L,) of the clients: M_c, weight per example, s2_c.
    """

    held: np.ndarray
    examples: np.ndarray
    weights: np.ndarray
    variances: np.ndarray

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
        held = np.zeros((len(operators), len(patterns)))
        for c, op in enumerate(operators):
            held[c] = along(op, d)
        examples = np.array([op.n_examples for op in operators])
        return cls(held, examples, np.asarray(weights, float), np.asarray(variances, float))

    def scores(self, clients: np.ndarray | None = None) -> np.ndarray:
        """Standard scores (K,) of the operators of `clients` pooled; of all when left out."""
        chosen = slice(None) if clients is None else clients
        mass = (self.weights * self.examples)[chosen]
        total = mass.sum()
        if total <= 0:
            return np.zeros(self.held.shape[1])
        excess = mass @ (self.held - self.variances[:, None])[chosen] / total
        variance = (mass**2 * 2 * self.variances[chosen] ** 2 / self.examples[chosen]).sum()
        return excess / np.sqrt(max(variance, 1e-300)) * total

    def agreement(self, groups: Sequence[np.ndarray], level: float = 3.0) -> np.ndarray:
        """Share of the `groups` of clients, index arrays, that support each pattern: (K,).

        An archetype shows wherever it is exposed; a spike that a few clients put in, in few.

        Parameters
        ----------
        level : standard score from which a group supports a pattern.
        """
        return np.mean([self.scores(np.asarray(g)) > level for g in groups], axis=0)
