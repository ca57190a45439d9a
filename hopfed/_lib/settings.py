"""Settings of experiments: frozen dataclasses whose fields are checked, parsed and stored.

The fields of a config are the only source of an experiment's options: `--set key=value` is parsed
by the annotation of the field, and a run file holds the fields by name. Annotations may be int,
float, str, bool, and tuples of one of them such as ``tuple[float, ...]``.
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
MOST = 10**9  # of a whole number that a setting is given as text: a count, not a seed
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?inf(inity)?", re.IGNORECASE
)
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def require(holds: bool, argument: str, rule: str, got: object) -> None:
    """Raise ArgumentError unless `holds`."""
    if not holds:
        raise ArgumentError(argument, rule, got)


def hint(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The nearest of the names that are `known`, as words behind a rule; empty if none is near."""
    near = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" (did you mean {near[0]}?)" if near else ""


def check_types(config: Any) -> None:
    """Check every field of the dataclass `config` against its annotation.

    An int where a float is due is accepted; a config calls this first in its `__post_init__`.
    A whole number has at most 64 bits. A tuple is empty only where its default is. A number may be
    infinite only in a field whose default is, or has an infinite one among others. Fields of other
    types check themselves.
    """
    for name, kind in _kinds(type(config)).items():
        value = getattr(config, name)
        element = _element(kind)
        if element is None:
            require(_is(value, kind), name, _RULES[kind], repr(value))
        else:
            holds = isinstance(value, tuple) and all(_is(v, element) for v in value)
            some = len(value) > 0 if holds and getattr(type(config), name, None) != () else holds
            require(some, name, f"a tuple, each {_RULES[element]}", repr(value))
        if (element or kind) is float and name not in _unbounded(type(config)):
            finite = all(map(math.isfinite, value if element else (value,)))
            require(finite, name, "finite", describe(value))


def with_settings(config: C, settings: Iterable[str]) -> C:
    """Return `config` with fields replaced as in ``key=value``; lists are written ``a,b,c``."""
    kinds = _kinds(type(config))
    changes = {}
    for setting in settings:
        name, sign, text = setting.partition("=")
        name = name.strip()
        require(bool(sign), "--set", "of the form key=value", repr(setting))
        if name not in kinds:
            raise ArgumentError(
                "--set", f"one of {', '.join(kinds)}{hint(name, kinds)}", repr(name)
            )
        require(name not in changes, "--set", "given once for each setting", repr(name))
        kind, element = kinds[name], _element(kinds[name])
        if element is None:
            changes[name] = _scalar(name, text.strip(), kind, _RULES[kind])
        else:
            rule = f"{_RULES[element]} or several separated by commas"
            parts = text.split(",")
            changes[name] = tuple(_scalar(name, p.strip(), element, rule) for p in parts)
    return replace(config, **changes)  # type: ignore[type-var]


def to_plain(config: Any) -> dict[str, Any]:
    """Return the fields of `config` as JSON values: tuples become lists, infinity a word."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return [plain(v) for v in value]
        return str(value) if isinstance(value, float) and math.isinf(value) else value

    return {name: plain(value) for name, value in asdict(config).items()}


def from_plain(cls: type[C], values: Mapping[str, Any]) -> C:
    """Build a config of type `cls` from the JSON values of :func:`to_plain`."""
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


def whole(name: str, text: str, rule: str = _RULES[int], *, most: int = (1 << 63) - 1) -> int:
    """Return the whole number that `text` is, in decimal digits of ASCII."""
    require(bool(_WHOLE.fullmatch(text)), name, rule, repr(text))
    require(abs(int(text)) <= most, name, f"{rule} of at most {most:,}", text)
    return int(text)


def real(name: str, text: str, rule: str = _RULES[float]) -> float:
    """Return the number that `text` is, in decimal digits of ASCII; ``inf`` is one, ``nan`` not."""
    holds = bool(_NUMBER.fullmatch(text))
    value = float(text) if holds else math.nan
    require(math.isfinite(value) or (holds and "i" in text.lower()), name, rule, repr(text))
    return value


def describe(value: Any) -> str:
    """Return a setting as `--set` takes it."""
    if isinstance(value, (tuple, list)):
        return ",".join(describe(v) for v in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _found_kinds(cls: Any) -> dict[str, Any]:
    """Annotations of the fields that are settings: single values, and tuples of them."""
    hints = get_type_hints(cls)
    kinds = {f.name: hints[f.name] for f in fields(cls)}
    return {name: kind for name, kind in kinds.items() if (_element(kind) or kind) in _RULES}


def _found_unbounded(cls: Any) -> set[str]:
    """Fields whose defaults have infinity in them."""
    defaults = {f.name: f.default for f in fields(cls)}
    held = {name: v if isinstance(v, tuple) else (v,) for name, v in defaults.items()}
    return {name for name, values in held.items() if math.inf in values or -math.inf in values}


_kinds: Callable[[Any], dict[str, Any]] = cache(_found_kinds)  # it takes a millisecond
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
    if kind is bool:
        require(text.lower() in _BOOLEANS, name, rule, repr(text))
        return _BOOLEANS[text.lower()]
    if kind is int:
        return whole(name, text, rule, most=MOST)
    if kind is float:
        return real(name, text, rule)
    require(bool(text), name, rule, repr(text))
    return text
