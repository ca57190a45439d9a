"""How many rows a class rests on: fewer than it counts where a few of them make it what it is.

A few equal rows, of one person perhaps, are a class that rows of no class join. By their number
such a class may be shown to everybody, and its means are those of the few. What counts is how
evenly the rows agree with the class: with a_i the cube of the log-odds by which row i speaks for
it, it rests on ``(sum a)^2 / sum a^2`` rows, all of them where they agree alike. Rows of a class
differ by chance, for which a tenth is given.
"""

from __future__ import annotations

import numpy as np

from hopfed._lib.arrays import like, namespace
from hopfed.archetypes.graded.fitting.expectation_maximization import Fit, remind
from hopfed.archetypes.graded.owners.asking import Owner, Owners, total
from hopfed.federation.messages import Message

TINY = 1e-300
EVEN = 0.9  # of the rows that rows which differ by chance are worth, at least


def resting(owners: Owners, fit: Fit) -> np.ndarray:
    """Rows (K,) that each class rests on, at most those that it counts: one exchange.

    Parameters
    ----------
    owners : of the rows.
    fit : the classes.
    """
    remind(owners, fit)
    answers = [
        {name: np.asarray(a, np.float64) * w for name, a in answer.items()}
        for answer, w in zip(owners.ask(agreement, {}), fit.prior.influence, strict=True)
    ]
    once, twice = total(answers, "once"), total(answers, "twice")
    rows = once**2 / np.maximum(twice, TINY) / EVEN
    return np.asarray(np.minimum(rows, fit.sums.counts.sum(axis=0)))


def agreement(owner: Owner, _: Message) -> Message:
    """Sums (K,) of the cubes of how much rows agree with their class, and of their squares.

    Examples
    --------
    >>> rows = np.ones((4, 3), np.float32)
    >>> rows[3] = [1, -1, -1]
    >>> owner = Owners.of([rows], 0).members[0]
    >>> owner.learn(np.tanh(np.ones((1, 3))), np.ones(1))
    >>> {name: a.tolist() for name, a in agreement(owner, {}).items()}
    {'once': [81.0], 'twice': [2187.0]}
    """
    R = owner.weights
    A = owner.times(like(np.arctanh(owner.means).T.astype(np.float32), R))
    A = A.clip(0.0, None) ** 3  # a row against its class makes it no other
    xp = namespace(R)
    return {"once": xp.sum(R * A, axis=0), "twice": xp.sum(R * A * A, axis=0)}
