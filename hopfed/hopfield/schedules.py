"""Schedules: which archetypes the federation sees in which round.

Source: arXiv:2603.19902, eq. (23).

A schedule is a frozen dataclass; its method ``mixture(K, rounds)`` answers the round mixture, an
array (rounds, K) whose rows lie on the simplex. Rounds count from 0. `hopfed.hopfield.stream` deals
it to the clients; any other array of that form will do in its place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hopfed._lib.settings import check_types, require


@dataclass(frozen=True)
class Fixed:
    """The same mixture in every round."""

    # shares of the archetypes before normalising; () for equal shares
    exposures: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.exposures == ():
            return
        check_types(self)
        require(min(self.exposures) >= 0, "exposures", "at least 0 each", self.exposures)
        total = sum(self.exposures)
        require(0 < total < math.inf, "exposures", "of a finite sum above 0", self.exposures)

    def mixture(self, K: int, rounds: int) -> np.ndarray:
        """Return the round mixture (rounds, K)."""
        shares = np.array(self.exposures or (1.0,) * K)
        require(len(shares) == K, "exposures", f"one for each of K = {K}", f"{len(shares)}")
        return np.tile(shares / shares.sum(), (rounds, 1))


@dataclass(frozen=True)
class Sequential:
    """Archetypes dominate one after the other, in stages of equal length."""

    # part of a stage over which dominance passes linearly to the next, half before the border and
    # half behind; the rest of the stage is a plateau. 0 switches at once
    overlap: float = 0.5

    def __post_init__(self) -> None:
        check_types(self)
        require(0 <= self.overlap <= 1, "overlap", "in [0, 1]", self.overlap)

    def mixture(self, K: int, rounds: int) -> np.ndarray:
        """Return the round mixture (rounds, K)."""
        require(rounds >= K, "rounds", f"at least one for each of {K} stages", rounds)
        return _lead((np.arange(rounds) + 0.5) * K / rounds, K, self.overlap, cyclic=False)


@dataclass(frozen=True)
class Cyclic:
    """Archetypes dominate in turn, and come round again every `period` rounds."""

    period: int = 12  # rounds in which every archetype dominates once, at least K
    overlap: float = 0.5  # as of `Sequential`

    def __post_init__(self) -> None:
        check_types(self)
        require(self.period >= 1, "period", "at least 1", self.period)
        require(0 <= self.overlap <= 1, "overlap", "in [0, 1]", self.overlap)

    def mixture(self, K: int, rounds: int) -> np.ndarray:
        """Return the round mixture (rounds, K)."""
        require(self.period >= K, "period", f"at least K = {K}", self.period)
        position = (np.arange(rounds) % self.period + 0.5) * K / self.period
        return _lead(position, K, self.overlap, cyclic=True)


@dataclass(frozen=True)
class NoveltyRamp:
    """Old archetypes in equal shares; then the new ones ramp up until all K are equal (5.2).

    A new archetype has the share ``min(1, (t - at + 1) / ramp) / K`` from round `at` on.
    """

    old: int = 3  # archetypes present from the start, the first ones
    at: int = 12  # first round, counted from 0, in which the new archetypes have exposure
    ramp: int = 4  # rounds of the ramp; 1 introduces them at once

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("old", "at", "ramp"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))

    def mixture(self, K: int, rounds: int) -> np.ndarray:
        """Return the round mixture (rounds, K)."""
        require(self.old < K, "old", f"below K = {K}, so that some are new", self.old)
        require(self.at < rounds, "at", f"below the number of rounds, {rounds}", self.at)
        progress = np.clip((np.arange(rounds)[:, None] - self.at + 1) / self.ramp, 0, 1)
        before = (np.arange(K) < self.old) / self.old
        return (1 - progress) * before + progress / K


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
