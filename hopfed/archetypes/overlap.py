"""Scores against the truth. Nothing in this module is used to find anything.

Source: arXiv:2603.19902, eq. (31); theory/NOTES.md, "Magnetisation and false discoveries".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FALSE_BELOW = 0.9  # a pattern with no archetype at this overlap is a false discovery


@dataclass(frozen=True)
class Retrieval:
    """How well patterns match archetypes.

    Attributes
    ----------
    magnetisation : (K,) overlap of each archetype with its best pattern (arXiv:2603.19902, eq.
        (31)).
    best : (C,) index of the archetype nearest to each pattern.
    false_discoveries : patterns with no archetype at |m| >= 0.9.

    Examples
    --------
    >>> xi = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])
    >>> found = retrieval(np.array([[-1, -1, -1, -1], [1, 1, -1, -1]]), xi)
    >>> found.magnetisation.tolist(), found.found(), found.false_discoveries
    ([1.0, 0.0], 1, 1)
    """

    magnetisation: np.ndarray
    best: np.ndarray
    false_discoveries: int

    def found(self, level: float = 0.99) -> int:
        """Count the archetypes retrieved at magnetisation `level` or above."""
        return int((self.magnetisation >= level).sum())


def retrieval(patterns: np.ndarray, archetypes: np.ndarray) -> Retrieval:
    """Match patterns (C, N) with the true archetypes (K, N), up to sign.

    Examples
    --------
    >>> xi = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])
    >>> retrieval(-xi[:1], xi).magnetisation
    array([1., 0.])
    """
    if len(patterns) == 0:
        return Retrieval(np.zeros(len(archetypes)), np.zeros(0, int), 0)
    m = np.abs(patterns.astype(np.float64) @ archetypes.T) / archetypes.shape[1]
    return Retrieval(m.max(axis=0), m.argmax(axis=1), int((m.max(axis=1) < FALSE_BELOW).sum()))
