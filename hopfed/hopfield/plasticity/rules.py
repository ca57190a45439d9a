"""Plasticity: the weight w of a client's fresh data in the blend with the memory.

Source: arXiv:2603.19902, eqs. (44) to (52); theory/NOTES.md, "Plasticity".

A rule reads a batch beside the broadcast memory and answers with w: 1 follows the data, 0 keeps
the memory. The paper's two rules contradict each other. A pure-noise batch disagrees with memory
as much as a novel one does: the entropy rule opens to both, the agreement rule shuts both out.
`Structure` tells them apart: novelty leaves outliers in the spectrum of what the memory does not
explain, noise does not.

With an empty memory every rule answers 1: there is nothing to keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from math import inf, isnan, nan
from typing import Any, Protocol

import numpy as np
from scipy.linalg import orth

from hopfed._lib.settings import check_types, require
from hopfed.hopfield.plasticity.agreement import (
    REFERENCES,
    binary_entropy,
    nearest_shares,
    reference_agreement,
    sign_agreement,
)
from hopfed.hopfield.plasticity.novelty import memory_share, novel_shares
from hopfed.kernels import PackedBits
from hopfed.spectral.rows import times


@dataclass(frozen=True)
class Broadcast:
    """What a client knows of the server's memory.

    Attributes
    ----------
    patterns : int8 (K, N) of +-1; K may be 0.
    quality : quality r of the federation as the server estimated it; above 0 where K is.

    Raises
    ------
    ArgumentError : patterns or a quality that are not so.

    Examples
    --------
    >>> Broadcast(np.zeros((0, 4), np.int8), quality=0.0).patterns.shape
    (0, 4)
    """

    patterns: np.ndarray = field(repr=False)
    quality: float

    def __post_init__(self) -> None:
        x = self.patterns
        good = isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype == np.int8
        require(good, "patterns", "int8 (K, N)", f"{getattr(x, 'dtype', '')} {np.shape(x)}")
        require(bool((np.abs(x) == 1).all()), "patterns", "-1 or +1 in every entry", "another")
        good = 0 < self.quality <= 1 or (self.quality == 0 and len(x) == 0)
        require(good, "quality", "in (0, 1], or 0 beside no patterns", self.quality)


@dataclass(frozen=True)
class Reading:
    """What a rule read off a batch; NaN for what it did not compute.

    Attributes
    ----------
    weight : w in [0, 1], the share of the fresh data in the blend (44).
    agreement : sign agreement p with the memory (arXiv:2603.19902, eq. (46)).
    error : standard error of p.
    memory : share r_mem^2 of the batch's variance that remembered archetypes explain.
    novelty : share r_new^2 that structure outside of them explains.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> known = Broadcast(np.ones((1, 6), np.int8), quality=0.8)
    >>> reading = Agreement()(pack(np.array([[1, 1, 1, 1, 1, -1]])), known, seed=0)
    >>> round(reading.weight, 2), round(reading.agreement, 2), reading.memory
    (0.52, 0.67, nan)
    """

    weight: float
    agreement: float = nan
    error: float = nan
    memory: float = nan
    novelty: float = nan


class Rule(Protocol):
    """A rule from a batch and the broadcast memory to a weight.

    Examples
    --------
    >>> def opens_to_few(rows: PackedBits, broadcast: Broadcast, *, seed: int) -> Reading:
    ...     return Reading(1.0 / (1 + len(rows)))
    >>> from hopfed.kernels import pack
    >>> opens_to_few(pack(np.ones((3, 2))), Broadcast(np.ones((1, 2), np.int8), 1.0), seed=0).weight
    0.25
    """

    def __call__(self, rows: PackedBits, broadcast: Broadcast, *, seed: int) -> Reading:
        """Read the fresh examples `rows`, (M, N), beside `broadcast`."""
        ...


class _Rule(ABC):
    """What the rules share: the checks, and the answer to an empty memory."""

    def __call__(self, rows: PackedBits, broadcast: Broadcast, *, seed: int) -> Reading:
        """Read the fresh examples `rows`, (M, N), beside `broadcast`."""
        K, N = broadcast.patterns.shape
        require(isinstance(rows, PackedBits), "rows", "PackedBits", type(rows).__name__)
        good = len(rows) >= 1 and rows.n == N >= 2
        require(good, "rows", f"one example or more of the {N} sites of the memory", rows.shape)
        return self._read(rows, broadcast, seed) if K else Reading(1.0)

    @abstractmethod
    def _read(self, rows: PackedBits, broadcast: Broadcast, seed: int) -> Reading: ...


@dataclass(frozen=True)
class Fixed(_Rule):
    """The same weight whatever the data say.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> memory = Broadcast(np.ones((1, 4), np.int8), quality=0.9)
    >>> Fixed(0.25)(pack(np.ones((3, 4))), memory, seed=0).weight
    0.25
    """

    weight: float = 0.6

    def __post_init__(self) -> None:
        check_types(self)
        require(0 <= self.weight <= 1, "weight", "in [0, 1]", self.weight)

    def _read(self, rows: PackedBits, broadcast: Broadcast, seed: int) -> Reading:  # noqa: ARG002
        return Reading(self.weight)


@dataclass(frozen=True)
class Entropy(_Rule):
    """``w = max(0, (h2(p) - h2(p0)) / (1 - h2(p0)))``: opens to whatever disagrees (49, 51).

    Drift and novelty open it, and so does noise. `floor` says what p0 is: "example" is the
    paper's ``(1 + r^2)/2``, the agreement of a single example of a single archetype. A batch of
    low quality exceeds it by far, and w is 0 even where half of it is noise; at a high quality
    the ties of an even K keep a familiar batch below it, and w is not 0. "batch" is what M
    examples of all the remembered archetypes, equally often, would show. A batch of some of them
    falls short of that: drift of the exposures is what this rule is to notice.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> xi = np.array([[1, 1, -1, 1]], np.int8)
    >>> Entropy()(pack(xi[[0, 0, 0]]), Broadcast(xi, quality=0.9), seed=0).weight
    0.0
    """

    floor: str = "batch"

    def __post_init__(self) -> None:
        require(self.floor in REFERENCES, "floor", "'batch' or 'example'", repr(self.floor))

    def _read(self, rows: PackedBits, broadcast: Broadcast, seed: int) -> Reading:
        r, M, xi = broadcast.quality, len(rows), broadcast.patterns
        p, error = sign_agreement(rows, xi, seed=seed)
        floor = binary_entropy(reference_agreement(self.floor, r, M, xi, seed=seed))
        weight = (binary_entropy(p) - floor) / (1 - floor)
        return Reading(min(max(weight, 0.0), 1.0), p, error)


@dataclass(frozen=True)
class Agreement(_Rule):
    """``w = clip((p - 1/2) / (p0 - 1/2), 0, 1)``: shuts out whatever disagrees.

    Source: theory/NOTES.md, "Agreement rule".

    Noise is shut out, and so is novelty. `reference` says what p0 is: "example" as in `Entropy`,
    "batch" for M examples with the exposures that the batch itself shows (each example counted
    for its nearest pattern), so that a client which holds some of the archetypes is not taken for
    a noisy one.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> xi = np.array([[1, 1, -1, 1]], np.int8)
    >>> Agreement()(pack(xi[[0, 0, 0]]), Broadcast(xi, quality=0.9), seed=0).weight
    1.0
    """

    reference: str = "batch"

    def __post_init__(self) -> None:
        known = self.reference in REFERENCES
        require(known, "reference", "'batch' or 'example'", repr(self.reference))

    def _read(self, rows: PackedBits, broadcast: Broadcast, seed: int) -> Reading:
        r, M, xi = broadcast.quality, len(rows), broadcast.patterns
        p, error = sign_agreement(rows, xi, seed=seed)
        shares = nearest_shares(rows, xi)
        p0 = reference_agreement(self.reference, r, M, xi, exposures=shares, seed=seed)
        return Reading(min(max((p - 0.5) / (p0 - 0.5), 0.0), 1.0), p, error)


@dataclass(frozen=True)
class Structure(_Rule):
    """Opens to novelty and shuts out noise: ``w = g (rest + (1 - rest) nu)``.

    Source: theory/NOTES.md, "Structure rule".

    ``r_mem^2`` and ``r_new^2`` are the shares of the batch's variance explained by remembered
    archetypes and by structure outside of them; the rest is noise. Their sum, relative to the
    ``r^2`` of the federation, is the quality factor ``g``, at most 1; ``nu`` is the novel part of
    it. Noise gets about 0, clean familiar data `rest`, clean novel data 1. What this batch alone
    cannot show, archetypes below its detection threshold, counts as noise.

    Parameters
    ----------
    rest : weight of clean data in which nothing is new.
    alpha : false-alarm rate of the test of each share on noise; a share that fails it is 0.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> rng = np.random.default_rng(0)
    >>> xi = rng.choice(np.array([-1, 1], np.int8), size=(2, 400))
    >>> known = Broadcast(xi[:1], quality=1.0)
    >>> [round(Structure()(pack(xi[[mu] * 50]), known, seed=0).weight, 2) for mu in (0, 1)]
    [0.5, 1.0]
    """

    rest: float = 0.5
    alpha: float = 1e-3

    def __post_init__(self) -> None:
        check_types(self)
        require(0 <= self.rest <= 1, "rest", "in [0, 1]", self.rest)
        require(0 < self.alpha < 1, "alpha", "a false-alarm rate in (0, 1)", self.alpha)

    def _read(self, rows: PackedBits, broadcast: Broadcast, seed: int) -> Reading:
        basis = orth(broadcast.patterns.T.astype(np.float64))
        inside = times(rows, basis)
        novel = novel_shares(rows, inside, basis, self.alpha, seed)
        memory, novelty = memory_share(inside, basis, novel, self.alpha), float(novel.sum())
        signal = memory + novelty
        quality = min(1.0, signal / broadcast.quality**2)
        new = novelty / signal if signal > 0 else 0.0
        weight = quality * (self.rest + (1 - self.rest) * new)
        return Reading(weight, memory=memory, novelty=novelty)


@dataclass(frozen=True)
class Smoothing:
    """How the weight follows its rule over the rounds.

    Source: arXiv:2603.19902, eq. (52); theory/NOTES.md, "Smoothing of the weight".

    ``dw = a (w_new - w) + momentum dw_before``, then ``|dw| <= limit`` and w within [0, 1].

    Parameters
    ----------
    ema : a of the exponential average, in (0, 1]; 1 follows the rule at once.
    limit : largest change in a round, above 0.
    momentum : share of the last change that is made again, in [0, 1).
    modulated : multiply a by the entropy ``h2(p)`` of the agreement, so that a batch that agrees
        with memory leaves the weight alone; a rule without agreement counts as entropy 1.

    Examples
    --------
    >>> slow = Smoothing(ema=0.5)
    >>> state = slow.step(None, Reading(1.0))
    >>> slow.step(state, Reading(0.0))[0]
    np.float64(0.5)
    """

    ema: float = 1.0
    limit: float = inf
    momentum: float = 0.0
    modulated: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        require(0 < self.ema <= 1, "ema", "in (0, 1]", self.ema)
        require(self.limit > 0, "limit", "above 0", self.limit)
        require(0 <= self.momentum < 1, "momentum", "in [0, 1)", self.momentum)

    def step(self, previous: np.ndarray | None, reading: Reading) -> np.ndarray:
        """Return (w, its last change) after `reading`; `previous` is that of before, or None."""
        if previous is None:
            return np.array([reading.weight, 0.0])
        w, velocity = previous
        opened = self.modulated and not isnan(reading.agreement)
        a = self.ema * (binary_entropy(reading.agreement) if opened else 1.0)
        change = a * (reading.weight - w) + self.momentum * velocity
        new = np.clip(w + np.clip(change, -self.limit, self.limit), 0.0, 1.0)
        return np.array([new, new - w])


RULES: dict[str, Callable[..., Rule]] = {
    "fixed": Fixed,
    "entropy": Entropy,
    "agreement": Agreement,
    "structure": Structure,
}


def rule(name: str, **settings: Any) -> Rule:
    """Return the rule `name` with `settings`.

    Examples
    --------
    >>> rule("structure", rest=0.4)
    Structure(rest=0.4, alpha=0.001)
    """
    require(name in RULES, "rule", f"one of {', '.join(RULES)}", repr(name))
    known = [f.name for f in fields(RULES[name])]  # type: ignore[arg-type]
    for setting in settings:
        require(setting in known, f"setting of {name}", f"one of {', '.join(known)}", setting)
    return RULES[name](**settings)
