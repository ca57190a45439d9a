"""Ceilings of a machine: the highest rates that it reaches, measured in this process first.

- copy: bytes read and written by a copy of an array much larger than the caches;
- float32, float64: additions and multiplications of a large matrix product by BLAS;
- words: differing bits of 64-bit words that stay in the first-level cache, by the Gram kernel.

A CUDA device has more of them, `hopfed.bench.harness.device_ceilings`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from hopfed.bench.harness.devices import CPU, Device
from hopfed.bench.harness.record import Cost
from hopfed.bench.harness.timing import sample
from hopfed.kernels.cpu.threads import for_each, spans, thread_count
from hopfed.kernels.moments import work_spaces

COPY_BYTES = 1 << 28
SIDE = 2048  # of the multiplied matrices
ROWS, WORDS = 4, 496  # two such sets of rows take 31 kB
PASSES = 4000
BUDGET, ROUNDS = 0.7, 4  # seconds and samples; the longer of the two applies
# What does the work of a unit, and how many of its operations that takes: 64 products and additions
# for a word; an addition for a signed one, or products of three terms of 16 bits and additions.
INSTEAD = {"words": {"b1": 128.0, "int8": 128.0}, "signed": {"float32": 1.0, "bf16": 6.0}}


def ceilings(device: Device) -> dict[str, float]:
    """Measure the ceilings of `device`, per second: bytes, operations, words."""
    if device.there is not None:
        from hopfed.bench.harness.device_ceilings import Sizes, measures

        return {unit: run()["rate"] for unit, run in measures(device.there, Sizes()).items()}
    found = {"copy": 2 * COPY_BYTES / _best(_copy())}
    for unit in ("float32", "float64"):
        a = np.ones((SIDE, SIDE), unit)
        b = a.copy()  # not a.T: BLAS multiplies a matrix by its own transpose in half the work
        found[unit] = 2 * SIDE**3 / _best(partial(np.matmul, a, b))
    found["words"] = thread_count() * PASSES * ROWS**2 * WORDS / _best(_count)
    return found


def bound(cost: Cost, ceiling: dict[str, float]) -> tuple[float, str] | None:
    """Return the seconds that `cost` takes at the ceilings, and the name of the limiting ceiling.

    Memory traffic and arithmetic overlap, so the longer of the two counts. Operations of different
    units run one after the other, so their times are added, each by what is fastest at it of all
    that the device has. None if nothing has a ceiling.
    """
    parts: dict[str, float] = {}
    for unit, count in cost.operations.items():
        ways = {unit: 1.0, **INSTEAD.get(unit, {})}
        times = {way: each * count / ceiling[way] for way, each in ways.items() if way in ceiling}
        if not times:
            return None
        best = min(times, key=lambda way: times[way])
        parts[best] = parts.get(best, 0.0) + times[best]
    moving, computing = cost.bytes / ceiling["copy"], sum(parts.values())
    if moving >= computing:
        return moving, "copy"
    return computing, max(parts, key=lambda unit: parts[unit])


def _best(task: Callable[[], object]) -> float:
    """Shortest time of several calls, after a warm-up call."""
    task()
    seconds: list[float] = []
    while len(seconds) < ROUNDS or sum(seconds) < BUDGET:
        seconds.append(sample(task, CPU.synchronise))
    return min(seconds)


def _copy() -> Callable[[], object]:
    source = np.ones(COPY_BYTES // 8)
    target = np.zeros_like(source)
    parts = spans(len(source), -(-len(source) // thread_count()))
    return lambda: for_each(lambda s: np.copyto(target[slice(*s)], source[slice(*s)]), parts)


def _count() -> None:
    from hopfed.kernels.cpu.moments import count_rows

    def task(thread: int) -> None:
        ((x, y, counts),) = work_spaces(WORDS, [(0, ROWS)])
        x[:] = y[:] = thread
        count_rows(x, y, ROWS, WORDS, PASSES, counts)

    for_each(task, range(thread_count()))
