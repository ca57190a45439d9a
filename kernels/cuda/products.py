"""Thin products of packed data with float matrices on a device, without a float copy of the data.

A tile is unpacked into a buffer that stays in the second-level cache, and cuBLAS multiplies it: +-1
is exact, so the precision is that of the float matrix. The result has few columns, so a tile gives
many of its rows at once; a tall or a wide one of as many entries would leave most of the chip idle.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError
from hopfed.kernels.bits import WORD, n_words
from hopfed.kernels.cuda.bits import DevicePacked, check_packed, unpack_into
from hopfed.kernels.cuda.device import same_device, shrinking

BYTES = 32 << 20  # of a tile, in float32 or float64: within the 50 MB cache of a Hopper chip
ROWS = 1 << 14  # of the result that a tile gives, if it has as many: 128 blocks of 128 for cuBLAS


def matmat(p: DevicePacked, X: Any, seen: DevicePacked | None = None) -> Any:
    """Return ``eta X``, (M, k), for packed (M, N) eta and device X of shape (N, k) or (N,).

    float32 X is multiplied in float32 (never TF32), any other real X in float64.

    seen : where eta has an entry, everywhere when None; it is 0 elsewhere.
    """
    X, vector = operand("X", X, p, check_packed("p", p).shape[1])

    def add(tile: Any, rows: slice, columns: slice, out: Any) -> None:
        p.device.gemm(tile, X[columns], out[rows], ta=False, tb=False, add=columns.start > 0)

    def shape(entries: int) -> tuple[int, int]:
        height = min(len(p), ROWS, max(1, entries // WORD))
        return height, max(1, entries // height // WORD) * WORD

    out = _by_tiles(p, seen, X, len(p), shape, add)
    return out[:, 0] if vector else out


def rmatmat(p: DevicePacked, U: Any, seen: DevicePacked | None = None) -> Any:
    """Return ``eta^T U``, (N, k), for packed (M, N) eta and device U of shape (M, k) or (M,)."""
    U, vector = operand("U", U, p, check_packed("p", p).shape[0])

    def add(tile: Any, rows: slice, columns: slice, out: Any) -> None:
        p.device.gemm(tile, U[rows], out[columns], ta=True, tb=False, add=rows.start > 0)

    def shape(entries: int) -> tuple[int, int]:
        width = min(p.words.shape[1], ROWS // WORD, max(1, entries // WORD)) * WORD
        return max(1, entries // width), width

    out = _by_tiles(p, seen, U, p.n, shape, add)
    return out[:, 0] if vector else out


def _by_tiles(
    p: DevicePacked,
    seen: DevicePacked | None,
    X: Any,
    rows: int,
    shape: Callable[[int], tuple[int, int]],
    add: Callable[[Any, slice, slice, Any], None],
) -> Any:
    """Unpack one tile of `p` after the other in the type of X, and hand it to `add`."""
    m, n = p.shape
    out = p.device.xp.zeros((rows, X.shape[1]), X.dtype)
    if out.size == 0 or m == 0 or n == 0:
        return out

    def work(entries: int) -> Any:
        height, width = shape(entries)
        height, width = min(height, m), min(width, WORD * p.words.shape[1])
        buffer = p.device.xp.empty(height * width, X.dtype)
        for i, j in product(range(0, m, height), range(0, n, width)):
            span, columns = slice(i, min(i + height, m)), slice(j, min(j + width, n))
            sides = span.stop - i, columns.stop - j
            tile = buffer[: sides[0] * sides[1]].reshape(sides)
            unpack_into(p, span, slice(j // WORD, n_words(columns.stop)), tile, seen)
            add(tile, span, columns, out)
        return out

    size = min(max(WORD, BYTES // X.itemsize), m * WORD * p.words.shape[1])
    return shrinking(p.device, "a product of packed data", size, WORD, work)


def operand(name: str, X: Any, p: DevicePacked, rows: int) -> tuple[Any, bool]:
    """Return X as a C-contiguous float matrix of `rows` rows, and whether it was a vector."""
    device = p.device
    same_device(device, **{name: X})
    if X.ndim not in (1, 2) or X.shape[0] != rows or X.dtype.kind not in "biuf":
        rule = f"a real array of shape ({rows}, k) or ({rows},)"
        raise ArgumentError(name, rule, f"{X.dtype} of shape {X.shape}")
    X = device.xp.ascontiguousarray(X, np.float32 if X.dtype == np.float32 else np.float64)
    return (X[:, None], True) if X.ndim == 1 else (X, False)
