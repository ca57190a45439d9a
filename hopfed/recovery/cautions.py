"""What an answer that is "ok" does not tell by itself, because no class can be at fault for it.

Classes suppose rows that do not depend on each other. In a series of measurements they do, and in a
table that is sorted by one of its columns they seem to: rows next to each other are of one class
far more often than chance would have it. Nor is a rate certain that is 1 in five rows.

Sources: Barton and David, "Multiple runs", Biometrika 44 (1957), 168-178, for the moments of runs;
Agresti and Coull, "Approximate is better than exact", The American Statistician 52 (1998), 119-126,
for rates near 0 and 1.

Do degrees of one trait explain a narrow table as well as its classes do?

Where rows have more or less of one thing, as in a test of ability, columns depend on each other
too, and in few columns two or three classes describe that nearly as well. What the residuals of the
classes leave then shows nothing. So the model of the trait is fitted as well: the log-odds of
column j in a row are ``b_j + a_j t``, t being normal over the rows, and both are compared by what
they explain less what their numbers cost. Classes are "ok" only if they are clearly better. Levels
of one variable depend on each other in either model: tables with such columns are not asked.

Source: Birnbaum's two-parameter model (Lord and Novick, "Statistical Theories of Mental Test
Scores", 1968, chapter 17), fitted as Bock and Aitkin do, "Marginal maximum likelihood estimation of
item parameters", Psychometrika 46 (1981), 443-459; the comparison is proposed here
(theory/NOTES.md, "Tests of local independence").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.assignment import assign
from hopfed.archetypes.status import NO_CLASSES, one_trait
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.equal_rows import Rows
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.row_order import DEPENDENT, neighbour_deviation
from hopfed.spectral.rows import column_moments

LOOKED_AT = 20_000  # first rows of an owner that are looked at
DEVIATIONS = 4.0  # standard deviations below the changes of class that chance would make
SHARE = 0.7  # of these changes, at most
SCARCE = 3.0  # rows of the rarer value, below which a rate is near 0 or 1
CERTAIN = 1.96  # standard errors to each side of an interval of 95%


def runs(labels: np.ndarray) -> tuple[int, float, float]:
    """Changes of class from one row to the next: how many, how many by chance, and their variance.

    Parameters
    ----------
    labels : (M,) classes of rows in their order.
    """
    n = len(labels)
    if n < 2:
        return 0, 0.0, 0.0
    sizes = np.unique(labels, return_counts=True)[1].astype(np.float64)
    squares, cubes = (sizes**2).sum(), (sizes**3).sum()
    expected = n - squares / n
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n**2 * (n - 1))
    return int((np.diff(labels) != 0).sum()), float(expected), float(variance)


def with_open_rates(found: Archetypes, clients: Sequence[Any]) -> Archetypes:
    """Widen the errors of rates near 0 and 1, as few rows leave them open.

    Parameters
    ----------
    clients : rows of each owner, packed, held or not.
    """
    own = found.own_errors
    if own is None or found.channel == "symmetric" or not len(found):
        return found
    seen = sum(to_host(column_moments(rows)[1]).astype(np.float64) for rows in clients)
    of_class = found.shares[:, None] if found.channel == "graded" else 1.0
    rows = np.broadcast_to(np.nan_to_num(of_class * seen), found.means.shape)
    rates = np.clip((1 + found.means) / 2, 0.0, 1.0)
    wider = np.where(own > 0, np.maximum(own, open_error(rates, rows)), own)
    return replace(found, own_errors=wider)


def open_error(rates: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Error of a mean whose interval holds that of Agresti and Coull; 0 where a rate is not near.

    Parameters
    ----------
    rows : in which they were seen, of the same shape.
    """
    added = (rows * rates + 2) / (rows + 4)
    half = np.abs(added - rates) + CERTAIN * np.sqrt(added * (1 - added) / (rows + 4))
    near = rows * np.minimum(rates, 1 - rates) < SCARCE
    return np.where(near, 2 * half / CERTAIN, 0.0)


