"""What a memory made of cues."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hopfed._lib.arrays import Array


@dataclass(frozen=True, eq=False)
class Recall:
    """What a memory made of cues.

    Attributes
    ----------
    states : (S, N) int8 of +-1; (S, L, N) of a layered memory; float means of a graded one.
    overlaps : (S, K) with the stored patterns, ``xi . s / N``; (S, L, K) of a layered memory;
        the responsibilities of a graded one; K = 0 where an operator was stored.
    energy : (S,) of the states, in the units of `AssociativeMemory.energy`.
    updates : (S,) sweeps or synchronous updates made.
    converged : (S,) whether a step without noise would change nothing.

    Examples
    --------
    >>> from hopfed.memory.associative import AssociativeMemory
    >>> memory = AssociativeMemory.store(np.array([[1, 1, 1, -1]]))
    >>> found = memory.recall(np.array([[1, -1, 1, -1]]))
    >>> found.states.tolist(), found.overlaps.tolist(), found.converged.tolist()
    ([[1, 1, 1, -1]], [[1.0]], [True])
    """

    states: Array = field(repr=False)
    overlaps: np.ndarray = field(repr=False)
    energy: np.ndarray
    updates: np.ndarray
    converged: np.ndarray
