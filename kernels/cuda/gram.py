"""Gram matrices of packed +-1 data on a device, exact in int32.

Three ways: "popcount" (exclusive-or and population count from shared-memory tiles), "bits" (the
1-bit matrix instruction, with AND: Hopper has that one natively and builds XOR from two of it) and
"int8" (blocks of columns unpacked to bytes, cuBLAS on the tensor cores). Which is fastest depends
on the chip, so it is measured once for each device.
"""

from __future__ import annotations

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

METHODS = ("popcount", "bits", "int8")
TILES = {"popcount": (64, 64), "bits": (128, 64)}  # rows of a and b of one block, as in gram.cu
PANEL = 4096  # rows of a tile of the int8 products
COLUMNS = 1 << 14  # columns unpacked at a time
LEAST = 1 << 8
_BLOCK = 1 << 26  # entries unpacked at a time for arbitrary weights
_fastest: dict[Any, str] = {}


def gram(p: DevicePacked, method: str | None = None) -> Any:
    """Return ``eta eta^T``, (M, M) int32 on the device; the symmetric half is computed only.

    method : one of METHODS; measured when None.
    """
    m = check_packed("p", p).shape[0]
    out = p.device.xp.zeros((m, m), np.int32)
    gram_accumulate(out, p, method)
    return out


def gram_accumulate(out: Any, p: DevicePacked, method: str | None = None) -> None:
    """Add ``eta eta^T`` of one block of columns to the symmetric (M, M) int32 array `out`."""
    m = check_packed("p", p).shape[0]
    same_device(p.device, out=out)
    if out.dtype != np.int32 or out.shape != (m, m) or not out.flags.c_contiguous:
        got = f"{out.dtype} of shape {out.shape} and strides {out.strides}"
        raise ArgumentError("out", f"a C-contiguous int32 array of shape ({m}, {m})", got)
    _add(out, p, p, _checked(p.device, method), symmetric=True)


def cross_gram(a: DevicePacked, b: DevicePacked, method: str | None = None) -> Any:
    """Return ``eta_a eta_b^T``, (Ma, Mb) int32, for two packed sets over the same N columns."""
    device = check_packed("a", a).device
    if check_packed("b", b).n != a.n:
        raise ArgumentError("b", f"of {a.n} columns like a", b.n)
    same_device(device, b=b.words)
    out = device.xp.zeros((len(a), len(b)), np.int32)
    _add(out, a, b, _checked(device, method), symmetric=False)
    return out


def second_moment(p: DevicePacked, weights: Any = None) -> Any:
    """Return ``sum_m w_m eta_m eta_m^T``, (N, N): exact int32 without weights, else float64.

    weights : (M,) real numbers of any sign, on the device or on the host.
    """
    m, n = check_packed("p", p).shape
    device = p.device
    if weights is None:
        return gram(transpose(p))
    weights = device.xp.asarray(weights)
    if weights.shape != (m,) or weights.dtype.kind not in "biuf":
        raise ArgumentError("weights", f"{m} real numbers", f"{weights.dtype} {weights.shape}")
    weights = weights.astype(np.float64)
    if not bool(device.xp.isfinite(weights).all()):
        raise ArgumentError("weights", "finite", "infinite or NaN ones")
    if m and bool((weights == weights[0]).all()):
        return gram(transpose(p)).astype(np.float64) * weights[0]
    total = device.xp.zeros((n, n))

    def work(size: int) -> Any:
        total[...] = 0
        for start in range(0, m, size):
            rows = unpack(p[start : start + size], dtype=np.float64)
            scaled = rows * weights[start : start + size, None]
            device.gemm(scaled, rows, total, ta=True, tb=False, add=True)
        return total

    if n == 0 or m == 0:
        return total
    return shrinking(device, "a weighted second moment", max(1, _BLOCK // n), 1, work)


def fastest(device: Any) -> str:
    """Way that is fastest on `device`, by one measurement that is kept."""
    key = (device.name, device.ordinal)
    if key not in _fastest:
        rows, columns = device.trial
        rng = np.random.default_rng(0)
        words = rng.integers(0, 2**64, (rows, columns // WORD), dtype=np.uint64)
        p = DevicePacked(device.xp.asarray(words), columns)
        out = device.xp.zeros((rows, rows), np.int32)
        times = {
            way: device.seconds(lambda way=way: _add(out, p, p, way, symmetric=True))
            for way in available(device)
        }
        _fastest[key] = min(times, key=times.__getitem__)
    return _fastest[key]


def available(device: Any) -> tuple[str, ...]:
    """Ways that the chip has: 1-bit matrix instructions with AND came with capability 8.0."""
    return METHODS if device.capability >= 80 else ("popcount", "int8")


def _checked(device: Any, method: str | None) -> str:
    if method is None:
        return fastest(device)
    if method not in available(device):
        raise ArgumentError("method", f"one of {', '.join(available(device))}", repr(method))
    return method


def _add(out: Any, a: DevicePacked, b: DevicePacked, method: str, *, symmetric: bool) -> None:
    """Add ``a b^T`` to `out`; both halves when symmetric, of which one is computed."""
    device = device_of("out", out)
    if out.size == 0 or a.n == 0:
        return
    if method == "int8":
        columns = min(COLUMNS, WORD * a.words.shape[1])
        work = _Bytes(device, out, a, b, symmetric)
        shrinking(device, "an int8 Gram matrix", columns, min(columns, LEAST), work)
        if symmetric:
            m = np.int64(len(a))
            device.launch("gram", "mirror", blocks(out.size), (out, m))
        return
    ma, mb = np.int64(len(a)), np.int64(len(b))
    shape = (np.int64(a.words.shape[1]), np.int64(a.n), out, np.int32(symmetric))
    rows, columns = TILES[method]
    grid = (-(-len(b) // columns), -(-len(a) // rows))
    if method == "popcount":
        device.launch("gram", "gram_popcount", grid, (a.words, ma, b.words, mb, *shape))
    else:
        ones = row_counts(a)
        others = ones if b is a else row_counts(b)
        args = (a.words, ma, ones, b.words, mb, others, *shape)
        device.launch("gram", "gram_mma", grid, args)


class _Bytes:
    """The int8 way; what was added is remembered, so that a smaller tile goes on from there."""

    def __init__(self, device: Any, out: Any, a: DevicePacked, b: DevicePacked, symmetric: bool):
        self.device, self.out, self.a, self.b, self.symmetric = device, out, a, b, symmetric
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
            unpack_into(self.a, slice(0, len(self.a)), words, left[: len(self.a)])
            if not self.symmetric:
                unpack_into(self.b, slice(0, len(self.b)), words, right[: len(self.b)])
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
