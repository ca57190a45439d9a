"""Rows of lower quality: what likelihood is gained where rows may be weaker than their class.

A row of quality q has the means ``q T`` of its kind. Where such rows are too few, or of too few
entries, to be classes of their own, they are put together, those of all kinds in one class; nothing
between columns is left, and a row of it is as likely as it should be. But the rows are of kinds. So
weaker forms of all classes are offered to the rows (`row_mixtures`), towards coins and towards what
all rows are; and the same without the weakest class, which is not needed where it holds rows of all
kinds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed._lib.arrays import Array, namespace
from hopfed.archetypes.graded.mixture import ClassSums
from hopfed.archetypes.graded.owners import Owner, Owners, inside, log_joint
from hopfed.archetypes.graded.row_mixtures import most_gained
from hopfed.archetypes.graded.rows_between import HIGHEST
from hopfed.federation.messages import Message

QUALITIES = (0.15, 0.35, 0.7)  # of the weaker rows, towards coins
NEARER = (0.45,)  # towards what all rows are


def weaker(worlds: Sequence[Owners], sums: Sequence[ClassSums]) -> np.ndarray:
    """Gain in nats of the best mixture, in several tables (B,) that are settled at their classes.

    Parameters
    ----------
    sums : of the tables over these classes.
    """
    shared: list[Message] = []
    for found in sums:
        usual = found.signed.sum(axis=0) / np.maximum(found.seen.sum(axis=0), 1.0)
        shared.append({"usual": usual.astype(np.float32)})
    return most_gained(worlds, weaker_points, shared)


def weaker_points(owner: Owner, told: Message) -> Array:
    """Likelihood (M, S) of an owner's rows where classes are weaker, over that of the classes.

    It is ``sum_k R_k L_k``, R being the responsibilities and ``L_k`` the likelihood at the weaker
    class over that at class k; the same of all classes but the weakest; and these as they are.

    Parameters
    ----------
    told : `usual` (N,), the means of all rows.
    """
    R, T = owner.posterior, owner.means
    xp, K = namespace(R), len(T)
    coins, usual = np.zeros(T.shape[1]), told["usual"].astype(np.float64)
    ways = [(coins, q) for q in QUALITIES] + [(usual, q) for q in NEARER]
    means = np.concatenate([T] + [inside(centre + q * (T - centre)) for centre, q in ways])
    logs = log_joint(owner.rows, means, np.ones(len(means)), variables=owner.variables)
    weakest = int((T**2).sum(axis=1).argmin())
    others = max(1 - float(owner.shares[weakest]), 1e-9)
    offered = [(1 - R[:, weakest]) / others] if K > 1 else []
    for first in range(K, len(means), K):
        log = logs[:, first : first + K] - logs[:, :K]
        each = R * xp.exp(xp.clip(log, None, HIGHEST))
        offered.append(each.sum(axis=1))
        if K > 1:
            offered.append((offered[-1] - each[:, weakest]) / others)
    return xp.stack(offered, axis=1)
