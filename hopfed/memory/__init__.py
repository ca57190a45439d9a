"""Associative memory: patterns are stored and recalled.

Patterns or an operator come in; the states in which the memory comes to rest go out.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "AssociativeMemory": "associative",
    "Basins": "basins",
    "LayeredMemory": "layered",
    "Recall": "associative",
}
_RULES = ("Dense", "Dreamed", "Exponential", "Hebb", "Layered", "Projector")
_NAMES = (*_HOMES, *_RULES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'rules')}"), name)


def __dir__() -> list[str]:
    return sorted(_NAMES)
