"""Rows between classes: what likelihood is gained where rows may lie off their class.

Mixed memberships, traits and other continua are cut into classes by whoever fits classes, and
second moments then see nothing. But a row of class k has the log-odds ``a_k`` of its class, and a
row of a continuum has ``a_k + s u`` with some s along an axis u on which the classes differ. So
points at such steps, from all classes alike and both ways, are offered to the rows
(`row_mixtures`), one for each of the axes on which classes differ most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed._lib.arrays import Array, to_host
from hopfed.archetypes.graded.fitting.mixture import ClassSums
from hopfed.archetypes.graded.owners.asking import Owner, Owners
from hopfed.archetypes.graded.verdict.likely_classes import mixed_ratios
from hopfed.archetypes.graded.verdict.row_mixtures import most_gained
from hopfed.federation.messages import Message

AXES = 3  # on which classes differ most
WIDTH = 1.5  # of the steps off a class, in standard deviations with which a row tells its place
CERTAIN = 0.02  # variance of an entry below which it counts as one of this variance


def leaning(worlds: Sequence[Owners], sums: Sequence[ClassSums]) -> np.ndarray:
    """Gain in nats of the best mixture, in several tables (B,) that are settled at their classes.

    Parameters
    ----------
    sums : of the tables over these classes. Fitted means are shrunk, so the rows of a class may lie
        off it all together, which is no mixture: steps start at the mean of the rows.
    """
    shared = [_told(world.members[0], found) for world, found in zip(worlds, sums, strict=True)]
    return most_gained(worlds, points_between, shared)


def _told(owner: Owner, sums: ClassSums) -> Message:
    """Axes of the classes that an owner was told of, and where on them their rows lie."""
    directions = axes(owner)
    excess = _by_sign(owner, directions) @ (sums.signed - sums.seen * owner.means).T
    shifts = excess / np.maximum(sums.counts.sum(axis=0), 1e-9)
    return {"axes": directions.astype(np.float32), "shifts": shifts.astype(np.float32)}


def points_between(owner: Owner, told: Message) -> Array:
    """Likelihood (M, S) of an owner's rows where all classes are shifted, over that of the classes.

    It is ``sum_k R_k L_k``, R being the responsibilities and ``L_k`` the likelihood at the step
    over that at class k, in the mean of both ways.

    Parameters
    ----------
    told : `axes` (D, N) and `shifts` (D, K), the projection of a class's rows on them in the mean,
        less what the class's means expect.
    """
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
