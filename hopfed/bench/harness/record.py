"""What a pair is: one piece of work, its sizes, and two or more ways to do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hopfed._lib.random import stream

Point = Mapping[str, int]  # a size: letter of the field -> number, as in {"M": 1000, "N": 4000}
Data = Mapping[str, Any]  # the inputs of a pair by name; arrays move with the device


@dataclass(frozen=True)
class Cost:
    """What a way must move and compute at least, by formula.

    Attributes
    ----------
    bytes : read and written by every pass over an input, output or array-sized temporary. Where
        the array stays in a cache, a pass is faster than copy bandwidth allows.
    operations : unit -> number. Units are "float32" and "float64" (additions and multiplications)
        and "words" (one exclusive-or and population count of 64 bits).
    """

    bytes: float
    operations: Mapping[str, float]


@dataclass(frozen=True)
class Way:
    """One way to do the work at one size.

    Attributes
    ----------
    label : name in tables and figures.
    run : from what `prepare` returned to the result; this is what is timed.
    cost : the `Cost`, or a function from the result to it, where iterations count.
    prepare : from the data to the form in which this way holds them (bits, a float copy); untimed.
    tolerance : largest gap to the first way that counts as agreement; None where the two need not
        agree and the gap is only reported.
    most : largest sizes for which it is run; beyond them it would take minutes.
    """

    label: str
    run: Callable[[Any], Any]
    cost: Cost | Callable[[Any], Cost]
    prepare: Callable[[Data], Any] = dict
    tolerance: float | None = 0.0
    most: Point = field(default_factory=dict)

    def beyond(self, point: Point) -> str:
        """Say why this way is left out at `point`; empty when it is not."""
        over = [letter for letter, largest in self.most.items() if point[letter] > largest]
        return f"takes too long above {over[0]} = {self.most[over[0]]:,}" if over else ""


@dataclass(frozen=True)
class Sweep:
    """Sizes along a line: `vary` takes `values` while the `fixed` ones stay."""

    vary: str
    values: tuple[int, ...]
    fixed: Point

    def points(self) -> list[dict[str, int]]:
        """Sizes in order."""
        return [{self.vary: value, **self.fixed} for value in self.values]


def doubling(first: int, last: int) -> tuple[int, ...]:
    """Sizes from `first` to `last`, each twice the one before.

    Examples
    --------
    >>> doubling(250, 1000)
    (250, 500, 1000)
    """
    return tuple(first << i for i in range((last // first).bit_length()))


def cross(centre: Point, **values: tuple[int, ...]) -> tuple[Sweep, ...]:
    """Sweeps along some letters of `centre`, the others fixed there.

    Examples
    --------
    >>> cross({"M": 5, "N": 9}, N=(3, 9))
    (Sweep(vary='N', values=(3, 9), fixed={'M': 5}),)
    """
    fixed = {letter: {k: n for k, n in centre.items() if k != letter} for letter in values}
    return tuple(Sweep(letter, along, fixed[letter]) for letter, along in values.items())


@dataclass(frozen=True)
class Target:
    """The ratio to the obvious way that the first way shall reach at `point`."""

    point: Point
    ratio: float


@dataclass(frozen=True)
class Pair:
    """One piece of work and its ways.

    Attributes
    ----------
    name, summary : for lists.
    setup : from a generator and the sizes, as keywords, to the data.
    ways : from the sizes, as keywords, to the ways: hopfed's first, the obvious one second; ratios
        are to the second.
    gap : from the results of two ways to their distance, 0 when they are the same.
    small, full : sweeps that take seconds, and minutes.
    quiet : what the data hold instead while the results are compared, for ways that draw different
        random numbers: no noise.
    targets : set by the project.
    cuda : whether the ways take CuPy arrays as they take NumPy's.
    notes : sentences for below the table, asked for when all is measured.
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
        """Draw the inputs at `point`, the same at every call."""
        return self.setup(stream(0, "bench", self.name), **point)

    def sweeps(self, sizes: str) -> tuple[Sweep, ...]:
        """Sweeps of the sizes "small" or "full"."""
        return {"small": self.small, "full": self.full}[sizes]

    def points(self, sizes: str) -> list[dict[str, int]]:
        """All points of the sweeps `sizes`, each once, small ones first where sweeps cross."""
        found: list[dict[str, int]] = []
        for sweep in self.sweeps(sizes):
            found += [p for p in sweep.points() if p not in found]
        return found
