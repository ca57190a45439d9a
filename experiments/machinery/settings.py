"""Settings of an experiment, which `--set` changes: types, ranges and words by annotation.

A field is written ``N: Annotated[int, at_least(20), "sites"] = 400``. The range holds for each of
several values, and a setting outside of it is refused with the same words everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, TypeAlias, dataclass_transform, get_type_hints

from hopfed._lib.settings import check_types, describe, require
from hopfed.experiments import defaults

Ints: TypeAlias = tuple[int, ...]
Floats: TypeAlias = tuple[float, ...]
Words: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """Rule of a value, of each of several, or of several as a `whole`, and its words.

    Where settings bound each other, a function of all of them returns the rule.
    """

    each: Callable[[Any], bool]
    words: str
    whole: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value satisfies the rule."""
        apart = isinstance(value, tuple) and not self.whole
        return all(map(self.each, value)) if apart else self.each(value)


def at_least(low: float) -> Rule:
    """Rule for a setting of an experiment: `low` or more."""
    return Rule(lambda x: x >= low, f"at least {low:g}")


def above(low: float) -> Rule:
    """Rule for a setting of an experiment: more than `low`."""
    return Rule(lambda x: x > low, f"above {low:g}")


def within(interval: str) -> Rule:
    """Rule for a setting of an experiment: in an interval; round brackets, ``(0, 1]``, are open."""
    low, high = map(float, interval[1:-1].split(","))
    closed = {end for end, mark in ((low, interval[0]), (high, interval[-1])) if mark in "[]"}
    words = f"in {interval[0]}{low:g}, {high:g}{interval[-1]}"
    return Rule(lambda x: low < x < high or x in closed, words)


def among(names: Iterable[str]) -> Rule:
    """Rule for a setting of an experiment: one of these words."""
    known = tuple(names)
    return Rule(known.__contains__, f"among {', '.join(known)}")


RISING = Rule(lambda v: all(a < b for a, b in pairwise(v)), "rising", whole=True)


def like(name: str) -> Callable[[Any], Rule]:
    """Rule for a setting of an experiment: as many values as another setting has."""

    def rule(settings: Any) -> Rule:
        count = len(getattr(settings, name))
        return Rule(lambda v: len(v) == count, f"one for each of {count} {name}", whole=True)

    return rule


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True)
class Settings:
    """Settings of every experiment: how many seeds; a subclass adds fields.

    Defaults that the class lacks are in the table ``NAME.settings`` of claims.toml.
    """

    seeds: Annotated[int, at_least(1), "number of draws"] = 1

    def __init_subclass__(cls) -> None:
        inherited = get_type_hints(cls.__base__, include_extras=True)
        for name, value in defaults(cls.__module__.rpartition(".")[2]).items():
            setattr(cls, name, value)
            cls.__annotations__.setdefault(name, inherited.get(name))
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        check_types(self)
        for name, (rules, _) in field_rules(type(self)).items():  # type: ignore[arg-type]
            value = getattr(self, name)
            for asked in rules:
                rule = asked if isinstance(asked, Rule) else asked(self)
                require(rule.holds(value), name, rule.words, describe(value))
        self.validate()

    def validate(self) -> None:
        """Refuse wrong combinations of settings; rules check single ones."""

    def part(self, made: Any) -> dict[str, Any]:
        """Settings that are also fields of the class `made`."""
        return {f.name: getattr(self, f.name) for f in fields(made) if hasattr(self, f.name)}


class Federated(Settings):
    """Settings of a federation whose clients have equal numbers of examples."""

    N: Annotated[int, at_least(50), "sites"] = 400
    clients: Annotated[int, at_least(1)] = 3
    examples: Annotated[int, at_least(1), "examples of each client in a round"] = 100
    rounds: Annotated[int, at_least(1)] = 12


@cache
def field_rules(config: type) -> dict[str, tuple[list[Any], str]]:
    """Rules and words of each setting of an experiment."""
    names = {k: v for base in config.__mro__ for k, v in vars(sys.modules[base.__module__]).items()}
    hints = get_type_hints(config, names, include_extras=True)  # names in annotations
    found = {}
    for field in fields(config):
        said = getattr(hints[field.name], "__metadata__", ())
        rules = [x for x in said if not isinstance(x, str)]
        found[field.name] = rules, next((x for x in said if isinstance(x, str)), "")
    return found
