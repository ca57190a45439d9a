"""Rivals of classes: points beside them where rows may lie, and one trait of which rows have more.

At a point beside the classes a row has a likelihood of its own. With a part ``e_s`` of all rows at
point s and the rest, ``e_0``, in the classes as fitted, the likelihood of a row is that of the
classes times ``sum_s e_s r_s``, r being ratios of likelihoods and ``r_0 = 1``. The parts are free,
not negative, and few, whatever the number of rows: so chance gains hardly anything, and what rows
of another model gain is the exact logarithm of a ratio of likelihoods. It is concave in the parts,
and a few steps of Newton's method reach its top.

- `leaning`: mixed memberships, traits and other continua are cut into classes by whoever fits
  classes. But a row of class k has the log-odds ``a_k``, and a row of a continuum has
  ``a_k + s u`` with some s along an axis u on which the classes differ. Points at such steps, from
  all classes alike and both ways, are offered, for each axis on which classes differ most.
- `weaker`: a row of quality q has the means ``q T`` of its kind. Where such rows are too few to be
  classes of their own, those of all kinds are put together. So weaker forms of all classes are
  offered, towards coins and towards what all rows are, with the weakest class and without it.

- `trait_gain`: in few columns two or three classes describe degrees of one trait, as in a test of
  ability, nearly as well, and leave nothing that could be seen. So the trait is fitted as well: the
  log-odds of column j in a row are ``b_j + a_j t``, t being normal over the rows, and both are
  compared by what they explain less what their numbers cost. On a grid of degrees t the trait is a
  mixture of classes, so its fit asks for the same sums.
- `in_order`: classes suppose rows that do not depend on each other. In a series of measurements
  they do, and in a sorted table they seem to: neighbours are of one class more often than by
  chance.

Sources: theory/NOTES.md, "Tests of local independence"; Y. Kim, P. Carbonetto, M. Stephens,
M. Anitescu, J. Comput. Graph. Stat. 29 (2020) 261, for the steps; Birnbaum's two-parameter model
(Lord and Novick, "Statistical Theories of Mental Test Scores", 1968, chapter 17), fitted as Bock
and Aitkin do, Psychometrika 46 (1981), 443-459.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import nnls
from scipy.special import expit

from hopfed.archetypes.channel import Channel
from hopfed.archetypes.class_questions import (
    Offer,
    axes,
    beginning,
    changes,
    class_sums,
    mixture_sums,
    opened,
    points_between,
    sign_part,
    weaker_points,
)
from hopfed.archetypes.mixture import ClassSums, Prior
from hopfed.archetypes.session import (
    Owner,
    Session,
    means_inside,
    total,
)
from hopfed.federation.messages import Message
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import Reread

EXCHANGES = 6  # at most: four reach the top within a few hundredths of a nat, as a rule
ENOUGH = 0.03  # nats that a step must promise
RIDGE = 1e-6  # of a row, added to the curvature of every part: points may be alike
SHORTER = 0.4  # of a step that led down
ROUNDING = 1e-10  # added to curvatures of one, where rounding has made them no longer definite


def most_gained(owners: Session, offer: Offer, told: Message) -> float:
    """Gain in nats of the best mixture, over the classes alone."""

    answers, rows, reached = owners.ask(partial(opened, offer), told), owners.n_rows, -np.inf
    asked = beginning(len(answers[0]["slopes"]) - 1)
    at, step = asked, np.zeros_like(asked)
    for left in reversed(range(EXCHANGES)):
        value, slopes, bends = (total(answers, name) for name in ("value", "slopes", "bends"))
        now = float(value) - rows * (asked.sum() - 1)
        if now < reached:
            step = SHORTER * step
        else:
            at, reached, uphill = asked, now, slopes - rows
            bends = bends + RIDGE * rows * np.eye(len(bends))
            root = lower_root(bends)
            goal = np.linalg.solve(root, uphill + bends @ at)
            step = nnls(root.T, goal, maxiter=100 * len(goal))[0] - at
            if float(uphill @ step - step @ bends @ step / 2) < ENOUGH:
                break
        asked = at + step
        if left:
            answers = owners.ask(mixture_sums, {"parts": asked})
    more = float(at.sum())
    return max(0.0, float(reached + rows * (more - 1 - np.log(more))))


def lower_root(bends: np.ndarray) -> np.ndarray:
    """Return lower triangular L with ``L L^T = bends``, (S, S), which is positive semidefinite.

    Points that a row likes e^60 times as much as its class have products so large that those of
    others are lost to rounding. Then each point is measured in units of its own.
    """
    try:
        return np.linalg.cholesky(bends)
    except np.linalg.LinAlgError:
        unit = np.sqrt(np.diag(bends))
        scaled = bends / unit / unit[:, None]
        root = np.linalg.cholesky(scaled + ROUNDING * np.eye(len(bends)))
        return np.asarray(unit[:, None] * root)


def leaning(owners: Session, sums: ClassSums) -> float:
    """Gain in nats of the best mixture with points between, in a table settled at classes."""
    owner = owners.first
    directions = axes(owner)
    excess = sign_part(owner, directions) @ (sums.signed - sums.seen * owner.means).T
    shifts = excess / np.maximum(sums.counts.sum(axis=0), 1e-9)
    told = {"axes": directions.astype(np.float32), "shifts": shifts.astype(np.float32)}
    return most_gained(owners, points_between, told)


def weaker(owners: Session, sums: ClassSums) -> float:
    """Gain in nats of the best mixture with weaker classes, in a table settled at them."""
    usual = sums.signed.sum(axis=0) / np.maximum(sums.seen.sum(axis=0), 1.0)
    return most_gained(owners, weaker_points, {"usual": usual.astype(np.float32)})


WIDEST = 50  # columns; in more of them the residuals of classes show a trait
ROWS = 5_000  # that are looked at, evenly from all, where they do not repeat each other
NODES = 15  # degrees of the trait, as Gauss and Hermite place them
STEPS, LAST = 200, 1e-3  # of the fit, and nats by which the last one must better it
RIDGES = np.array([0.05, 0.01])  # on slopes and intercepts: columns of one value have no end
NEWTON = 3  # steps for the columns in each step of the fit
CLOSE = 2e-4  # of a mean to -1 and 1


def trait_gain(
    owners: Session, channel: Channel, shares: np.ndarray, prior: Prior
) -> tuple[float, int] | None:
    """Nats by which classes explain a narrow table better than one trait, and its columns."""
    K, N = channel.means.shape
    held = not any(isinstance(owner.rows, Reread) for owner in owners.members)
    if not held or N > WIDEST or K < 2:
        return None
    some = _looked_at(owners)
    M, n = some.n_rows, N if prior.varies is None else int(prior.varies.sum())
    means = np.clip(channel.means, CLOSE - 1, 1 - CLOSE)
    likelihood = _asked(some, means, shares).log_likelihood
    rates_of = {"symmetric": 1, "by column": n}.get(channel.name, K * n)
    signs = 0.0 if channel.name == "graded" else K * n * np.log(2)
    evidence = likelihood - (rates_of + K - 1) * np.log(M) / 2 - signs
    slopes = _direction(means, shares)
    return float(evidence - trait_evidence(some, prior.rates, slopes, n, evidence)), n


def _looked_at(owners: Session) -> Session:
    """All rows where equal ones are merged; of others every so manieth, in double precision."""
    step = -(-int(owners.n_rows) // ROWS)
    return owners.made_of([some_of(o, step) for o in owners.members], {"step": np.array(step)})


def some_of(o: Owner, step: int) -> Owner:
    """An owner with every so manieth row, where equal ones are not merged."""
    few = o.rows[::step]
    return Owner(replace(few, counts=few.weights), o.index) if few.counts is None else o


def _asked(owners: Session, means: np.ndarray, shares: np.ndarray) -> ClassSums:
    """Sums over classes: one exchange."""
    answers = owners.ask(class_sums, {"means": means, "shares": shares})
    counts = np.array([a["counts"] for a in answers])
    signed, seen = total(answers, "signed"), total(answers, "seen")
    return ClassSums(counts, signed, seen, float(total(answers, "log_likelihood")))


def _direction(means: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(N,) in which classes differ most, its longest entry 1.5."""
    apart = (means - shares @ means) * np.sqrt(shares)[:, None]
    found = np.linalg.svd(apart, full_matrices=False)[2][0]
    return np.asarray(1.5 * found / found[np.abs(found).argmax()] + 1e-3)


