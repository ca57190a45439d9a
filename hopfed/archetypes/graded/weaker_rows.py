"""Rows of lower quality: what likelihood is gained where rows may be weaker than their class.

A row of quality q has the means ``q T`` of its kind. Where such rows are too few, or of too few
entries, to be classes of their own, they are put together, those of all kinds in one class; nothing
between columns is left, and a row of it is as likely as it should be. But the rows are of kinds. As
in `leaning`, the likelihood of all rows under a mixture of both, over that of the classes, is the
most powerful statistic against it. Rows may be weaker towards coins, or towards what all rows are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed._lib.arrays import namespace
from hopfed.archetypes.graded.likely_classes import mixed_ratios
from hopfed.archetypes.graded.mixture import ClassSums
from hopfed.archetypes.graded.owners import Owner, Owners, ask_together, inside, log_odds, total
from hopfed.archetypes.graded.rows_between import PARTS
from hopfed.federation.messages import Message

QUALITIES = (0.3, 0.6)  # of the weaker rows
SOME = [e for e in PARTS if e < 1]  # of the rows that may be weaker; if all were, classes would be


def weaker(worlds: Sequence[Owners], sums: Sequence[ClassSums]) -> np.ndarray:
    """Gain in nats of the best mixture, in several tables (B,) that are settled at their classes.

    One exchange, of ``2 len(QUALITIES) len(SOME)`` numbers from every owner for each table.

    Parameters
    ----------
    sums : of the tables over these classes.
    """
    shared: list[Message] = []
    for found in sums:
        usual = found.signed.sum(axis=0) / np.maximum(found.seen.sum(axis=0), 1.0)
        shared.append({"usual": usual.astype(np.float32)})
    answers = ask_together(worlds, weaker_sums, shared)
    return np.array([max(0.0, float(total(a, "gained").max())) for a in answers])


def weaker_sums(owner: Owner, told: Message) -> Message:
    """Log-likelihood ratios of an owner's rows, by where they go, their quality and their part.

    Where a part e of the rows is weaker, the likelihood of a row is that of the classes times
    ``1 - e + e sum_k R_k L_k``, R being its responsibilities and ``L_k`` the likelihood at the
    weaker class over that at class k.

    Parameters
    ----------
    told : `usual` (N,), the means of all rows.
    """
    xp, K = namespace(owner.posterior), len(owner.means)
    by_sign, by_seen = [], []
    at = log_odds(owner.means, owner.variables)
    for centre in (np.zeros_like(told["usual"]), told["usual"]):
        for q in QUALITIES:
            means = inside(centre + q * (owner.means - centre))
            there = log_odds(means, owner.variables)
            by_sign.append(there[0] - at[0])
            by_seen.append(there[1] - at[1])
    constant = np.zeros((len(by_sign), K))
    more = mixed_ratios(owner, np.array(by_sign), np.array(by_seen), constant) - 1
    gained = [[float(xp.log1p(e * line).sum()) for e in SOME] for line in more.T]
    return {"gained": np.array(gained)}
