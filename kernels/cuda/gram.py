"""Gram matrices of packed +-1 data, with gaps or without, on a device, exact in int32.

Two ways: "bits" (the 1-bit matrix instruction, with AND: Hopper has that one natively and builds
XOR from two of it) and "int8" (blocks of columns unpacked to bytes, cuBLAS on the tensor cores).
Which is faster depends on the chip and on how many rows there are, so it is measured, once for each
device and size of rows (`CLASSES`). Chips before compute capability 8.0, and rows with gaps, have
the second alone.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError
from hopfed.kernels.bits import WORD
from hopfed.kernels.cuda.bits import (
    DevicePacked,
    check_packed,
    row_counts,
    transpose,
    unpack,
    unpack_into,
)
from hopfed.kernels.cuda.device import blocks, device_of, same_device, shrinking

METHODS = ("bits", "int8")
Seen = tuple[DevicePacked, DevicePacked] | None  # where a and b have an entry; everywhere
TILE = (128, 64)  # rows of a and b of a block, as in gram.cu
PANEL = 4096  # rows of a tile of the int8 products
COLUMNS = 1 << 14  # columns unpacked at a time, where the rows are few
LEAST = 1 << 8
BLOCK_BYTES = 256 << 20  # unpacked at a time for arbitrary weights; as many once more, weighted
TILE_BYTES = 256 << 20  # of the columns unpacked for one side of an int8 product
LEAST_CAPABILITY = 80  # of a chip with the 1-bit instruction
CLASSES = (16, 4, 1)  # parts of the rows of a trial: few fill a chip in one way, and not in another
_fastest: dict[Any, str] = {}  # by device and size of rows


def gram(p: DevicePacked, method: str | None = None) -> Any:
    """Return ``eta eta^T``, (M, M) int32 on the device; the symmetric half is computed only.

    method : one of METHODS; measured when None.
    """
    m = check_packed("p", p).shape[0]
    out = p.device.xp.zeros((m, m), np.int32)
    add(out, p, p, checked_method(p.device, method, m), symmetric=True)
    return out


def cross_gram(a: DevicePacked, b: DevicePacked, method: str | None = None) -> Any:
    """Return ``eta_a eta_b^T``, (Ma, Mb) int32, for two packed sets over the same N columns."""
    device = check_packed("a", a).device
    if check_packed("b", b).n != a.n:
        raise ArgumentError("b", f"of {a.n} columns like a", b.n)
    same_device(device, b=b.words)
    out = device.xp.zeros((len(a), len(b)), np.int32)
    rows = isqrt(len(a) * len(b))
    add(out, a, b, checked_method(device, method, rows), symmetric=False)
    return out


def second_moment(p: DevicePacked, weights: Any = None) -> Any:
    """Return ``sum_m w_m eta_m eta_m^T``, (N, N): exact int32 without weights, else float64.

    weights : (M,) real numbers of any sign, on the device or on the host.
    """
    m = check_packed("p", p).shape[0]
    if weights is None:
        return gram(transpose(p))
    weights = checked_weights(p.device, weights, m)
    if m and bool((weights == weights[0]).all()):
        return gram(transpose(p)).astype(np.float64) * weights[0]
    return weighted_sum(p, weights, lambda rows: unpack(p[rows], dtype=np.float64))


def checked_weights(device: Any, weights: Any, m: int) -> Any:
    """Return `weights` as (m,) float64 on `device`, or raise ArgumentError."""
    weights = device.xp.asarray(weights)
    if weights.shape != (m,) or weights.dtype.kind not in "biuf":
        raise ArgumentError("weights", f"{m} real numbers", f"{weights.dtype} {weights.shape}")
    weights = weights.astype(np.float64)
    if not bool(device.xp.isfinite(weights).all()):
        raise ArgumentError("weights", "finite", "infinite or NaN ones")
    return weights


def weighted_sum(p: DevicePacked, weights: Any, unpacked: Callable[[slice], Any]) -> Any:
    """Return ``sum_m w_m x_m x_m^T``, float64; `unpacked` gives the x of some rows of `p`."""
    (m, n), device = p.shape, p.device
    total = device.xp.zeros((n, n))

    def work(size: int) -> Any:
        total[...] = 0
        for start in range(0, m, size):
            rows = unpacked(slice(start, start + size))
            scaled = rows * weights[start : start + size, None]
            device.gemm(scaled, rows, total, ta=True, tb=False, add=True)
        return total

    if n == 0 or m == 0:
        return total
    return shrinking(device, "a weighted second moment", max(1, BLOCK_BYTES // (8 * n)), 1, work)


def fastest(device: Any, rows: int | None = None) -> str:
    """Way that is fastest on `device` for so many rows, by one measurement that is kept.

    rows : of a and of b, or the root of their product; many when None.
    """
    if device.capability < LEAST_CAPABILITY:
        return "int8"
    most, columns = device.trial
    sizes = [most // part for part in CLASSES]
    size = next((size for size in sizes if rows is not None and rows <= size), most)
    key = (device.name, device.ordinal, size)
    if key not in _fastest:
        rng = np.random.default_rng(0)
        words = rng.integers(0, 2**64, (size, columns // WORD), dtype=np.uint64)
        p = DevicePacked(device.xp.asarray(words), columns)
        out = device.xp.zeros((size, size), np.int32)
        times = {
            way: device.seconds(lambda way=way: add(out, p, p, way, symmetric=True))
            for way in METHODS
        }
        _fastest[key] = min(times, key=times.__getitem__)
    return _fastest[key]


def checked_method(device: Any, method: str | None, rows: int) -> str:
    """Return `method` if there is such one, the fastest one for None."""
    if method is None:
        return fastest(device, rows)
    if method not in METHODS:
        raise ArgumentError("method", f"one of {', '.join(METHODS)}", repr(method))
    return method


def add(
    out: Any, a: DevicePacked, b: DevicePacked, method: str, *, symmetric: bool, seen: Seen = None
) -> None:
    """Add ``a b^T`` to `out`; both halves when symmetric, of which one is computed."""
    device = device_of("out", out)
    if out.size == 0 or a.n == 0:
        return
    if method == "int8":
        room = max(LEAST, TILE_BYTES // _up(max(len(a), len(b))) // WORD * WORD)
        columns = min(COLUMNS, room, WORD * a.words.shape[1])
        work = _Bytes(device, out, a, b, symmetric, seen)
        shrinking(device, "an int8 Gram matrix", columns, min(columns, LEAST), work)
        if symmetric:
            m = np.int64(len(a))
            device.launch("gram", "mirror", blocks(out.size), (out, m))
        return
    ones = row_counts(a)
    others = ones if b is a else row_counts(b)
    args = (
        a.words, np.int64(len(a)), ones, b.words, np.int64(len(b)), others,
        np.int64(a.words.shape[1]), np.int64(a.n), out, np.int32(symmetric),
    )  # fmt: skip
    grid = (-(-len(b) // TILE[1]), -(-len(a) // TILE[0]))
    device.launch("gram", "gram_mma", grid, args)


class _Bytes:
    """The int8 way; what was added is remembered, so that a smaller tile goes on from there."""

    def __init__(
        self, device: Any, out: Any, a: DevicePacked, b: DevicePacked, symmetric: bool, seen: Seen
    ):
        self.device, self.out, self.a, self.b, self.symmetric = device, out, a, b, symmetric
        self.seen_a = None if seen is None else seen[0]
        self.seen_b = None if seen is None else seen[1]
        self.done = 0  # words of each row that are in the result
        # cuBLAS writes whole multiples of 4, so an odd matrix needs a padded one beside it.
        shape = (_up(len(a)), _up(len(b)))
        self.sums = out if out.shape == shape else device.xp.zeros(shape, np.int32)

    def __call__(self, columns: int) -> None:
        """Add what is left in blocks of `columns` columns, a multiple of 64."""
        xp, rows, others = self.device.xp, _up(len(self.a)), _up(len(self.b))
        left = xp.zeros((rows, columns), np.int8)  # sides are multiples of 16 for the tensor cores
        right = left if self.symmetric else xp.zeros((others, columns), np.int8)
        step, n_words = columns // WORD, self.a.words.shape[1]
        while self.done < n_words:
            words = slice(self.done, min(self.done + step, n_words))
            unpack_into(self.a, slice(0, len(self.a)), words, left[: len(self.a)], self.seen_a)
            if not self.symmetric:
                part = right[: len(self.b)]
                unpack_into(self.b, slice(0, len(self.b)), words, part, self.seen_b)
            self._panels(left, right)
            self.done = words.stop
        if self.sums is not self.out:
            self.out += self.sums[: self.out.shape[0], : self.out.shape[1]]

    def _panels(self, left: Any, right: Any) -> None:
        for i in range(0, len(left), PANEL):
            for j in range(0, min(len(right), i + 1 if self.symmetric else len(right)), PANEL):
                part = self.sums[i : i + PANEL, j : j + PANEL]
                self.device.gemm(
                    left[i : i + PANEL], right[j : j + PANEL], part, ta=False, tb=True, add=True
                )


def _up(n: int) -> int:
    """Next multiple of 16."""
    return -(-n // 16) * 16
