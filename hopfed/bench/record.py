"""What a benchmark is: one piece of work, its sizes, and two or more ways to do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Point = Mapping[str, int]  # a size: letter of the field -> number, as in {"M": 1000, "N": 4000}
Data = Mapping[str, Any]  # the input of a benchmark by name; arrays move with the device


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
    """One way to do the work.

    Attributes
    ----------
    label : name in tables and figures.
    run : from what `prepare` returned to the result; this is what is timed.
    cost : from the sizes, as keywords, to the `Cost`.
    prepare : from the data to the form in which this way holds them (bits, a float copy); not
        timed.
    most : largest sizes for which it is run; beyond them it would take minutes.
    tolerance : largest gap to the first way that counts as agreement; None where the two need not
        agree and the gap is only reported.
    observe : sizes that only the result knows (iterations made), handed to `cost` as well.
    """

    label: str
    run: Callable[[Any], Any]
    cost: Callable[..., Cost]
    prepare: Callable[[Data], Any] = dict
    most: Point = field(default_factory=dict)
    tolerance: float | None = 0.0
    observe: Callable[[Any], Point] = lambda _: {}

    def beyond(self, point: Point) -> str:
        """Say why this way is left out at `point`; empty when it is not."""
        for letter, largest in self.most.items():
            if point[letter] > largest:
                return f"takes too long above {letter} = {largest:,}"
        return ""


@dataclass(frozen=True)
class Sweep:
    """Sizes along a line: `vary` takes `values` while the `fixed` ones stay."""

    vary: str
    values: tuple[int, ...]
    fixed: Point

    def points(self) -> Iterator[dict[str, int]]:
        """Sizes in order."""
        for value in self.values:
            yield {self.vary: value, **self.fixed}

    def holds(self, point: Point) -> bool:
        """Tell whether `point` lies on this line."""
        return point in list(self.points())


@dataclass(frozen=True)
class Target:
    """The ratio to the obvious way that the first way shall reach at `point`."""

    point: Point
    ratio: float


@dataclass(frozen=True)
class Benchmark:
    """One piece of work and its ways.

    Attributes
    ----------
    name, summary : for lists.
    setup : from the sizes, as keywords, to the data.
    ways : hopfed's first, the obvious one second; ratios are to the second.
    gap : from the results of two ways to their distance, 0 when they are the same.
    sizes : "small" (seconds) and "full" (minutes) -> sweeps.
    quiet : the same data without noise, for ways that draw different random numbers; agreement is
        tested there.
    targets : set by the project.
    cuda : whether the ways take CuPy arrays as they take NumPy's.
    notes : sentences for below the table, asked for when all is measured.
    """

    name: str
    summary: str
    setup: Callable[..., Data]
    ways: tuple[Way, ...]
    gap: Callable[[Any, Any], float]
    sizes: Mapping[str, tuple[Sweep, ...]]
    quiet: Callable[[Data], Data] | None = None
    targets: tuple[Target, ...] = ()
    cuda: bool = False
    notes: Callable[[], list[str]] = list

    def points(self, sizes: str) -> list[dict[str, int]]:
        """All points of the sweeps `sizes`, each once, small ones first where sweeps cross."""
        found: list[dict[str, int]] = []
        for sweep in self.sizes[sizes]:
            found.extend(p for p in sweep.points() if p not in found)
        return found
