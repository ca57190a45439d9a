"""Gram matrices, second moments and thin products of packed rows, directly from the bits.

For rows a, b of +-1 the inner product is ``<a, b> = N - 2 popcount(a xor b)`` (theory/NOTES.md,
"Low-rank forms", the Gram route): one exclusive-or and one population count replace 64
multiplications. The product with an operator, ``J X = (1/(N M)) eta^T (eta X)``, takes one call of
`matmat` and one of `rmatmat`. No float copy of the rows is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.errors import ArgumentError
from hopfed.kernels.bits import Rows, check_rows, transpose, unpack
from hopfed.kernels.cpu.threads import cut_range
from hopfed.kernels.dispatch import array_library, check_beside, find_kernel

BLOCK = 1 << 22  # entries unpacked at a time for weights with many distinct values
FEW = 9  # mean number of rows per distinct weight from which Gram matrices of bits are used


def gram(p: Rows) -> np.ndarray:
    """Return the Gram matrix ``eta eta^T`` on CPU or GPU, (M, M) int32, of (M, N) eta; exact.

    Divided by M it has the nonzero eigenvalues of ``Jt = (1/M) eta^T eta``. For rows with gaps the
    sums are over the columns observed in both rows.

    >>> from hopfed.kernels import pack
    >>> gram(pack(np.array([[1, -1, 1], [1, 1, 1]]))).tolist()
    [[3, 1], [1, 3]]
    """
    return find_kernel(check_rows("p", p), "inner_products")(p.signs, p.seen, p.n)


def second_moment(p: Rows, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the sum over rows of ``w_m eta_m eta_m^T``, (N, N), on CPU or GPU, for N < M.

    Parameters
    ----------
    p : (M, N), packed.
    weights : (M,) real numbers of any sign. Without weights the result is exact int32; with weights
        it is float64, from bits if few distinct values occur (one exact Gram matrix for each),
        otherwise from float64 products of blocks of rows.

    >>> from hopfed.kernels import pack
    >>> p = pack(np.array([[1, -1], [1, 1]]))
    >>> second_moment(p).tolist(), second_moment(p, np.array([1.0, 0.5])).tolist()
    ([[2, 0], [0, 2]], [[1.5, -0.5], [-0.5, 1.5]])
    """
    if weights is None:
        return gram(transpose(p))
    m, n = check_rows("p", p).shape
    xp = array_library(p)
    weights = xp.asarray(weights)
    if weights.shape != (m,) or weights.dtype.kind not in "biuf":
        raise ArgumentError("weights", f"{m} real numbers", f"{weights.dtype} {weights.shape}")
    weights = weights.astype(np.float64)
    if not bool(xp.isfinite(weights).all()):
        raise ArgumentError("weights", "finite", "infinite or NaN ones")
    total: np.ndarray = xp.zeros((n, n))
    values = xp.unique(weights)
    if FEW * len(values) <= m or len(values) == 1:
        for i in range(len(values)):
            group = p if len(values) == 1 else p[weights == values[i]]
            total += gram(transpose(group)) * values[i]
        return total
    for start, stop in cut_range(m, max(1, BLOCK // max(n, 1))):
        rows = unpack(p[start:stop], dtype=np.float64)
        total += (rows * weights[start:stop, None]).T @ rows
    return total


def matmat(p: Rows, X: np.ndarray, presence: bool = False) -> np.ndarray:
    """Return ``eta X`` on CPU or GPU, (M, k), for packed (M, N) eta, X (N, k), or (M,) for (N,).

    float32 X is multiplied in float32, any other real X in float64. The result does not depend on
    the number of threads; additional memory is about that of X.

    presence : return for each row the unsigned sum of X over its observed columns.

    >>> from hopfed.kernels import pack_masked
    >>> p, X = pack_masked(np.array([[1, -1, 0]])), np.array([[1.0], [2.0], [4.0]])
    >>> matmat(p, X).tolist(), matmat(p, X, presence=True).tolist()
    ([[-1.0]], [[3.0]])
    """
    return _multiply_planes(p, X, presence, transposed=False)


def rmatmat(p: Rows, U: np.ndarray, presence: bool = False) -> np.ndarray:
    """Return ``eta^T U`` on CPU or GPU, (N, k), for packed (M, N) eta, U (M, k), or (N,) for (M,).

    Precision, memory and `presence` are as in `matmat`.

    >>> from hopfed.kernels import pack
    >>> rmatmat(pack(np.array([[1, -1], [1, 1]])), np.array([1.0, 2.0])).tolist()
    [3.0, 1.0]
    """
    return _multiply_planes(p, U, presence, transposed=True)


def _multiply_planes(p: Rows, X: Any, presence: bool, transposed: bool) -> Any:
    """Multiply planes of bits, or rows of ones without a plane, after checking X."""
    seen = check_rows("p", p).seen
    signs = seen if presence else p.signs
    m, n = p.signs.shape[0], p.n
    name, rows, out_rows = ("U", m, n) if transposed else ("X", n, m)
    X = check_beside(name, X, p)
    dtype, shape = X.dtype, X.shape
    if len(shape) not in (1, 2) or shape[0] != rows or dtype.kind not in "biuf":
        rule = f"a real array of shape ({rows}, k) or ({rows},)"
        raise ArgumentError(name, rule, f"{dtype} of shape {shape}")
    thin = X[:, None] if len(shape) == 1 else X
    if dtype != np.float32:
        thin = thin.astype(np.float64, copy=False)
    if signs is None:
        total = thin.sum(axis=0, dtype=np.float64).astype(thin.dtype)
        out = array_library(p).tile(total, (out_rows, 1))
    elif out_rows and thin.size:
        out = find_kernel(p, "product")(signs, seen, n, thin, transposed)
    else:
        out = array_library(p).zeros((out_rows, thin.shape[1]), thin.dtype)
    return out[:, 0] if len(shape) == 1 else out
