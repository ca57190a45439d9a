"""Schedules: which archetypes the federation sees in which round.

Source: arXiv:2603.19902, eq. (23); theory/NOTES.md, "Schedules of exposure".

A schedule is a frozen dataclass; its method ``mixture(K, rounds, seed)`` answers the round mixture,
an array (rounds, K) whose rows lie on the simplex. Rounds count from 0. `hopfed.hopfield.stream`
deals it to the clients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hopfed._lib.random import check_seed, stream
from hopfed._lib.settings import check_types, require


class Schedule(Protocol):
    """A law of the round mixture.

    Examples
    --------
    >>> class FirstOnly:
    ...     def mixture(self, K: int, rounds: int, seed: int) -> np.ndarray:
    ...         return np.eye(K)[np.zeros(rounds, int)]
    >>> FirstOnly().mixture(3, rounds=2, seed=0).tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """

    def mixture(self, K: int, rounds: int, seed: int) -> np.ndarray:
        """Return the mixture of K archetypes in every round: (rounds, K), rows sum to 1.

        `seed` is that of its draws, where it has any.
        """
        ...


@dataclass(frozen=True)
class Fixed:
    """The same mixture in every round.

    Attributes
    ----------
    exposures : shares of the archetypes before normalising; () for equal shares.

    Examples
    --------
    >>> Fixed((2.0, 1.0, 1.0)).mixture(3, 2, seed=0)
    array([[0.5 , 0.25, 0.25],
           [0.5 , 0.25, 0.25]])
    """

    exposures: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.exposures == ():
            return
        check_types(self)
        require(min(self.exposures) >= 0, "exposures", "at least 0 each", self.exposures)
        total = sum(self.exposures)
        require(0 < total < math.inf, "exposures", "of a finite sum above 0", self.exposures)

    def mixture(self, K: int, rounds: int, seed: int) -> np.ndarray:
        """Return the round mixture (rounds, K)."""
        _check(K, rounds, seed)
        shares = np.array(self.exposures or (1.0,) * K)
        require(len(shares) == K, "exposures", f"one for each of K = {K}", f"{len(shares)}")
        return np.tile(shares / shares.sum(), (rounds, 1))


@dataclass(frozen=True)
class Sequential:
    """Archetypes dominate one after the other, in stages of equal length.

    Attributes
    ----------
    stages : number of stages, each dominated by a group of K / stages archetypes in equal shares;
        0 for one stage per archetype.
    overlap : part of a stage over which dominance passes linearly to the next, half before the
        border and half behind; the rest of the stage is a plateau. 0 switches at once.
    floor : share of every archetype that does not dominate, below 1 / K.

    Examples
    --------
    >>> Sequential(overlap=0.0, floor=0.1).mixture(3, 4, seed=0).round(1)
    array([[0.8, 0.1, 0.1],
           [0.1, 0.8, 0.1],
           [0.1, 0.8, 0.1],
           [0.1, 0.1, 0.8]])
    """

    stages: int = 0
    overlap: float = 0.5
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_types(self)
        require(self.stages >= 0, "stages", "at least 0", self.stages)
        _check_shape(self.overlap, self.floor)

    def mixture(self, K: int, rounds: int, seed: int) -> np.ndarray:
        """Return the round mixture (rounds, K)."""
        _check(K, rounds, seed)
        stages = self.stages or K
        require(stages <= K, "stages", f"at most K = {K}", stages)
        require(rounds >= stages, "rounds", f"at least one for each of {stages} stages", rounds)
        position = (np.arange(rounds) + 0.5) * stages / rounds
        group = np.arange(K) * stages // K
        lead = _lead(position, stages, self.overlap, cyclic=False)
        return _above(self.floor, lead[:, group] / np.bincount(group)[group])


@dataclass(frozen=True)
class Cyclic:
    """Archetypes dominate in turn, and come round again every `period` rounds.

    Attributes
    ----------
    period : rounds in which every archetype dominates once, at least K.
    floor, overlap : as of `Sequential`.

    Examples
    --------
    >>> Cyclic(period=2, overlap=0.0).mixture(2, 3, seed=0)
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """

    period: int = 12
    floor: float = 0.0
    overlap: float = 0.5

    def __post_init__(self) -> None:
        check_types(self)
        require(self.period >= 1, "period", "at least 1", self.period)
        _check_shape(self.overlap, self.floor)

    def mixture(self, K: int, rounds: int, seed: int) -> np.ndarray:
        """Return the round mixture (rounds, K)."""
        _check(K, rounds, seed)
        require(self.period >= K, "period", f"at least K = {K}", self.period)
        position = (np.arange(rounds) % self.period + 0.5) * K / self.period
        return _above(self.floor, _lead(position, K, self.overlap, cyclic=True))


@dataclass(frozen=True)
class PiecewiseDirichlet:
    """Constant over pieces of equal length; each piece draws its mixture anew.

    Attributes
    ----------
    pieces : number of pieces.
    concentration : of the symmetric Dirichlet law of a piece; 1 is uniform on the simplex, less
        favours few archetypes at a time.

    Examples
    --------
    >>> rows = PiecewiseDirichlet(pieces=2).mixture(3, 4, seed=0)
    >>> (rows[0] == rows[1]).all(), (rows[1] == rows[2]).any()
    (np.True_, np.False_)
    """

    pieces: int = 4
    concentration: float = 1.0

    def __post_init__(self) -> None:
        check_types(self)
        require(self.pieces >= 1, "pieces", "at least 1", self.pieces)
        finite = 0 < self.concentration < math.inf
        require(finite, "concentration", "above 0 and finite", self.concentration)

    def mixture(self, K: int, rounds: int, seed: int) -> np.ndarray:
        """Return the round mixture (rounds, K)."""
        _check(K, rounds, seed)
        require(rounds >= self.pieces, "rounds", f"at least {self.pieces}, one a piece", rounds)
        rng = stream(seed, "schedule", "piecewise")
        draws = rng.dirichlet(np.full(K, self.concentration), size=self.pieces)
        return draws[np.arange(rounds) * self.pieces // rounds]


@dataclass(frozen=True)
class BoundedRandomWalk:
    """A Gaussian walk on the simplex from equal shares, every share at least `floor`.

    A step that leaves the allowed region ends at its nearest point there, so no step is longer
    than its Gaussian draw. The first rounds do not depend on how many follow.

    Attributes
    ----------
    step : standard deviation of the draw of each share in a round, in [0, 1].
    floor : smallest share, below 1 / K.

    Examples
    --------
    >>> rows = BoundedRandomWalk(step=0.3, floor=0.1).mixture(4, 50, seed=0)
    >>> bool((rows >= 0.1).all())
    True
    """

    step: float = 0.1
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_types(self)
        require(0 <= self.step <= 1, "step", "in [0, 1]", self.step)
        require(0 <= self.floor < 1, "floor", "in [0, 1)", self.floor)

    def mixture(self, K: int, rounds: int, seed: int) -> np.ndarray:
        """Return the round mixture (rounds, K)."""
        _check(K, rounds, seed)
        _check_floor(self.floor, K)
        room = 1 - K * self.floor  # what the shares have above the floor, together
        draws = stream(seed, "schedule", "walk").standard_normal((rounds, K))
        rows = np.full((rounds, K), 1 / K)
        for t in range(1, rounds):
            # The nearest point does not see a common shift, so the floor need not come off first.
            target = rows[t - 1] + self.step * draws[t]
            rows[t] = self.floor + _nearest_on_simplex(target, room)
        return rows


@dataclass(frozen=True)
class NoveltyRamp:
    """Old archetypes in equal shares; then the new ones ramp up until all K are equal (5.2).

    A new archetype has the share ``min(1, (t - at + 1) / ramp) / K`` from round `at` on.

    Attributes
    ----------
    old : archetypes present from the start, the first ones.
    at : first round, counted from 0, in which the new archetypes have exposure.
    ramp : rounds of the ramp; 1 introduces them at once.

    Examples
    --------
    >>> NoveltyRamp(old=1, at=1, ramp=2).mixture(2, 4, seed=0)
    array([[1.  , 0.  ],
           [0.75, 0.25],
           [0.5 , 0.5 ],
           [0.5 , 0.5 ]])
    """

    old: int = 3
    at: int = 12
    ramp: int = 4

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("old", "at", "ramp"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))

    def mixture(self, K: int, rounds: int, seed: int) -> np.ndarray:
        """Return the round mixture (rounds, K)."""
        _check(K, rounds, seed)
        require(self.old < K, "old", f"below K = {K}, so that some are new", self.old)
        require(self.at < rounds, "at", f"below the number of rounds, {rounds}", self.at)
        progress = np.clip((np.arange(rounds)[:, None] - self.at + 1) / self.ramp, 0, 1)
        before = (np.arange(K) < self.old) / self.old
        return (1 - progress) * before + progress / K


SCHEDULES: dict[str, type[Schedule]] = {
    "fixed": Fixed,
    "sequential": Sequential,
    "cyclic": Cyclic,
    "piecewise": PiecewiseDirichlet,
    "walk": BoundedRandomWalk,
    "novelty": NoveltyRamp,
}


def _check(K: int, rounds: int, seed: int) -> None:
    require(K >= 1, "K", "at least 1", K)
    require(rounds >= 1, "rounds", "at least 1", rounds)
    check_seed(seed)  # also where nothing is drawn: all schedules take the same arguments


def _check_shape(overlap: float, floor: float) -> None:
    require(0 <= overlap <= 1, "overlap", "in [0, 1]", overlap)
    require(0 <= floor < 1, "floor", "in [0, 1)", floor)


def _check_floor(floor: float, K: int) -> None:
    require(floor * K < 1, "floor", f"below 1 / K = {1 / K:.4g}", floor)


def _above(floor: float, shares: np.ndarray) -> np.ndarray:
    """Lift rows on the simplex so that no share is below `floor`."""
    K = shares.shape[1]
    _check_floor(floor, K)
    return floor + (1 - K * floor) * shares


def _lead(position: np.ndarray, stages: int, overlap: float, *, cyclic: bool) -> np.ndarray:
    """Weight of each stage at positions (T,) in [0, stages): 1 on plateaus, linear between."""
    stage = position.astype(int)
    after = position - stage
    border = np.minimum(after, 1 - after)  # distance to the nearer border
    half = np.full_like(border, 0.5)
    own = 0.5 + np.divide(border, overlap, out=half, where=border < overlap / 2)
    other = np.where(after < 0.5, stage - 1, stage + 1)
    other = other % stages if cyclic else np.clip(other, 0, stages - 1)
    rows = np.arange(len(position))
    lead = np.zeros((len(position), stages))
    lead[rows, stage] = own
    lead[rows, other] += 1 - own
    return lead


def _nearest_on_simplex(y: np.ndarray, total: float) -> np.ndarray:
    """Nearest point to y (K,) with no negative entry and sum `total` (Held et al. 1974)."""
    falling = np.sort(y)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(y) + 1)
    last = np.count_nonzero(falling > excess) - 1
    return np.maximum(y - excess[last], 0)
