"""Do degrees of one trait explain a narrow table as well as its classes do?

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
from hopfed.spectral.equal_rows import Rows
from hopfed.spectral.reread_rows import Reread

WIDEST = 50  # columns; in more of them the residuals of classes show a trait
ROWS = 5_000  # that are looked at, evenly from all, where they do not repeat each other
NODES = 15  # degrees of the trait, as Gauss and Hermite place them
STEPS, ENOUGH = 200, 1e-3  # of the fit, and nats by which the last one must better it
RIDGES = np.array([0.05, 0.01])  # on slopes and intercepts: columns of one value have no end
NEWTON = 3  # steps for the columns in each step of the fit
CLEAR = 2.0  # nats by which classes must be better
CLOSE = 1e-4  # of a rate to 0 and 1


def with_trait(found: Archetypes, clients: Sequence[Any]) -> Archetypes:
    """Take the "ok" from classes of a narrow table that one trait explains as well.

    Where it explains them better, nor are they classes that more rows would resolve.

    Parameters
    ----------
    found : the archetypes.
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
    gain = classes - trait_evidence(x[:, varies], often, classes - CLEAR)
    if gain >= (CLEAR if found.status == "ok" else -CLEAR):
        return found
    better = "better than" if gain <= -CLEAR else "about as well as"
    size = f"{int(varies.sum())} columns of {sum(map(len, clients)):,} rows"
    advice = (
        f"Degrees of one trait, of which a row has more or less, explain these {size} {better} "
        f"{len(found)} classes ({-gain:+.1f} nats), so they may be no kinds. Take the classes as a "
        "summary only, or give more columns."
    )
    return replace(found, status="structure, but not classes", advice=advice)


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
    found : the archetypes.
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

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> degree = rng.standard_normal((500, 1))
    >>> odds = 2 * (degree - rng.normal(0, 0.5, 6))
    >>> x = np.where(rng.random(odds.shape) < expit(odds), 1, -1)
    >>> trait_evidence(x) > trait_evidence(rng.permuted(x, axis=0))
    True
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
