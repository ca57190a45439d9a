"""Thin products of packed rows with float matrices on a device, without a float copy of the rows.

float32 is split into three terms of 16 bits, whose products with the bits are exact. The matrix
instructions, which round toward 0, add up 128 columns, and float32 the rest: the error is at most
2^-17 sum |x|, and about that of float32 in practice.

Other types, and chips without the instructions, unpack a tile into a buffer, and cuBLAS multiplies
it (never as TF32). Tiles are large: of many small ones, which stay in the second-level cache, the
launches last longer. The result has few columns, so a tile gives many rows of it at once.
"""

from __future__ import annotations

from itertools import product as pairs
from typing import Any

import numpy as np

from hopfed.kernels.bits import WORD, n_words
from hopfed.kernels.cuda.bits import transpose, unpack_into
from hopfed.kernels.cuda.device import device_of, grid_of_blocks

METHODS = ("float32", "bf16")
TILE = (128, 24)  # rows and columns of the result from a block, as in products.cu
COLUMNS = 128  # columns of a step, as in products.cu
RESIDENT = 4  # blocks of 128 threads of a processor
BYTES = 512 << 20  # bytes of a tile
ROWS = 1 << 16  # most rows of the result from a tile: several blocks of 128 for each processor


def product(
    signs: Any, seen: Any, n: int, X: Any, transposed: bool, method: str | None = None
) -> Any:
    """On a GPU, the thin product ``eta X``, or ``eta^T X``, X (rows, k) of floats, not empty.

    method : a member of METHODS for float32 X; None for the best that the chip has.
    """
    device = device_of("signs", signs)
    X = device.xp.ascontiguousarray(X)
    way = method or METHODS[device.capability >= 80]
    if X.dtype != np.float32 or way == "float32":
        return _by_tiles(device, signs, seen, n, X, transposed)
    if transposed:
        signs, seen = (None if plane is None else transpose(plane, n) for plane in (signs, seen))
    return _by_terms(device, signs, seen, X)


def _by_terms(device: Any, signs: Any, seen: Any, X: Any) -> Any:
    """Multiply by the matrix instructions; parts of the columns fill the chip if rows are few."""
    m, (n, k), xp = len(signs), X.shape, device.xp
    steps = -(-n // COLUMNS)
    terms = xp.zeros((3 * k, steps * COLUMNS), np.uint16)
    sizes = np.int64(k), np.int64(steps * COLUMNS)
    given = X, np.int64(n), *sizes, terms
    device.launch("products", "split_terms", grid_of_blocks(X.size), given)
    across, down = -(-k // TILE[1]), -(-m // TILE[0])
    parts = min(steps, max(1, RESIDENT * device.processors // (across * down)))
    each = -(-steps // parts)
    out = xp.empty((-(-steps // each), m, k), np.float32)
    planes = signs, signs if seen is None else seen, np.int32(seen is not None)
    args = *planes, np.int64(m), np.int64(signs.shape[1]), terms, *sizes, np.int64(each), out
    device.launch("products", "thin_product", (down * len(out), across), args, TILE[0])
    return out[0] if len(out) == 1 else out.sum(axis=0)


def _by_tiles(device: Any, signs: Any, seen: Any, n: int, X: Any, transposed: bool) -> Any:
    """Unpack the rows tile by tile in the type of X, and multiply each tile."""
    m, wide = len(signs), WORD * signs.shape[1]
    out = device.xp.zeros((n if transposed else m, X.shape[1]), X.dtype)
    entries = BYTES // X.itemsize  # of a tile: whole words, and as many rows of the result as fit
    if transposed:
        width = min(wide, ROWS)
        height = min(m, entries // width)
    else:
        height = min(m, ROWS)
        width = min(wide, max(1, entries // height // WORD) * WORD)
    buffer = device.xp.empty(height * width, X.dtype)
    for i, j in pairs(range(0, m, height), range(0, n, width)):
        span, columns = slice(i, min(i + height, m)), slice(j, min(j + width, n))
        sides = span.stop - i, columns.stop - j
        tile = buffer[: sides[0] * sides[1]].reshape(sides)
        unpack_into(signs, seen, n, span, slice(j // WORD, n_words(columns.stop)), tile)
        along, part = (span, columns) if transposed else (columns, span)
        device.gemm(tile, X[along], out[part], ta=transposed, tb=False, add=along.start > 0)
    return out
