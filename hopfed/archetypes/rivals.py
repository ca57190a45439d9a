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

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import nnls
from scipy.special import expit

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.archetypes.channel import Channel
from hopfed.archetypes.mixture import ClassSums, Prior, class_sums
from hopfed.archetypes.session import (
    Owner,
    Session,
    log_odds,
    means_inside,
    total,
)
from hopfed.archetypes.votes import runs
from hopfed.federation.messages import Message
from hopfed.kernels import Rows
from hopfed.kernels.mixtures import mixed
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.row_order import neighbour_deviation
from hopfed.spectral.rows import seen_times, times

EXCHANGES = 6  # at most: four reach the top within a few hundredths of a nat, as a rule
BEGIN = 0.1  # part of the rows that begins at the points
ENOUGH = 0.03  # nats that a step must promise
RIDGE = 1e-6  # of a row, added to the curvature of every part: points may be alike
SHORTER = 0.4  # of a step that led down
ROUNDING = 1e-10  # added to curvatures of one, where rounding has made them no longer definite

Offer = Callable[[Owner, Message], Array]  # ratios (M, S) of the likelihoods of an owner's rows


def most_gained(owners: Session, offer: Offer, told: Message) -> float:
    """Gain in nats of the best mixture, over the classes alone.

    At most `EXCHANGES` exchanges, of the parts down, and one value, S + 1 slopes and as many rows
    of their products up. The parts add up to one at the top, but not on the way there: what they
    add up to beyond one is subtracted from the log-likelihood, once for each row.
    """

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


def opened(offer: Offer, owner: Owner, told: Message) -> Message:
    """Offer points to an owner's rows, and ask for the sums at the parts where all begins."""
    owner.ratios = offer(owner, told)
    return mixture_sums(owner, {"parts": beginning(owner.ratios.shape[1])})


def beginning(points: int) -> np.ndarray:
    """Parts of the rows in the classes and at each point from which the search begins."""
    if points == 0:
        return np.ones(1)
    return np.concatenate([[1 - BEGIN], np.full(points, BEGIN / points)])


def mixture_sums(owner: Owner, told: Message) -> Message:
    """Log-likelihood ratio of an owner's rows at given parts, its slopes and their products."""
    r = owner.ratios
    xp, parts = namespace(r), told["parts"]
    mixed = r @ like(parts[1:], r) + float(parts[0])
    slopes = xp.concat([xp.ones((r.shape[0], 1), dtype=r.dtype), r], axis=1) / mixed[:, None]
    often = slopes if owner.rows.counts is None else slopes * owner.often[:, None]
    return {
        "value": owner.added(xp.log(mixed)),
        "slopes": often.sum(axis=0),
        "bends": often.T @ slopes,
    }


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


HIGHEST = 60.0  # log-likelihood ratio beyond which a row has said enough
NIL = 1e-36  # responsibility that counts for nothing even then


def mixed_ratios(
    owner: Owner,
    by_sign: np.ndarray,
    by_seen: np.ndarray,
    constant: np.ndarray,
    classes: Iterable[int] | None = None,
) -> Array:
    """Likelihood (M, S) of an owner's rows at S points, over that of the classes.

    It is ``sum_k R_k L_k``, R being the responsibilities and ``log L_k`` what is given for class k:
    a sum over the entries of a row, of their signs and of that they are seen, and a constant.
    """
    R, rows = owner.posterior, owner.rows
    if owner.numbers is not None:
        some = slice(None) if classes is None else list(classes)
        parts, S, N = R[:, some].T, len(constant), rows.shape[1]
        told = (x[:, some].reshape(-1, N) for x in (by_sign, by_seen))
        logs, even = owner.numbers.logs(*told)
        shifts = constant[:, some] + even.reshape(S, -1)
        return mixed(logs.reshape(S, *parts.shape), shifts, parts, HIGHEST).T
    xp, M = namespace(R), owner.rows.shape[0]
    found = xp.zeros((M, len(constant)), dtype=xp.float64)
    for k in range(R.shape[1]) if classes is None else classes:
        which = np.flatnonzero(to_host(R[:, k]) > NIL)
        if not len(which):
            continue
        index = like(which, R)
        mine = rows if len(which) == M else rows[which]
        told = (like(x[:, k].T.astype(np.float32), R) for x in (by_sign, by_seen))
        logs = times(mine, next(told)) + seen_times(mine, next(told))
        logs = xp.astype(logs, xp.float64) + like(constant[:, k], R)
        found[index] += R[index, k][:, None] * xp.exp(logs.clip(None, HIGHEST))
    return found


