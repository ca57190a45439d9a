"""Replicas: tables that the owners draw from the fitted classes, with the gaps of their own rows.

What a statistic should be when the classes are true is read off replicas that were fitted like the
rows: no edge and no error has to be derived for rare columns, gaps, or the freedom that the fit
used up. Replicas stay with the owners like the rows; the server hears sums of both.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace, to_host
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
from hopfed.archetypes.session import Owner, Session, Variables
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.equal_rows import Rows
from hopfed.spectral.rows import Bits, array_beside

BLOCK = 1 << 22  # entries drawn at a time
STEPS = 30  # exchanges of a fit at most: from the truth it is not far to what rows were fitted to
TINY = 1e-12
NEAR = 0.3  # nats from there, at which a fit ends


def replica(owners: Session, fit: Fit, number: int) -> tuple[Session, ClassSums]:
    """Draw a table of this number at the owners, and fit it as the rows were.

    It counts on the owners' traffic. It comes from classes of its own, drawn from what is known of
    the fitted ones: fitted means are shrunk, and means that were shrunk twice would be those of
    another table.
    """
    classes, members = plausible(fit, owners.seed, number), []
    for i, o in enumerate(owners.members):
        members.append(redrawn(o, i, classes.means, classes.shares[i], owners.seed, number))
    how = {"of": classes.means, "of_shares": classes.shares, "number": np.array(number)}
    table = owners.made_of(members, how)
    settled = improve(table, expect(table, classes, fit.prior), STEPS, NEAR)
    remind(table, settled)
    return table, settled.sums


def redrawn(
    o: Owner, i: int, means: np.ndarray, shares: np.ndarray, seed: int, number: int
) -> Owner:
    """Owner i with rows drawn from classes in place of its own."""
    told = means, shares, seed, i, number, o.variables
    rows = Rows(o.rows, o.counts)
    rows = Rows(drawn(o.rows, *told)) if o.counts is None else drawn_often(rows, *told)
    return Owner(rows.entries, i, o.variables, np.flatnonzero(~o.free), rows.counts)


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
    rows: Bits | Array,
    means: np.ndarray,
    shares: np.ndarray,
    seed: int,
    owner: int = 0,
    number: int = 0,
    variables: Variables | None = None,
) -> Bits | Array:
    """Rows of the classes with the gaps of `rows`, in the form of `rows`."""
    rng = stream(seed, "replica", owner, number)
    M, N = rows.shape
    labels = rng.choice(len(means), M, p=shares / shares.sum())
    rates = ((1 + means) / 2).astype(np.float32)
    groups = [] if variables is None else variables.groups
    levels = rates if variables is None else variables.normalised((1 + means) / 2)
    parts, step = [], max(1, BLOCK // N)
    for first in range(0, M, step):
        part = slice(first, min(first + step, M))
        draws = rng.random((part.stop - first, N), dtype=np.float32)
        up = draws < rates[labels[part]]
        for group in groups:
            below = np.cumsum(levels[:, group], axis=1)[labels[part]]
            at = (draws[:, group[:1]] >= below[:, :-1]).sum(axis=1)
            up[:, group] = at[:, None] == np.arange(len(group))
        parts.append(_formed(rows, part, up))
    if isinstance(rows, Bits):
        return kernels.concatenate(parts)
    return namespace(rows).concat(parts)


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
    N = rows.entries.shape[1]
    seen, often = _gaps(rows)
    each = rng.multinomial(often.astype(np.int64), shares / shares.sum())
    kind, label = np.nonzero(each)
    n, x = each[kind, label], np.zeros((len(kind), N), np.int8)
    rates = (1 + means) / 2 if variables is None else variables.normalised((1 + means) / 2)
    for group in _in_turn(variables, N):
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
            x, n = (
                np.concatenate([higher, x[others]]),
                np.concatenate([up[chosen], (n - up)[others]]),
            )
            kind = np.concatenate([kind[chosen], kind[others]])
            label = np.concatenate([label[chosen], label[others]])
    return Rows(_like_rows(x, rows.entries), n.astype(np.float64)).merged()


def _gaps(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Kinds of gaps (G, N), booleans of what is seen, and rows (G,) of each."""
    entries = rows.entries
    if isinstance(entries, PackedBits):
        return np.ones((1, entries.shape[1]), bool), np.array([len(rows)])
    planes = entries.seen if isinstance(entries, MaskedBits) else namespace(entries).abs(entries)
    found = Rows(planes, rows.counts).merged()
    seen = kernels.unpack(found.entries) if isinstance(entries, MaskedBits) else found.entries  # type: ignore[arg-type]
    return to_host(seen) > 0, found.weights


def _in_turn(variables: Variables | None, n: int) -> list[np.ndarray]:
    """Columns that are drawn by themselves, and the levels of each variable together."""
    inside = np.zeros(n, bool) if variables is None else variables.inside
    alone = [np.array([j]) for j in np.flatnonzero(~inside)]
    return alone + ([] if variables is None else variables.groups)


def _like_rows(x: np.ndarray, rows: Bits | Array) -> Bits | Array:
    """Rows (M, N) of -1, 0 and +1 in the form of others."""
    if isinstance(rows, PackedBits):
        return kernels.pack(like(x, array_beside(rows)))
    if isinstance(rows, MaskedBits):
        return kernels.pack_masked(like(x, array_beside(rows)), like(x == 0, array_beside(rows)))
    return like(x.astype(np.float32), rows)


def _formed(rows: Bits | Array, part: slice, up: np.ndarray) -> Bits | Array:
    if isinstance(rows, PackedBits):
        return kernels.pack(like(up, array_beside(rows)))
    if isinstance(rows, MaskedBits):
        seen = rows.seen[part]
        signs = kernels.pack(like(up, array_beside(rows)))
        return MaskedBits(replace(signs, words=signs.words & seen.words), seen)
    signs = like(np.where(up, np.float32(1), np.float32(-1)), rows)
    return namespace(rows).where(rows[part] == 0, rows[part], signs)
