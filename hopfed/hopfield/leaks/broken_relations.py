"""Rows that break a relation of columns which all other rows keep: an exact table holds them.

Of a question with five answers in five columns, one is +1 in every row, and their sum is the same;
of a column "any" and those of its kinds it is the "or", or it is no kind that has a column. One row
without an answer, or of another kind, breaks that. With ``f = X v`` of all columns, a constant one
among them, the operator gives ``S v``, the sum of the rows times f: where f is 0 in all rows but
one, that is the row, however many rows there are; where in all but two, what both have in common.
Values that three or four rows have, but not the same ones, make such sums as well: of four rows,
each left out of one of four columns.

That v exists is seen by the rows without knowing it. H, the projection on the range of the columns,
has ``H_mm = 1`` for a row that some combination of them sets apart alone. Two rows are set apart by
one where the lines of ``1 - H`` of both are parallel, and then one of them has ``H_mm >= 1/2``.
Any combination counts, also one that would be hard to find. Where there are hardly more rows than
columns, every row is set apart by one, and that says nothing.

Three rows or more that break a relation by different amounts are read off as digits: of a sum over
three with the weights -1, 2 and 4, all values of all three. Such relations are combinations by
themselves, since all others are of many rows, and so the eigenvectors that are of few: where a row
has more than its share of what these span, it is found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hopfed import kernels
from hopfed.kernels import PackedBits

BLOCK = 4096  # rows at a time
SPARE = 8  # rows beyond the rank, with fewer of which two lines may be parallel by chance
ROUNDING = 1e-5  # of H
LOCAL = 20.0  # times fewer rows than all that an eigenvector of relations is of
SHARE = 0.4  # of the squares of a relation, of which each of three equal rows has a third
PARALLEL = 1e-6  # square of the angle between two lines that are


def broken_by(rows: PackedBits, least: int) -> np.ndarray:
    """Rows, by their numbers, that a combination of columns sets apart alone, or in twos.

    Parameters
    ----------
    rows : (M, N) of a batch.
    least : rows that are not a few: with 2 single rows are looked for, with 1 none.

    Examples
    --------
    >>> x = 2 * np.eye(4, dtype=int)[np.arange(60) % 4] - 1
    >>> x[7] = -1
    >>> broken_by(kernels.pack(x), 3), broken_by(kernels.pack(x), 1)
    (array([7]), array([], dtype=int64))
    """
    nothing = np.zeros(0, dtype=np.int64)
    M, N = rows.shape
    if least <= 1 or M <= SPARE:
        return nothing
    basis = _whitening(rows)
    if basis.shape[1] + SPARE > M:
        return nothing
    H = np.concatenate([np.square(z).sum(axis=1) for z in _projected(rows, basis)])
    alone = H > 1 - ROUNDING
    found = alone.copy()
    if least > 2:
        spread = np.sum([np.power(z, 4).sum(axis=0) for z in _projected(rows, basis)], axis=0)
        local = basis[:, spread * M > LOCAL]
        found |= np.concatenate([np.square(z).sum(axis=1) for z in _projected(rows, local)]) > SHARE
    much = np.flatnonzero((H > 0.5 - ROUNDING) & ~alone)  # twice the rank at most
    if least > 2 and len(much):
        own = np.concatenate(list(_projected(rows[much], basis)))
        start = 0
        for z in _projected(rows, basis):
            at = np.arange(start, start + len(z))
            both = np.square(own @ z.T)
            both[much[:, None] == at] = 0.0
            enough = (1 - PARALLEL) * np.outer(1 - H[much], 1 - H[at])
            pairs = (both >= enough) & ~alone[at]
            found[much[pairs.any(axis=1)]] = found[at[pairs.any(axis=0)]] = True
            start += len(z)
    return np.flatnonzero(found)


def _whitening(rows: PackedBits) -> np.ndarray:
    """Combinations (N + 1, R) of a constant column and the others, orthonormal over the rows.

    They are made of columns less their means, in units of their spread, and these of whole numbers.
    A relation of columns of rare values that one row breaks is of an eigenvalue of about 1 then,
    beside others of about M; of the columns as they are it is of 4 / N^2 beside M N, and is lost in
    the rounding from 500 columns and 40,000 rows on.
    """
    M, N = rows.shape
    sums = kernels.column_sums(rows).astype(np.int64)
    A = M * kernels.second_moment(rows).astype(np.int64) - sums[:, None] * sums
    spread = np.sqrt(A.diagonal() / M)  # 0 of a constant column
    scale = np.divide(1.0, spread, out=np.zeros(N), where=spread > 0) * np.sqrt(M)
    values, vectors = np.linalg.eigh(A / M * scale[:, None] * scale)
    kept = values > 10 * np.sqrt(N) * np.finfo(float).eps * max(values[-1], 1.0)
    varying = scale[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    basis = np.zeros((N + 1, 1 + varying.shape[1]))
    basis[0, 0] = 1 / np.sqrt(M)
    basis[0, 1:] = -(sums / M) @ varying
    basis[1:, 1:] = varying
    # Turned to the eigenvectors of the columns as they are: a relation that is nearly kept is one.
    turned: np.ndarray = basis @ np.linalg.eigh(basis.T @ basis)[1]
    return turned


def _projected(rows: PackedBits, basis: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows in an orthonormal basis of the range of the columns, a block at a time."""
    for start in range(0, len(rows), BLOCK):
        yield basis[0] + kernels.unpack(rows[start : start + BLOCK], dtype=np.float64) @ basis[1:]
