"""Replicas: tables that the owners draw from the fitted classes, with the gaps of their own rows.

What a statistic should be when the classes are true is read off replicas that were fitted like the
rows: no edge and no error has to be derived for rare columns, gaps, or the freedom that the fit
used up. Replicas stay with the owners like the rows; the server hears sums of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace
from hopfed._lib.random import stream
from hopfed.archetypes.graded.fitting.expectation_maximization import Fit, told
from hopfed.archetypes.graded.fitting.mixture import (
    ClassSums,
    Mixture,
    Prior,
    class_sums,
    concentration,
)
from hopfed.archetypes.graded.owners.asking import Owner, Owners, ask_together
from hopfed.archetypes.graded.owners.variables import Variables
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.rows import Bits, array_beside

BLOCK = 1 << 22  # entries drawn at a time
HELD = 1 << 28  # bytes of replicas that an owner holds at once
STEPS = 2  # of expectation maximisation: from the truth they reach what rows were fitted to,
UNSURE_STEPS = 4  # and so many do where rows are unsure of their class: it converges slowly there


def replicas(owners: Owners, fit: Fit, numbers: Iterable[int]) -> list[Owners]:
    """Draw tables of these numbers at the owners; each counts on the owners' traffic.

    Each comes from classes of its own, drawn from what is known of the fitted ones: fitted means
    are shrunk, and means that were shrunk twice would be those of another table.
    """
    worlds = []
    deciding = [np.flatnonzero(~owner.free) for owner in owners.members]
    for b in numbers:
        classes = plausible(fit, owners.seed, b)
        members = [
            Owner(
                drawn(o.rows, classes.means, classes.shares[i], owners.seed, i, b, o.variables),
                i,
                o.variables,
                deciding[i],
            )
            for i, o in enumerate(owners.members)
        ]
        worlds.append(Owners(members, owners.seed, owners.traffic, heard=classes))
    return worlds


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
    """Rows of the classes with the gaps of `rows`, in the form of `rows`.

    Parameters
    ----------
    rows : whose gaps and form are taken.
    means, shares : of the classes.
    seed, owner, number : of the stream of random numbers.
    variables : which columns are levels of one variable: a row gets one of them.

    Examples
    --------
    >>> rows = np.array([[1, 0, 1], [0, 1, 1]], np.float32)
    >>> drawn(rows, np.array([[-1.0, -1.0, -1.0]]), np.ones(1), seed=0).tolist()
    [[-1.0, 0.0, -1.0], [0.0, -1.0, -1.0]]
    """
    rng = stream(seed, "replica", owner, number)
    M, N = rows.shape
    labels = rng.choice(len(means), M, p=shares / shares.sum())
    rates = ((1 + means) / 2).astype(np.float32)
    groups = [] if variables is None else variables.groups()
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


def _formed(rows: Bits | Array, part: slice, up: np.ndarray) -> Bits | Array:
    if isinstance(rows, PackedBits):
        return kernels.pack(like(up, array_beside(rows)))
    if isinstance(rows, MaskedBits):
        seen = rows.seen[part]
        signs = kernels.pack(like(up, array_beside(rows)))
        return MaskedBits(replace(signs, words=signs.words & seen.words), seen)
    signs = like(np.where(up, np.float32(1), np.float32(-1)), rows)
    return namespace(rows).where(rows[part] == 0, rows[part], signs)


def settle(worlds: Sequence[Owners], prior: Prior, steps: int = STEPS) -> list[ClassSums]:
    """Fit replicas as the rows were, each from the classes that it was drawn from.

    Parameters
    ----------
    steps : of expectation maximisation.

    Returns
    -------
    the sums of each over the classes that it ends at.
    """
    sums: list[ClassSums] = []
    for step in range(steps + 1):
        shared, own = zip(*(told(w.heard) for w in worlds), strict=True)
        answers = ask_together(worlds, class_sums, shared, own)
        sums = [prior.collect(answer) for answer in answers]
        for world, found in zip(worlds, sums, strict=True):
            if step < steps:
                world.heard = prior.mixture(found)
    return sums


def at_a_time(owners: Owners) -> int:
    """How many replicas an owner holds at once: fewer of a large table."""
    rows = max((o.rows for o in owners.members), key=lambda r: r.shape[0])
    size = rows.nbytes + 16 * rows.shape[0] * len(owners.members[0].means)
    return max(1, int(HELD // size))
