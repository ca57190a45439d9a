"""Examples of +-1 held as bits on a device, in the words of `hopfed.kernels.bits.PackedBits`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hopfed.errors import ArgumentError
from hopfed.kernels.bits import WORD, PackedBits, as_int8, first_bad, n_words, not_binary
from hopfed.kernels.cuda.device import BLOCK, blocks, cuda, device_of

WARPS = BLOCK // 32  # warps of a block
COUNTED = 1024  # rows that a block counts, 4 for each thread
UNPACKED = 32  # bytes of a thread that unpacks, four times 8, as in common.cu


@dataclass(frozen=True, eq=False)
class DevicePacked(PackedBits):
    """An (M, N) array of +-1 in bits on a device.

    Parameters
    ----------
    words : (M, ceil(n / 64)) uint64 array of the device, C-contiguous; column j is bit j % 64 of
        word j // 64, bit 1 means +1, padding bits are 0 (not checked: that costs a pass).
    n : number of columns N.

    Raises
    ------
    ArgumentError : words not on a device, or of another dtype or shape.
    """

    words: Any
    n: int

    def __post_init__(self) -> None:
        words = self.words
        device = device_of("words", words)
        if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != n_words(self.n):
            rule = f"uint64 of shape (M, {n_words(self.n)})"
            raise ArgumentError("words", rule, f"{words.dtype} of shape {words.shape}")
        if not words.flags.c_contiguous:
            object.__setattr__(self, "words", device.xp.ascontiguousarray(words))

    @property
    def device(self) -> Any:
        """Device of the words."""
        return device_of("words", self.words)


def check_packed(name: str, p: object) -> DevicePacked:
    """Return `p` if it is a DevicePacked, else raise the ArgumentError for argument `name`."""
    if not isinstance(p, DevicePacked):
        raise ArgumentError(name, "a DevicePacked, as made by pack()", type(p).__name__)
    return p


def to_device(p: PackedBits, device: Any = None) -> DevicePacked:
    """Copy packed bits from the host to `device` (the first CUDA device by default)."""
    device = device or cuda()
    return DevicePacked(device.xp.asarray(p.words), p.n)


def to_host(p: DevicePacked) -> PackedBits:
    """Copy packed bits to the host, where their padding is checked."""
    return PackedBits(check_packed("p", p).words.get(), p.n)


def pack(x: Any) -> DevicePacked:
    """Pack an (M, N) device array of +-1, of 0/1, or of booleans; `hopfed.kernels.bits.pack`.

    Raises
    ------
    ArgumentError : not two-dimensional, not real numbers, or holding another value; 0 and -1 may
        not both occur.
    """
    device = device_of("x", x)
    xp = device.xp
    if x.ndim != 2 or x.dtype.kind not in "biuf":
        raise ArgumentError("x", "a two-dimensional real array", f"{x.dtype} of shape {x.shape}")
    m, n = x.shape
    words = xp.empty((m, n_words(n)), np.uint64)
    if x.size:
        seen = xp.zeros(1, np.uint32)
        args = (as_int8(x, xp), np.int64(m), np.int64(n), words, seen)
        device.launch("bits", "pack_rows", blocks(8 * words.size), args)
        found = int(seen[0])
        if not_binary(found):
            raise first_bad(x)
    return DevicePacked(words, n)


def unpack(p: DevicePacked, dtype: DTypeLike = np.int8, seen: DevicePacked | None = None) -> Any:
    """Return the (M, N) device array of +-1, or 0 where none is seen, of dtype `dtype`."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "if":
        raise ArgumentError("dtype", "a signed integer or a floating type", dtype)
    native = dtype if dtype.name in ("int8", "float32", "float64") else np.dtype(np.int8)
    m, n = check_packed("p", p).shape
    out = p.device.xp.empty((m, n), native)
    unpack_into(p, slice(0, m), slice(0, n_words(n)), out, seen)
    return out.astype(dtype, copy=False)


def unpack_into(
    p: DevicePacked, rows: slice, words: slice, out: Any, seen: DevicePacked | None = None
) -> None:
    """Write the entries of some rows and words as +-1 into contiguous `out`, the rest of it 0.

    out : (rows, width), int8, float32, float64, or uint16, which is bfloat16; columns beyond the
        last of `p` become 0.
    seen : where an entry is there, all when None; the others become 0.
    """
    if out.size == 0:
        return
    count, width = rows.stop - rows.start, out.shape[1]
    entries = max(0, min(p.n - WORD * words.start, WORD * (words.stop - words.start), width))
    held = [
        plane.words[rows.start :, words.start :] if entries else plane.words
        for plane in ((p,) if seen is None else (p, seen))
    ]
    pieces = -(-width // (UNPACKED // out.itemsize * BLOCK))
    stride = np.int64(p.words.shape[1])
    args = (*held, stride, np.uint32(pieces), np.int64(entries), np.int64(width), out)
    module, planes = ("bits", "") if seen is None else ("planes", "planes_")
    kind = "bf16" if out.dtype == np.uint16 else out.dtype.name
    p.device.launch(module, f"unpack_{planes}{kind}", (count * pieces, 1), args)


def transpose(p: DevicePacked) -> DevicePacked:
    """Return the (N, M) transpose, by 256 x 256 blocks of bits."""
    m, n = check_packed("p", p).shape
    words = p.device.xp.empty((n, n_words(m)), np.uint64)
    if words.size:
        args = (p.words, np.int64(m), np.int64(n), words)
        grid = (-(-m // BLOCK) * -(-n // BLOCK), 1)
        p.device.launch("bits", "transpose_bits", grid, args)
    return DevicePacked(words, m)


def column_sums(p: DevicePacked) -> Any:
    """Return the N sums over rows of the +-1 entries, int64 on the device."""
    m, n = check_packed("p", p).shape
    counts = p.device.xp.zeros(n, np.uint64)
    if p.words.size:
        rows = max(COUNTED, -(-m // 60_000))  # the second side of a grid is at most 65,535
        args = (p.words, np.int64(m), np.int64(n), np.int64(rows), counts)
        p.device.launch("bits", "count_columns", (-(-n // BLOCK), -(-m // rows)), args)
    return 2 * counts.astype(np.int64) - m


def row_counts(p: DevicePacked) -> Any:
    """Return the number of set bits of each row, (M,) int32 on the device."""
    counts = p.device.xp.zeros(len(p), np.int32)
    if p.words.size:
        args = (p.words, np.int64(len(p)), np.int64(p.words.shape[1]), counts)
        p.device.launch("bits", "count_rows", blocks(len(p), WARPS), args)
    return counts
