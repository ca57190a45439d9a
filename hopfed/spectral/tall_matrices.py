"""Products of tall thin matrices, and orthonormal bases of their columns.

A library shares one such product between its threads in pieces of the thin side, which are too
small, and waits for a thread whose core is busy. Here every thread takes the next block of rows.
An orthonormal basis comes from two rounds of Gram matrices instead of reflections: products do
nearly all of the work (Y. Yamamoto and others, Electron. Trans. Numer. Anal. 44 (2015) 306).

Arrays of other libraries are left to these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed._lib.arrays import Array, blas_threads, namespace
from hopfed.kernels.cpu.threads import for_each, spans

ROWS = 1 << 13  # of a block


def inner(A: Array, B: Array) -> Array:
    """``A^T B`` of (N, m) and (N, k), in the higher precision of both.

    Examples
    --------
    >>> inner(np.ones((3, 1), np.float32), np.arange(3.0)[:, None]).tolist()
    [[3.0]]
    """
    if not isinstance(A, np.ndarray) or len(A) <= ROWS:
        return namespace(A, B).matmul(A.T, B)
    blocks = spans(len(A), ROWS)
    parts: list[Any] = [None] * len(blocks)

    def task(i: int) -> None:
        rows = slice(*blocks[i])
        parts[i] = A[rows].T @ B[rows]

    with blas_threads(1):
        for_each(task, range(len(blocks)))
    return sum(parts[1:], start=parts[0])


def outer(A: Array, C: Array) -> Array:
    """``A C`` of (N, m) and (m, k), in the higher precision of both.

    Examples
    --------
    >>> outer(np.ones((2, 1)), np.array([[2.0, 3.0]])).tolist()
    [[2.0, 3.0], [2.0, 3.0]]
    """
    if not isinstance(A, np.ndarray) or len(A) <= ROWS:
        return namespace(A, C).matmul(A, C)
    found = np.empty((len(A), C.shape[1]), np.result_type(A, C))

    def task(span: tuple[int, int]) -> None:
        rows = slice(*span)
        np.matmul(A[rows], C, out=found[rows])

    with blas_threads(1):
        for_each(task, spans(len(A), ROWS))
    return found


def independent(block: Array, least: float) -> Array:
    """Orthonormal basis of the columns of `block`, without directions shorter than `least`.

    Parameters
    ----------
    block : (N, k) float64.
    least : at least a millionth of the longest column, or directions are lost to rounding.

    Examples
    --------
    >>> basis = independent(np.array([[3.0, 3.0, 3.0], [4.0, 4.0, 4.0], [0.0, 1e-9, 1.0]]), 1e-6)
    >>> basis.shape, bool(np.abs(basis.T @ basis - np.eye(2)).max() < 1e-15)
    ((3, 2), True)
    """
    for floor in (least**2, 0.0):  # the second round mends what rounding did to short ones
        xp = namespace(block)
        values, E = xp.linalg.eigh(inner(block, block))
        values, E = xp.flip(values, axis=0), xp.flip(E, axis=1)
        kept = int(xp.sum(xp.astype(values > floor, xp.int64)))
        block = outer(block, E[:, :kept] / xp.sqrt(values[:kept]))
    return block
