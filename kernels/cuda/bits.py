"""Bits on a device: packing, unpacking, transposes, counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.kernels.bits import MINUS, MISSING, OTHER, WORD, ZERO, int8_entries, n_words
from hopfed.kernels.cuda.device import BLOCK, device_of, grid_of_blocks

SPREAD = 4  # pieces of 16 bytes that a thread reads to pack or writes to unpack, as in bits.cu


def pack(x: Any, mask: Any = None) -> tuple[Any, Any] | None:
    """On a GPU, words of signs and of observed entries (None: no gaps); None if `x` is invalid.

    Zeros are entries, or missing if -1 occurs.
    """
    device = device_of("x", x)
    xp, (m, n) = device.xp, x.shape
    signs = xp.empty((m, n_words(n)), np.uint64)
    if x.size == 0:
        return signs, None
    codes, found = int8_entries(x, mask, xp), xp.zeros(1, np.uint32)

    def fill(gaps: bool, zeros_count: bool, seen: Any) -> None:
        options = np.int32(gaps), np.int32(zeros_count)
        pieces, threads = pieces_of_row(4 * signs.shape[1])
        args = (codes, np.int64(n), np.uint32(pieces), *options, signs, seen, found)
        device.launch("bits", "pack_rows", (m * pieces, 1), args, threads)

    fill(False, True, signs)
    if bool(found[0] == MINUS):  # complete signs, the usual case, without a copy to the host
        return signs, None
    occurs = int(found[0])
    if occurs & OTHER or (occurs & MISSING and mask is None and x.dtype.kind in "biu"):
        return None
    if not occurs & MISSING and not (occurs & ZERO and occurs & MINUS):
        return signs, None
    seen = xp.empty_like(signs)
    fill(True, not occurs & MINUS, seen)
    return signs, seen


def pieces_of_row(items: int) -> tuple[int, int]:
    """For a row of `items` pieces of 16 bytes on a device, blocks and threads of a block."""
    threads = min(BLOCK, -(-items // 32) * 32)
    return -(-items // (SPREAD * threads)), threads


def unpack(signs: Any, seen: Any, n: int, dtype: Any) -> Any:
    """On a GPU, the (M, n) entries of packed rows, of int8, float32 or float64."""
    m = len(signs)
    out = device_of("signs", signs).xp.empty((m, n), dtype)
    unpack_into(signs, seen, n, slice(0, m), slice(0, n_words(n)), out)
    return out


def unpack_into(signs: Any, seen: Any, n: int, rows: slice, words: slice, out: Any) -> None:
    """On a GPU, write entries of given rows and words as +-1 into contiguous `out`; padding is 0.

    seen : plane of observed entries, None if all are; missing entries become 0.
    out : (rows, width), int8, float32 or float64; columns beyond the last become 0.
    """
    if out.size == 0:
        return
    count, width = rows.stop - rows.start, out.shape[1]
    there = max(0, min(n - WORD * words.start, WORD * (words.stop - words.start), width))
    held = [
        plane[rows.start :, words.start :] if there else plane
        for plane in (signs, signs if seen is None else seen)
    ]
    pieces, threads = pieces_of_row(-(-width * out.itemsize // 16))
    sizes = np.uint32(pieces), np.int64(there), np.int64(width), np.int32(out.itemsize)
    args = (*held, np.int32(seen is not None), np.int64(signs.shape[1]), *sizes, out.view(np.uint8))
    device_of("out", out).launch("bits", "unpack_rows", (count * pieces, 1), args, threads)


def transpose(words: Any, n: int) -> Any:
    """On a GPU, the (n, ceil(M / 64)) words of the transpose, by 256 x 256 blocks of bits."""
    device, m = device_of("words", words), len(words)
    out = device.xp.empty((n, n_words(m)), np.uint64)
    if out.size:
        grid = (-(-m // BLOCK) * -(-n // BLOCK), 1)
        device.launch("bits", "transpose_bits", grid, (words, np.int64(m), np.int64(n), out))
    return out


def count_columns(words: Any, n: int) -> Any:
    """On a GPU, the number of set bits of each column, (n,) int64."""
    return row_counts(transpose(words, n)).astype(np.int64)


def row_counts(words: Any) -> Any:
    """On a GPU, the number of set bits of each row, (M,) int32."""
    device, (m, width) = device_of("words", words), words.shape
    counts = device.xp.zeros(m, np.int32)
    if words.size:
        args = (words, np.int64(m), np.int64(width), counts)
        device.launch("bits", "count_rows", grid_of_blocks(m, BLOCK // 32), args)
    return counts
