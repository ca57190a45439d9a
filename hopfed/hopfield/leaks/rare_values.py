"""Rows that rare values give away: they can be put together from a table of pairs of columns.

Source: frequencies of pairs are those of ``n_ij = (M + c_i + c_j + S_ij) / 4``, columns turned so
that +1 is their rarer value.

In a sparse table, such as of purchases or diagnoses, a row is a few rare values among many columns,
and few pairs of columns occur together at all. Then rows are cliques: start at a pair that occurs
once, keep the columns that occur with both, and so on, until nothing more occurs with all. With six
values of 784 in a row that gave all of 784 rows in 1 s and 2,351 of 2,352 in 3 s, however many rows
each column or pair of columns sets apart; with 2 values in 100, 757 of 784 rows, with 3, 350.

So the owner looks at each row as that search would find it. A row is hidden by columns that it
lacks, but that occur with all that it has: as many as a quarter of these, and one at least. It is
given away where there are fewer, and a pair of its values is of fewer rows than may be told.

Rows near to one of several archetypes are alike: what is rare is then to differ from others of the
same archetype, and the table counts that as well, among columns that the archetypes set alike. So
each set of columns that resemble each other is looked at, after its rows are turned to their
majority; and of each also the rarest columns by themselves, which others do not hide.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hopfed import kernels
from hopfed.kernels import PackedBits

PIECE = 16  # columns of a table, of those that resemble each other, below which no row is known
FEWEST = 4  # rare values of a row that are much of it
RUNG = 4  # from a set of rare columns to the next, in how often their values occur
BLOCK = 4096  # rows at a time


def given_away(rows: PackedBits, least: int) -> int:
    """Number of rows (M, N) of a batch that can be put together from their rare values.

    Parameters
    ----------
    least : rows that are not a few; with 1 nothing is looked at.

    Examples
    --------
    >>> x = -np.ones((60, 40))
    >>> for m in range(60):  # four values of forty, as they come
    ...     x[m, (m * np.array([1, 3, 7, 12]) + np.array([0, 1, 5, 20])) % 40] = 1
    >>> given_away(kernels.pack(x), 3), given_away(kernels.pack(np.repeat(x, 3, axis=0)), 3)
    (47, 0)
    """
    if least <= 1:
        return 0
    x = kernels.unpack(rows, dtype=np.int8)
    shown = np.zeros(len(x), dtype=bool)
    for columns, signs in _alike(rows):
        y = x[:, columns] * signs
        majority = np.where(y.sum(axis=1, dtype=np.int64) < 0, -1, 1).astype(np.int8)
        shown |= _shown(y != majority[:, None], least)
    return int(shown.sum())


def _alike(rows: PackedBits) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Columns that agree with each other in three rows of four, or differ, and their signs.

    First those that are nearly constant, each column in one set.
    """
    M, N = rows.shape
    sums = kernels.column_sums(rows)
    free = np.ones(N, dtype=bool)
    products = kernels.second_moment(rows)
    for i in range(-1, N):
        if i >= 0 and not free[i]:
            continue
        like = sums if i < 0 else products[i]
        found = np.flatnonzero(free & (2 * np.abs(like) >= M))
        free[found] = False
        if len(found) >= min(PIECE, N):
            yield found, np.where(like[found] < 0, -1, 1).astype(np.int8)


def _shown(rare: np.ndarray, least: int) -> np.ndarray:
    """Which rows (M,) their rare values, bool (M, N), give away."""
    often, total = rare.sum(axis=0), rare.sum(axis=1)
    shown, before, most = np.zeros(len(rare), dtype=bool), 0, RUNG * least
    while before < (often > 0).sum():
        columns = np.flatnonzero((often > 0) & (often <= most))
        if len(columns) > max(before, FEWEST - 1):
            before = len(columns)
            shown |= _cliques(rare[:, columns], total, least)
        most *= RUNG
        if most > RUNG * len(rare):
            break
    return shown


def _cliques(rare: np.ndarray, total: np.ndarray, least: int) -> np.ndarray:
    """Which rows (M,) are found as cliques of these columns (N,), with `total` rare values each."""
    together = np.zeros((rare.shape[1], rare.shape[1]), dtype=np.float32)
    for start in range(0, len(rare), BLOCK):
        block = rare[start : start + BLOCK].astype(np.float32)
        together += block.T @ block
    occur = (together > 0).astype(np.float32)
    few = (together > 0) & (together < least)
    np.fill_diagonal(few, False)
    shown = np.zeros(len(rare), dtype=bool)
    if not few.any():
        return shown
    pairs = few.astype(np.float32)
    for start in range(0, len(rare), BLOCK):
        part = slice(start, start + BLOCK)
        own, block = rare[part], rare[part].astype(np.float32)
        size = own.sum(axis=1)
        hidden = ((block @ occur == size[:, None]) & ~own).sum(axis=1)
        single = np.einsum("mn,mn->m", block @ pairs, block) > 0
        much = size >= np.minimum(FEWEST, total[part])
        shown[part] = single & much & (4 * hidden < np.maximum(size, FEWEST))
    return shown
