"""Rows of packed bits, or factors as numbers: their products, equal rows, and hashes.

A missing entry of bits is 0, in products and in plain arrays. Equal rows can be held once with
their counts: a sum over rows of ten columns then takes at most 1,024 rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, all_to_host, like, namespace, to_host
from hopfed._lib.settings import require
from hopfed.kernels import Rows
from hopfed.kernels.bits import with_gaps
from hopfed.kernels.place import adopt_array
from hopfed.spectral.reread_rows import earlier_totals

SITES = 2_048  # sites per block of a long sum


def blocks(rows: Rows, size: int) -> Iterator[Rows]:
    """Yield rows of packed bits in blocks of at most `size`."""
    for part in rows.parts():
        yield from (part[a : a + size] for a in range(0, len(part), size))


def times(rows: Rows | Array, X: Array) -> Array:
    """Return, for rows of bits or numbers, ``rows @ X``, (R, k)."""
    return kernels.matmat(rows, X) if isinstance(rows, Rows) else _product(rows, X)


def transposed_times(rows: Rows | Array, U: Array) -> Array:
    """Return, for rows of bits or numbers, ``rows^T @ U``, (N, k)."""
    return kernels.rmatmat(rows, U) if isinstance(rows, Rows) else _product(rows.T, U)


def seen_times(rows: Rows | Array, X: Array) -> Array:
    """Return, for rows of bits or numbers, ``(rows != 0) @ X``, (R, k): sums where observed."""
    if isinstance(rows, Rows):
        return kernels.matmat(rows, X, presence=True)
    return namespace(rows, X).astype(rows != 0, X.dtype) @ X


def seen_transposed_times(rows: Rows | Array, U: Array) -> Array:
    """Return, for rows of bits or numbers, ``(rows != 0)^T @ U``, (N, k): sums where observed."""
    if isinstance(rows, Rows):
        return kernels.rmatmat(rows, U, presence=True)
    return namespace(rows, U).astype(rows.T != 0, U.dtype) @ U


def column_moments(rows: Rows | Array) -> tuple[Array, Array]:
    """Return sums and numbers of rows' observed entries by column, (N,); int64 for bits."""
    if (read := earlier_totals(rows)) is not None:
        return read.sums, read.seen
    if isinstance(rows, Rows):
        if rows.counts is None:
            return kernels.column_sums(rows), kernels.seen_counts(rows)
        often = like(rows.counts, rows.home)
        found = kernels.rmatmat(rows, often), kernels.rmatmat(rows, often, True)
        return tuple(np.rint(to_host(x)).astype(np.int64) for x in found)
    xp = namespace(rows)
    return xp.sum(rows, axis=0, dtype=xp.float64), xp.sum(rows != 0, axis=0, dtype=xp.int64)


_moments: WeakKeyDictionary[Rows, tuple[np.ndarray, np.ndarray]] = WeakKeyDictionary()


