"""A method as plain data, so that another machine can make it anew without a pickle.

A recipe is text and arrays: numbers, words, lists and dicts as JSON has them, arrays apart, and
dataclasses as the name of their class and their fields. Nothing in a recipe is code. Who does not
trust its writer gives a list: the classes that may be made, and the type and the range of each of
their fields. What is not in the list is refused, in one line that names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import PurePath
from typing import Any

import numpy as np

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


__all__ = ["describe", "rebuild"]

LONGEST = 100_000  # characters of a recipe from somebody who is not trusted
SHOWN = 120  # characters of an error about a recipe

_PLAIN = (bool, int, float, str, type(None))
_NOT_A_RECIPE = (
    *(KeyError, TypeError, ValueError, AttributeError, ImportError),
    *(RecursionError, ArithmeticError, MemoryError),
)

Trusted = Allowed | None


def describe(value: Any) -> tuple[str, dict[str, np.ndarray]]:
    """Return the recipe of `value`: text, and the arrays that the text refers to by name."""
    arrays: dict[str, np.ndarray] = {}
    return json.dumps(_described(value, "method", arrays)), arrays


def rebuild(text: str, arrays: Mapping[str, np.ndarray], trusted: Trusted) -> Any:
    """Make what a recipe describes."""
    if trusted is not None and (len(text) > LONGEST or arrays):
        raise DataError(f"a recipe of more than {LONGEST:,} characters, or with arrays")
    try:
        return _rebuilt(json.loads(text), arrays, trusted)
    except DataError:
        raise
    except _NOT_A_RECIPE as error:
        words = " ".join(str(error).split())[:SHOWN]
        raise DataError(f"not a recipe of this hopfed: {type(error).__name__}: {words}") from None


def _described(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Part of the text; whatever is not a number or a word is a list that begins with its kind."""

    def inner(key: object, part: Any) -> Any:
        return _described(part, f"{name}/{key}", arrays)

    if isinstance(value, (np.generic, np.ndarray)):
        arrays[name] = np.asarray(value)
        return ["array" if isinstance(value, np.ndarray) else "number", name]
    if type(value) in _PLAIN:
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, [inner(i, part) for i, part in enumerate(value)]]
    if isinstance(value, Mapping):
        return ["dict", [[inner("key", k), inner(k, part)] for k, part in value.items()]]
    cls = type(value)
    if is_dataclass(value) and "<locals>" not in cls.__qualname__:
        kept = {f.name: inner(f.name, getattr(value, f.name)) for f in fields(value) if f.init}
        return ["made", f"{cls.__module__}:{cls.__qualname__}", kept]
    raise DataError(f"{name}: a {cls.__name__} cannot be sent to another machine")


def _rebuilt(part: Any, arrays: Mapping[str, np.ndarray], trusted: Trusted) -> Any:
    if not isinstance(part, list):
        return part

    def inner(piece: Any) -> Any:
        return _rebuilt(piece, arrays, trusted)

    kind, *rest = part
    if kind == "made":
        name, kept = rest
        pieces = {field: inner(piece) for field, piece in kept.items()}
        if trusted is not None:
            return trusted.make(name, pieces)
        return _class(name)(**pieces)
    (content,) = rest
    makers: dict[str, Callable[[], Any]] = {
        "array": lambda: arrays[content],
        "number": lambda: arrays[content][()],
        "list": lambda: [inner(piece) for piece in content],
        "tuple": lambda: tuple(inner(piece) for piece in content),
        "dict": lambda: {inner(k): inner(v) for k, v in content},
    }
    return makers[kind]()


def _class(name: str) -> type:
    module, _, path = name.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if not (isinstance(found, type) and is_dataclass(found) and found.__module__ == module):
        raise DataError(f"{shown(name)}: not a dataclass of that module")
    return found
