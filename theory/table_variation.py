"""How much tables of few columns differ in what tells a class from the rest.

The spike of a class is a sum over columns, each with means drawn from a law. Of N columns it varies
by a part of order ``N^-1/2`` from one table to the next, whatever the number of rows, and power
falls faster below its typical value than it rises above: of 17 columns of any rates a class that is
seen with probability .9 in a typical table is seen in six tables of ten. So power is an average
over tables.

Source: theory/NOTES.md, "Planning for graded classes".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .graded import Classes

DRAWS = 200  # tables
MANY = 3_000  # columns of which tables hardly differ

_SEED = 7  # of the tables, the same in each call, so that power rises with the rows


def relative_spikes(
    draw: Callable[[np.random.Generator], Classes], typical: Classes, place: int
) -> np.ndarray:
    """Spikes (T,) of drawn tables over that of a typical one.

    Parameters
    ----------
    draw : makes the classes of a table with a generator.
    typical : classes of a typical table.
    place : of the spike, in falling order.

    Examples
    --------
    >>> typical = Classes(np.array([[0.5, -0.5], [-0.5, 0.5]]), [0.5, 0.5])
    >>> relative_spikes(lambda rng: typical, typical, 0)[:2].tolist()
    [1.0, 1.0]
    """
    if typical.N > MANY:
        return np.ones(1)
    rngs = np.random.default_rng(_SEED).spawn(DRAWS)
    drawn = np.array([draw(rng).strengths[place] for rng in rngs])
    found: np.ndarray = drawn / max(float(typical.strengths[place]), 1e-300)
    return found
