"""Two planes of bits on a device: rows with gaps, as `hopfed.kernels.planes` has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hopfed.kernels.bits import n_words
from hopfed.kernels.cuda import gram, products
from hopfed.kernels.cuda.bits import WARPS, DevicePacked, check_packed, unpack
from hopfed.kernels.cuda.device import blocks, device_of, same_device
from hopfed.kernels.planes import MINUS, MISSING, OTHER, ZERO, entries

Planes = tuple[DevicePacked, DevicePacked]  # signs and seen


def pack_planes(x: Any, mask: Any = None) -> tuple[DevicePacked, DevicePacked | None] | None:
    """Return signs and seen entries of an (M, N) array, seen None if all are; None if it is bad."""
    device = device_of("x", x)
    xp, (m, n) = device.xp, x.shape
    if mask is not None:
        same_device(device, mask=mask)
    signs, seen = (xp.zeros((m, n_words(n)), np.uint64) for _ in range(2))
    if x.size == 0:
        return DevicePacked(signs, n), None
    codes = entries(x, mask, xp)
    for zeros_count in (False, True):
        found = xp.zeros(1, np.uint32)
        args = (codes, np.int64(m), np.int64(n), np.int32(zeros_count), signs, seen, found)
        device.launch("planes", "pack_planes", blocks(signs.size, WARPS), args)
        occurs = int(found[0])
        if occurs & MINUS or not occurs & MISSING:
            break  # otherwise zeros are entries too
    if occurs & OTHER or (occurs & MISSING and mask is None and x.dtype.kind in "biu"):
        return None
    complete = not occurs & MISSING and not (occurs & ZERO and occurs & MINUS)
    return DevicePacked(signs, n), None if complete else DevicePacked(seen, n)


def unpack_planes(signs: DevicePacked, seen: DevicePacked, dtype: DTypeLike) -> Any:
    """Return the (M, N) device array of -1, 0 and +1, of real or signed dtype `dtype`."""
    return unpack(signs, dtype, seen)


def inner_products(a: Planes, b: Planes | None = None) -> Any:
    """Return the inner products of rows of a and of b, or of a alone, (Ma, Mb) int32."""
    signs, seen = a
    others, seen_there = b or a
    device = signs.device
    same_device(device, b=check_packed("b", others).words)
    out = device.xp.zeros((len(signs), len(others)), np.int32)
    gram.add(out, signs, others, "int8", symmetric=b is None, seen=(seen, seen_there))
    return out


def weighted_moment(signs: Any, seen: Any, weights: Any) -> Any:
    """Return ``sum_m w_m eta_m eta_m^T``, (N, N) float64, for rows with gaps."""
    weights = gram.checked_weights(signs.device, weights, len(signs))
    return gram.weighted_sum(
        signs, weights, lambda rows: unpack_planes(signs[rows], seen[rows], np.float64)
    )


def product(planes: Planes, X: Any, transposed: bool) -> Any:
    """Return ``eta X``, or ``eta^T X``, in the precision of `products`."""
    signs, seen = planes
    return (products.rmatmat if transposed else products.matmat)(signs, X, seen)


def totals(p: DevicePacked, X: Any, transposed: bool) -> Any:
    """Return the sum of the rows of X for each row of `p`, or for each column."""
    m, n = check_packed("p", p).shape
    name, rows = ("U", m) if transposed else ("X", n)
    X, vector = products.operand(name, X, p, rows)
    total = X.sum(axis=0, dtype=np.float64).astype(X.dtype)
    out = p.device.xp.tile(total, (n if transposed else m, 1))
    return out[:, 0] if vector else out
