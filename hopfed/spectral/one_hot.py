"""Columns of which exactly one is +1 in every row: one variable, written as a column a level.

Such columns depend on each other whatever the classes are, and would be taken for classes. They
stand beside each other in a table as a rule, and so they are looked for there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hopfed._lib.arrays import like, to_host
from hopfed.spectral.reread_rows import Sums
from hopfed.spectral.rows import array_beside, column_moments, columns_of, seen_times, times, total

LEVELS = (3, 100)  # columns of a variable; two are opposite, which is told otherwise
LEAST = 20  # rows from which it is no chance


def one_hot(owners: Sequence[Any], among: np.ndarray | None = None) -> list[np.ndarray]:
    """Find neighbouring columns of which exactly one is +1 in every row that has entries there.

    Parameters
    ----------
    owners : rows (M, N) of -1, 0 (missing) and +1 of each, packed or not, held or not.
    among : (N,) which columns may be such levels; all when left out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> levels = 2 * np.eye(3)[rng.integers(3, size=60)] - 1
    >>> rows = np.hstack([rng.choice([-1, 1], (60, 2)), levels, rng.choice([-1, 1], (60, 2))])
    >>> one_hot([rows])
    [array([2, 3, 4])]
    """
    moments = [[to_host(a).astype(np.int64) for a in column_moments(rows)] for rows in owners]
    sums, seen = (np.sum([m[k] for m in moments], axis=0) for k in (0, 1))
    plus = (seen + sums) // 2
    varies = (plus > 0) & (plus < seen) & (seen >= LEAST)
    varies &= True if among is None else among
    ends = np.concatenate([[0], np.cumsum(plus)])
    broken = np.concatenate([[0], np.cumsum(~varies)])
    found, first, N = [], 0, len(plus)
    last = np.searchsorted(ends, ends[:-1] + seen)  # where as many +1 are as rows have an entry
    fits = (last <= N) & (last - np.arange(N) >= LEVELS[0]) & (last - np.arange(N) <= LEVELS[1])
    last = np.minimum(last, N)
    fits &= (ends[last] == ends[:-1] + seen) & (broken[last] == broken[:-1])
    for j in np.flatnonzero(fits):
        columns = np.arange(j, last[j])
        alike = (seen[columns] == seen[j]).all()
        if j >= first and alike and not sum(_others(rows, columns) for rows in owners):
            found.append(columns)
            first = int(last[j])
    return found


def _others(rows: Any, columns: np.ndarray) -> int:
    """Number of rows that have another number of +1 in some columns than one, or some gaps."""

    def asked(part: Any) -> Sums:
        held = columns_of(part, columns)
        ones = like(np.ones((len(columns), 1), np.float32), array_beside(held))
        signed, seen = (to_host(f(held, ones))[:, 0] for f in (times, seen_times))
        fits = (seen == 0) | ((seen == len(columns)) & (signed == 2 - len(columns)))
        return Sums((int((~fits).sum()),))

    return int(total(rows, asked)[0])
