"""Thin products of packed data with float matrices, without a float copy of the data.

Block after block is unpacked into the cache and multiplied by BLAS. The action of an operator,
``J X = (1/(N M)) eta^T (eta X)``, takes one call of each function (theory/NOTES.md, "Low-rank
forms").
"""

from __future__ import annotations

import numpy as np

from hopfed._lib.arrays import blas_threads
from hopfed.errors import ArgumentError
from hopfed.kernels import bits
from hopfed.kernels.bits import WORD, PackedBits, Rows, check_packed, n_words
from hopfed.kernels.cpu.threads import for_each, spans
from hopfed.kernels.dispatch import with_twin

SIDE = 256  # of a block, a multiple of 64: 256 kilobytes of float32
PARTS = 16  # of the result at least, if it has as many words of rows: for as many threads
FEW = 1 << 22  # multiplications for which no thread is started


@with_twin
def matmat(p: Rows, X: np.ndarray) -> np.ndarray:
    """Return ``eta X``, (M, k), for packed (M, N) eta and X of shape (N, k), or (M,) for (N,).

    float32 X is multiplied in float32, any other real X in float64. The result does not depend on
    the number of threads; the memory used beyond it is about that of X, and a block a thread.

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
    return by_blocks(check_packed("p", p), None, X, transposed=False)


@with_twin
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
    return by_blocks(check_packed("p", p), None, U, transposed=True)


def by_blocks(
    p: PackedBits, seen: PackedBits | None, X: np.ndarray, *, transposed: bool
) -> np.ndarray:
    """Return the product with rows `p`, of which `seen` tells where there are entries.

    Each thread has rows of the result of its own, whose sums have one order: that of the blocks.
    """
    m, n = p.shape
    X, vector = operand("U" if transposed else "X", X, m if transposed else n)
    out = np.zeros((n if transposed else m, X.shape[1]), X.dtype)
    width = min(SIDE, WORD * n_words(-(-len(out) // PARTS)))  # the same for any number of threads

    def task(mine: tuple[int, int]) -> None:
        from hopfed.kernels.cpu.products import unpack_rows

        first, last = mine
        buffer, planes = np.empty(SIDE * (last - first), X.dtype), bits.planes(p, seen)
        for start, stop in spans(len(X), SIDE):
            block = buffer[: (stop - start) * (last - first)]
            if transposed:
                block = block.reshape(stop - start, last - first)
                unpack_rows(*planes, start, first // WORD, block)
                out[first:last] += block.T @ X[start:stop]
            else:
                block = block.reshape(last - first, stop - start)
                unpack_rows(*planes, first, start // WORD, block)
                out[first:last] += block @ X[start:stop]

    if out.size and len(X):
        with blas_threads(1):  # each of ours is one, and the order of summation stays the same
            if m * n * X.shape[1] <= FEW:
                for mine in spans(len(out), width):
                    task(mine)
            else:
                for_each(task, spans(len(out), width))
    return out[:, 0] if vector else out


def operand(name: str, X: np.ndarray, rows: int) -> tuple[np.ndarray, bool]:
    """Return X as a float matrix of `rows` rows, and whether it was a vector."""
    X = np.asarray(X)
    if X.ndim not in (1, 2) or X.shape[0] != rows or X.dtype.kind not in "biuf":
        rule = f"a real array of shape ({rows}, k) or ({rows},)"
        raise ArgumentError(name, rule, f"{X.dtype} of shape {X.shape}")
    X = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
    return (X[:, None], True) if X.ndim == 1 else (X, False)
