"""Fields of an experiment, which are what `--set` takes: kinds, ranges and words by annotation.

A field is written ``N: Annotated[int, at_least(20), "sites"] = 400``. The range holds for each of
several values, and a setting outside of it is refused with the same words whoever gave it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, TypeAlias, get_type_hints

import numpy as np

from hopfed._lib.settings import check_types, describe, require
from hopfed.errors import ArgumentError

MOST_SEEDS = 1_000_000

Ints: TypeAlias = tuple[int, ...]
Floats: TypeAlias = tuple[float, ...]
Words: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Range:
    """Where a number lies: ``low <= x <= high``, without the ends in `open`; perhaps rising.

    Examples
    --------
    >>> at_least(2).holds((2, 5)), at_least(2).words((1,)), above(0).words(0)
    (True, 'at least 2 each', 'above 0')
    >>> within("(0, 1]").holds((0.5, 1)), within("(0, 1]").holds(0), within("[0, 2)").words(3)
    (True, False, 'in [0, 2)')
    """

    low: float = -math.inf
    high: float = math.inf
    open: tuple[bool, bool] = (False, False)
    rising: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value, or each of several, lies there."""
        values = value if isinstance(value, tuple) else (value,)
        above = all(x > self.low or (x == self.low and not self.open[0]) for x in values)
        below = all(x < self.high or (x == self.high and not self.open[1]) for x in values)
        ordered = all(a < b for a, b in pairwise(values))
        return above and below and (ordered or not self.rising)

    def words(self, value: Any) -> str:
        """What a message says."""
        ends = f"{'[('[self.open[0]]}{self.low:g}, {self.high:g}{'])'[self.open[1]]}"
        lower = f"{'above' if self.open[0] else 'at least'} {self.low:g}"
        text = lower if self.high == math.inf else f"in {ends}"
        text += " each" * (isinstance(value, tuple) and self.high == math.inf)
        return f"rising, {text}" if self.rising else text


@dataclass(frozen=True)
class Among:
    """A word, or each of several, is one of `names`."""

    names: tuple[str, ...]

    def holds(self, value: Any) -> bool:
        """Whether it is."""
        return set(value if isinstance(value, tuple) else (value,)) <= set(self.names)

    def words(self, value: Any) -> str:
        """What a message says."""
        return f"{'among' if isinstance(value, tuple) else 'one of'} {', '.join(self.names)}"


def at_least(low: float, *, rising: bool = False) -> Range:
    """From `low` on."""
    return Range(low, rising=rising)


def above(low: float) -> Range:
    """Beyond `low`."""
    return Range(low, open=(True, False))


def within(interval: str, *, rising: bool = False) -> Range:
    """In an interval such as ``(0, 1]``, whose round ends do not belong to it."""
    low, high = map(float, interval[1:-1].split(","))
    return Range(low, high, (interval[0] == "(", interval[-1] == ")"), rising)


def among(names: Iterable[str]) -> Among:
    """One of these words."""
    return Among(tuple(names))


@dataclass(frozen=True)
class Settings:
    """What every experiment asks: how many seeds; a subclass adds its own fields.

    Raises
    ------
    ArgumentError : a value of another kind, or outside of its range.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Config(Settings):
    ...     N: Annotated[int, at_least(20), "sites"] = 400
    >>> Config(N=3)
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: N must be at least 20, got 3
    """

    seeds: Annotated[int, at_least(1), "draws"] = 1

    def __post_init__(self) -> None:
        check_types(self)
        for name, (rule, _) in _annotations(type(self)).items():  # type: ignore[arg-type]
            value = getattr(self, name)
            if rule is not None and not rule.holds(value):
                raise ArgumentError(name, rule.words(value), describe(value))
        self.validate()

    def validate(self) -> None:
        """Refuse what no range of a single field says."""

    def same_length(self, first: str, *others: str) -> None:
        """Refuse fields that do not have a value for each of those of `first`."""
        count = len(getattr(self, first))
        for name in others:
            value = getattr(self, name)
            require(len(value) == count, name, f"one for each of {count} {first}", describe(value))


class Mixed(Settings):
    """Settings that have `exposures`."""

    exposures: tuple[float, ...]

    @property
    def mixture(self) -> np.ndarray:
        """(K,) normalised exposures."""
        return np.array(self.exposures) / sum(self.exposures)


def words_of(config: type) -> dict[str, str]:
    """What each field is, by its name."""
    return {name: words for name, (_, words) in _annotations(config).items()}


@cache
def _annotations(config: type) -> Mapping[str, tuple[Range | Among | None, str]]:
    """Range and words of each field; resolving annotations takes a millisecond."""
    hints = get_type_hints(config, include_extras=True)
    found = {}
    for field in fields(config):
        said = getattr(hints[field.name], "__metadata__", ())
        rule = next((x for x in said if isinstance(x, (Range, Among))), None)
        found[field.name] = rule, next((x for x in said if isinstance(x, str)), "")
    rule, words = found["seeds"]
    found["seeds"] = rule or at_least(1), words or "draws"  # where a class has its own default
    return found
