"""`Pair`: one piece of work, its sizes, and two or more ways to do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hopfed._lib.random import stream

Point = Mapping[str, int]  # a size: letter -> number, as in {"M": 1000, "N": 4000}
Data = Mapping[str, Any]  # the inputs of a pair by name; arrays move with the device


@dataclass(frozen=True)
class Cost:
    """Smallest memory traffic and number of operations of a way, by formula.

    Attributes
    ----------
    bytes : bytes read and written by every pass over an input, output or array-sized temporary. If
        the array stays in a cache, a pass may be faster than copy bandwidth.
    operations : unit -> number. Units are "float32" and "float64" (additions and multiplications),
        "signed" (additions of float32 numbers, each with a sign), and "words" (one exclusive-or and
        population count of 64 bits).
    """

    bytes: float
    operations: Mapping[str, float]


@dataclass(frozen=True)
class Way:
    """One way to do the work at one size.

    Attributes
    ----------
    label : name in tables and figures.
    run : function from the result of `prepare` to the result of the work; only this is timed.
    cost : the `Cost`; if it depends on the number of iterations, a function of the result.
    prepare : function from the data to the format of this way (bits, a float copy); not timed.
    tolerance : largest allowed gap to the first way; None means that the gap is only reported.
    most : largest sizes for which this way is run; beyond them it would take minutes.
    """

    label: str
    run: Callable[[Any], Any]
    cost: Cost | Callable[[Any], Cost]
    prepare: Callable[[Data], Any] = dict
    tolerance: float | None = 0.0
    most: Point = field(default_factory=dict)

    def beyond(self, point: Point) -> str:
        """Return why this way is left out at `point`; empty if it is run."""
        over = [letter for letter, largest in self.most.items() if point[letter] > largest]
        return f"takes too long above {over[0]} = {self.most[over[0]]:,}" if over else ""


@dataclass(frozen=True)
class Sweep:
    """Sizes along a line: the letter `vary` takes `values`; letters in `fixed` do not change."""

    vary: str
    values: tuple[int, ...]
    fixed: Point

    def points(self) -> list[dict[str, int]]:
        """Sizes in order."""
        return [{self.vary: value, **self.fixed} for value in self.values]


def doubling(first: int, last: int) -> tuple[int, ...]:
    """Sizes from `first` to `last`, each twice the previous one.

    Examples
    --------
    >>> doubling(250, 1000)
    (250, 500, 1000)
    """
    return tuple(first << i for i in range((last // first).bit_length()))


def cross(centre: Point, **values: tuple[int, ...]) -> tuple[Sweep, ...]:
    """Sweeps along some letters of `centre`; the other letters keep their values.

    Examples
    --------
    >>> cross({"M": 5, "N": 9}, N=(3, 9))
    (Sweep(vary='N', values=(3, 9), fixed={'M': 5}),)
    """
    fixed = {letter: {k: n for k, n in centre.items() if k != letter} for letter in values}
    return tuple(Sweep(letter, along, fixed[letter]) for letter, along in values.items())


@dataclass(frozen=True)
class Target:
    """Ratio of the obvious way's time to the first way's that is required at `point`."""

    point: Point
    ratio: float


@dataclass(frozen=True)
class Pair:
    """One piece of work and its ways.

    Attributes
    ----------
    name, summary : name and one-line description in lists.
    setup : function from a generator and the sizes, as keywords, to the data.
    ways : function from the sizes, as keywords, to the ways: hopfed's first, the obvious way
        second. Ratios are relative to the second.
    gap : function from the results of two ways to their distance, 0 if they are equal.
    small, full : sweeps that take seconds, and minutes.
    quiet : data that replace others while results are compared. Ways that draw different random
        numbers are compared without noise.
    targets : ratios that the project aims at.
    cuda : whether the ways accept CuPy arrays as well as NumPy arrays.
    notes : function that returns sentences for below the table, called after all measurements.
    """

    name: str
    summary: str
    setup: Callable[..., Data]
    ways: Callable[..., tuple[Way, ...]]
    gap: Callable[[Any, Any], float]
    small: tuple[Sweep, ...]
    full: tuple[Sweep, ...]
    quiet: Data = field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    cuda: bool = False
    notes: Callable[[], list[str]] = list

    def data(self, point: Point) -> Data:
        """Draw the inputs at `point`; every call returns the same."""
        return self.setup(stream(0, "bench", self.name), **point)

    def sweeps(self, sizes: str) -> tuple[Sweep, ...]:
        """Sweeps of the sizes "small" or "full"."""
        return {"small": self.small, "full": self.full}[sizes]

    def points(self, sizes: str) -> list[dict[str, int]]:
        """All points of the sweeps `sizes` in order, each once."""
        found: list[dict[str, int]] = []
        for sweep in self.sweeps(sizes):
            found += [p for p in sweep.points() if p not in found]
        return found
