"""Checked input of a memory: patterns to store, and cues with gaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed._lib.arrays import Array, like, to_host
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.kernels.dispatch import on_device

HEAVIEST = 1e20  # largest weight: fields are float32 products, which overflow at 3e38


def as_array(given: Any, argument: str, rule: str) -> np.ndarray:
    """Return patterns or cues as an array; rows of unequal length raise ArgumentError."""
    try:
        return np.asarray(given)
    except ValueError:
        raise ArgumentError(argument, rule, "rows of unequal length") from None


def as_signs(values: np.ndarray) -> np.ndarray:
    """Return bits of patterns or cues as +-1, and any other numbers unchanged."""
    if values.dtype == np.bool_:
        return np.where(values, 1, -1).astype(np.int8)
    zero = values == 0
    bits = bool((zero | (values == 1) | np.isnan(values)).all()) and not zero.all()
    return np.where(zero, -1, values.astype(np.float32)) if bits else values


def as_patterns(source: Any, *, bits: bool = True) -> np.ndarray:
    """Check patterns (K, N) that cues recall: int8 if all are +-1 or bits, else float64 means."""
    x = as_array(source, "patterns", rule := "a table (K, N) of numbers")
    table = x.ndim == 2 and x.size > 0 and x.dtype.kind in "biuf"
    require(table, "patterns", rule, f"{x.dtype} of shape {x.shape}")
    if bits or x.dtype == np.bool_:
        x = as_signs(x)
    wrong = ~((x >= -1) & (x <= 1))
    if wrong.any():
        raise ArgumentError("patterns", "in [-1, 1]", x[wrong][0])
    if ((x == 1) | (x == -1)).all():
        return np.ascontiguousarray(x, np.int8)
    return np.ascontiguousarray(x, np.float64)


def is_graded(patterns: np.ndarray) -> bool:
    """Whether `patterns` that cues recall are means, not signs, as `as_patterns` returns them."""
    return patterns.dtype.kind == "f"


def as_cues(cues: Any, observed: Any, n_sites: int) -> tuple[Array, np.ndarray | None]:
    """Check cues: int8 (S, N) with 0 in gaps, and the mask of observed sites, None without gaps."""
    if on_device(cues):  # checked on the host: the copy takes little time compared with recall
        mask = to_host(observed) if on_device(observed) else observed
        states, seen = as_cues(to_host(cues), mask, n_sites)
        return like(states, cues), seen
    x = np.atleast_2d(as_array(cues, "cues", rule := f"of shape (S, {n_sites})"))
    require(x.ndim == 2 and x.shape[1] == n_sites, "cues", rule, x.shape)
    require(x.dtype.kind in "biuf", "cues", "numbers", x.dtype)
    x = as_signs(x)
    x = np.where(np.isnan(x), 0, x)
    wrong = (x != 1) & (x != -1) & (x != 0)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        got = f"{x[row, column]:g} at row {row + 1}, column {column + 1}"
        raise ArgumentError("cues", "+1, -1, or 0 where not observed", got)
    states = np.ascontiguousarray(x, np.int8)
    if observed is not None:
        mask = np.asarray(observed)
        require(mask.dtype == np.bool_, "observed", "boolean", mask.dtype)
        try:
            states = np.where(np.broadcast_to(mask, states.shape), states, 0).astype(np.int8)
        except ValueError:
            fits = f"of a shape that broadcasts to {states.shape}"
            raise ArgumentError("observed", fits, mask.shape) from None
    seen = states != 0
    return states, None if seen.all() else seen


def as_spins(states: Any, n_sites: int, layers: bool) -> np.ndarray:
    """Check states, like cues without gaps: int8 +-1 on the host, (S, N), or (S, L, N) layers."""
    x = to_host(states) if on_device(states) else states
    x = np.atleast_2d(as_array(x, "states", rule := f"of {n_sites} sites"))
    require(x.shape[-1] == n_sites and x.ndim <= 2 + layers, "states", rule, x.shape)
    require(x.dtype.kind in "biuf", "states", "numbers", x.dtype)
    x = as_signs(x)
    wrong = (x != 1) & (x != -1)
    if wrong.any():
        raise ArgumentError("states", "+-1 or bits at every site", x[wrong][0])
    return np.ascontiguousarray(x, np.int8)


def check_weights(weights: Any, count: int) -> np.ndarray:
    """Check the weights of `count` patterns that cues recall, and return them; the default is 1."""
    if weights is None:
        return np.ones(count)
    mass = as_array(weights, "weights", rule := f"{count} numbers above 0, at most {HEAVIEST:g}")
    fits = mass.shape == (count,) and mass.dtype.kind in "biuf"
    require(fits and bool(((mass > 0) & (mass <= HEAVIEST)).all()), "weights", rule, weights)
    return mass.astype(np.float64)