def trait_evidence(
    owners: Session, rates: np.ndarray, slopes: np.ndarray, columns: int, enough: float = -np.inf
) -> float:
    """Log-likelihood of rows as one trait has them, less the cost of two numbers a column."""
    cost = columns * np.log(owners.n_rows)
    degrees, weights = np.polynomial.hermite_e.hermegauss(NODES)
    t, weights = degrees[:, None], weights / weights.sum()
    rates = np.clip(rates, 0.01, 0.99)
    intercepts, last = np.log(rates / (1 - rates)), -np.inf
    for step in range(STEPS):
        sums = _asked(owners, means_inside(np.tanh((intercepts + t * slopes) / 2)), weights)
        gained, last = sums.log_likelihood - last, max(sums.log_likelihood, last)
        if gained < LAST or last + (STEPS - step) * gained - cost < enough:
            break
        for _ in range(NEWTON):
            intercepts, slopes = _bettered(intercepts, slopes, t, sums.plus, sums.seen)
    return float(last - cost)


def _bettered(
    b: np.ndarray, a: np.ndarray, t: np.ndarray, plus: np.ndarray, seen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One step of Newton for the intercepts and slopes of all columns, of bounded length."""
    rates = expit(b + t * a)
    rest, spread = plus - seen * rates, seen * rates * (1 - rates)
    slope, level = (t * rest).sum(axis=0) - RIDGES[0] * a, rest.sum(axis=0) - RIDGES[1] * b
    aa, bb = (t**2 * spread).sum(axis=0) + RIDGES[0], spread.sum(axis=0) + RIDGES[1]
    ab = (t * spread).sum(axis=0)
    whole = aa * bb - ab**2
    a = a + np.clip((bb * slope - ab * level) / whole, -1, 1)
    return b + np.clip((aa * level - ab * slope) / whole, -1, 1), a


def in_order(
    session: Session, means: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray | None, float]:
    """Changes of class from one row to the next, and how rows follow each other within classes."""
    rows = [owner.rows for owner in session.members]
    if not session.ordered or not all(isinstance(r, Rows) for r in rows):
        return None, 0.0
    answers = session.ask(changes, {"means": means, "shares": shares})
    return total(answers, "changes"), float(total(answers, "follow")) / len(rows) ** 0.5