AXES = 3  # on which classes differ most
WIDTH = 1.5  # of the steps off a class, in standard deviations with which a row tells its place
CERTAIN = 0.02  # variance of an entry below which it counts as one of this variance


def leaning(owners: Session, sums: ClassSums) -> float:
    """Gain in nats of the best mixture with points between, in a table that is settled at classes.

    Fitted means are shrunk, so the rows of a class may lie off it all together, which is no
    mixture: steps start at the mean of the rows.
    """
    owner = owners.first
    directions = axes(owner)
    excess = _by_sign(owner, directions) @ (sums.signed - sums.seen * owner.means).T
    shifts = excess / np.maximum(sums.counts.sum(axis=0), 1e-9)
    told = {"axes": directions.astype(np.float32), "shifts": shifts.astype(np.float32)}
    return most_gained(owners, points_between, told)


def points_between(owner: Owner, told: Message) -> Array:
    """Likelihood (M, S) of rows where all classes are shifted, in the mean of both ways."""
    R, directions = owner.posterior, told["axes"].astype(np.float64)
    if not len(directions):
        return R[:, :0]
    off = mixed_ratios(owner, *_steps(owner, directions, told["shifts"]))
    return (off[:, ::2] + off[:, 1::2]) / 2


def axes(owner: Owner) -> np.ndarray:
    """Axes (D, N) of log-odds on which the owner's classes differ, in units of the noise of a row.

    They span what tells classes apart as principal components do, with the noise within classes as
    the unit of every column. A level of a variable has the logarithm of its rate for log-odds.
    """
    natural, noise = _natural(owner)
    unit = np.sqrt(noise.mean(axis=0))
    parted = (natural - natural.mean(axis=0)) * unit
    _, sizes, V = np.linalg.svd(parted, full_matrices=False)
    found: np.ndarray = V[: min(AXES, len(natural) - 1)] / unit
    return found[sizes[: len(found)] > 1e-6]


def _natural(owner: Owner) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds of classes and variance of entries, (K, N) both, as they enter a likelihood."""
    T, variables = owner.means, owner.variables
    natural, noise = np.arctanh(T), 1 - T**2
    if variables is not None:
        rates = variables.normalised((1 + T) / 2)
        natural = np.where(variables.inside, np.log(rates), natural)
        noise = np.where(variables.inside, rates, noise)
    return natural, np.maximum(noise, CERTAIN)


def _lengths(owner: Owner, directions: np.ndarray) -> np.ndarray:
    """(D, K) length of one standard deviation of a row's place, along each axis in each class."""
    _, noise = _natural(owner)
    observed = to_host(owner.moments[1]) / max(owner.size, 1)
    return np.asarray(1 / np.sqrt(directions**2 @ (noise * observed).T + 1e-12))


def _by_sign(owner: Owner, directions: np.ndarray) -> np.ndarray:
    """(D, N) part of the axes that multiplies the signs of entries: half of it for levels."""
    variables = owner.variables
    return directions if variables is None else np.where(variables.inside, 0.5, 1) * directions


