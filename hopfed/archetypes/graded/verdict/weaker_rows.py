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
from hopfed.archetypes.graded.fitting.mixture import ClassSums
from hopfed.archetypes.graded.owners.asking import Owner, Owners, log_odds, means_inside
from hopfed.archetypes.graded.verdict.likely_classes import mixed_ratios
from hopfed.archetypes.graded.verdict.row_mixtures import most_gained
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
    at, by_sign, by_seen = log_odds(T, owner.variables), [], []
    for centre, q in [(coins, q) for q in QUALITIES] + [(usual, q) for q in NEARER]:
        there = log_odds(means_inside(centre + q * (T - centre)), owner.variables)
        by_sign.append(there[0] - at[0])
        by_seen.append(there[1] - at[1])
    asked = (np.array(by_sign), np.array(by_seen), np.zeros((len(by_sign), K)))
    offered = mixed_ratios(owner, *asked)
    if K == 1:
        return offered
    weakest = int((T**2).sum(axis=1).argmin())
    others = max(1 - float(owner.shares[weakest]), 1e-9)
    rest = (offered - mixed_ratios(owner, *asked, [weakest])) / others
    alone = (1 - R[:, weakest]) / others
    both = [column for pair in zip(offered.T, rest.T, strict=True) for column in pair]
    return xp.stack([alone, *both], axis=1)
