"""Two planes of bits for rows with gaps: what is computed from them, on the CPU or on a device.

`signs` has a bit for each +1, `seen` one for each entry that is there; `hopfed.kernels.masked`
keeps both together, and checks what it is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hopfed.kernels import bits
from hopfed.kernels.bits import CHUNK, PackedBits, as_int8, n_words, not_binary, pack_values
from hopfed.kernels.cpu.threads import for_each, spans
from hopfed.kernels.dispatch import with_twin
from hopfed.kernels.moments import by_strips
from hopfed.kernels.products import by_blocks, operand

Planes = tuple[PackedBits, PackedBits]  # signs and seen
ZERO, MINUS, OTHER, MISSING = 1, 2, 4, 8  # what occurs, as bits of a number
FIRST = 1 << 16  # entries looked at before all are packed as complete ones
GONE = -128  # stands for a missing entry among bytes


@with_twin
def pack_planes(x: Any, mask: Any = None) -> tuple[PackedBits, PackedBits | None] | None:
    """Return signs and seen entries of an (M, N) array, seen None if all are; None if it is bad.

    mask : (M, N) booleans, true where an entry is missing.
    """
    m, n = x.shape
    zeros_count = True
    if mask is None and x.dtype.kind != "O":
        found = pack_values(x[: max(1, FIRST // max(n, 1))])[1]  # where most gaps show at once
        if not not_binary(found):
            words, found = pack_values(x)
            if not not_binary(found):
                return PackedBits(words, n), None
        zeros_count = not found & MINUS
    for _ in range(2):
        signs, seen, found = _packed(x, mask, zeros_count)
        if zeros_count == (not found & MINUS):
            break
        zeros_count = not zeros_count
    if found & OTHER:
        return None
    complete = not found & MISSING and (zeros_count or not found & ZERO)
    return PackedBits(signs, n), None if complete else PackedBits(seen, n)


def _packed(x: Any, mask: Any, zeros_count: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Words of both planes, and what occurs; left off where that shows that all is in vain."""
    m, n = x.shape
    signs, seen = (np.zeros((m, n_words(n)), np.uint64) for _ in range(2))
    if x.size == 0:
        return signs, seen, 0
    from hopfed.kernels.cpu.planes import pack_planes as pack_rows

    occurs: list[int] = []
    in_vain: list[int] = []
    none_missing = mask is None and x.dtype.kind in "biu"

    def task(span: tuple[int, int]) -> None:
        if in_vain:
            return
        rows = slice(*span)
        codes = entries(x[rows], None if mask is None else mask[rows])
        found = pack_rows(codes, zeros_count, signs[rows], seen[rows])
        if none_missing and found & MISSING:  # the number that stands for it, itself
            found |= OTHER
        wrong = found & OTHER or (zeros_count and found & MINUS)
        (in_vain if wrong else occurs).append(found)

    for_each(task, spans(m, max(1, CHUNK // n)))
    return signs, seen, int(np.bitwise_or.reduce(occurs + in_vain))


def entries(x: Any, mask: Any = None, xp: Any = np) -> Any:
    """Return the array `x` of `xp` as int8: -1, 0, 1, GONE where it is missing, 2 for all else."""
    gone = mask
    if x.dtype.kind == "O":
        x = _numbers(x)
    if x.dtype.kind == "f":
        gone = x != x if mask is None else mask | (x != x)  # NaN alone does
    codes = as_int8(x, xp)
    if gone is None:
        return codes
    if x.dtype.kind in "bi" and x.dtype.itemsize == 1:  # they are those of x itself
        codes = xp.where(codes == GONE, xp.int8(2), codes)
    codes[gone] = GONE
    return codes


def _numbers(x: np.ndarray) -> np.ndarray:
    """Objects as float64, NaN for None, infinity for what is no number."""
    try:
        missing = np.asarray(x == None).astype(bool)  # noqa: E711  (of each of them)
        return np.where(missing, np.nan, x).astype(np.float64)
    except (TypeError, ValueError):
        return np.array([_number(value) for value in x.flat]).reshape(x.shape)


def _number(value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except (TypeError, ValueError):
        return np.inf


@with_twin
def unpack_planes(signs: PackedBits, seen: PackedBits, dtype: DTypeLike) -> np.ndarray:
    """Return the (M, N) array of -1, 0 and +1 of real or signed dtype `dtype`."""
    return bits.unpack_planes(signs, seen, dtype)


@with_twin
def inner_products(a: Planes, b: Planes | None = None) -> np.ndarray:
    """Return the inner products of rows of a and of b, or of a alone, (Ma, Mb) int32."""
    left, right = [p.words for p in a], [p.words for p in b or a]
    out = np.zeros((len(left[0]), len(right[0])), np.int32)
    if out.size == 0 or a[0].n == 0:
        return out
    from hopfed.kernels.cpu.plane_moments import add_strip

    def add(first: int, last: int, work: tuple[np.ndarray, ...]) -> None:
        stop = last if b is None else len(right[0])
        add_strip(*left, first, last, *right, stop, b is None, out, *work)

    by_strips(a[0], len(a[0]), add, out if b is None else None, planes=2)
    return out


@with_twin
def product(planes: Planes, X: np.ndarray, transposed: bool) -> np.ndarray:
    """Return ``eta X``, or ``eta^T X``, in the precision of `hopfed.kernels.products`."""
    return by_blocks(*planes, X, transposed=transposed)


@with_twin
def totals(p: PackedBits, X: np.ndarray, transposed: bool) -> np.ndarray:
    """Return the sum of the rows of X for each row of `p`, or for each column."""
    m, n = p.shape
    X, vector = operand("U" if transposed else "X", X, m if transposed else n)
    total = X.sum(axis=0, dtype=np.float64).astype(X.dtype)
    out = np.tile(total, (n if transposed else m, 1))
    return out[:, 0] if vector else out
