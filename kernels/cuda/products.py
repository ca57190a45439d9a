"""Thin products of packed data with float matrices on a device, without a float copy of the data.

A tile is unpacked into a buffer that stays in the second-level cache, and cuBLAS multiplies it: +-1
is exact, so the precision is that of the float matrix. The result has few columns, so a tile gives
many of its rows at once; a tall or a wide one of as many entries would leave most of the chip idle.

float32 is multiplied as it is, or as three terms of 16 bits by the matrix instructions, whose sums
are float32 (`bf16`): half the bytes of a tile, and many times the rate. How matrix instructions
round their sums is not written anywhere, so it is measured, once for each device, and they are used
where they are the faster and no less exact.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError
from hopfed.kernels.bits import WORD, n_words
from hopfed.kernels.cuda import bf16
from hopfed.kernels.cuda.bits import DevicePacked, check_packed, unpack, unpack_into
from hopfed.kernels.cuda.device import same_device, shrinking

METHODS = ("float32", "bf16")
WIDTHS = (16, 64)  # columns of few, with which methods are compared, and of many
AS_EXACT = 4.0  # times the largest error of float32 that a product may have
BYTES = 32 << 20  # of a tile: within the 50 MB cache of a Hopper chip
ROWS = 1 << 14  # of the result that a tile gives, if it has as many: 128 blocks of 128 for cuBLAS

_fastest: dict[Any, str] = {}  # by device, and whether there are many columns


def matmat(
    p: DevicePacked, X: Any, seen: DevicePacked | None = None, method: str | None = None
) -> Any:
    """Return ``eta X``, (M, k), for packed (M, N) eta and device X of shape (N, k) or (N,).

    float32 X is multiplied in float32 (never TF32), any other real X in float64.

    seen : where eta has an entry, everywhere when None; it is 0 elsewhere.
    method : one of METHODS for float32 X; measured when None.
    """
    X, vector = operand("X", X, p, check_packed("p", p).shape[1])
    out = _product(p, seen, X, False, method)
    return out[:, 0] if vector else out


def rmatmat(
    p: DevicePacked, U: Any, seen: DevicePacked | None = None, method: str | None = None
) -> Any:
    """Return ``eta^T U``, (N, k), for packed (M, N) eta and device U of shape (M, k) or (M,)."""
    U, vector = operand("U", U, p, check_packed("p", p).shape[0])
    out = _product(p, seen, U, True, method)
    return out[:, 0] if vector else out


def _product(
    p: DevicePacked, seen: DevicePacked | None, X: Any, transposed: bool, method: str | None
) -> Any:
    """Multiply in the type of X, or in three terms of 16 bits."""
    k = X.shape[1]
    if X.dtype != np.float32 or X.size == 0 or (method or fastest(p.device, k)) == "float32":
        return _by_tiles(p, seen, X, transposed)
    sums = _by_tiles(p, seen, bf16.split(p.device.xp, X), transposed)
    return sums[:, 2 * k : 3 * k] + sums[:, k : 2 * k] + sums[:, :k]  # the smallest first


def fastest(device: Any, k: int) -> str:
    """Method that is fastest for `k` columns, of those as exact as float32; measured once."""
    wide = k > WIDTHS[0]
    key = (device.name, device.ordinal, wide)
    if key not in _fastest:
        _fastest[key] = _measured(device, WIDTHS[wide]) if device.capability >= 80 else "float32"
    return _fastest[key]


def _measured(device: Any, k: int) -> str:
    """Compare the methods on random rows; all terms of the sums of the first are above zero."""
    rows, columns = device.trial
    rng, xp = np.random.default_rng(0), device.xp
    words = rng.integers(0, 2**64, (rows, columns // WORD), dtype=np.uint64)
    p = DevicePacked(xp.asarray(words), columns)
    X = xp.asarray(abs(rng.standard_normal((columns, k))).astype(np.float32))
    X = X * unpack(p[:1], np.float32).T
    exact, times, gaps = matmat(p, X.astype(np.float64)), {}, {}
    for way in METHODS:
        far = abs(matmat(p, X, method=way) - exact)
        gaps[way] = float(far[0].max()), float(far[1:].max())
        times[way] = device.seconds(lambda way=way: matmat(p, X, method=way))
    limits = [AS_EXACT * gap for gap in gaps["float32"]]
    good = [way for way in METHODS if all(a <= b for a, b in zip(gaps[way], limits, strict=True))]
    return min(good, key=times.__getitem__)


def _by_tiles(p: DevicePacked, seen: DevicePacked | None, X: Any, transposed: bool) -> Any:
    """Unpack one tile of `p` after the other in the type of X, and multiply it."""
    m, n = p.shape
    kind = np.float32 if X.dtype == np.uint16 else X.dtype
    out = p.device.xp.zeros((n if transposed else m, X.shape[1]), kind)
    if out.size == 0 or m == 0 or n == 0:
        return out

    def work(entries: int) -> Any:
        height, width = _tile(entries, p, transposed)
        buffer = p.device.xp.empty(height * width, X.dtype)
        for i, j in product(range(0, m, height), range(0, n, width)):
            span, columns = slice(i, min(i + height, m)), slice(j, min(j + width, n))
            sides = span.stop - i, columns.stop - j
            tile = buffer[: sides[0] * sides[1]].reshape(sides)
            unpack_into(p, span, slice(j // WORD, n_words(columns.stop)), tile, seen)
            along, part = (span, columns) if transposed else (columns, span)
            p.device.gemm(tile, X[along], out[part], ta=transposed, tb=False, add=along.start > 0)
        return out

    size = min(max(WORD, BYTES // X.itemsize), m * WORD * p.words.shape[1])
    return shrinking(p.device, "a product of packed data", size, WORD, work)


def _tile(entries: int, p: DevicePacked, transposed: bool) -> tuple[int, int]:
    """Sides of a tile of so many entries: whole words, and as many rows of the result as it can."""
    m, wide = len(p), WORD * p.words.shape[1]
    if transposed:
        width = min(wide, ROWS, max(WORD, entries // WORD * WORD))
        return min(m, max(1, entries // width)), width
    height = min(m, ROWS, max(1, entries // WORD))
    return height, min(wide, max(1, entries // height // WORD) * WORD)


def operand(name: str, X: Any, p: DevicePacked, rows: int) -> tuple[Any, bool]:
    """Return X as a C-contiguous float matrix of `rows` rows, and whether it was a vector."""
    device = p.device
    same_device(device, **{name: X})
    if X.ndim not in (1, 2) or X.shape[0] != rows or X.dtype.kind not in "biuf":
        rule = f"a real array of shape ({rows}, k) or ({rows},)"
        raise ArgumentError(name, rule, f"{X.dtype} of shape {X.shape}")
    X = device.xp.ascontiguousarray(X, np.float32 if X.dtype == np.float32 else np.float64)
    return (X[:, None], True) if X.ndim == 1 else (X, False)
