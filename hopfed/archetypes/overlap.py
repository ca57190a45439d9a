"""Overlap of recovered patterns with the true archetypes: scores that no algorithm uses.

Source: arXiv:2603.19902, eqs. (31) and (32); theory/NOTES.md, "Magnetisation and false
discoveries".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

FALSE_BELOW = 0.9  # a pattern with no archetype at this overlap is a false discovery


@dataclass(frozen=True, eq=False)
class Retrieval:
    """How well recovered patterns match the true archetypes: the result of `retrieval`.

    Attributes
    ----------
    magnetisation : (K,) overlap of each archetype with its best pattern (eq. (31)).
    best : (C,) index of the archetype nearest to each pattern.
    false_discoveries : patterns with no archetype at |m| >= 0.9.
    matched : (K,) overlap of each archetype with its own pattern, in the matching of largest sum
        (Hungarian method); 0 for an archetype without a pattern.
    frobenius : error ``||Jhat - J|| / ||J||`` of the Hebbian operator (eq. (32)); 1 of no patterns.

    >>> xi = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])
    >>> found = retrieval(np.array([[-1, -1, -1, -1], [1, 1, -1, -1]]), xi)
    >>> found.magnetisation.tolist(), found.found(), found.false_discoveries
    ([1.0, 0.0], 1, 1)
    >>> found.matched.tolist(), found.frobenius
    ([1.0, 0.0], 1.0)
    """

    magnetisation: np.ndarray
    best: np.ndarray
    false_discoveries: int
    matched: np.ndarray
    frobenius: float

    def found(self, level: float = 0.99) -> int:
        """Count the archetypes retrieved at magnetisation `level` or above."""
        return int((self.magnetisation >= level).sum())


def retrieval(patterns: np.ndarray, archetypes: np.ndarray) -> Retrieval:
    """Match patterns (C, N) with the true archetypes (K, N), up to sign, and score the overlaps.

    >>> retrieval(np.array([[-1, -1]]), np.array([[1, 1]])).magnetisation.tolist()
    [1.0]
    """
    K, N = archetypes.shape
    if len(patterns) == 0:
        return Retrieval(np.zeros(K), np.zeros(0, int), 0, np.zeros(K), 1.0)
    x, xi = patterns.astype(np.float64), archetypes.astype(np.float64)
    m = np.abs(x @ xi.T) / N
    matched, (rows, columns) = np.zeros(K), linear_sum_assignment(-m)
    matched[columns] = m[rows, columns]
    # |Jhat - J|^2 from squared overlaps: nothing of size N x N is made.
    own, truth = ((x @ x.T / N) ** 2).sum(), ((xi @ xi.T / N) ** 2).sum()
    error = np.sqrt(max(own + truth - 2 * (m**2).sum(), 0.0) / truth)
    false = int((m.max(axis=1) < FALSE_BELOW).sum())
    return Retrieval(m.max(axis=0), m.argmax(axis=1), false, matched, float(error))
