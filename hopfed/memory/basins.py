"""Basins of attraction by load: recall of random patterns from damaged cues, and theory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hopfed._lib.random import check_seed, stream
from hopfed._lib.settings import require
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dense, Exponential, Layered, Rule, capacity, rule_named

FLIPS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
LOADS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8)
LEAST = 0.9  # overlap from which a pattern is recalled
COOLED = 0.1  # initial temperature for mixtures, lowered to 0


@dataclass(frozen=True, eq=False)
class Basins:
    """Result of :func:`basins`.

    Attributes
    ----------
    rule : rule that stored the patterns.
    n_sites : N.
    patterns : (L,) numbers of patterns K.
    flips : (F,) shares of flipped sites of a cue.
    recalled : (L, F) share of the cues that end at an overlap of .9 or more with their pattern,
        and, if damaged, above their own, or above the mean of undamaged cues.
    overlap : (L, F) mean overlap with the pattern.
    edge : (L,) share of flipped sites at which half of the cues are recalled, interpolated; 0 if
        fewer are at the first of `flips` above 0; the last of them if it lies beyond.
    law : (L,) overlap predicted by theory for undamaged cues, 0 above capacity; NaN for
        layers.
    law_edge : (L,) edge predicted by theory for the exponential rule; NaN for other rules.
    capacity : K / N above which theory predicts no recall; NaN for layers.
    apart : (L,) share of mixtures of as many patterns as layers whose patterns are all recovered;
        NaN for other rules, and with fewer patterns than layers.

    >>> found = basins("projector", n_sites=100, loads=[0.1, 0.5], flips=[0.0, 0.2], cues=10)
    >>> found.recalled.tolist(), found.law.tolist()
    ([[1.0, 1.0], [1.0, 0.0]], [1.0, 1.0])
    """

    rule: Rule
    n_sites: int
    patterns: np.ndarray
    flips: np.ndarray
    recalled: np.ndarray = field(repr=False)
    overlap: np.ndarray = field(repr=False)
    edge: np.ndarray
    law: np.ndarray
    law_edge: np.ndarray
    capacity: float
    apart: np.ndarray

    @property
    def loads(self) -> np.ndarray:
        """(L,) K / N."""
        return self.patterns / self.n_sites

    def plot(self) -> object:
        """Draw the recall map with the edge of the basin; returns a Matplotlib figure."""
        from hopfed.figures.theory import basins as draw

        return draw(self)


def basins(
    rule: str | Rule = "hebb",
    n_sites: int = 300,
    loads: Sequence[float] = LOADS,
    flips: Sequence[float] = FLIPS,
    *,
    cues: int = 40,
    seed: int = 0,
) -> Basins:
    """Measure basins of attraction at each load: recall of random patterns from damaged cues.

    Parameters
    ----------
    rule : name or settings, see `hopfed.memory.rules`.
    n_sites : N, at least 10.
    loads : (L,) K / N above 0; K is rounded, and at least 1.
    flips : (F,) shares of flipped sites of a cue, ascending in [0, .5].
    cues : number of cues for each load and share, and of mixtures for layers; at least 1.
    seed : seed of patterns and cues.

    Raises
    ------
    ArgumentError : a setting out of range.

    >>> found = basins("hebb", 200, loads=[0.05, 0.3], flips=[0.0, 0.1, 0.3], cues=20)
    >>> found.edge.tolist()
    [0.3, 0.0]
    """
    chosen = rule_named(rule)
    turned, shares = np.atleast_1d(flips).astype(float), np.atleast_1d(loads).astype(float)
    require(n_sites >= 10, "n_sites", "at least 10", n_sites)
    require(cues >= 1, "cues", "at least 1", cues)
    require(bool((shares > 0).all()), "loads", "above 0", shares.min())
    rising = bool((turned >= 0).all() and (turned <= 0.5).all() and (np.diff(turned) > 0).all())
    require(rising, "flips", "rising shares in [0, 0.5]", turned)
    counts = np.maximum(np.round(shares * n_sites), 1).astype(int)
    overlap, recalled = np.zeros((2, len(counts), len(turned)))
    apart = np.full(len(counts), np.nan)
    for i, K in enumerate(counts):
        rng = stream(check_seed(seed), "basins", int(K))
        xi = rng.choice(np.array([-1, 1], np.int8), (K, n_sites))
        memory = AssociativeMemory.store(xi, chosen)
        for j, share in enumerate(turned):
            which = rng.integers(K, size=cues)
            places = rng.random((cues, n_sites)).argsort(axis=1) < round(share * n_sites)
            found = memory.recall(np.where(places, -xi[which], xi[which]), seed=seed).overlaps
            own = np.take_along_axis(found, which.reshape(-1, *[1] * (found.ndim - 1)), axis=-1)
            best = own.reshape(cues, -1).max(axis=1)  # over the layers, if any
            overlap[i, j] = best.mean()
            damaged = min(1 - 2 * places[0].mean(), overlap[i, 0]) if share else 0.0
            recalled[i, j] = ((best >= LEAST) & (best > damaged + 1e-9)).mean()
        if isinstance(chosen, Layered) and chosen.layers <= K:
            apart[i] = _separated_share(memory, chosen.layers, cues, rng)
    laws = _laws(chosen, counts, n_sites)
    edge = np.array([_edge(turned, row) for row in recalled])
    return Basins(chosen, n_sites, counts, turned, recalled, overlap, edge, *laws, apart)


def _edge(turned: np.ndarray, recalled: np.ndarray) -> float:
    """Smallest share of flipped sites at which half of the cues are recalled."""
    below = np.flatnonzero(recalled < 0.5)
    if not len(below):
        return float(turned[-1])
    j = int(below[0])
    if j == 0 or turned[j - 1] == 0:  # no damage is repaired
        return 0.0
    step = (recalled[j - 1] - 0.5) / (recalled[j - 1] - recalled[j])
    return float(turned[j - 1] + step * (turned[j] - turned[j - 1]))


def _separated_share(
    memory: AssociativeMemory, layers: int, size: int, rng: np.random.Generator
) -> float:
    """Share of mixtures for which the layers, cooled from `COOLED`, recall all their patterns."""
    xi = memory.patterns
    parts = np.array([rng.choice(len(xi), layers, replace=False) for _ in range(size)])
    mixed = np.sign(xi[parts].sum(axis=1) + 0.5 * xi[parts[:, 0]]).astype(np.int8)
    cooled = COOLED * np.maximum(1 - np.arange(100) / 90, 0)
    found = np.abs(memory.recall(mixed, temperature=cooled, seed=int(rng.integers(2**31))).overlaps)
    own = np.take_along_axis(found, parts[:, None, :], axis=2)  # (S, layer, part)
    return float((own.max(axis=1) >= LEAST).all(axis=1).mean())


def _laws(rule: Rule, counts: np.ndarray, N: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Overlaps, edges and capacity predicted by theory."""
    from hopfed.theory import storage

    unknown, most = np.full(len(counts), np.nan), capacity(rule, N)
    if isinstance(rule, Layered):
        return unknown, unknown, most
    if isinstance(rule, Exponential):
        rate = np.log(counts) / N
        reach = storage.exponential_reach(rate, rule.beta)
        return (reach <= 1).astype(float), np.maximum(1 - reach, 0) / 2, most
    if isinstance(rule, Dense) and rule.n > 2:
        unit = float(N) ** (rule.n - 1) / float(storage.pairings(rule.n))
        return storage.dense_magnetisation(counts / unit, rule.n), unknown, most
    return np.asarray(storage.magnetisation(counts / N, rule.time), np.float64), unknown, most
