"""Scrambled copies of packed examples on a device, to the bit those of `hopfed.kernels.shuffle`."""

from __future__ import annotations

import numpy as np

from hopfed.kernels.bits import n_words
from hopfed.kernels.cuda.bits import DevicePacked
from hopfed.kernels.cuda.device import blocks, shrinking

SCRATCH = 1 << 30  # bytes of the positions held while rows are permuted
THREADS = 128  # of a block that permutes: one thread has a row, so small blocks spread better


def flipped(p: DevicePacked, k0: int, k1: int) -> DevicePacked:
    """Flip every entry with probability 1/2."""
    words = p.words.copy()
    if words.size:
        args = (words, np.int64(len(p)), np.int64(p.n), np.uint32(k0), np.uint32(k1), np.uint32(0))
        p.device.launch("shuffle", "flip_signs", blocks(words.size), args)
    return DevicePacked(words, p.n)


def permuted(p: DevicePacked, k0: int, k1: int) -> DevicePacked:
    """Permute the bits of every row on their own."""
    m, n = p.shape
    words = p.words.copy()
    done = 0  # rows; a smaller tile goes on from there

    def work(size: int) -> None:
        nonlocal done
        order = p.device.xp.empty((size, n), np.uint32)
        while done < m:
            count = min(size, m - done)
            args = (
                words[done:], np.int64(count), np.int64(n), np.int64(n_words(n)), np.uint32(done),
                order, np.uint32(k0), np.uint32(k1), np.uint32(0),
            )  # fmt: skip
            grid = blocks(count, THREADS)
            p.device.launch("shuffle", "permute_rows", grid, args, THREADS)
            done += count

    if words.size:
        size = min(m, max(THREADS, SCRATCH // (4 * n)))
        shrinking(p.device, "a permutation of columns", size, 1, work)
    return DevicePacked(words, n)
