"""What an exact table of pairs tells whoever knows a row already, whole or in part.

The rows x of a batch are short by ``q = x^T S^-1 x``, S its operator. Of M rows over N columns that
have nothing in common, with ``g = N / M``, a row of the batch has about g, and any other about
``g / (1 - g)``, which scatters by ``g sqrt(2 g / (N (1 - g)^3))``, and that of a row of the batch
by ``(1 - g)^2`` times as much. So who knows a whole row can tell whether it is in the batch, and
only as many rows as the square of the columns, about, hide that.

Who knows all values of a row of the batch but one takes the one that makes it shorter. It does so
by ``g / (M (1 - g))`` in the mean, beside a scatter of ``sqrt(g / (1 - g)) / M``. Of more values
the right ones are the shortest, too, as long as they are few or M is near to N: a search then finds
all of them. Rows that have archetypes in common, which the server knows anyway, are guessed right
more often than that without any table, and a table adds less.
"""

from __future__ import annotations

from math import sqrt

from scipy.special import ndtr


def told_member(rows: int, columns: int) -> float:
    """Share of known rows that are told rightly to be in the batch, or not: 1/2 is chance.

    Parameters
    ----------
    rows, columns : M and N of the batch, whose columns have nothing in common.

    Examples
    --------
    >>> [round(told_member(rows, 784), 2) for rows in (784, 1568, 7840, 78_400, 784**2)]
    [1.0, 1.0, 1.0, 0.84, 0.64]
    """
    g = columns / rows
    return 1.0 if g >= 1 else float(ndtr(sqrt(columns * g * (1 - g) / 2) / (1 + (1 - g) ** 2)))


def told_value(rows: int, columns: int) -> float:
    """Share of values that are guessed rightly by who knows the rest of the row: 1/2 is chance.

    Parameters
    ----------
    rows, columns : M and N of the batch, whose columns have nothing in common.

    Examples
    --------
    >>> [round(told_value(rows, 784), 2) for rows in (784, 862, 1176, 1568, 3136, 7840)]
    [1.0, 1.0, 0.92, 0.84, 0.72, 0.63]
    """
    return 1.0 if rows <= columns else float(ndtr(sqrt(columns / (rows - columns))))
