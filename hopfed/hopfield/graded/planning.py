"""What to ask next in a round: joins, a look for new classes, or more steps, as exchanges are left.

The server chooses, and says in each message what it asks for (`client.asked`). Nothing is asked in
the exchanges that are left once nothing promises anything.
"""

from __future__ import annotations

from dataclasses import replace

from hopfed.hopfield.graded.improving import candidates
from hopfed.hopfield.graded.joining import proposals, try_join
from hopfed.hopfield.graded.memory import Memory, pooled
from hopfed.hopfield.graded.round_state import UnderWay
from hopfed.hopfield.graded.settings import GradedSettings


def planned(method: GradedSettings, memory: Memory, now: UnderWay, left: int) -> UnderWay:
    """Say what to ask next.

    1. Joins that the sums of the fit are for: fewer classes are cheaper to look at.
    2. A look, where exchanges are left for it and a trial: products, then sides.
    3. A join that the sums are not for, but by less than a fit may gain.
    4. Further steps of the fit, until they change nothing.
    """
    if left == 0:
        return replace(now, quiet=True)
    joins = proposals(memory, now, method.support)[now.refused :]
    if joins and joins[0][1] > 0:
        return try_join(memory, now, joins[0][0])
    if now.best.size < method.most and not now.dull:
        if now.looked and left >= 2 and candidates(method, memory, now).any():
            return replace(now, stage="sides", asked=now.best.classes, parent=now.fit_parent)
        if not now.looked and left >= method.products + 2:
            return replace(now, stage="look", asked=now.best.classes, parent=now.fit_parent)
    if joins:
        return try_join(memory, now, joins[0][0])
    if now.settled:
        return replace(now, quiet=True)
    fit = now.best
    prior, total, _ = pooled(memory, now.fit_parent, fit.sums, now.clients, now.prior)
    return now.asking(prior.mixture(total), now.fit_parent)
