"""What a recipe from somebody who is not trusted may hold: a list, and nothing beside it.

A server that is not trusted sends its method as a recipe (`hopfed.federation.recipes`). Whoever
follows it lists the classes that may be made of it, and the type and the range of each of their
fields. What is not in the list is refused, in one line that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hopfed.errors import DataError, shown


@dataclass(frozen=True)
class Kind:
    """What a field of a recipe may hold.

    Attributes
    ----------
    words : says so to people, after "must be".
    holds : says so of a value.
    """

    words: str
    holds: Callable[[Any], bool]


def whole(least: int, most: int = 2**63 - 1) -> Kind:
    """Accept whole numbers from `least` to `most`; truth values are not among them."""
    words = f"a whole number from {least} to {most}"
    return Kind(words, lambda value: type(value) is int and least <= value <= most)


def real(least: float, most: float) -> Kind:
    """Accept numbers from `least` to `most`; NaN is not among them."""
    words = f"a number from {least:g} to {most:g}"
    return Kind(words, lambda value: type(value) in (int, float) and least <= value <= most)


def one_of(*values: str | bool | None) -> Kind:
    """Accept one of these words or truth values, or None."""

    def holds(value: Any) -> bool:
        return any(type(value) is type(each) and value == each for each in values)

    return Kind(f"one of {', '.join(map(str, values))}", holds)


def made(*classes: type) -> Kind:
    """Accept what a recipe makes of one of these classes."""
    words = " or ".join(f"a {cls.__name__}" for cls in classes)
    return Kind(words, lambda value: type(value) in classes)


@dataclass(frozen=True, eq=False)
class Allowed:
    """The classes that a recipe may name, and what each field of them may hold: nothing else.

    Attributes
    ----------
    classes : class -> field -> kind.
    """

    classes: Mapping[type, Mapping[str, Kind]]

    def make(self, name: object, kept: Mapping[str, Any]) -> Any:
        """Make an object of the class called `name` from its fields `kept`."""
        found = [cls for cls in self.classes if f"{cls.__module__}:{cls.__qualname__}" == name]
        if not found:
            raise DataError(f"a recipe of {shown(name)}, which is not made here")
        kinds = self.classes[found[0]]
        for field, value in kept.items():
            if field not in kinds:
                raise DataError(f"a recipe with {shown(field)}, not a field of {shown(name)}")
            if not kinds[field].holds(value):
                where = f"{found[0].__name__}.{field}"
                raise DataError(f"a recipe whose {where} is not {kinds[field].words}")
        return found[0](**kept)
