"""Philox4x32-10, the counter-based generator for all draws of the kernels.

A draw is a pure function of a 64-bit key (the seed) and a 128-bit counter, so it does not depend
on the order of the work, on threads or on the device. Salmon, Moraes, Dror and Shaw, "Parallel
random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from hopfed._lib.arrays import namespace
from hopfed.errors import ArgumentError

MULTIPLIER_0, MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL_0, WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
MASK, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox4x32(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any, Any]:
    """Ten rounds of Philox on counter (c0..c3) and key (k0, k1), 32-bit values in uint64.

    Its operations mean the same to NumPy, the reference, to Numba on the CPU, and on a GPU.
    """
    for _ in range(10):
        p0, p1 = MULTIPLIER_0 * c0, MULTIPLIER_1 * c2
        c0, c1, c2, c3 = (p1 >> HALF) ^ c1 ^ k0, p1 & MASK, (p0 >> HALF) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + WEYL_0) & MASK, (k1 + WEYL_1) & MASK
    return c0, c1, c2, c3


PRODUCTS = np.array([0xD2E7470EE14C6C93, 0xCA5A826395121157], np.uint64)
BUMPS = np.array([0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B], np.uint64)


def raw_words(key: np.ndarray, first: int, count: int, beside: Any) -> Any:
    """Words (count, 4) of NumPy's Philox4x64-10 after `first` counters, where `beside` is."""
    if isinstance(beside, np.ndarray):
        return np.random.Philox(key=key, counter=first).random_raw((count, 4))
    xp = namespace(beside)
    c0 = xp.arange(first + 1, first + 1 + count, dtype=np.uint64)
    c1 = c2 = c3 = xp.zeros_like(c0)
    for i in range(10):
        k0, k1 = key + np.uint64(i) * BUMPS
        high0, high1 = (_high(c, by) for c, by in zip((c0, c2), PRODUCTS, strict=True))
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, c2 * PRODUCTS[1], high0 ^ c3 ^ k1, c0 * PRODUCTS[0]
    return xp.stack([c0, c1, c2, c3], axis=1)


def _high(a: Any, b: np.uint64) -> Any:
    """Upper halves of products of 64-bit numbers."""
    low, high, by, up = a & MASK, a >> HALF, b & MASK, b >> HALF
    middle = high * by + (low * by >> HALF)
    return high * up + (middle >> HALF) + (low * up + (middle & MASK) >> HALF)


def split_seed(seed: int) -> tuple[np.uint64, np.uint64]:
    """Split a seed in [0, 2^64) into the two halves of Philox's key, low one first."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise ArgumentError("seed", "an integer in [0, 2^64)", seed)
    return np.uint64(int(seed) & 0xFFFFFFFF), np.uint64(int(seed) >> 32)


LEVELS = 1 << 16  # resolution of the uniform draws of the dynamics


@lru_cache(maxsize=128)
def threshold_table(noise: float = 1.0) -> np.ndarray:
    """For Philox draws x, (65536,) float32: spins go up if ``beta h >= threshold_table(noise)[x]``.

    With ``v = (2 x + 1) / 65536 - 1`` uniform on (-1, 1) that is ``tanh(beta h) >= noise v``, the
    update (12) ``sign(tanh(beta h) + noise u)``; noise 1 is the heat bath, which
    sets the spin up with probability ``(1 + tanh(beta h)) / 2`` to a resolution of 2^-16. The
    table is computed on the host for every device, so that all devices use the same numbers.
    """
    v = (2 * np.arange(LEVELS) + 1) / LEVELS - 1
    with np.errstate(divide="ignore"):  # noise above 1 can outweigh any field: infinite threshold
        table = np.arctanh(np.clip(noise * v, -1, 1)).astype(np.float32)
    table.flags.writeable = False
    return table


def draw_thresholds(seed: int, chains: int, step: int, n: int) -> np.ndarray:
    """Draw by Philox the thresholds (chains, n) of sites in a sweep or update of every chain."""
    block = np.broadcast_to(np.arange(-(-n // 8), dtype=np.uint64), (chains, -(-n // 8)))
    chain = np.broadcast_to(np.arange(chains, dtype=np.uint64)[:, None], block.shape)
    four = philox4x32(
        block, np.full_like(block, step), chain, np.zeros_like(block), *split_seed(seed)
    )
    words = np.stack(four, axis=-1)
    halves = np.stack([words & np.uint64(0xFFFF), words >> np.uint64(16)], axis=-1)
    return threshold_table()[halves.reshape(chains, -1)[:, :n].astype(np.int64)]
