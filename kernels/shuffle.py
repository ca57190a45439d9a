"""Scrambled copies of examples: what is left when nothing but chance holds the entries together.

The null of a rank rule (theory/NOTES.md, "Counting: shuffle null"): the largest eigenvalue of such
copies is what noise alone reaches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed._lib.arrays import blas_threads
from hopfed.errors import ArgumentError
from hopfed.kernels.bits import PackedBits, Rows, check_packed, transpose
from hopfed.kernels.cpu.threads import for_each, spans
from hopfed.kernels.dispatch import has_gaps, on_device, with_twin
from hopfed.kernels.moments import gram, second_moment
from hopfed.kernels.philox import key
from hopfed.kernels.products import matmat, rmatmat

NULLS = ("signs", "permute")
TASK = 1 << 16  # words or bits that a thread scrambles at a time

SMALL = 64  # side of a matrix up to which LAPACK is as fast as Lanczos
ALONE = 1_500  # side below which a second thread waits for its core longer than it helps
LARGE = 12_000  # side above which the matrix is not made: products with the bits take its place
BASIS = 40  # Lanczos vectors: the top of a spectrum without spikes is not set apart from the rest
TOLERANCE = 1e-4  # of the residual; the error of the eigenvalue is of its second order


def check_null(null: str) -> None:
    """Raise ArgumentError unless `null` is one of NULLS."""
    if null not in NULLS:
        raise ArgumentError("null", f"one of {', '.join(NULLS)}", repr(null))


def scramble(rows: Rows | np.ndarray, null: str, rng: np.random.Generator) -> Any:
    """Return a scrambled copy of `rows`, of the same kind.

    Parameters
    ----------
    rows : (M, N), packed or an array. Packed rows stay packed, and are scrambled where they are
        by a counter-based generator whose seed is drawn from `rng`: on a device the copy is the
        same to the bit.
    null : "signs" turns every entry with probability 1/2; "permute" permutes every column on its
        own, which keeps the sums of the columns.

    Examples
    --------
    >>> from hopfed.kernels import pack, unpack
    >>> p = pack(np.array([[1, -1], [1, 1], [1, -1]]))
    >>> unpack(scramble(p, "permute", np.random.default_rng(0))).sum(axis=0).tolist()
    [3, -1]
    """
    check_null(null)
    if isinstance(rows, np.ndarray):
        return rng.permuted(rows, axis=0) if null == "permute" else rows * _signs(rng, rows)
    if has_gaps(rows):
        from hopfed.kernels.masked import scramble as with_gaps

        return with_gaps(rows, null, rng)  # type: ignore[arg-type]
    rows = check_packed("rows", rows)
    k0, k1 = key(int(rng.integers(1 << 63)))
    if null == "signs":
        return flipped(rows, k0, k1)
    return transpose(permuted(transpose(rows), k0, k1))


def _signs(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return (2 * rng.integers(0, 2, size=x.shape, dtype=np.int8) - 1).astype(x.dtype)


@with_twin
def flipped(p: PackedBits, k0: np.uint64, k1: np.uint64) -> PackedBits:
    """Flip every entry with probability 1/2."""
    from hopfed.kernels.cpu.shuffle import flip_signs

    words = p.words.copy()
    if words.size:
        pieces = spans(len(words), max(1, TASK // words.shape[1]))
        for_each(lambda piece: flip_signs(words, *piece, p.n, k0, k1), pieces)
    return PackedBits(words, p.n)


@with_twin
def permuted(p: PackedBits, k0: np.uint64, k1: np.uint64) -> PackedBits:
    """Permute the bits of every row on their own."""
    from hopfed.kernels.cpu.shuffle import permute_rows

    words = p.words.copy()

    def task(piece: tuple[int, int]) -> None:
        permute_rows(words, *piece, p.n, np.empty(p.n, np.uint32), k0, k1)

    if words.size:
        for_each(task, spans(len(words), max(1, TASK // p.n)))
    return PackedBits(words, p.n)


def largest_eigenvalue(
    p: PackedBits, weights: np.ndarray | float, rng: np.random.Generator
) -> float:
    """Largest eigenvalue of the sum over rows of ``w_m eta_m eta_m^T``, to about 1e-6 of itself.

    By Lanczos (ARPACK) on the smaller of the M x M and the N x N matrix, in float32: a tenth of
    the time that all eigenvalues take.

    Parameters
    ----------
    p : (M, N) packed rows on the host; a device has its own solver for all eigenvalues.
    weights : (M,) or one for all, at least 0.
    rng : draws the first vector.

    Raises
    ------
    ArgumentError : rows on a device, weights of another shape, negative or not finite.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> p = pack(np.array([[1, 1, 1], [1, 1, 1], [1, -1, 1]]))
    >>> round(largest_eigenvalue(p, 1 / 3, np.random.default_rng(0)), 3)
    2.187
    """
    m, n = check_packed("p", p).shape
    if on_device(p):
        raise ArgumentError("p", "on the host", "a device")
    weights = np.asarray(weights, np.float64)
    if weights.shape not in ((), (m,)) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise ArgumentError("weights", f"one number or {m}, finite and at least 0", weights)
    side, scale = min(m, n), float(weights.max(initial=0.0))
    if side == 0 or scale == 0:
        return 0.0
    A = _matrix(p, weights / scale)
    if side <= SMALL:
        return scale * float(np.linalg.eigvalsh(A)[-1])
    from scipy.sparse.linalg import eigsh

    start = rng.standard_normal(side).astype(np.float32)
    with blas_threads(1 if side < ALONE else None):
        found = eigsh(
            A, 1, which="LA", ncv=BASIS, tol=TOLERANCE, v0=start, return_eigenvectors=False
        )
    return scale * float(found[0])


def _matrix(p: PackedBits, weights: np.ndarray) -> Any:
    """Matrix of the smaller side whose leading eigenvalue is wanted, or its product."""
    m, n = p.shape
    if min(m, n) > LARGE:
        return _operator(p, weights)
    if m <= n:
        root = np.broadcast_to(np.sqrt(weights), m).astype(np.float32)
        A = gram(p).astype(np.float32)
        A *= root[:, None]
        A *= root
        return A
    each = None if weights.ndim == 0 else weights
    return second_moment(p, each).astype(np.float32)


def _operator(p: PackedBits, weights: np.ndarray) -> Any:
    from scipy.sparse.linalg import LinearOperator

    root = np.sqrt(weights).astype(np.float32)

    def by_examples(x: np.ndarray) -> np.ndarray:
        return root * matmat(p, rmatmat(p, root * x.ravel()))

    def by_sites(x: np.ndarray) -> np.ndarray:
        return rmatmat(p, root * (root * matmat(p, x.ravel())))

    side = min(p.shape)
    product = by_examples if side == len(p) else by_sites
    return LinearOperator((side, side), matvec=product, dtype=np.float32)