def with_cautions(found: Archetypes, clients: Sequence[Any]) -> Archetypes:
    """Add to the advice of classes that are "ok" what the order of rows says.

    Structure that is none of classes has another cause where rows follow each other: that is said.

    Parameters
    ----------
    clients : rows of each owner, packed; of those that are not held nothing is said.
    """
    held = [rows for rows in clients if isinstance(rows, (PackedBits, MaskedBits))]
    told = found.status == NO_CLASSES or (found.status == "ok" and len(found) > 1)
    if not told or len(held) < len(clients):
        return found
    few = [_on_host(rows[:LOOKED_AT]) for rows in held]
    if found.status == NO_CLASSES:
        z = sum(neighbour_deviation(_left(found, rows)) for rows in few) / len(few) ** 0.5
        return replace(found, advice=DEPENDENT.format(z)) if z > DEVIATIONS else found
    line = _order(found, few)
    return replace(found, advice=f"{found.advice} {line}") if line else found


def _order(found: Archetypes, held: Sequence[Any]) -> str:
    """A sentence about rows that are mostly of the class of the row before."""
    sums = np.zeros(3)
    for rows in held:
        labels = assign(found, rows, alpha=0).archetype
        sums += runs(labels[labels >= 0])
    changes, expected, variance = sums.tolist()
    times = "change" if changes == 1 else "changes"
    if changes > SHARE * expected or changes > expected - DEVIATIONS * variance**0.5:
        return ""
    return (
        f"Rows next to each other are mostly of one class ({changes:,.0f} {times} where "
        f"{expected:,.0f} are expected): the table is sorted, or a series, whose classes are times."
    )


def _left(found: Archetypes, rows: Any) -> np.ndarray:
    """What the class of each row leaves of it (M, N); 0 in gaps, and all of it without classes."""
    x = to_host(kernels.unpack(rows)).astype(np.float64)
    if not len(found):
        return x
    means = found.means[assign(found, rows, alpha=0).archetype]
    return np.where(x == 0, 0.0, x - np.nan_to_num(means))


def _on_host(rows: Any) -> Any:
    """Packed rows on the host."""
    if isinstance(rows, MaskedBits):
        return MaskedBits(_on_host(rows.signs), _on_host(rows.seen))
    return PackedBits(np.asarray(to_host(rows.words)), rows.shape[1])


WIDEST = 50  # columns; in more of them the residuals of classes show a trait
ROWS = 5_000  # that are looked at, evenly from all, where they do not repeat each other
NODES = 15  # degrees of the trait, as Gauss and Hermite place them
STEPS, ENOUGH = 200, 1e-3  # of the fit, and nats by which the last one must better it
RIDGES = np.array([0.05, 0.01])  # on slopes and intercepts: columns of one value have no end
NEWTON = 3  # steps for the columns in each step of the fit
BETTER = 2.0  # nats by which classes must be better
CLOSE = 1e-4  # of a rate to 0 and 1


def with_trait(found: Archetypes, clients: Sequence[Any]) -> Archetypes:
    """Take the "ok" from classes of a narrow table that one trait explains as well.

    Where it explains them better, nor are they classes that more rows would resolve.

    Parameters
    ----------
    clients : rows of each owner, packed; of those that cannot be held nothing is said.
    """
    told = found.status in ("ok", "detected, not resolved") and not found.signs_only
    if not told or found.patterns.shape[1] > WIDEST or len(found) < 2:
        return found
    merged = [Rows.of(rows) for rows in clients]
    if any(isinstance(rows.entries, Reread) for rows in merged):
        return found
    few = [_looked_at(rows, sum(map(len, clients))) for rows in merged]
    x = np.concatenate([to_host(kernels.unpack(rows.entries)) for rows in few])  # type: ignore[arg-type]
    often = np.concatenate([rows.weights for rows in few])
    varies = (x.max(axis=0) > 0) & (x.min(axis=0) < 0)
    classes = class_evidence(found, x, varies, often)
    gain = classes - trait_evidence(x[:, varies], often, classes - BETTER)
    if gain >= (BETTER if found.status == "ok" else -BETTER):
        return found
    size = f"{int(varies.sum())} columns of {sum(map(len, clients)):,} rows"
    verdict = one_trait(size, len(found), gain, BETTER)
    return replace(found, status=verdict.status, advice=verdict.advice)


