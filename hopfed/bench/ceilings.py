"""The ceilings of a machine, measured in this process before anything is compared with them.

- copy: bytes read and written by a copy of an array much larger than the caches;
- float32, float64: additions and multiplications of a large matrix product by BLAS;
- words: exclusive-or and population count of 64-bit words that stay in the first-level cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numba import njit

from hopfed.bench.devices import Device
from hopfed.bench.record import Cost
from hopfed.kernels.threads import for_each, spans, thread_count
from hopfed.kernels.vectors import popcount

COPY_BYTES = 1 << 28
SIDE = {"cpu": 2048, "cuda": 8192}  # of the matrices multiplied
WORDS = 2048  # 16 kB, half of a small first-level cache
PASSES = 4000
BUDGET, ROUNDS = 0.7, 4  # seconds and samples, whichever takes longer


def ceilings(device: Device) -> dict[str, float]:
    """Measure the ceilings of `device`, per second: bytes, operations, words (CPU only)."""
    found = {"copy": 2 * COPY_BYTES / _best(_copy(device), device)}
    side = SIDE[device.name]
    for unit in ("float32", "float64"):
        a = device.xp.ones((side, side), unit)
        b = a.copy()  # not a.T: a product with its own transpose is another, shorter algorithm
        found[unit] = 2 * side**3 / _best(partial(device.xp.matmul, a, b), device)
    if device.name == "cpu":
        seconds = _best(_count, device)
        found["words"] = thread_count() * PASSES * 8 * WORDS / seconds
    return found


def bound(cost: Cost, ceiling: dict[str, float]) -> tuple[float, str] | None:
    """Seconds that `cost` takes at the ceilings, and the one that binds.

    Memory and arithmetic overlap, so the longer of the two counts; operations of several units
    follow one another. None where a unit has no ceiling.
    """
    if not set(cost.operations) <= set(ceiling):
        return None
    moving = cost.bytes / ceiling["copy"]
    parts = {unit: count / ceiling[unit] for unit, count in cost.operations.items()}
    computing = sum(parts.values())
    if moving >= computing:
        return moving, "copy"
    return computing, max(parts, key=lambda unit: parts[unit])


def _best(task: Callable[[], object], device: Device) -> float:
    """Shortest of several calls, after one that warms up."""
    task()
    seconds: list[float] = []
    while len(seconds) < ROUNDS or sum(seconds) < BUDGET:
        device.synchronise()
        start = time.perf_counter()
        task()
        device.synchronise()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _copy(device: Device) -> Callable[[], object]:
    source = device.xp.ones(COPY_BYTES // 8)
    target = device.xp.zeros_like(source)
    if device.name != "cpu":
        return lambda: target.__setitem__(slice(None), source)
    parts = spans(len(source), -(-len(source) // thread_count()))
    return lambda: for_each(lambda s: np.copyto(target[slice(*s)], source[slice(*s)]), parts)


def _count() -> None:
    def task(thread: int) -> None:
        words = np.arange(WORDS, dtype=np.uint64) + np.uint64(thread)
        _count_words(words, words[:8].copy(), PASSES)

    for_each(task, range(thread_count()))


@njit(cache=True, nogil=True)
def _count_words(words, others, passes):
    """Differing bits of every word with eight others: one load serves eight counts."""
    total = np.uint64(0)
    for _ in range(passes):
        y0, y1, y2, y3 = others[0], others[1], others[2], others[3]
        y4, y5, y6, y7 = others[4], others[5], others[6], others[7]
        c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = np.uint64(0)
        for w in range(len(words)):
            x = words[w]
            c0 += popcount(x ^ y0)
            c1 += popcount(x ^ y1)
            c2 += popcount(x ^ y2)
            c3 += popcount(x ^ y3)
            c4 += popcount(x ^ y4)
            c5 += popcount(x ^ y5)
            c6 += popcount(x ^ y6)
            c7 += popcount(x ^ y7)
        others[0] = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7  # the next pass needs this one
        total += others[0]
    return total
