"""Dataclasses as named arrays and back: what a server knows from one exchange to the next."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from hopfed.federation.messages import Message, below

T = TypeVar("T")


class Lines:
    """A dataclass of arrays that have a line for each class or pattern."""

    def select(self, kept: np.ndarray) -> Self:
        """Keep some lines, by a mask or by indices."""
        return type(self)(**{f.name: getattr(self, f.name)[kept] for f in fields(self)})  # type: ignore[arg-type]

    def followed_by(self, other: Self) -> Self:
        """Put the lines of another one behind these."""
        both = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        return type(self)(**{name: np.concatenate(each) for name, each in both.items()})


def flatten(value: Any, **parts: Any) -> Message:
    """Arrays of a dataclass by the names of its fields, and of others below the names of `parts`.

    Numbers, words, dicts of arrays and dataclasses may be among them; of None nothing is kept.
    """
    named = {f.name: getattr(value, f.name) for f in fields(value)} if value is not None else {}
    found: Message = {}
    for name, each in (named | parts).items():
        if isinstance(each, dict) or is_dataclass(each):
            inner = each if isinstance(each, dict) else flatten(each)
            found |= {f"{name}/{key}": np.asarray(array) for key, array in inner.items()}
        elif isinstance(each, str):
            found[name] = np.frombuffer(each.encode(), np.uint8)
        elif each is not None:
            found[name] = np.asarray(each)
    return found


def unflatten(cls: type[T], arrays: Message) -> T:
    """Rebuild a dataclass from its arrays."""
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(cls).items():
        inner = [k for k in (kind, *get_args(kind)) if is_dataclass(k)]
        held = below(arrays, name)
        if inner:
            found[name] = unflatten(inner[0], held) if held else None  # type: ignore[arg-type]
        elif get_origin(kind) is dict:
            whole = all(key.lstrip("-").isdigit() for key in held)
            values = {key: a.item() if a.ndim == 0 else a for key, a in held.items()}
            found[name] = {int(key) if whole else key: value for key, value in values.items()}
        elif name in arrays and kind in (int, float, bool):
            found[name] = kind(arrays[name])
        elif name in arrays:
            found[name] = arrays[name].tobytes().decode() if kind is str else arrays[name]
    return cls(**{k: v for k, v in found.items() if v is not None})
