"""Rows that may lie elsewhere: the likelihood of the best mixture of the classes with other points.

At a point beside the classes a row has a likelihood of its own. With a part ``e_s`` of all rows at
point s and the rest, ``e_0``, in the classes as fitted, the likelihood of a row is that of the
classes times ``sum_s e_s r_s``, r being ratios of likelihoods and ``r_0 = 1``. The parts are free,
not negative, and there are few of them, whatever the number of rows: so chance gains hardly
anything, and what rows of another model gain is the exact logarithm of a ratio of likelihoods. It
is concave in the parts, and a few steps of Newton's method reach its top.

Source: theory/NOTES.md, "Tests of local independence"; Y. Kim, P. Carbonetto, M. Stephens,
M. Anitescu, J. Comput. Graph. Stat. 29 (2020) 261, for the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import nnls

from hopfed._lib.arrays import Array, like, namespace
from hopfed.archetypes.graded.owners.asking import Owner, Owners, ask_together, total
from hopfed.federation.messages import Message

EXCHANGES = 6  # at most: four reach the top within a few hundredths of a nat, as a rule
BEGIN = 0.1  # part of the rows that begins at the points
ENOUGH = 0.03  # nats that a step must promise
RIDGE = 1e-6  # of a row, added to the curvature of every part: points may be alike
SHORTER = 0.4  # of a step that led down
ROUNDING = 1e-10  # added to curvatures of one, where rounding has made them no longer definite

Offer = Callable[[Owner, Message], Array]  # ratios (M, S) of the likelihoods of an owner's rows


def most_gained(worlds: Sequence[Owners], offer: Offer, shared: Sequence[Message]) -> np.ndarray:
    """Gain in nats (B,) of the best mixture in several tables, over the classes alone.

    At most `EXCHANGES` exchanges, of the parts down, and one value, S + 1 slopes and as many rows
    of their products up, for each table.

    Parameters
    ----------
    worlds : tables that are settled at their classes.
    offer : by which an owner computes the ratios from what it is told of the points.
    shared : what is told about each table.
    """

    def opened(owner: Owner, told: Message) -> Message:
        owner.ratios = offer(owner, told)
        return mixture_sums(owner, {"parts": beginning(owner.ratios.shape[1])})

    answers = ask_together(worlds, opened, shared)
    climbs = [
        Climb(float(world.sizes.sum()), beginning(len(answer[0]["slopes"]) - 1))
        for world, answer in zip(worlds, answers, strict=True)
    ]
    asked = list(range(len(worlds)))
    for step in range(EXCHANGES):
        if step:
            told: list[Message] = [{"parts": climbs[b].asked} for b in asked]
            answers = ask_together([worlds[b] for b in asked], mixture_sums, told)
            worlds[0].exchanges += asked[0] > 0  # which the first table counts for all
        heard = zip(asked, answers, strict=True)
        asked = [b for b, answer in heard if climbs[b].hear(answer)]
        if not asked:
            break
    return np.array([climb.gained for climb in climbs])


def beginning(points: int) -> np.ndarray:
    """Parts of the rows in the classes and at each point from which the search begins.

    Examples
    --------
    >>> beginning(2).tolist(), beginning(0).tolist()
    ([0.9, 0.05, 0.05], [1.0])
    """
    if points == 0:
        return np.ones(1)
    return np.concatenate([[1 - BEGIN], np.full(points, BEGIN / points)])


def mixture_sums(owner: Owner, told: Message) -> Message:
    """Log-likelihood ratio of an owner's rows at given parts, its slopes and their products.

    Parameters
    ----------
    told : `parts` (S + 1,) of the rows in the classes and at each point last offered.
    """
    r = owner.ratios
    xp, parts = namespace(r), told["parts"]
    mixed = r @ like(parts[1:], r) + float(parts[0])
    slopes = xp.concat([xp.ones((r.shape[0], 1), dtype=r.dtype), r], axis=1) / mixed[:, None]
    often = slopes if owner.counts is None else slopes * owner.often[:, None]
    return {
        "value": owner.added(xp.log(mixed)),
        "slopes": often.sum(axis=0),
        "bends": often.T @ slopes,
    }


def lower_root(bends: np.ndarray) -> np.ndarray:
    """Return lower triangular L with ``L L^T = bends``, (S, S), which is positive semidefinite.

    Points that a row likes e^60 times as much as its class have products so large that those of
    others are lost to rounding. Then each point is measured in units of its own.

    Examples
    --------
    >>> far = np.array([[1.0, 1e30, 1e30], [1e30, 1e60, 1e60], [1e30, 1e60, 1e60]])
    >>> root = lower_root(far + 1e-3 * np.eye(3))
    >>> bool(np.allclose(root @ root.T, far, rtol=1e-6, atol=0.01))
    True
    """
    try:
        return np.linalg.cholesky(bends)
    except np.linalg.LinAlgError:
        unit = np.sqrt(np.diag(bends))
        scaled = bends / unit / unit[:, None]
        root = np.linalg.cholesky(scaled + ROUNDING * np.eye(len(bends)))
        return np.asarray(unit[:, None] * root)


@dataclass
class Climb:
    """Way to the top of a concave log-likelihood, by steps that keep all parts at 0 or above.

    The parts add up to one at the top, but not on the way there: what they add up to beyond one is
    subtracted from the log-likelihood, once for each row.

    Attributes
    ----------
    rows : of the table.
    asked : parts about which to ask next.

    Examples
    --------
    >>> owner = Owner(np.ones((4, 1)))
    >>> owner.ratios = np.array([[4.0], [0.5], [0.5], [0.5]])  # one of four rows likes the point
    >>> climb = Climb(4.0, beginning(1))
    >>> for _ in range(6):
    ...     going = climb.hear([mixture_sums(owner, {"parts": climb.asked})])
    >>> round(climb.gained, 2), going  # log(1.75) + 3 log(.875)
    (0.16, False)
    """

    rows: float
    asked: np.ndarray
    _at: np.ndarray = field(init=False, repr=False)
    _value: float = field(init=False, default=-np.inf)
    _step: np.ndarray = field(init=False, repr=False)

    def hear(self, answers: list[Message]) -> bool:
        """Take the owners' answers about the parts that were asked; whether to ask again."""
        value, slopes, bends = (total(answers, name) for name in ("value", "slopes", "bends"))
        reached = float(value) - self.rows * (self.asked.sum() - 1)
        if reached < self._value:
            self._step = SHORTER * self._step
            self.asked = self._at + self._step
            return True
        self._at, self._value = self.asked, reached
        uphill = slopes - self.rows
        bends = bends + RIDGE * self.rows * np.eye(len(bends))
        root = lower_root(bends)
        goal = np.linalg.solve(root, uphill + bends @ self._at)
        self._step = nnls(root.T, goal, maxiter=100 * len(goal))[0] - self._at
        promised = float(uphill @ self._step - self._step @ bends @ self._step / 2)
        if promised < ENOUGH:
            return False
        self.asked = self._at + self._step
        return True

    @property
    def gained(self) -> float:
        """Nats by which the parts, scaled to add up to one, are better than the classes alone."""
        more = float(self._at.sum())
        return max(0.0, float(self._value + self.rows * (more - 1 - np.log(more))))
