"""Aggregation: means over participants, added one at a time, in the order of the clients.

Source: theory/NOTES.md, "Weighted means over participants".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError


def weighted_mean(
    parts: Sequence[np.ndarray],
    weights: Sequence[float] | None = None,
    *,
    masks: Sequence[np.ndarray] | None = None,
    default: np.ndarray | None = None,
) -> np.ndarray:
    """Aggregate arrays: ``sum_i w_i x_i / sum_i w_i``, by entry over the participants that hold it.

    Weights are equal when left out. `masks` say which leading entries each holds, bool of shape
    ``x.shape[:m]`` (the classes of a head, say); `default` stands for an entry that no participant
    holds; without it that is an error. Integers, such as counters, are averaged and rounded.
    """
    w = [1.0] * len(parts) if weights is None else [float(v) for v in weights]
    held = [np.ones(part.shape, bool) for part in parts] if masks is None else masks
    if len(w) != len(parts) or not all(np.isfinite(v) and v >= 0 for v in w) or sum(w) <= 0:
        rule = f"{len(parts)} numbers of at least 0 with a positive sum"
        raise ArgumentError("weights", rule, w)
    if len(shapes := {part.shape for part in parts}) > 1:
        raise ArgumentError("parts", "of one shape", sorted(shapes))
    w = [v / sum(w) for v in w]  # a single part is then its own mean, to the bit
    wide = [_spread(mask, part) for mask, part in zip(held, parts, strict=True)]
    total = _sum([np.where(h > 0, p, 0) for h, p in zip(wide, parts, strict=True)], w)
    mass = np.where(np.all(wide, axis=0), 1, _sum(wide, w))  # exact, as without masks
    mean = total / np.where(mass > 0, mass, 1)
    if default is not None:
        mean = np.where(mass > 0, mean, default)
    elif not (mass > 0).all():
        raise ArgumentError("default", "given where nobody holds an entry", "none")
    return round_to_dtype(mean, parts[0].dtype)


class Mean:
    """Weighted mean of messages with arrays of the same names, added up in float64 as they come."""

    def __init__(self) -> None:
        self.total: dict[str, np.ndarray] = {}
        self.kinds: dict[str, np.dtype[Any]] = {}
        self.weight = 0.0

    def add(self, message: Mapping[str, Any], weight: float | None = None) -> None:
        """Add a message by a weight above 0, its number of examples, or 1 if it has none."""
        weight = float(message.get("examples", 1)) if weight is None else weight
        self.weight += weight
        for name, array in message.items():
            if name != "examples":
                added = np.multiply(array, weight, dtype=np.float64)
                self.total[name] = self.total[name] + added if name in self.total else added
                self.kinds[name] = np.asarray(array).dtype

    def result(self) -> dict[str, np.ndarray]:
        """Return the mean in the dtypes of the parts, integers rounded."""
        return {n: round_to_dtype(t / self.weight, self.kinds[n]) for n, t in self.total.items()}


def round_to_dtype(array: np.ndarray, kind: np.dtype[Any]) -> np.ndarray:
    """Bring an aggregated mean to the dtype of its parts, rounded for integers."""
    return (array if kind.kind == "f" else np.rint(array)).astype(kind)


def _sum(parts: Sequence[np.ndarray], weights: Sequence[float]) -> Any:
    return reduce(np.add, [part * w for part, w in zip(parts, weights, strict=True)])


def _spread(mask: np.ndarray, part: np.ndarray) -> np.ndarray:
    """`mask` as numbers 0 and 1 of the shape of `part`, whose leading axes it covers."""
    if mask.shape != part.shape[: mask.ndim]:
        raise ArgumentError("masks", f"over leading axes of {part.shape}", mask.shape)
    wide = mask.reshape(mask.shape + (1,) * (part.ndim - mask.ndim))
    return np.broadcast_to(wide, part.shape).astype(part.dtype)