def _looked_at(rows: Rows, all_rows: int) -> Rows:
    """All rows where equal ones are merged; of others every so manieth."""
    return rows if rows.counts is not None else Rows(rows.entries[:: -(-all_rows // ROWS)])


def class_evidence(
    found: Archetypes, x: np.ndarray, varies: np.ndarray, often: np.ndarray
) -> float:
    """Log-likelihood of rows as the classes have them, less the cost of what was fitted.

    Half the logarithm of the rows is the cost of a rate, and of a share; log 2 that of a sign.

    Parameters
    ----------
    x : (M, N) of -1, 0 (missing) and +1.
    varies : (N,) which columns hold both values.
    often : (M,) how often each row occurs.
    """
    rates = np.clip((1 + found.means[:, varies]) / 2, CLOSE, 1 - CLOSE)
    up, down = _sides(x[:, varies])
    logs = up @ np.log(rates).T + down @ np.log1p(-rates).T
    likelihood = often @ logsumexp(logs + np.log(np.maximum(found.shares, 1e-300)), axis=1)
    K, N = rates.shape
    rates_of = {"symmetric": 1, "by column": N}.get(found.channel, K * N)
    signs = 0.0 if found.channel == "graded" else K * N * np.log(2)
    return float(likelihood - (rates_of + K - 1) * np.log(often.sum()) / 2 - signs)


def trait_evidence(
    x: np.ndarray, often: np.ndarray | None = None, enough: float = -np.inf
) -> float:
    """Log-likelihood of rows as one trait has them, less the cost of two numbers for each column.

    Parameters
    ----------
    x : (M, N) of -1, 0 (missing) and +1; every column holds both values.
    often : (M,) how often each row occurs; once when left out.
    enough : evidence that matters; where all steps like the last one would not reach it, the fit
        ends.
    """
    up, down = _sides(x)
    often = np.ones(len(x)) if often is None else often
    cost = x.shape[1] * np.log(often.sum())
    degrees, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = np.log(weights / weights.sum())
    intercepts, slopes = _start(x, often)
    last = -np.inf
    for step in range(STEPS):
        odds = intercepts + degrees[:, None] * slopes
        logs = up @ -np.logaddexp(0, -odds).T + down @ -np.logaddexp(0, odds).T + weights
        total = logsumexp(logs, axis=1)
        likelihood = float(often @ total)
        gained, last = likelihood - last, max(likelihood, last)
        if gained < ENOUGH or last + (STEPS - step) * gained - cost < enough:
            break
        shares = np.exp(logs - total[:, None]) * often[:, None]
        plus, seen = shares.T @ up, shares.T @ (up + down)
        for _ in range(NEWTON):
            intercepts, slopes = _bettered(intercepts, slopes, degrees[:, None], plus, seen)
    return float(last - cost)


def _sides(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (x > 0).astype(np.float64), (x < 0).astype(np.float64)


def _start(x: np.ndarray, often: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds of columns, and slopes along the direction in which rows differ most."""
    seen = often @ np.abs(x)
    means = often @ x / seen
    apart = (x - means) * (x != 0)
    direction = np.linalg.eigh((apart.T * often) @ apart)[1][:, -1]
    rates = np.clip((1 + means) / 2, 0.01, 0.99)
    longest = direction[np.abs(direction).argmax()]  # with its sign, which is free
    return np.log(rates / (1 - rates)), 1.5 * direction / longest + 1e-3


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
