"""Fields of an experiment, which are what `--set` takes: kinds, ranges and words by annotation.

A field is written ``N: Annotated[int, at_least(20), "sites"] = 400``. The range holds for each of
several values, and a setting outside of it is refused with the same words whoever gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypeAlias, dataclass_transform, get_type_hints

import numpy as np

from hopfed._lib.settings import check_types, describe, require
from hopfed.errors import ArgumentError

Ints: TypeAlias = tuple[int, ...]
Floats: TypeAlias = tuple[float, ...]
Words: TypeAlias = tuple[str, ...]

MOST_SEEDS = 1_000_000


@dataclass(frozen=True)
class Rule:
    """What a value, or each of several, must be, and what a message says of one and of several."""

    each: Callable[[Any], bool]
    one: str
    several: str
    rising: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value is as it must be."""
        values = value if isinstance(value, tuple) else (value,)
        ordered = not self.rising or all(a < b for a, b in pairwise(values))
        return ordered and all(map(self.each, values))

    def words(self, value: Any) -> str:
        """What a message says of a value."""
        return "rising, " * self.rising + (self.several if isinstance(value, tuple) else self.one)


def at_least(low: float, *, rising: bool = False) -> Rule:
    """From `low` on."""
    return Rule(lambda x: x >= low, f"at least {low:g}", f"at least {low:g} each", rising)


def above(low: float) -> Rule:
    """Beyond `low`."""
    return Rule(lambda x: x > low, f"above {low:g}", f"above {low:g} each")


def within(interval: str, *, rising: bool = False) -> Rule:
    """In an interval such as ``(0, 1]``, whose round ends do not belong to it."""
    low, high = map(float, interval[1:-1].split(","))
    closed = {end for end, mark in ((low, interval[0]), (high, interval[-1])) if mark in "[]"}
    words = f"in {interval[0]}{low:g}, {high:g}{interval[-1]}"
    return Rule(lambda x: low < x < high or x in closed, words, words, rising)


def among(names: Iterable[str]) -> Rule:
    """One of these words."""
    known = tuple(names)
    return Rule(known.__contains__, f"one of {', '.join(known)}", f"among {', '.join(known)}")


@dataclass_transform(frozen_default=True)
class _Frozen:
    """What makes each subclass a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True)(cls)


class Settings(_Frozen):
    """What every experiment asks: how many seeds; a subclass adds fields, with their defaults."""

    seeds: Annotated[int, at_least(1), "draws"] = 1

    def __post_init__(self) -> None:
        check_types(self)
        for name, (rule, _) in annotated(type(self)).items():  # type: ignore[arg-type]
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
    """Settings with exposures of archetypes."""

    exposures: Annotated[Floats, above(0), "shares of the archetypes"] = (0.5, 0.3, 0.2)

    @property
    def mixture(self) -> np.ndarray:
        """(K,) normalised exposures."""
        return np.array(self.exposures) / sum(self.exposures)


@cache
def annotated(config: type) -> dict[str, tuple[Rule | None, str]]:
    """Range and words of each field."""
    hints = get_type_hints(config, include_extras=True)
    found = {}
    for field in fields(config):
        said = getattr(hints[field.name], "__metadata__", ())
        rule = next((x for x in said if isinstance(x, Rule)), None)
        found[field.name] = rule, next((x for x in said if isinstance(x, str)), "")
    rule, words = found["seeds"]
    found["seeds"] = rule or at_least(1), words or "draws"  # where a class has its own default
    return found
