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

A relation need not be kept by all others. Of questions that are asked twice, a few people answer
each in two ways, and whoever does so in many has most of the squares of a sum of such relations,
though of no eigenvector: with a share h, the signs of ``S v`` are that row but for an error of
about ``Phi(-sqrt(h / (1 - h)))``. No v gives a row more than ``H_mm``. A row has R / M of that on
the average, R the rank, and columns that have nothing to do with it make ``1 - H_mm`` smaller as
they do the average. So a row is odd where ``1 - H_mm`` is less than a part of their average. Two
are where the smaller eigenvalue of their block of ``1 - H`` is, if they have more of the relation
than any third: rows alone in a column, three or more, are not a few. Where columns are many, some
tell the two apart, and each is odd by itself.
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
ODD = 0.45  # of the average of 1 - H, of which an odd row has less
TELLING = 0.6  # rank for each row, beyond which the least of many rows says nothing
TWOS = 0.3  # rank for each row, up to which two rows are looked at together
THIRD = 0.5  # of what each of two odd rows has of their relation, which no third has
PAIRS = 1000  # that are looked at, of which least is left


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
    found = H > 1 - ROUNDING
    if least > 2:
        share = basis.shape[1] / M
        odd = found | (ODD * (1 - share) > 1 - H) if share <= TELLING else found
        bound = ODD * (1 - share) if share <= TWOS else 0.0
        twos = _in_twos(rows, basis, H, odd, bound)
        found = odd | _as_digits(rows, basis) | twos
    return np.flatnonzero(found)


def _as_digits(rows: PackedBits, basis: np.ndarray) -> np.ndarray:
    """Whether each row (M,) has more than its share of relations that few rows break."""
    spread = np.sum([np.power(z, 4).sum(axis=0) for z in _projected(rows, basis)], axis=0)
    local = basis[:, spread * len(rows) > LOCAL]
    squares = [np.square(z).sum(axis=1) for z in _projected(rows, local)]
    return np.asarray(np.concatenate(squares) > SHARE)


def _in_twos(
    rows: PackedBits, basis: np.ndarray, H: np.ndarray, odd: np.ndarray, bound: float
) -> np.ndarray:
    """Whether each row (M,) is set apart with another: exactly, or with less than `bound` left.

    Of two rows one has half of what is set apart, at least, so that few are looked at, each beside
    all others. One that is odd by itself would make two of it and any other.
    """
    left, found = 1 - H, np.zeros(len(rows), dtype=bool)
    much = np.flatnonzero((left < (1 + bound) / 2 + ROUNDING) & (left > ROUNDING))
    mine = np.concatenate([*_projected(rows[much], basis), np.zeros((0, basis.shape[1]))])
    pairs, start = [np.zeros((0, 3))], 0
    for z in _projected(rows, basis):
        at = np.arange(start, start + len(z))
        start += len(z)
        both = np.square(mine @ z.T)
        both[much[:, None] == at] = 0.0
        a, b = left[much][:, None], left[at]
        exact = (both >= (1 - PARALLEL) * a * b) & (b > ROUNDING)
        found[much[exact.any(axis=1)]] = found[at[exact.any(axis=0)]] = True
        if bound:
            rest = (a + b) / 2 - np.sqrt(np.square((a - b) / 2) + both)
            i, j = np.nonzero((rest < bound) & ~odd[much][:, None] & ~odd[at])
            pairs.append(np.stack([much[i], at[j], rest[i, j]], axis=1))
    some = np.concatenate(pairs)
    few = some[np.argsort(some[:, 2])[:PAIRS], :2].astype(np.int64)
    return found | _without_a_third(rows, basis, few)


def _without_a_third(rows: PackedBits, basis: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Whether each row (M,) is of a pair (P, 2) which no third row is like in their relation."""
    found = np.zeros(len(rows), dtype=bool)
    if not len(pairs):
        return found
    ends = [np.concatenate(list(_projected(rows[e], basis))) for e in pairs.T]
    turn = np.where((ends[0] * ends[1]).sum(axis=1) < 0, -1.0, 1.0)
    relation = ends[0] + turn[:, None] * ends[1]
    own = np.min([np.abs((e * relation).sum(axis=1)) for e in ends], axis=0)
    like = np.zeros(len(pairs), dtype=np.int64)
    for z in _projected(rows, basis):
        like += (np.abs(z @ relation.T) > THIRD * own).sum(axis=0)
    found[pairs[like <= 2].ravel()] = True
    return found


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
