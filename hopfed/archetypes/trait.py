"""What classes cannot tell of themselves: whether one trait explains rows as well, and their order.

Where rows have more or less of one thing, as in a test of ability, columns depend on each other
too, and in few columns two or three classes describe that nearly as well. What the residuals of the
classes leave then shows nothing. So the model of the trait is fitted as well: the log-odds of
column j in a row are ``b_j + a_j t``, t being normal over the rows, and both are compared by what
they explain less what their numbers cost. On a grid of degrees t the trait is a mixture of classes,
so its fit asks for the same sums over classes.

Classes suppose rows that do not depend on each other. In a series of measurements they do, and in a
table that is sorted by one of its columns they seem to: rows next to each other are of one class
far more often than chance would have it.

Sources: Birnbaum's two-parameter model (Lord and Novick, "Statistical Theories of Mental Test
Scores", 1968, chapter 17), fitted as Bock and Aitkin do, Psychometrika 46 (1981), 443-459; the
comparison is proposed here (theory/NOTES.md, "Tests of local independence").
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from hopfed._lib.arrays import to_host
from hopfed.archetypes.channel import Channel
from hopfed.archetypes.graded.fitting.mixture import ClassSums, Prior, class_sums
from hopfed.archetypes.graded.owners.asking import Owner, Owners, means_inside, total
from hopfed.archetypes.votes import runs
from hopfed.federation.messages import Message
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.reread_rows import Reread

WIDEST = 50  # columns; in more of them the residuals of classes show a trait
ROWS = 5_000  # that are looked at, evenly from all, where they do not repeat each other
NODES = 15  # degrees of the trait, as Gauss and Hermite place them
STEPS, ENOUGH = 200, 1e-3  # of the fit, and nats by which the last one must better it
RIDGES = np.array([0.05, 0.01])  # on slopes and intercepts: columns of one value have no end
NEWTON = 3  # steps for the columns in each step of the fit
CLOSE = 2e-4  # of a mean to -1 and 1
LOOKED_AT = 20_000  # first rows of an owner whose order is looked at


def trait_gain(
    owners: Owners, channel: Channel, shares: np.ndarray, prior: Prior
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
    likelihood = _sums(some, means, shares).log_likelihood
    rates_of = {"symmetric": 1, "by column": n}.get(channel.name, K * n)
    signs = 0.0 if channel.name == "graded" else K * n * np.log(2)
    evidence = likelihood - (rates_of + K - 1) * np.log(M) / 2 - signs
    slopes = _direction(means, shares)
    return float(evidence - trait_evidence(some, prior.rates, slopes, n, evidence)), n


def _looked_at(owners: Owners) -> Owners:
    """All rows where equal ones are merged; of others every so manieth, in double precision."""
    step = -(-int(owners.n_rows) // ROWS)

    def some(o: Owner) -> Owner:
        few = o.rows[::step]
        return Owner(few, o.index, counts=np.ones(len(few))) if o.counts is None else o

    members = [some(owner) for owner in owners.members]
    return Owners(members, owners.seed, owners.traffic)


def _sums(owners: Owners, means: np.ndarray, shares: np.ndarray) -> ClassSums:
    """Sums over classes: one exchange."""
    answers = owners.ask(class_sums, {"means": means, "shares": shares})
    counts = np.array([a["counts"] for a in answers])
    sums = (total(answers, n) for n in ("signed", "seen"))
    return ClassSums(counts, *sums, float(total(answers, "log_likelihood")))


def _direction(means: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(N,) in which classes differ most, its longest entry 1.5."""
    apart = (means - shares @ means) * np.sqrt(shares)[:, None]
    found = np.linalg.svd(apart, full_matrices=False)[2][0]
    return np.asarray(1.5 * found / found[np.abs(found).argmax()] + 1e-3)


def trait_evidence(
    owners: Owners, rates: np.ndarray, slopes: np.ndarray, columns: int, enough: float = -np.inf
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
        sums = _sums(owners, means_inside(np.tanh((intercepts + t * slopes) / 2)), weights)
        gained, last = sums.log_likelihood - last, max(sums.log_likelihood, last)
        if gained < ENOUGH or last + (STEPS - step) * gained - cost < enough:
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


def in_order(session: Owners, means: np.ndarray, shares: np.ndarray) -> np.ndarray | None:
    """Changes of class from one row to the next (3,): how many, by chance, and their variance.

    None where rows are not held as they came.
    """
    rows = [owner.rows for owner in session.members]
    if len(means) < 2 or not all(isinstance(r, PackedBits | MaskedBits) for r in rows):
        return None
    told: Message = {"means": means, "shares": shares}
    return total(session.ask(changes, told), "changes")


def changes(owner: Owner, told: Message) -> Message:
    """The same of the first rows of one owner: (3,)."""
    few = Owner(owner.rows[:LOOKED_AT])
    few.learn(told["means"], told["shares"])
    return {"changes": runs(to_host(few.posterior).argmax(axis=1))}
