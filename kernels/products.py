"""Thin products of packed data with float matrices, without a float copy of the data.

A tile of bits is unpacked to +-1 of the matrix's own precision in a buffer that fits the cache,
and multiplied by BLAS. Building an operator's action ``J X = (1/(N M)) eta^T (eta X)`` takes one
call of each function (formula sheet A2).
"""

from __future__ import annotations

import numpy as np
from hopfed.kernels.bits import WORD, PackedBits, check_packed
from hopfed.kernels.threads import for_each, spans

from hopfed.errors import ArgumentError

TILE_ROWS = 256
TILE_WORDS = 32  # 2048 columns: 2 MB of float32 a tile


def matmat(p: PackedBits, X: np.ndarray) -> np.ndarray:
    """Return ``eta X``, (M, k), for packed (M, N) eta and X of shape (N, k), or (M,) for (N,).

    float32 X is multiplied in float32, any other real X in float64. The memory used beyond the
    result is a few megabytes.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> matmat(pack(np.array([[1, -1, 1]])), np.array([[1.0], [2.0], [4.0]])).tolist()
    [[3.0]]
    """
    m, n = check_packed("p", p).shape
    X, vector = _operand("X", X, n)
    out = np.zeros((m, X.shape[1]), X.dtype)

    def task(rows: tuple[int, int]) -> None:
        span, buffer = slice(*rows), _buffer(p, X.dtype)
        for words in spans(p.words.shape[1], TILE_WORDS):
            tile, columns = _tile(p, span, words, buffer)
            out[span] += tile @ X[columns]

    if out.size:
        for_each(task, spans(m, TILE_ROWS))
    return out[:, 0] if vector else out


def rmatmat(p: PackedBits, U: np.ndarray) -> np.ndarray:
    """Return ``eta^T U``, (N, k), for packed (M, N) eta and U of shape (M, k), or (N,) for (M,).

    Precision and memory are those of `matmat`.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> rmatmat(pack(np.array([[1, -1], [1, 1]])), np.array([1.0, 2.0])).tolist()
    [3.0, 1.0]
    """
    m, n = check_packed("p", p).shape
    U, vector = _operand("U", U, m)
    out = np.zeros((n, U.shape[1]), U.dtype)

    def task(words: tuple[int, int]) -> None:
        buffer = _buffer(p, U.dtype)
        for rows in spans(m, TILE_ROWS):
            tile, columns = _tile(p, slice(*rows), words, buffer)
            out[columns] += tile.T @ U[slice(*rows)]

    if out.size:
        for_each(task, spans(p.words.shape[1], TILE_WORDS))
    return out[:, 0] if vector else out


def _buffer(p: PackedBits, dtype: np.dtype) -> np.ndarray:
    rows, words = p.words.shape
    return np.empty(min(rows, TILE_ROWS) * min(words, TILE_WORDS) * WORD, dtype)


def _tile(
    p: PackedBits, rows: slice, words: tuple[int, int], buffer: np.ndarray
) -> tuple[np.ndarray, slice]:
    """Unpack rows x words into `buffer`; return the tile and the columns it stands for."""
    from hopfed.kernels.bits_cpu import unpack_rows

    start, stop = words[0] * WORD, min(words[1] * WORD, p.n)
    shape = (rows.stop - rows.start, stop - start)
    tile = buffer[: shape[0] * shape[1]].reshape(shape)
    unpack_rows(p.words[rows, slice(*words)], tile)
    return tile, slice(start, stop)


def _operand(name: str, X: np.ndarray, rows: int) -> tuple[np.ndarray, bool]:
    """Return X as a float matrix of `rows` rows, and whether it was a vector."""
    X = np.asarray(X)
    if X.ndim not in (1, 2) or X.shape[0] != rows or X.dtype.kind not in "biuf":
        rule = f"a real array of shape ({rows}, k) or ({rows},)"
        raise ArgumentError(name, rule, f"{X.dtype} of shape {X.shape}")
    X = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
    return (X[:, None], True) if X.ndim == 1 else (X, False)
