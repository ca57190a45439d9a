"""What a client is to do as plain text, so that another machine can make it without a pickle.

A recipe is JSON: numbers, words, and dataclasses as the name of their class and their fields.
Nothing in it is code. Who reads it gives a list: the classes that may be made, and what each of
their fields may hold. What is not in the list is refused, in one line that names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from hopfed.errors import DataError, shown

LONGEST = 100_000  # characters of a recipe
SHOWN = 120  # characters of an error about a recipe


@dataclass(frozen=True)
class Kind:
    """What a field of a recipe may hold: in words, after "must be", and whether a value is so."""

    words: str
    holds: Callable[[Any], bool]


Allowed = Mapping[type, Mapping[str, Kind]]  # class -> field -> kind, and nothing else


def whole(least: int, most: int = 2**63 - 1) -> Kind:
    """Accept whole numbers from `least` to `most`; truth values are not among them."""
    words = f"a whole number from {least} to {most}"
    return Kind(words, lambda value: type(value) is int and least <= value <= most)


def real(least: float, most: float) -> Kind:
    """Accept numbers from `least` to `most`; NaN is not among them."""
    words = f"a number from {least:g} to {most:g}"
    return Kind(words, lambda value: type(value) in (int, float) and least <= value <= most)


def one_of(*values: str | bool) -> Kind:
    """Accept one of these words or truth values."""
    words = f"one of {', '.join(map(str, values))}"
    return Kind(words, lambda value: any(type(value) is type(x) and value == x for x in values))


def made(*classes: type) -> Kind:
    """Accept what a recipe makes of one of these classes."""
    words = " or ".join(f"a {cls.__name__}" for cls in classes)
    return Kind(words, lambda value: type(value) in classes)


def describe(value: Any) -> str:
    """Return the recipe of a dataclass."""

    def plain(part: Any) -> Any:
        if not is_dataclass(part):
            raise DataError(f"a {type(part).__name__} cannot be sent to another machine")
        return [type(part).__name__, {f.name: getattr(part, f.name) for f in fields(part)}]

    return json.dumps(value, default=plain)


def rebuild(text: str, allowed: Allowed) -> Any:
    """Make what a recipe describes, of classes that are allowed."""
    if len(text) > LONGEST:
        raise DataError(f"a recipe of more than {LONGEST:,} characters")
    try:
        return _rebuilt(json.loads(text), {cls.__name__: cls for cls in allowed}, allowed)
    except DataError:
        raise
    except (KeyError, TypeError, ValueError, RecursionError, ArithmeticError, MemoryError) as error:
        words = shown(error)[:SHOWN]
        raise DataError(f"not a recipe of this hopfed: {type(error).__name__}: {words}") from None


def _rebuilt(part: Any, names: Mapping[str, type], allowed: Allowed) -> Any:
    if not isinstance(part, list):
        return part
    name, kept = part
    if not isinstance(name, str) or name not in names:
        raise DataError(f"a recipe of {shown(name)}, which is not made here")
    cls, kinds, found = names[name], allowed[names[name]], {}
    for field, piece in kept.items():
        found[field] = _rebuilt(piece, names, allowed)
        if field not in kinds:
            raise DataError(f"a recipe with {shown(field)}, not a field of {name}")
        if not kinds[field].holds(found[field]):
            raise DataError(f"a recipe whose {name}.{field} is not {kinds[field].words}")
    return cls(**found)