def host_moments(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return `column_moments`, sums over rows, on the host, computed once for each `rows`."""
    if rows not in _moments:
        sums, seen = all_to_host(*column_moments(rows))
        _moments[rows] = sums, seen
    return _moments[rows]


def squared_lengths(rows: Rows | Array) -> Array:
    """Return sums of squares of rows of numbers, (R,) float64; for bits the number observed."""
    if isinstance(rows, Rows):
        ones = like(np.ones(rows.shape[1]), array_beside(rows))
        return kernels.matmat(rows, ones, presence=True)
    xp = namespace(rows)
    return xp.sum(xp.astype(rows, xp.float64) ** 2, axis=1)


def _product(A: Array, X: Array) -> Array:
    """Return ``A @ X`` in the type of X; a float32 A is multiplied without a copy."""
    xp = namespace(A, X)
    if A.dtype == xp.float32:
        return xp.astype(A @ xp.astype(X, A.dtype), X.dtype)
    return xp.astype(A, X.dtype) @ X


def inner_products(rows: Rows | Array) -> Array:
    """Return, for rows of bits or numbers, ``rows @ rows^T``, (R, R) float64, exact for bits."""
    if isinstance(rows, Rows):
        G = kernels.gram(rows)
        return namespace(G).astype(G, namespace(G).float64)
    xp = namespace(rows)
    parts = (rows[:, a : a + SITES] for a in range(0, rows.shape[1], SITES))
    if not xp.isdtype(rows.dtype, "real floating"):
        parts = (xp.astype(part, xp.float64) for part in parts)
    return sum(xp.astype(part @ part.T, xp.float64) for part in parts)


def stack_rows(parts: Sequence[Rows | Array]) -> Rows | Array:
    """Stack rows of packed bits, or of numbers; bits have gaps if any of the parts has."""
    if all(isinstance(p, Rows) for p in parts):
        return kernels.concatenate(parts)
    plain = [kernels.unpack(p, dtype=np.float64) if isinstance(p, Rows) else p for p in parts]
    return namespace(*plain).concat(plain)


def pack_rows(part: Any) -> Rows:
    """Pack an array to rows of bits on its device, with gaps if it has any."""
    if isinstance(part, Rows):
        return part
    return kernels.pack_masked(adopt_array(part if hasattr(part, "shape") else np.asarray(part)))


DEPENDENT = (
    "Rows depend on their neighbours ({:.1f} standard errors): they follow each other in time or "
    "in blocks. Keep every n-th row, or one of each block, so that rows are independent."
)


def neighbour_deviation(left: np.ndarray) -> float:
    """Standard errors by which rows of residuals are closer to the next row than to any row."""
    rows = np.asarray(left, np.float64)
    require(rows.ndim == 2, "left", "a matrix (M, N)", f"shape {rows.shape}")
    require(bool(np.isfinite(rows).all()), "left", "finite, with 0 in gaps", "another entry")
    M = len(rows)
    if M < 3:
        return 0.0
    rows = rows - rows.mean(axis=0)
    products = np.einsum("ij,ij->i", rows[:-1], rows[1:])
    products += np.einsum("ij,ij->", rows, rows) / (M * (M - 1))  # all pairs of centred rows
    size = float(np.sqrt(products @ products))
    return float(products.sum() / size) if size > 0 else 0.0


def is_blank(rows: Rows) -> np.ndarray:
    """(M,) booleans on the host: whether a row of packed bits has no observed entry."""
    return np.asarray(~to_host(rows.seen).any(axis=1) if rows.gaps else np.zeros(len(rows), bool))


def array_beside(rows: Rows | Array) -> Array:
    """Return an array on the device of rows of packed bits or numbers, for use with `like`."""
    return getattr(rows, "home", rows)


WORDS = 1 << 22  # words that are mixed at a time
MERGED = 1 << 22  # most entries of distinct rows held in memory for a table that is reread
PAYS = 0.5  # largest share of distinct rows at which merging pays
STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # shifts and factors of splitmix64


def merge_where_it_pays(rows: Rows) -> Rows:
    """Merge equal rows if at most a share `PAYS` is distinct, otherwise return rows unchanged."""
    if not rows.held:
        found = rows.total(_Merging.of, enough=lambda merging: merging.rows is None).rows
    else:
        found = rows if rows.counts is not None else merge_equal_rows(rows)
    return rows if found is None or len(found) > PAYS * len(rows) else found


def merge_equal_rows(rows: Rows) -> Rows:
    """Merge equal rows: the distinct rows, in order of first occurrence, with their counts."""
    marks = to_host(hash_rows(rows))
    _, first, into = np.unique(marks, return_index=True, return_inverse=True)
    order = np.argsort(first)
    kept = rows[like(first[order], rows.home)]
    return replace(kept, counts=np.bincount(into, rows.weights)[order])


def thin_rows(rows: Rows, share: float, rng: np.random.Generator) -> Rows:
    """Draw about this share of merged rows, with counts, without replacement."""
    if (rows.weights != np.rint(rows.weights)).any():  # weights of a survey
        return rows[like(np.flatnonzero(rng.random(len(rows)) < share), rows.home)]
    drawn = rng.binomial(rows.weights.astype(np.int64), share)
    kept = np.flatnonzero(drawn)
    return replace(rows[like(kept, rows.home)], counts=drawn[kept].astype(np.float64))


@dataclass(frozen=True, eq=False)
class _Merging:
    """Merged rows of the blocks so far; None once there are too many distinct rows to hold."""

    rows: Rows | None

    @classmethod
    def of(cls, part: Rows) -> _Merging:
        rows = merge_equal_rows(part)
        return cls(rows if len(rows) * rows.n <= MERGED else None)

    def __add__(self, other: _Merging) -> _Merging:
        if self.rows is None or other.rows is None:
            return _Merging(None)
        return self.of(kernels.concatenate([self.rows, other.rows]))


def hash_rows(rows: Rows) -> Array:
    """Return a hash (M,) of each row, by which equal rows are found, on the rows' device."""
    W = rows.signs.shape[1]
    factors = _mixed(np.arange(1, 2 * W + 1, dtype=np.uint64)) | np.uint64(1)
    step = max(1, WORDS // max(W, 1))

    def summed(words: Array, by: np.ndarray) -> Array:
        xp, by = namespace(words), like(by, words)
        parts = [words[a : a + step] for a in range(0, max(len(words), 1), step)]
        return xp.concat([xp.sum(_mixed(part) * by, axis=1, dtype=xp.uint64) for part in parts])

    if rows.gaps:
        return summed(rows.signs, factors[:W]) + summed(rows.seen, factors[W:])
    # Without gaps all rows observe the same entries: one row, on the host, is enough.
    every = with_gaps(kernels.pack(np.ones((1, rows.n)))).seen
    return summed(rows.signs, factors[:W]) + summed(every, factors[W:])[0]


def _mixed(words: Array) -> Array:
    """Mix the bits of each word, so that every bit depends on all bits (splitmix64)."""
    for shift, factor in STEPS:
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(31))


def hide_other_columns(rows: Rows, columns: np.ndarray) -> Rows:
    """Return rows of packed bits in which only the entries of some columns are observed."""
    gaps = with_gaps(rows)
    words = like(kernels.pack(np.where(columns, 1, -1)[None]).signs, gaps.home)
    return replace(gaps, signs=gaps.signs & words, seen=gaps.seen & words)


def count_equal_rows(rows: Rows) -> Array:
    """Count packed rows equal to an earlier row, and rows without an equal, (2,) float64."""
    if rows.counts is not None:
        counts = merge_equal_rows(rows).weights  # rows may be equal after columns were removed
        return np.array([(counts - 1).sum(), (counts == 1).sum()], np.float64)
    xp = namespace(rows.home)
    marks = xp.sort(hash_rows(rows))
    same, none = marks[1:] == marks[:-1], marks[:1] != marks[:1]
    alone = ~(xp.concat([none, same]) | xp.concat([same, none]))
    return xp.stack([xp.sum(x, dtype=xp.float64) for x in (same, alone)])
