"""Groups of memories, found by recovering archetypes; an extension of SoHip.

Source: theory/NOTES.md, "Groups of memories"; SoHip is arXiv:2603.25614.

`group` binarises the memories and recovers archetypes from them with
`hopfed.recovery.recover.recover`. Archetypes are patterns above the noise; there may be none. The
collective memory of the SoHip paper is the mean over all memories, that is a single group.

Measured on two kinds of Gaussian memories (unit variance, noise of deviation .3, 20 seeds): with
m = 64, four memories are enough to tell the kinds apart in every seed; with m = 16, ten memories
tell them apart in 17 of 20 seeds. Pure noise gave an archetype in none of 200 draws.

Limit: a number near zero changes its sign more often than others, but the theory assumes the same
quality for all numbers. With many memories this matters: 40 memories of one kind fall into two to
eight groups. The status of the recovery is then "poor fit", and `group` returns no groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hopfed.archetypes.status import FOUND
from hopfed.federation.aggregate import weighted_mean
from hopfed.recovery.recover import recover


@dataclass(frozen=True, eq=False)
class Groups:
    """Archetype (n,) of every memory, means (n, m) over those of the same one, and their number."""

    labels: np.ndarray
    means: np.ndarray = field(repr=False)
    count: int


def group(memories: np.ndarray, weights: np.ndarray, seed: int) -> Groups | None:
    """Group memories (n, m) by the archetype whose pattern of signs each is nearest to.

    Each counts in the mean of its group by its weight, (n,). None if no archetype is certain.
    """
    if len(memories) < 2:
        return None
    signs = np.where(memories > 0, 1, -1).astype(np.int8)
    found = recover(signs, seed=seed, channel="symmetric", support=1)
    if len(found) == 0 or found.status not in (*FOUND, "one class"):
        return None
    # Second moments determine an archetype only up to its sign, so its opposite may have members.
    patterns = np.concatenate([found.patterns, -found.patterns]).astype(np.int64)
    nearest = (signs @ patterns.T).argmax(axis=1)
    used, labels = np.unique(nearest, return_inverse=True)
    means = np.empty_like(memories)
    for k in range(len(used)):
        members = np.flatnonzero(labels == k)
        means[members] = weighted_mean(list(memories[members]), list(weights[members]))
    return Groups(labels, means, len(used))
