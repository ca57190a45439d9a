"""Rows that a column or two set apart from the others of a batch: their sum is in its operator.

With the sums ``c_k`` of the columns and ``S_ik`` of their products, ``c_k - S_ik`` is twice the sum
of the rows whose column i is -1, at every k, and ``S_ik - S_jk`` is over the rows in which columns
i and j differ. Where that is one row, the operator holds the row itself, of however many rows the
operator is; where it is two, all that both have in common. So whoever has a value that nobody else
in the batch has is given away by exact counts, as in any table of frequencies.

That is looked for in single columns and in pairs. Three columns or more may set a row apart just as
well: see `hopfed.hopfield.leaks.broken_relations`, and for rare values
`hopfed.hopfield.leaks.rare_values`. Where rows vote, what their sums leave of the rows that a pair
of columns sets apart is looked at, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed import kernels
from hopfed.kernels import PackedBits

BLOCK = 256  # columns at a time
EXACT = 1 << 22  # rows from which sums over them do not fit into single precision
LINES = 64  # lines of the operator at a time, with votes: what they leave stays in the cache


def set_apart(rows: PackedBits, least: int) -> list[tuple[int, ...]]:
    """Columns, alone and in pairs, that set fewer than `least` rows apart, and at least one.

    Parameters
    ----------
    rows : (M, N) of a batch.
    least : rows that are not a few.

    Returns
    -------
    At most one pair for each column, its first; single columns come first.

    Examples
    --------
    >>> x = np.ones((6, 3))
    >>> x[0, 1] = x[:3, 2] = -1
    >>> set_apart(kernels.pack(x), 2), set_apart(kernels.pack(x), 3)
    ([(1,), (0, 1)], [(1,), (0, 1), (1, 2)])
    """
    M, N = rows.shape
    found: list[tuple[int, ...]] = [
        (int(i),) for i in np.flatnonzero(_few(kernels.column_sums(rows), M, least))
    ]
    columns = kernels.transpose(rows)
    for start in range(0, N, BLOCK):
        sums = kernels.cross_gram(columns[start : start + BLOCK], columns)  # whole numbers
        few = _few(sums, M, least)
        few &= np.arange(N) > np.arange(start, min(start + BLOCK, N))[:, None]
        some = np.flatnonzero(few.any(axis=1))
        found += [(start + int(i), int(few[i].argmax())) for i in some]
    return found


def lines_apart(rows: PackedBits, chosen: np.ndarray, least: int) -> int | None:
    """A pattern whose votes, with two lines of the operator, leave fewer than `least` rows.

    The half sum of lines i and j, or their half difference, is over the rows in which the columns
    agree, or differ. From it the votes for any patterns can be taken off, or added. In the rows of
    each pattern that leaves those of the lines where its votes stay out, and where they count all
    of its rows but those that both count alike. Patterns have no row in common, so that the least
    that can be left follows from these numbers for each by itself.

    Parameters
    ----------
    rows : (M, N) of a batch.
    chosen : (M, K) of -1, 0 and 1: the pattern that each row votes for, one at most, and its sign.
    least : rows that are not a few.

    Examples
    --------
    >>> x = np.ones((9, 3))
    >>> x[:5, 1] = -1
    >>> votes = np.where(np.arange(9) < 4, 1.0, 0.0)[:, None]
    >>> lines_apart(kernels.pack(x), votes, 2), lines_apart(kernels.pack(x), votes[:, :0], 2)
    (0, None)
    """
    # Numbers below are quarters of rows, of which single precision holds so many.
    kind = np.float32 if len(rows) < EXACT else np.float64
    x = kernels.unpack(rows, dtype=kind)
    asked = np.flatnonzero(np.abs(chosen).sum(axis=0))
    own = [chosen[:, k].astype(kind) for k in asked]
    of = [(np.abs(v).sum(), v @ x, x[v != 0]) for v in own]
    for start in range(0, x.shape[1] if len(asked) else 0, LINES):
        block, rest = slice(start, start + LINES), x[:, start:]  # each pair once
        whole = x[:, block].T @ rest
        parts = [(n, v[block, None], v[start:], y[:, block].T @ y[:, start:]) for n, v, y in of]
        for sign in (kind(1), kind(-1)):
            ways = [_ways(sign, *part) for part in parts]
            left = (len(x) + sign * whole) / 2 + sum(np.minimum(on - out, 0) for out, on in ways)
            dearer = [np.maximum(on - out, 0) for out, on in ways]  # for votes to count at all
            left += np.minimum.reduce(dearer)
            left[np.arange(len(left)), np.arange(len(left))] = np.inf  # a line with itself
            numbers = [n for n, *_ in parts]
            at = _fewer(left, numbers, ways, least)
            if at is not None:
                return int(asked[int(np.argmin([each[at] for each in dearer]))])
    return None


def _fewer(
    left: np.ndarray,
    numbers: Sequence[float],
    ways: Sequence[tuple[np.ndarray, np.ndarray]],
    least: int,
) -> tuple[int, int] | None:
    """Place of two lines that leave fewer than `least` rows, and some."""
    few = np.nonzero(left < least)
    if not len(few[0]):
        return None
    smallest = np.full(len(few[0]), np.inf)  # above 0: what is left where the least is nothing
    for n, (out, on) in zip(numbers, ways, strict=True):
        for rows in (out[few], on[few], 2 * n - out[few] - on[few]):
            smallest = np.minimum(smallest, np.where(rows > 0, rows, np.inf))
    found = np.flatnonzero(np.where(left[few] > 0, left[few], smallest) < least)
    return (int(few[0][found[0]]), int(few[1][found[0]])) if len(found) else None


def _ways(
    sign: np.floating, n: float, a: np.ndarray, b: np.ndarray, products: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a pattern that two lines leave, without its n votes, and with them at best.

    Parameters
    ----------
    a, b, products : sums of the votes in the columns of either line, and of these columns' products
        over the rows that vote.
    """
    out = (n + sign * products) / 2
    return out, n - (out + np.abs(a + sign * b) / 2) / 2


def _few(sums: np.ndarray, M: int, least: int) -> np.ndarray:
    """Where a sum of M numbers of +-1 is of few of one sign, and of some."""
    fewer = (M - np.abs(sums)) / 2
    found: np.ndarray = (fewer > 0) & (fewer < least)
    return found
