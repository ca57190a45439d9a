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
majority; and of each also the rarest columns by themselves, which others do not hide. Where these
are many, it does not matter how many common values a row has beside them: of 784 columns with 3
values in a row, beside 60 common ones, 2,660 of 4,000 rows were named, in 784 columns each. Where
they are few, a pair of them is little of a row, and surveys with some rare answers are sent.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hopfed import kernels
from hopfed.kernels import PackedBits

PIECE = 16  # columns of a table, of those that resemble each other, below which no row is known
LARGE = 32  # columns of which a row is much of any table
FEWEST = 4  # rare values of a row that are much of it
FIRST = 4  # times the rows that are a few, that values of the rarest columns occur
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
    enough = min(LARGE, max(PIECE, x.shape[1] // 2))
    for columns, signs in _alike(rows, x):
        y = x[:, columns] * signs
        majority = np.where(y.sum(axis=1, dtype=np.int64) < 0, -1, 1).astype(np.int8)
        shown |= _shown(y != majority[:, None], least, enough)
    return int(shown.sum())


def _alike(rows: PackedBits, x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Columns that agree with each other in three rows of four, or differ, and their signs.

    First those that are nearly constant, each column in one set. Then those like the column that
    most is like, of equal ones the first by its values: a server can choose the order of columns,
    and that is to change nothing.
    """
    M, N = rows.shape
    least, sums, products = min(PIECE, N), kernels.column_sums(rows), kernels.second_moment(rows)
    like, free = 2 * np.abs(products) >= M, np.ones(N, dtype=bool)
    number = like.sum(axis=1)
    much = np.where(like, np.abs(products), 0).sum(axis=1, dtype=np.int64)
    found, signs = np.flatnonzero(2 * np.abs(sums) >= M), sums
    while True:
        if len(found) >= least:
            yield found, np.where(signs[found] < 0, -1, 1).astype(np.int8)
        free[found] = False
        number -= like[:, found].sum(axis=1)
        much -= np.where(like[:, found], np.abs(products[:, found]), 0).sum(axis=1, dtype=np.int64)
        starts = np.flatnonzero(free & (number >= least))
        if not len(starts):
            return
        starts = starts[much[starts] == much[starts].max()]
        start = min(starts, key=lambda i: x[:, i].tobytes())
        found, signs = np.flatnonzero(free & like[start]), products[start]


def _shown(rare: np.ndarray, least: int, enough: int) -> np.ndarray:
    """Which rows (M,) their rare values, bool (M, N), give away.

    Among `enough` columns a row is much of a table, whatever else it has; among fewer it is where
    it has a few rare values, or has all of its rare values there.
    """
    often, total = rare.sum(axis=0), rare.sum(axis=1)
    shown, before, most = np.zeros(len(rare), dtype=bool), 0, FIRST * least
    while before < (often > 0).sum():
        columns = np.flatnonzero((often > 0) & (often <= most))
        if len(columns) > max(before, FEWEST - 1):
            before = len(columns)
            own = rare[:, columns]
            size = own.sum(axis=1)
            much = (size >= np.minimum(FEWEST, total)) | (before >= enough)
            shown |= much & _cliques(own, least)
        most *= RUNG
        if most > RUNG * len(rare):
            break
    return shown


def _cliques(rare: np.ndarray, least: int) -> np.ndarray:
    """Which rows (M,) are found as cliques of these columns, bool (M, N)."""
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
        shown[part] = single & (4 * hidden < np.maximum(size, FEWEST))
    return shown
