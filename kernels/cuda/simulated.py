"""Small kernels in Numba-CUDA: draws, packing, unpacking and the Gram matrix by population count.

They say the same as the CUDA C++ of this package in a language that Numba's simulator runs on any
machine (NUMBA_ENABLE_CUDASIM=1), and are a second, independent account of layouts and draws. On a
device they work too; the public functions use the CUDA C++.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, uint64

from hopfed.kernels.bits import n_words
from hopfed.kernels.philox import (
    HALF,
    MASK,
    MULTIPLIER_0,
    MULTIPLIER_1,
    SITES_PER_BLOCK,
    WEYL_0,
    WEYL_1,
    counter_word,
    key,
)

TILE = 8  # rows of a and of b of one block of threads
DEPTH = 4  # words staged at a time
THREADS = 32


@cuda.jit(device=True)
def _philox(c0, c1, c2, c3, k0, k1):
    for _ in range(10):
        p0, p1 = MULTIPLIER_0 * c0, MULTIPLIER_1 * c2
        c0, c1, c2, c3 = (p1 >> HALF) ^ c1 ^ k0, p1 & MASK, (p0 >> HALF) ^ c3 ^ k1, p0 & MASK
        k0 = (k0 + WEYL_0) & MASK
        k1 = (k1 + WEYL_1) & MASK
    return c0, c1, c2, c3


@cuda.jit(device=True)
def _ones(x):
    """Set bits of a word, by sums of ever wider fields; the simulator takes no vector popc."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    low = np.uint64(0x3333333333333333)
    x = (x & low) + ((x >> np.uint64(2)) & low)
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    x = x + (x >> np.uint64(8))
    x = x + (x >> np.uint64(16))
    x = x + (x >> np.uint64(32))
    return x & np.uint64(0x7F)


@cuda.jit
def _draws(out, chain, sweep, stream, k0, k1):
    block = cuda.grid(1)
    if block * SITES_PER_BLOCK < out.size:
        x = _philox(np.uint64(block), sweep, chain, stream, k0, k1)
        for lane in range(SITES_PER_BLOCK):
            site = block * SITES_PER_BLOCK + lane
            if site < out.size:
                out[site] = (x[lane // 2] >> np.uint64(16 * (lane % 2))) & np.uint64(0xFFFF)


@cuda.jit
def _pack(x, words):
    id_ = cuda.grid(1)
    if id_ < words.size:
        row, word = id_ // words.shape[1], id_ % words.shape[1]
        total = np.uint64(0)
        for j in range(64 * word, min(64 * (word + 1), x.shape[1])):
            if x[row, j] > 0:
                total |= np.uint64(1) << np.uint64(j % 64)
        words[row, word] = total


@cuda.jit
def _unpack(words, out):
    id_ = cuda.grid(1)
    if id_ < out.size:
        row, j = id_ // out.shape[1], id_ % out.shape[1]
        bit = (words[row, j // 64] >> np.uint64(j % 64)) & np.uint64(1)
        out[row, j] = 1 if bit else -1


@cuda.jit
def _gram(words, n, out):
    left = cuda.shared.array((TILE, DEPTH), uint64)
    right = cuda.shared.array((TILE, DEPTH), uint64)
    ty, tx = cuda.threadIdx.y, cuda.threadIdx.x
    row, column = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    if column > row:
        return  # the mirror image of another block
    differ = np.uint64(0)
    for start in range(0, words.shape[1], DEPTH):
        if tx < DEPTH:
            k = start + tx
            inside = k < words.shape[1]
            a, b = row + ty, column + ty
            left[ty, tx] = words[a, k] if inside and a < words.shape[0] else np.uint64(0)
            right[ty, tx] = words[b, k] if inside and b < words.shape[0] else np.uint64(0)
        cuda.syncthreads()
        for k in range(DEPTH):
            differ += _ones(left[ty, k] ^ right[tx, k])
        cuda.syncthreads()
    i, j = row + ty, column + tx
    if i < words.shape[0] and j <= i:
        value = np.int32(n - 2 * np.int64(differ))
        out[i, j] = value
        out[j, i] = value


def _grid(items: int) -> int:
    return max(1, -(-items // THREADS))


def draws(n: int, chain: int, sweep: int, seed: int, stream: int = 0) -> np.ndarray:
    """The 16-bit draws of the n sites of one chain in one sweep, (n,) int64."""
    out = np.zeros(n, np.int64)
    words = (counter_word(name, v) for name, v in
             (("chain", chain), ("sweep", sweep), ("stream", stream)))  # fmt: skip
    _draws[_grid(-(-n // SITES_PER_BLOCK)), THREADS](out, *words, *key(seed))
    return out


def pack(x: np.ndarray) -> np.ndarray:
    """Words of the rows of `x`, (M, N) int8 of +-1, as in `PackedBits`."""
    words = np.zeros((x.shape[0], n_words(x.shape[1])), np.uint64)
    _pack[_grid(words.size), THREADS](x, words)
    return words


def unpack(words: np.ndarray, n: int) -> np.ndarray:
    """The (M, n) int8 array of +-1 held by `words`."""
    out = np.zeros((words.shape[0], n), np.int8)
    _unpack[_grid(out.size), THREADS](words, out)
    return out


def gram(words: np.ndarray, n: int) -> np.ndarray:
    """Inner products of the packed rows of n columns, (M, M) int32."""
    out = np.zeros((words.shape[0], words.shape[0]), np.int32)
    tiles = max(1, -(-words.shape[0] // TILE))
    _gram[(tiles, tiles), (TILE, TILE)](words, n, out)
    return out
