"""What a client's rows answer in a recovery: sums over blocks of them, made where a block is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hopfed._lib.arrays import Array, all_to_host, like, namespace, to_host
from hopfed.archetypes.votes import best_overlaps
from hopfed.spectral.equal_rows import equals
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.reread_rows import Reread, Sums
from hopfed.spectral.rows import array_beside, times, total, transposed_times


def energies(part: Any, columns: Array) -> Sums:
    """Energy along each column; and number, sum and sum of squares of the rows' energies."""
    squares = to_host(times(part, columns) ** 2).astype(np.float64)
    each = squares.sum(axis=1)
    return Sums((squares.sum(axis=0), np.array([len(each), each.sum(), (each**2).sum()])))


def nearest(operator: FactorOperator, patterns: np.ndarray) -> Sums:
    """Sums over rows, each with the pattern that it resembles most.

    (3,) their number, the sum of their products with it, and of the squares; rows (K,) and sums
    (K, N) of each pattern; and (2,) of how many rows an equal one came before in the same block,
    and how many have no equal. They are sums of whole numbers.
    """
    return total(operator.rows, partial(_nearest_of, patterns=patterns))


def _nearest_of(part: Any, patterns: np.ndarray) -> Sums:
    products = times(part, like(patterns.T.astype(np.float32), array_beside(part)))
    xp = namespace(products)
    nearest = xp.eye(len(patterns), dtype=xp.float32)[products.argmax(axis=1)]
    sums = transposed_times(part, nearest)
    best, counts, sums, equal = all_to_host(
        products.max(axis=1), nearest.sum(axis=0), sums, equals(part)
    )
    best = best.astype(np.float64)
    moments = np.array([len(best), best.sum(), (best**2).sum()])
    return Sums((moments, counts.astype(np.float64), sums.T.astype(np.float64), equal))


def some(operator: FactorOperator, fits: Callable[[Any], np.ndarray]) -> FactorOperator | None:
    """The rows of an operator that fit; None where there are none."""
    rows: Any = operator.rows
    if isinstance(rows, Reread):
        rows = rows.where(fits)
    else:
        rows = rows[like(np.flatnonzero(fits(rows)), operator.home)]
    return FactorOperator.from_examples(rows) if len(rows) else None


def explains(rows: Any, patterns: np.ndarray, level: float, right: bool) -> np.ndarray:
    """Which rows (R,) a pattern explains, or which none does."""
    found: np.ndarray = (best_overlaps(rows, patterns) > level) == right
    return found
