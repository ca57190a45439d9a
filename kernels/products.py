"""Thin products of packed data with float matrices, without a float copy of the data.

A word of bits selects which of 64 sums a number is added to (`cpu.products`), so that the data are
never unpacked. The action of an operator, ``J X = (1/(N M)) eta^T (eta X)``, takes one call of
each function (theory/NOTES.md, "Low-rank forms").
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hopfed.errors import ArgumentError
from hopfed.kernels.bits import WORD, PackedBits, Rows, check_packed, n_words
from hopfed.kernels.cpu.threads import for_each, spans, thread_count
from hopfed.kernels.dispatch import with_twin

GROUPS = 8  # groups of 64 rows or columns that share a piece of the float matrix in the cache

LEAST = 1 << 21  # multiplications below which it does not pay to start a thread


@with_twin("products")
def matmat(p: Rows, X: np.ndarray) -> np.ndarray:
    """Return ``eta X``, (M, k), for packed (M, N) eta and X of shape (N, k), or (M,) for (N,).

    float32 X is multiplied in float32, any other real X in float64. The result does not depend on
    the number of threads; the memory used beyond it is about that of X.

    Parameters
    ----------
    p : (M, N), packed.
    X : (N, k) or (N,), real.

    Raises
    ------
    ArgumentError : X of another number of rows, or not real.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> matmat(pack(np.array([[1, -1, 1]])), np.array([[1.0], [2.0], [4.0]])).tolist()
    [[3.0]]
    """
    p = check_packed("p", p)
    m, n = p.shape
    X, vector = operand("X", X, n)
    from hopfed.kernels.cpu.products import multiply

    out = _product(multiply, p, X, m)
    return out[:, 0] if vector else out


@with_twin("products")
def rmatmat(p: Rows, U: np.ndarray) -> np.ndarray:
    """Return ``eta^T U``, (N, k), for packed (M, N) eta and U of shape (M, k), or (N,) for (M,).

    Precision and memory are those of `matmat`.

    Parameters
    ----------
    p : (M, N), packed.
    U : (M, k) or (M,), real.

    Raises
    ------
    ArgumentError : U of another number of rows, or not real.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> rmatmat(pack(np.array([[1, -1], [1, 1]])), np.array([1.0, 2.0])).tolist()
    [3.0, 1.0]
    """
    p = check_packed("p", p)
    m, n = p.shape
    U, vector = operand("U", U, m)
    from hopfed.kernels.cpu.products import multiply_transposed

    out = _product(multiply_transposed, p, U, n)
    return out[:, 0] if vector else out


def _product(multiply: Callable, p: PackedBits, X: np.ndarray, rows: int) -> np.ndarray:
    """Pad X to whole groups of columns, sum its pieces, and share the rows of the result out."""
    from hopfed.kernels.cpu.products import PIECE, in_groups, reversed_rows

    n, k = X.shape
    out = np.zeros((rows, k), X.dtype)
    if out.size == 0 or n == 0:
        return out
    padded, width = in_groups(X)
    padded[reversed_rows(n)] *= -1
    totals = np.add.reduceat(padded, np.arange(0, n, PIECE), axis=0)
    groups = n_words(rows)
    size = max(1, min(GROUPS, groups // (2 * thread_count())), LEAST // (WORD * n * k))

    def task(span: tuple[int, int]) -> None:
        block, sums = np.empty(PIECE, np.uint64), np.empty(width * WORD, X.dtype)
        multiply(p.words, *span, padded, width, totals, out, block, sums)

    for_each(task, spans(groups, size))
    return out


def operand(name: str, X: np.ndarray, rows: int) -> tuple[np.ndarray, bool]:
    """Return X as a float matrix of `rows` rows, and whether it was a vector."""
    X = np.asarray(X)
    if X.ndim not in (1, 2) or X.shape[0] != rows or X.dtype.kind not in "biuf":
        rule = f"a real array of shape ({rows}, k) or ({rows},)"
        raise ArgumentError(name, rule, f"{X.dtype} of shape {X.shape}")
    X = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
    return (X[:, None], True) if X.ndim == 1 else (X, False)
