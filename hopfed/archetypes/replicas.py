"""Replicas: tables that the owners draw from the fitted classes, with the gaps of their own rows.

What a statistic should be when the classes are true is read off replicas that were fitted like the
rows: no edge and no error has to be derived for rare columns, gaps, or the freedom that the fit
used up. Replicas stay with the owners like the rows; the server hears sums of both.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import like, to_host
from hopfed._lib.random import stream
from hopfed.archetypes.mixture import (
    ClassSums,
    Fit,
    Mixture,
    concentration,
    expect,
    improve,
    remind,
)
from hopfed.archetypes.session import Owner, Session, Variables, beyond
from hopfed.archetypes.weights import is_survey
from hopfed.kernels import Rows
from hopfed.spectral.equal_rows import merged

BLOCK = 1 << 22  # entries drawn at a time
STEPS = 30  # exchanges of a fit at most: from the truth it is not far to what rows were fitted to
TINY = 1e-12
NEAR = 0.3  # nats from there, at which a fit ends


def replica(owners: Session, fit: Fit, number: int) -> tuple[Session, ClassSums]:
    """Draw a table of this number at the owners, and fit it as the rows were."""
    classes = plausible(fit, owners.seed, number)
    means, shares = classes.means, classes.shares
    table = owners.made_of(
        lambda i, owner: redrawn(owner, i, means, shares[i], owners.seed, number),
        {"of": means, "of_shares": shares, "number": np.array(number)},
    )
    settled = improve(table, expect(table, classes, fit.prior), STEPS, NEAR)
    remind(table, settled)
    return table, settled.sums


def redrawn(
    o: Owner, i: int, means: np.ndarray, shares: np.ndarray, seed: int, number: int
) -> Owner:
    """Owner i with rows drawn from classes in place of its own."""
    told = means, shares, seed, i, number, o.variables
    if o.variables is not None and o.variables.steps and not is_survey(o.rows):
        each = np.repeat(np.arange(len(o.held)), o.held.weights.astype(int))
        rows = merged(drawn(replace(o.held, counts=None)[like(each, o.held.home)], *told))
    elif o.rows.counts is None or is_survey(o.rows):
        rows = replace(drawn(o.held, *told), counts=o.rows.counts)
    else:
        rows = drawn_often(o.held, *told)
    return Owner(rows, i, o.variables, np.flatnonzero(~o.free))


def plausible(fit: Fit, seed: int, number: int) -> Mixture:
    """Classes drawn from the posterior of the fitted ones, given who is in which."""
    rng, sums = stream(seed, "plausible", number), fit.sums
    rates, c = fit.prior.rates, fit.prior.concentration
    if np.isinf(c):  # a single class: its columns are drawn as columns of one table
        part = fit.prior.part
        rates = np.where(part > 0, part, rates[part == 0].mean() if (part == 0).any() else 0.5)
        c = concentration(sums.plus, sums.minus, rates, part=part)
    a, b = c * rates + sums.plus, c * (1 - rates) + sums.minus
    drawn_rates = rng.beta(a, b)
    if fit.prior.variables is not None:
        levels = fit.prior.variables.normalised(np.maximum(rng.standard_gamma(a), 1e-12))
        drawn_rates = np.where(fit.prior.variables.inside, levels, drawn_rates)
    return replace(fit.classes, means=2 * drawn_rates - 1)


def drawn(
    rows: Rows,
    means: np.ndarray,
    shares: np.ndarray,
    seed: int,
    owner: int = 0,
    number: int = 0,
    variables: Variables | None = None,
) -> Rows:
    """Rows of the classes with the gaps of `rows`, where these are."""
    rng = stream(seed, "replica", owner, number)
    M, N = rows.shape
    labels = rng.choice(len(means), M, p=shares / shares.sum())
    rates = ((1 + means) / 2).astype(np.float32)
    if variables is None:
        variables = Variables.of((), N)
    levels = variables.normalised((1 + means) / 2)
    parts, step = [], max(1, BLOCK // N)
    for first in range(0, M, step):
        part = slice(first, min(first + step, M))
        draws = rng.random((part.stop - first, N), dtype=np.float32)
        up = draws < rates[labels[part]]
        for group in variables.groups:
            below = np.cumsum(levels[:, group], axis=1)[labels[part]]
            at = (draws[:, group[:1]] >= below[:, :-1]).sum(axis=1)
            up[:, group] = at[:, None] == np.arange(len(group))
        there = like(up, rows.home)
        if variables.steps:  # the gaps of rows, but for thresholds that their own ones tell
            gone = beyond(up, to_host(kernels.unpack(rows[part])) == 0, variables.steps)
            masked = kernels.pack_masked(there, like(gone, rows.home))
            parts.append(kernels.with_gaps(masked))
            continue
        found = kernels.pack(there)
        if rows.gaps:
            seen = rows.seen[part]
            found = replace(found, signs=found.signs & seen, seen=seen)
        parts.append(found)
    return kernels.concatenate(parts)


def drawn_often(
    rows: Rows,
    means: np.ndarray,
    shares: np.ndarray,
    seed: int,
    owner: int = 0,
    number: int = 0,
    variables: Variables | None = None,
) -> Rows:
    """The same where rows occur several times: column by column, how many rows go which way."""
    rng = stream(seed, "replica", owner, number)
    N, seen, often = rows.n, np.ones((1, rows.n), bool), np.array([rows.size])
    if rows.gaps:  # kinds of gaps (G, N), and rows of each
        kinds = merged(replace(rows, signs=rows.seen))
        seen, often = to_host(kernels.unpack(kinds)) > 0, kinds.weights
    each = rng.multinomial(often.astype(np.int64), shares / shares.sum())
    kind, label = np.nonzero(each)
    n, x = each[kind, label], np.zeros((len(kind), N), np.int8)
    if variables is None:
        variables = Variables.of((), N)
    rates = variables.normalised((1 + means) / 2)
    alone = [np.array([j]) for j in np.flatnonzero(~variables.inside)]
    for group in alone + variables.groups:
        left = np.ones(len(n))  # probability of the levels to come; 0 in rows that have one
        for j in group:
            rate = rates[label, j] / np.maximum(left, TINY)
            if len(group) > 1 and j == group[-1]:
                rate = np.ones(len(n))
            there = seen[kind, j]
            up = rng.binomial(n, np.where(there & (left > 0), np.clip(rate, 0.0, 1.0), 0.0))
            x[:, j] = -there.astype(np.int8)
            chosen, others = up > 0, up < n
            higher = x[chosen]
            higher[:, j] = 1
            left = np.concatenate([0 * left[chosen], (left - rates[label, j])[others]])
            x = np.concatenate([higher, x[others]])
            n = np.concatenate([up[chosen], (n - up)[others]])
            kind = np.concatenate([kind[chosen], kind[others]])
            label = np.concatenate([label[chosen], label[others]])
    found = like(x, rows.home)
    packed = kernels.pack_masked(found, found == 0) if rows.gaps else kernels.pack(found)
    return merged(replace(packed, counts=n.astype(np.float64)))
