"""Thin products of packed rows with float matrices on a device, without a float copy of the rows.

A tile is unpacked into a buffer, and cuBLAS multiplies it: +-1 is exact, so the precision is that
of the float matrix. Tiles are large: of many small ones, which stay in the second-level cache, the
launches last longer. The result has few columns, so a tile gives many rows of it at once.

float32 is multiplied directly (never as TF32), or as three terms of 16 bits by the matrix
instructions, whose sums are float32: half the bytes of a tile, and many times the rate. The terms
are bfloat16, the upper halves of float32, held as uint16. The rounding of the sums of matrix
instructions is not documented, so it is measured once for each device, and the instructions are
used if they are faster and about as exact.
"""

from __future__ import annotations

from functools import partial
from itertools import product as pairs
from typing import Any

import numpy as np

from hopfed.kernels.bits import WORD, n_words
from hopfed.kernels.cuda.bits import unpack, unpack_into
from hopfed.kernels.cuda.device import device_of, grid_of_blocks, halve_to_fit

METHODS = ("float32", "bf16")
WIDTHS = (16, 64)  # numbers of columns, small and large, for which methods are compared
AS_EXACT = 4.0  # largest error allowed, as a multiple of the largest error of float32
BYTES = 512 << 20  # bytes of a tile
ROWS = 1 << 16  # most rows of the result from a tile: several blocks of 128 for each processor
SIDE = 8  # sides of 16-bit matrices should be multiples of this: 16 bytes


def product(
    signs: Any, seen: Any, n: int, X: Any, transposed: bool, method: str | None = None
) -> Any:
    """On a GPU, the thin product ``eta X``, or ``eta^T X``, X (rows, k) of floats, not empty.

    method : a member of METHODS for float32 X; None for the fastest by measurement.
    """
    device, k = device_of("signs", signs), X.shape[1]
    X = device.xp.ascontiguousarray(X)
    if X.dtype != np.float32 or (method or fastest_method(device, k)) == "float32":
        return _by_tiles(device, signs, seen, n, X, transposed)
    sums = _by_tiles(device, signs, seen, n, split_float32(device, X), transposed)
    return sums[:, 2 * k : 3 * k] + sums[:, k : 2 * k] + sums[:, :k]  # the smallest first


_fastest: dict[Any, str] = {}  # method by device, and whether there are many columns


def fastest_method(device: Any, k: int) -> str:
    """Fastest thin product on a GPU for `k` columns, about as exact as float32; measured once."""
    wide = k > WIDTHS[0]
    key = (device.name, device.ordinal, wide)
    if key not in _fastest:
        _fastest[key] = _measured(device, WIDTHS[wide]) if device.capability >= 80 else "float32"
    return _fastest[key]


def _measured(device: Any, k: int) -> str:
    """Compare the methods on random rows; all terms in the sums of the first row are positive."""
    rows, columns = device.trial
    rng, xp = np.random.default_rng(0), device.xp
    words = xp.asarray(rng.integers(0, 2**64, (rows, columns // WORD), dtype=np.uint64))
    X = xp.asarray(abs(rng.standard_normal((columns, k))).astype(np.float32))
    X = X * unpack(words[:1], None, columns, np.float32).T
    exact = product(words, None, columns, X.astype(np.float64), False)
    times, gaps = {}, {}
    for way in METHODS:
        work = partial(product, words, None, columns, X, False, way)
        far = abs(work() - exact)
        gaps[way] = float(far[0].max()), float(far[1:].max())
        times[way] = device.seconds(work)
    limits = [AS_EXACT * gap for gap in gaps["float32"]]
    good = [way for way in METHODS if all(a <= b for a, b in zip(gaps[way], limits, strict=True))]
    return min(good, key=times.__getitem__)


def split_float32(device: Any, x: Any) -> Any:
    """For products on a GPU, split float32 (n, k) into a sum of 3, (n, 3 k) uint16 and padding."""
    n, k = x.shape
    terms = device.xp.zeros((n, -(-3 * k // SIDE) * SIDE), np.uint16)
    args = x, np.int64(n), np.int64(k), np.int64(terms.shape[1]), terms
    device.launch("bits", "split_terms", grid_of_blocks(x.size), args)
    return terms


def _by_tiles(device: Any, signs: Any, seen: Any, n: int, X: Any, transposed: bool) -> Any:
    """Unpack the rows tile by tile in the type of X, and multiply each tile."""
    m, words = signs.shape
    kind = np.float32 if X.dtype == np.uint16 else X.dtype
    out = device.xp.zeros((n if transposed else m, X.shape[1]), kind)

    def work(entries: int) -> Any:
        height, width = _tile(entries, m, WORD * words, transposed)
        buffer = device.xp.empty(height * width, X.dtype)
        for i, j in pairs(range(0, m, height), range(0, n, width)):
            span, columns = slice(i, min(i + height, m)), slice(j, min(j + width, n))
            sides = span.stop - i, columns.stop - j
            tile = buffer[: sides[0] * sides[1]].reshape(sides)
            unpack_into(signs, seen, n, span, slice(j // WORD, n_words(columns.stop)), tile)
            along, part = (span, columns) if transposed else (columns, span)
            device.gemm(tile, X[along], out[part], ta=transposed, tb=False, add=along.start > 0)
        return out

    size = min(max(WORD, BYTES // X.itemsize), m * WORD * words)
    return halve_to_fit(device, "a product of packed data", size, WORD, work)


def _tile(entries: int, m: int, wide: int, transposed: bool) -> tuple[int, int]:
    """Sides of a tile of `entries` entries: whole words, and as many rows of the result as fit."""
    if transposed:
        width = min(wide, ROWS, max(WORD, entries // WORD * WORD))
        return min(m, max(1, entries // width)), width
    height = min(m, ROWS, max(1, entries // WORD))
    return height, min(wide, max(1, entries // height // WORD) * WORD)
