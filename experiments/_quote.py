"""Numbers of a kept summary in a sentence: ``"slope {slope|3}"`` -> ``"slope -.510 +- .005"``.

A field is a key of the summary, or ``config/`` and a setting, and after a bar words that say how
its value is printed:

- a number: decimals; whole numbers have none, and large ones have commas;
- ``%``: times 100;
- ``+``: with its sign;
- ``mean``: without the spread, where the value is a pair (value, spread);
- ``range``: the least and the greatest of a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_FIELD = re.compile(r"\{([^{}|]+)(?:\|([^{}]*))?\}")
_WORDS = {"%", "+", "mean", "range"}


def fill(template: str, kept: Mapping[str, Any]) -> str:
    """Return `template` with its fields filled in from a kept summary.

    Raises
    ------
    KeyError : there is no such key; the text names it.
    ValueError : a word after the bar has no meaning.

    Examples
    --------
    >>> kept = {"config": {"seeds": 50}, "summary": {"r/w = 0": [0.99381, 0.0015], "K": [3, 14]}}
    >>> fill("{r/w = 0|4}, {r/w = 0|1 % mean}% in {config/seeds} draws; K {K|range}", kept)
    '.9938 +- .0015, 99.4% in 50 draws; K 3 to 14'
    """
    return _FIELD.sub(lambda field: _text(_value(field[1], kept), field[2] or ""), template)


def fields(template: str) -> list[str]:
    """Keys that `template` asks for.

    Examples
    --------
    >>> fields("{gap|5} (plain: {gap_plain|3 mean})")
    ['gap', 'gap_plain']
    """
    return [key for key, _ in _FIELD.findall(template)]


def number(value: float, digits: int = 0, signed: bool = False) -> str:
    """Return `value` as this project's texts print it: no zero first, whole numbers whole.

    Examples
    --------
    >>> number(0.5, 2), number(-0.0123, 3), number(1.0, 3), number(0.9999, 3), number(2000)
    ('.50', '-.012', '1', '1.000', '2,000')
    """
    value = round(value, 12)  # 100 times a share may miss a whole number by a bit
    whole = value == int(value)
    text = f"{value:{'+' if signed else ''},.{0 if whole else digits}f}"
    return re.sub(r"^([+-]?)0\.", r"\1.", text)


def _value(key: str, kept: Mapping[str, Any]) -> Any:
    """A key of the summary may hold slashes itself; the whole of it comes first."""
    if key in kept["summary"]:
        return kept["summary"][key]
    first, _, rest = key.partition("/")
    parent = kept["config"] if first == "config" else kept["summary"].get(first)
    if not isinstance(parent, Mapping) or rest not in parent:
        raise KeyError(f"no {key!r} in the kept summary of {kept.get('kind')}")
    return parent[rest]


def _text(value: Any, how: str) -> str:
    words = how.split()
    digits = next((int(word) for word in words if word.isdigit()), 0)
    unknown = [word for word in words if not word.isdigit() and word not in _WORDS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} says nothing about a number; there are {sorted(_WORDS)}")
    factor = 100 if "%" in words else 1

    def one(x: float, signed: bool = "+" in words) -> str:
        return number(factor * x, digits, signed)

    if "range" in words:
        return f"{one(min(value))} to {one(max(value))}"
    if isinstance(value, (list, tuple)):
        middle, spread = value
        if "mean" in words or spread is None:
            return one(middle)
        return f"{one(middle)} +- {one(spread, signed=False)}"
    return value if isinstance(value, str) else one(value)
