"""Dataclasses of arrays: as named arrays and back, and their lines."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

import numpy as np

from hopfed.federation.messages import Message


class Lines:
    """A dataclass of arrays that have a line for each class or pattern."""

    def select(self, kept: np.ndarray) -> Self:
        """Keep some lines, by a mask or by indices."""
        return type(self)(**{f.name: getattr(self, f.name)[kept] for f in fields(self)})  # type: ignore[arg-type]

    def followed_by(self, other: Self) -> Self:
        """Put the lines of another one behind these."""
        both = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        return type(self)(**{name: np.concatenate(each) for name, each in both.items()})


def flatten(value: Any, part: str = "") -> Message:
    """Arrays of a dataclass by the names of its fields, below the name of a `part`."""
    front = f"{part}/" if part else ""
    return {f"{front}{f.name}": np.asarray(getattr(value, f.name)) for f in fields(value)}
