"""Settings: frozen dataclasses whose fields are checked, parsed by `--set key=value`, and stored.

Annotations may be int, float, str, bool, or a tuple of one type such as ``tuple[float, ...]``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, fields, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hopfed.errors import ArgumentError

C = TypeVar("C")

_RULES = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
MOST = 10**9  # largest whole number of a setting given as text: a count, not a seed
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?inf(inity)?", re.IGNORECASE
)
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def require(holds: bool, argument: str, rule: str, got: object) -> None:
    """Raise ArgumentError unless a rule of a setting, or of another argument, `holds`."""
    if not holds:
        raise ArgumentError(argument, rule, got)


def hint(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a hint at the nearest of the `known` names, of settings say, for a rule; or ""."""
    near = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" (did you mean {near[0]}?)" if near else ""


def check_types(config: Any) -> None:
    """Check every setting, a field of the dataclass `config`, against its annotation.

    An int is accepted as a float; a whole number has at most 64 bits; a tuple may be empty only if
    its default is, and a number infinite only if the default has an infinite number. Fields of
    other types are not checked.
    """
    for name, kind in _kinds(type(config)).items():
        value, element = getattr(config, name), _element(kind)
        if element is None:
            require(_is(value, kind), name, _RULES[kind], repr(value))
        else:
            default = getattr(type(config), name, None)
            holds = isinstance(value, tuple) and all(_is(v, element) for v in value)
            holds = holds and (len(value) > 0 or default == ())
            require(holds, name, f"a tuple, each {_RULES[element]}", repr(value))
        if (element or kind) is float and name not in _unbounded(type(config)):
            finite = all(map(math.isfinite, value if element else (value,)))
            require(finite, name, "finite", describe(value))


def with_settings(config: C, settings: Iterable[str], argument: str = "--set") -> C:
    """Return `config` with settings replaced as by --set ``key=value``; lists are ``a,b,c``."""
    kinds, changes = _kinds(type(config)), dict[str, Any]()
    for setting in settings:
        name, sign, text = (part.strip() for part in setting.partition("="))
        require(bool(sign), argument, "of the form key=value", repr(setting))
        rule = f"one of {', '.join(kinds)}{hint(name, kinds)}"
        rule = rule if kinds else f"left out: {type(config).__name__} has no settings"
        require(name in kinds, argument, rule, repr(name))
        require(name not in changes, argument, "given once for each setting", repr(name))
        if (element := _element(kinds[name])) is None:
            changes[name] = _scalar(name, text, kinds[name], _RULES[kinds[name]])
        else:
            rule = f"{_RULES[element]} or several separated by commas"
            parts = map(str.strip, text.split(","))
            changes[name] = tuple(_scalar(name, part, element, rule) for part in parts)
    return replace(config, **changes)  # type: ignore[type-var]


def to_plain(config: Any) -> dict[str, Any]:
    """Return the settings of `config` as JSON values: tuples become lists, infinity a string."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return [plain(v) for v in value]
        return str(value) if isinstance(value, float) and math.isinf(value) else value

    return {name: plain(value) for name, value in asdict(config).items()}


def from_plain(cls: type[C], values: Mapping[str, Any]) -> C:
    """Build settings, a config of type `cls`, from the JSON values of :func:`to_plain`."""
    kinds = _kinds(cls)

    def parsed(value: Any, kind: Any) -> Any:
        if isinstance(value, list):
            return tuple(parsed(v, _element(kind)) for v in value)
        return float(value) if kind is float and value in ("inf", "-inf") else value

    require(isinstance(values, Mapping), "config", "settings by name", type(values).__name__)
    due = {f.name for f in fields(cls) if f.default is f.default_factory is MISSING}  # type: ignore[arg-type]
    known = due & set(kinds) <= set(values) <= set(kinds)
    require(known, "config", f"of the fields {', '.join(kinds)}", ", ".join(values) or "none")
    return cls(**{name: parsed(value, kinds[name]) for name, value in values.items()})


def parse_whole(name: str, text: str, rule: str = _RULES[int], *, most: int = (1 << 63) - 1) -> int:
    """Parse the `text` of a setting as a whole number in decimal ASCII digits."""
    require(bool(_WHOLE.fullmatch(text)), name, rule, repr(text))
    require(abs(int(text)) <= most, name, f"{rule} of at most {most:,}", text)
    return int(text)


def parse_real(name: str, text: str, rule: str = _RULES[float]) -> float:
    """Parse the `text` of a setting as a number in ASCII digits: ``inf`` is taken, ``nan`` not."""
    holds = bool(_NUMBER.fullmatch(text))
    value = float(text) if holds else math.nan
    require(math.isfinite(value) or (holds and "i" in text.lower()), name, rule, repr(text))
    return value


def describe(value: Any) -> str:
    """Return a setting in the form that `--set` accepts."""
    if isinstance(value, (tuple, list)):
        return ",".join(describe(v) for v in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _found_kinds(cls: Any) -> dict[str, Any]:
    """Annotations of the fields that are settings: single values, and tuples of them."""
    hints = get_type_hints(cls)
    kinds = {f.name: hints[f.name] for f in fields(cls)}
    return {name: kind for name, kind in kinds.items() if (_element(kind) or kind) in _RULES}


def _found_unbounded(cls: Any) -> set[str]:
    """Fields with an infinite number in their default."""
    held = {f.name: f.default for f in fields(cls)}
    ends = {math.inf, -math.inf}
    return {n for n, v in held.items() if not ends.isdisjoint(v if isinstance(v, tuple) else (v,))}


_kinds: Callable[[Any], dict[str, Any]] = cache(_found_kinds)  # cached: it takes a millisecond
_unbounded: Callable[[Any], set[str]] = cache(_found_unbounded)


def _element(kind: Any) -> type | None:
    """Type of the elements of a tuple annotation, None for a single value."""
    element = get_args(kind)[0] if get_origin(kind) is tuple else None
    return element if element in _RULES else None


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool) or kind in (bool, str):
        return isinstance(value, bool) if kind is bool else kind is str and isinstance(value, str)
    if kind is int:
        return isinstance(value, int) and -(1 << 63) <= value < 1 << 63
    return isinstance(value, (int, float)) and not math.isnan(value)


def _scalar(name: str, text: str, kind: type, rule: str) -> Any:
    if kind is int:
        return parse_whole(name, text, rule, most=MOST)
    if kind is float:
        return parse_real(name, text, rule)
    require(text.lower() in _BOOLEANS if kind is bool else bool(text), name, rule, repr(text))
    return _BOOLEANS[text.lower()] if kind is bool else text
