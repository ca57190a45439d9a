"""What an answer that is "ok" does not tell by itself, because no class can be at fault for it.

Classes suppose rows that do not depend on each other. In a series of measurements they do, and in a
table that is sorted by one of its columns they seem to: rows next to each other are of one class
far more often than chance would have it. Nor is a rate certain that is 1 in five rows.

Sources: Barton and David, "Multiple runs", Biometrika 44 (1957), 168-178, for the moments of runs;
Agresti and Coull, "Approximate is better than exact", The American Statistician 52 (1998), 119-126,
for rates near 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.assignment import assign
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.rows import column_moments

LOOKED_AT = 20_000  # first rows of an owner that are looked at
DEVIATIONS = 4.0  # standard deviations below the changes of class that chance would make
SHARE = 0.7  # of these changes, at most
SCARCE = 3.0  # rows of the rarer value, below which a rate is near 0 or 1
CERTAIN = 1.96  # standard errors to each side of an interval of 95%


def runs(labels: np.ndarray) -> tuple[int, float, float]:
    """Changes of class from one row to the next: how many, how many by chance, and their variance.

    Parameters
    ----------
    labels : (M,) classes of rows in their order.

    Examples
    --------
    >>> changes, expected, variance = runs(np.repeat([0, 1], 50))
    >>> changes, expected, round(variance, 2)
    (1, 50.0, 24.75)
    """
    n = len(labels)
    if n < 2:
        return 0, 0.0, 0.0
    sizes = np.unique(labels, return_counts=True)[1].astype(np.float64)
    squares, cubes = (sizes**2).sum(), (sizes**3).sum()
    expected = n - squares / n
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n**2 * (n - 1))
    return int((np.diff(labels) != 0).sum()), float(expected), float(variance)


def with_open_rates(found: Archetypes, clients: Sequence[Any]) -> Archetypes:
    """Widen the errors of rates near 0 and 1, as few rows leave them open.

    Parameters
    ----------
    found : the archetypes.
    clients : rows of each owner, packed, held or not.
    """
    own = found.own_errors
    if own is None or found.channel == "symmetric" or not len(found):
        return found
    seen = sum(to_host(column_moments(rows)[1]).astype(np.float64) for rows in clients)
    of_class = found.shares[:, None] if found.channel == "graded" else 1.0
    rows = np.broadcast_to(np.nan_to_num(of_class * seen), found.means.shape)
    rates = np.clip((1 + found.means) / 2, 0.0, 1.0)
    wider = np.where(own > 0, np.maximum(own, open_error(rates, rows)), own)
    return replace(found, own_errors=wider)


def open_error(rates: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Error of a mean whose interval holds that of Agresti and Coull; 0 where a rate is not near.

    Parameters
    ----------
    rates : of +1.
    rows : in which they were seen, of the same shape.

    Examples
    --------
    >>> open_error(np.array([1.0, 1.0, 0.5]), np.array([5.0, 1000.0, 1000.0])).round(3).tolist()
    [0.504, 0.005, 0.0]
    """
    added = (rows * rates + 2) / (rows + 4)
    half = np.abs(added - rates) + CERTAIN * np.sqrt(added * (1 - added) / (rows + 4))
    near = rows * np.minimum(rates, 1 - rates) < SCARCE
    return np.where(near, 2 * half / CERTAIN, 0.0)


def with_cautions(found: Archetypes, clients: Sequence[Any]) -> Archetypes:
    """Add to the advice of classes that are "ok" what the order of rows says.

    Parameters
    ----------
    found : the archetypes.
    clients : rows of each owner, packed; of those that are not held nothing is said.
    """
    held = [rows for rows in clients if isinstance(rows, (PackedBits, MaskedBits))]
    if found.status != "ok" or len(found) < 2 or len(held) < len(clients):
        return found
    few = [_on_host(rows[:LOOKED_AT]) for rows in held]
    line = _order(found, few)
    return replace(found, advice=f"{found.advice} {line}") if line else found


def _order(found: Archetypes, held: Sequence[Any]) -> str:
    """A sentence about rows that are mostly of the class of the row before."""
    sums = np.zeros(3)
    for rows in held:
        labels = assign(found, rows, alpha=0).archetype
        sums += runs(labels[labels >= 0])
    changes, expected, variance = sums.tolist()
    times = "change" if changes == 1 else "changes"
    if changes > SHARE * expected or changes > expected - DEVIATIONS * variance**0.5:
        return ""
    return (
        f"Rows next to each other are mostly of one class ({changes:,.0f} {times} where "
        f"{expected:,.0f} are expected): the table is sorted, or a series, whose classes are times."
    )


def _on_host(rows: Any) -> Any:
    """Packed rows on the host."""
    if isinstance(rows, MaskedBits):
        return MaskedBits(_on_host(rows.signs), _on_host(rows.seen))
    return PackedBits(np.asarray(to_host(rows.words)), rows.shape[1])
