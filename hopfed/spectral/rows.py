"""The rows that an operator is the sum of: examples as packed bits, or factors as numbers.

Rows of bits may have gaps; a missing entry is 0, in products and in plain arrays. Products are with
rows that are held: of others (`hopfed.spectral.reread_rows`) with one block after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, all_to_host, like, namespace, to_host
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.kernels import Rows
from hopfed.kernels.place import adopted
from hopfed.spectral.reread_rows import read_before

SITES = 2_048  # in a block of a long sum
# An (M, N) array of +-1, 0/1 or booleans, with gaps or without (`kernels.pack_masked`), rows of
# bits, or an iterable of those.
Examples = Any


def batches(examples: Examples) -> Iterable[Any]:
    """Yield the batches of `examples`: itself when it is one array, else its parts."""
    if hasattr(examples, "shape"):
        yield examples
        return
    empty = True
    for part in examples:
        empty = False
        yield part if hasattr(part, "shape") else np.asarray(part)
    if empty:
        raise ArgumentError("examples", "at least one batch of rows", "none")


def parts(rows: Rows, size: int) -> Iterator[Rows]:
    """Yield rows in blocks of at most `size`."""
    for part in rows.parts():
        yield from (part[a : a + size] for a in range(0, len(part), size))


def times(rows: Rows | Array, X: Array) -> Array:
    """Return ``rows @ X``, (R, k)."""
    return kernels.matmat(rows, X) if isinstance(rows, Rows) else _product(rows, X)


def transposed_times(rows: Rows | Array, U: Array) -> Array:
    """Return ``rows^T @ U``, (N, k)."""
    return kernels.rmatmat(rows, U) if isinstance(rows, Rows) else _product(rows.T, U)


def seen_times(rows: Rows | Array, X: Array) -> Array:
    """Return ``(rows != 0) @ X``, (R, k): for each row the sum over the entries that it has."""
    if isinstance(rows, Rows):
        return kernels.matmat(rows, X, presence=True)
    return namespace(rows, X).astype(rows != 0, X.dtype) @ X


def seen_transposed_times(rows: Rows | Array, U: Array) -> Array:
    """Return ``(rows != 0)^T @ U``, (N, k): for each column the sum over the rows that have it."""
    if isinstance(rows, Rows):
        return kernels.rmatmat(rows, U, presence=True)
    return namespace(rows, U).astype(rows.T != 0, U.dtype) @ U


def column_moments(rows: Rows | Array) -> tuple[Array, Array]:
    """Return sums and numbers of the entries of each column, (N,) both; int64 for bits."""
    if (read := read_before(rows)) is not None:
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
    """Sums and numbers of `column_moments` on the host, counted once."""
    if rows not in _moments:
        remember_moments(rows, *all_to_host(*column_moments(rows)))
    return _moments[rows]


def remember_moments(rows: Rows, sums: np.ndarray, seen: np.ndarray) -> None:
    """Keep what the columns of rows add up to, as long as the rows are there."""
    _moments[rows] = sums, seen


def squared_lengths(rows: Rows | Array) -> Array:
    """Return the sum of the squares of each row, (R,) float64; of bits what is seen."""
    if isinstance(rows, Rows):
        ones = like(np.ones(rows.shape[1]), array_beside(rows))
        return kernels.matmat(rows, ones, presence=True)
    xp = namespace(rows)
    return xp.sum(xp.astype(rows, xp.float64) ** 2, axis=1)


def _product(A: Array, X: Array) -> Array:
    """``A @ X`` of the type of X; single precision stays what it is, for the sake of no copy."""
    xp = namespace(A, X)
    if A.dtype == xp.float32:
        return xp.astype(A @ xp.astype(X, A.dtype), X.dtype)
    return xp.astype(A, X.dtype) @ X


def inner_products(rows: Rows | Array) -> Array:
    """Return ``rows @ rows^T``, (R, R) float64, exact for packed bits."""
    if isinstance(rows, Rows):
        G = kernels.gram(rows)
        return namespace(G).astype(G, namespace(G).float64)
    xp = namespace(rows)
    parts = (rows[:, a : a + SITES] for a in range(0, rows.shape[1], SITES))
    if not xp.isdtype(rows.dtype, "real floating"):
        parts = (xp.astype(part, xp.float64) for part in parts)
    return sum(xp.astype(part @ part.T, xp.float64) for part in parts)


def concatenate(parts: Sequence[Rows | Array]) -> Rows | Array:
    """Stack rows of one kind; bits have gaps where any of the parts has."""
    if all(isinstance(p, Rows) for p in parts):
        return kernels.concatenate(parts)
    plain = [kernels.unpack(p, dtype=np.float64) if isinstance(p, Rows) else p for p in parts]
    return namespace(*plain).concat(plain)


def packed(part: Any) -> Rows:
    """Pack a batch to bits, on the device where it is, with its gaps where it has any."""
    return part if isinstance(part, Rows) else kernels.pack_masked(adopted(part))


DEPENDENT = (
    "Rows depend on their neighbours ({:.1f} standard errors): they follow each other in time or "
    "in blocks. Keep every n-th row, or one of each block, so that rows are independent."
)


def neighbour_deviation(left: np.ndarray) -> float:
    """Standard errors by which rows of what is left are nearer to the next than to any."""
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
    """(M,) booleans on the host: whether a row has no entry."""
    if rows.gaps:
        return np.asarray(~to_host(rows.seen).any(axis=1))
    return np.zeros(len(rows), bool)


def array_beside(rows: Rows | Array) -> Array:
    """Return an array on the device that the rows are on, for `like`."""
    return getattr(rows, "home", rows)