def _steps(
    owner: Owner, directions: np.ndarray, shifts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `mixed_ratios` is told of a step off each class, for each axis, both ways."""
    variables, (natural, _) = owner.variables, _natural(owner)
    at = _sums(owner, natural)
    by_sign, by_seen, constant = [], [], []
    for d, lengths in enumerate(_lengths(owner, directions)):
        for steps in (-WIDTH * lengths, WIDTH * lengths):
            shift = steps[:, None] * directions[d]
            part = _by_sign(owner, shift)
            cost = _sums(owner, natural + shift) - at
            by_sign.append(part)
            # The level that a row has counts, which is half its sign and half that it is seen.
            own = 0.0 if variables is None else np.where(variables.inside, part, 0.0)
            by_seen.append(own - cost)
            constant.append(-shifts[d] * steps)
    return np.array(by_sign), np.array(by_seen), np.array(constant)


def _sums(owner: Owner, natural: np.ndarray) -> np.ndarray:
    """(K, N) logarithm of the sum over an entry's values, by which likelihoods are divided."""
    size = np.abs(natural)
    alone = size + np.log1p(np.exp(-2 * size))
    variables = owner.variables
    if variables is None:
        return np.asarray(alone)
    whole = np.log(variables.sums(np.where(variables.inside, np.exp(natural), 1.0)))
    return np.asarray(np.where(variables.inside, whole * variables.part, alone))


QUALITIES = (0.15, 0.35, 0.7)  # of the weaker rows, towards coins
NEARER = (0.45,)  # towards what all rows are


def weaker(owners: Session, sums: ClassSums) -> float:
    """Gain in nats of the best mixture with weaker classes, in a table settled at them."""
    usual = sums.signed.sum(axis=0) / np.maximum(sums.seen.sum(axis=0), 1.0)
    return most_gained(owners, weaker_points, {"usual": usual.astype(np.float32)})


def weaker_points(owner: Owner, told: Message) -> Array:
    """Likelihood (M, S) of rows where classes are weaker; and of all classes but the weakest."""
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


WIDEST = 50  # columns; in more of them the residuals of classes show a trait
ROWS = 5_000  # that are looked at, evenly from all, where they do not repeat each other
NODES = 15  # degrees of the trait, as Gauss and Hermite place them
STEPS, LAST = 200, 1e-3  # of the fit, and nats by which the last one must better it
RIDGES = np.array([0.05, 0.01])  # on slopes and intercepts: columns of one value have no end
NEWTON = 3  # steps for the columns in each step of the fit
CLOSE = 2e-4  # of a mean to -1 and 1
LOOKED_AT = 20_000  # first rows of an owner whose order is looked at


def trait_gain(
    owners: Session, channel: Channel, shares: np.ndarray, prior: Prior
) -> tuple[float, int] | None:
    """Nats by which classes explain a narrow table better than one trait, and its columns.

    None of wide tables, of a single class, and of rows that are not held.
    """
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
    """Log-likelihood of rows as one trait has them, less the cost of two numbers a column.

    The fit ends where all steps like the last one would not reach the evidence that is `enough`.
    """
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
    """Changes of class from one row to the next, and how rows follow each other within classes.

    Of the changes (3,): how many, by chance, and their variance; of the rest standard errors
    (`hopfed.spectral.row_order`). None and 0 where rows are not held as they came.
    """
    rows = [owner.rows for owner in session.members]
    if not session.ordered or not all(isinstance(r, Rows) for r in rows):
        return None, 0.0
    answers = session.ask(changes, {"means": means, "shares": shares})
    return total(answers, "changes"), float(total(answers, "follow")) / len(rows) ** 0.5


def changes(owner: Owner, told: Message) -> Message:
    """The same of the first rows of one owner."""
    few = Owner(owner.rows[:LOOKED_AT])
    few.learn(told["means"], told["shares"])
    own = to_host(few.posterior).argmax(axis=1)
    x = to_host(kernels.unpack(few.held))
    left = np.where(x == 0, 0.0, x - told["means"][own])
    return {"changes": runs(own), "follow": np.array(neighbour_deviation(left))}
