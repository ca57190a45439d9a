"""Blends and gates of an old with a new array, and a store of bounded size.

Source: theory/NOTES.md, "Blends, gates and bounded stores".

The Hopfield federation blends operators, SoHip gates memories, FedSSA fuses head rows and kNN-Per
stores examples with the operations of this module. They take arrays of NumPy, CuPy or torch and
return arrays of the same library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hopfed._lib.arrays import Array, namespace
from hopfed.errors import ArgumentError

RULES = ("concatenate", "fifo", "fixed")


def blend(old: Array, new: Array, weight: float | Array) -> Array:
    """Return ``(1 - w) old + w new``, as in arXiv:2603.19902, eqs. (30), (44), (52).

    Parameters
    ----------
    weight : w in [0, 1], one number or an array that broadcasts against `old`.

    Examples
    --------
    >>> blend(np.array([0.0, 4.0]), np.array([2.0, 0.0]), 0.25).tolist()
    [0.5, 3.0]
    """
    if isinstance(weight, (int, float)) and not 0 <= weight <= 1:
        raise ArgumentError("weight", "in [0, 1]", weight)
    return gate(old, new, 1 - weight, weight)


def gate(old: Array, new: Array, keep: float | Array, take: float | Array) -> Array:
    """Return ``keep * old + take * new``; `keep` and `take` need not add up to one.

    As in SoHip (arXiv:2603.25614, eq. (9)) and FedSSA (arXiv:2312.09006, eq. (4)).

    Examples
    --------
    >>> gate(np.array([1.0]), np.array([1.0]), 1.0, 0.5).tolist()
    [1.5]
    """
    if tuple(old.shape) != tuple(new.shape):
        raise ArgumentError("new", f"of the shape {tuple(old.shape)} of old", tuple(new.shape))
    namespace(old, new)
    return keep * old + take * new


@dataclass(frozen=True)
class Store:
    """Rows up to a capacity, and the rule by which new rows replace old ones.

    Rules: "concatenate" keeps all rows and has no capacity; "fifo" keeps the last rows; "fixed"
    keeps the first.

    Attributes
    ----------
    capacity : largest number of rows; None, for "concatenate" only, means no limit.
    rule : which rows are kept when the store is full.
    columns : name -> array; all have one row per entry, (n, ...).
    seen : number of rows that were ever added.

    Examples
    --------
    >>> store = Store(2, "fifo").add({"x": np.array([1, 2, 3])})
    >>> store.columns["x"].tolist(), store.seen
    ([2, 3], 3)
    """

    capacity: int | None = None
    rule: str = "concatenate"
    columns: Mapping[str, Array] = field(default_factory=dict, repr=False)
    seen: int = 0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ArgumentError("rule", f"one of {', '.join(RULES)}", self.rule)
        if (self.capacity is None) != (self.rule == "concatenate"):
            raise ArgumentError("capacity", "given, except for concatenate", self.capacity)
        if self.capacity is not None and self.capacity < 0:
            raise ArgumentError("capacity", "at least 0", self.capacity)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def add(self, columns: Mapping[str, Array]) -> Store:
        """Return the store after adding the rows of `columns`, in order."""
        sizes = {len(column) for column in columns.values()}
        if len(sizes) != 1:
            raise ArgumentError("columns", "at least one, all of as many rows", sorted(sizes))
        if self.columns and columns.keys() != self.columns.keys():
            names = ", ".join(self.columns)
            raise ArgumentError("columns", f"of the names {names}", ", ".join(columns))
        count = sizes.pop()
        merged = dict(columns)
        if self.columns:
            xp = namespace(*columns.values(), *self.columns.values())
            merged = {name: xp.concat([self.columns[name], columns[name]]) for name in columns}
        chosen = self._chosen(len(self), count)
        if chosen is not None:
            merged = {name: _take(column, chosen) for name, column in merged.items()}
        return replace(self, columns=merged, seen=self.seen + count)

    def _chosen(self, held: int, count: int) -> np.ndarray | None:
        """Return which of the stored and new rows to keep; None means all."""
        if self.capacity is None or (held + count <= self.capacity):
            return None
        if self.rule == "fifo":
            return np.arange(held + count - self.capacity, held + count)
        return np.arange(self.capacity)


def _take(column: Array, rows: np.ndarray) -> Array:
    xp = namespace(column)
    index = xp.asarray(rows, device=getattr(column, "device", None))
    return xp.take(column, index, axis=0)
