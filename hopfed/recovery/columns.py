"""Columns that hold one value, and are left out of the count.

Noise would have flipped some of their entries, so they are not of the channel. In the operator they
add up to a direction of their own, and their share of the trace makes the noise of the others look
smaller than it is. Where rows are so clean that archetypes leave such columns they stay.

Source: theory/NOTES.md, "Goodness of fit".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hopfed.archetypes.archetypes import Archetypes
from hopfed.recovery.routes import Recovery

FEWEST = 3  # columns that vary, below which there is nothing to count
LIKELY = 0.25  # part of the constant columns that archetypes must explain, or they are left out


def left_out(mean: np.ndarray, found: Archetypes, n_rows: float) -> np.ndarray | None:
    """The columns that vary, where the others are not those that archetypes leave; None otherwise.

    K archetypes of quality r have one sign in a column, and no row flips it, in
    ``N 2^(1 - K) ((1 + r) / 2)^M`` of the columns.

    Parameters
    ----------
    mean : (N,) of all rows.
    found : on all columns.
    n_rows : M.

    Examples
    --------
    >>> from hopfed import recover
    >>> x = np.where(np.random.default_rng(0).random((60, 40)) < 0.9, 1, -1)
    >>> x[:, :5] = 1
    >>> len(left_out(x.mean(axis=0), recover(x, seed=0, channel="symmetric"), 60))
    35
    """
    there = np.flatnonzero(np.abs(mean) < 1)
    constant = len(mean) - len(there)
    if constant == 0 or len(there) < FEWEST:
        return None
    K = max(len(found), 1)
    expected = len(mean) * 2.0 ** (1 - K) * ((1 + found.quality) / 2) ** n_rows
    return None if expected >= LIKELY * constant else there


def on_all_columns(recovery: Recovery, there: np.ndarray, mean: np.ndarray) -> Recovery:
    """The patterns of a recovery with the columns that were left out, as all rows have them.

    Parameters
    ----------
    recovery : on the columns `there`.
    mean : (N,) of all rows over all columns.
    """
    patterns = np.sign(mean).astype(np.int8) * np.ones((len(recovery.archetypes), 1), np.int8)
    patterns[:, there] = recovery.archetypes.patterns
    return replace(
        recovery,
        archetypes=replace(recovery.archetypes, patterns=patterns),
        constant_columns=np.flatnonzero(np.abs(mean) == 1),
    )
