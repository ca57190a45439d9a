"""Ceilings of a machine: the highest rates that it reaches, measured in this process first.

- copy: bytes read and written by a copy of an array much larger than the caches;
- float32, float64: additions and multiplications of a large matrix product by BLAS;
- words: differing bits of 64-bit words that stay in the first-level cache, by the Gram kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from hopfed.bench.harness.devices import Device
from hopfed.bench.harness.record import Cost
from hopfed.bench.harness.timing import sample
from hopfed.kernels.cpu.threads import for_each, spans, thread_count
from hopfed.kernels.moments import work_spaces

COPY_BYTES = 1 << 28
SIDE = {"cpu": 2048, "cuda": 8192}  # side of the multiplied matrices
ROWS, WORDS = 4, 496  # two such sets of rows take 31 kB
PASSES = 4000
BUDGET, ROUNDS = 0.7, 4  # seconds and samples; the longer of the two applies


def ceilings(device: Device) -> dict[str, float]:
    """Measure the ceilings of `device`, per second: bytes, operations, words (CPU only)."""
    found, side = {"copy": 2 * COPY_BYTES / _best(_copy(device), device)}, SIDE[device.name]
    for unit in ("float32", "float64"):
        a = device.xp.ones((side, side), unit)
        b = a.copy()  # not a.T: BLAS multiplies a matrix by its own transpose in half the work
        found[unit] = 2 * side**3 / _best(partial(device.xp.matmul, a, b), device)
    if device.name == "cpu":
        seconds = _best(_count, device)
        found["words"] = thread_count() * PASSES * ROWS**2 * WORDS / seconds
    return found


def bound(cost: Cost, ceiling: dict[str, float]) -> tuple[float, str] | None:
    """Return the seconds that `cost` takes at the ceilings, and the name of the limiting ceiling.

    Memory traffic and arithmetic overlap, so the longer of the two counts. Operations of different
    units run one after the other, so their times are added. None if a unit has no ceiling.
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
    """Shortest time of several calls, after a warm-up call."""
    task()
    seconds: list[float] = []
    while len(seconds) < ROUNDS or sum(seconds) < BUDGET:
        seconds.append(sample(task, device.synchronise))
    return min(seconds)


def _copy(device: Device) -> Callable[[], object]:
    source = device.xp.ones(COPY_BYTES // 8)
    target = device.xp.zeros_like(source)
    if device.name != "cpu":
        return lambda: target.__setitem__(slice(None), source)
    parts = spans(len(source), -(-len(source) // thread_count()))
    return lambda: for_each(lambda s: np.copyto(target[slice(*s)], source[slice(*s)]), parts)


def _count() -> None:
    from hopfed.kernels.cpu.moments import count_rows

    def task(thread: int) -> None:
        ((x, y, counts),) = work_spaces(WORDS, [(0, ROWS)])
        x[:] = y[:] = thread
        count_rows(x, y, ROWS, WORDS, PASSES, counts)

    for_each(task, range(thread_count()))
