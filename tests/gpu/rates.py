"""Ceilings of a CUDA device: the highest rates that it reaches on random data.

- copy: bytes read and written by a copy of an array much larger than the caches;
- float32, float64, int8, bf16: additions and multiplications of a large matrix product by cuBLAS;
- b1: an AND and an addition for each pair of bits of the 1-bit matrix instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

PEAK = Path(__file__).with_name("peak")  # the module peak.cu, which is no part of the package
THREADS, BLOCKS, CHAINS = 256, 4, 8  # of a block; blocks of a multiprocessor; as in peak.cu
DRAWN = 1 << 20  # numbers drawn, and repeated: equal ones would cost less power
MATRICES = 80  # least capability with bf16 and 1-bit matrix instructions


@dataclass(frozen=True)
class Sizes:
    """Sizes of what is measured: numbers copied, side of matrices, turns of a loop, repeats."""

    copy: int = 1 << 29
    side: int = 8192
    loops: int = 20_000
    repeats: int = 7


def measures(device: Any, sizes: Sizes) -> dict[str, Callable[[], dict[str, float]]]:
    """A function for each unit of `device`, which measures its rate and the gap of products."""
    units: dict[str, Callable[..., dict[str, float]]] = {"copy": _copy}
    for kind in (np.float32, np.float64, np.int8):
        units[np.dtype(kind).name] = partial(_product, kind=kind)
    if device.capability >= MATRICES:
        units["bf16"] = partial(_product, kind=np.uint16)
        # 16 x 8 x 256 pairs of bits by the 32 threads of a warp.
        units["b1"] = partial(_instructions, name="peak_b1", each=2.0 * 16 * 8 * 256 / 32)
    return {unit: partial(measure, device, sizes) for unit, measure in units.items()}


def shortest(device: Any, work: Callable[[], None], repeats: int) -> float:
    """Shortest time of `work` by device events, after one run to warm up; 1 if emulated."""
    work()
    times = []
    for _ in range(repeats if hasattr(device.xp, "cuda") else 0):
        start, stop = device.xp.cuda.Event(), device.xp.cuda.Event()
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(device.xp.cuda.get_elapsed_time(start, stop) / 1e3)
    return min(times, default=1.0)


def _copy(device: Any, sizes: Sizes) -> dict[str, float]:
    source = _normal(device, sizes.copy)
    target = device.xp.zeros_like(source)
    seconds = shortest(device, partial(target.__setitem__, slice(None), source), sizes.repeats)
    return {"seconds": seconds, "rate": 2 * source.nbytes / seconds}


def _normal(device: Any, *shape: int) -> Any:
    """Random float32 numbers on the device."""
    size = int(np.prod(shape))
    drawn = np.random.default_rng(0).standard_normal(min(size, DRAWN), np.float32)
    there = device.xp.asarray(drawn)
    return device.xp.tile(there, -(-size // len(drawn)))[:size].reshape(shape)


def _product(device: Any, sizes: Sizes, kind: Any) -> dict[str, float]:
    """Product of two square matrices, its first rows compared with float64."""
    n, kind = sizes.side, np.dtype(kind)
    x = _normal(device, 2, n, n)
    a, b = (x * 4 if kind == np.int8 else x).astype(kind)
    if kind == np.uint16:
        a, b = ((half.view(np.uint32) >> 16).astype(np.uint16) for half in x)  # cut to bfloat16
    made = {np.dtype(np.int8): np.int32, np.dtype(np.uint16): np.float32}.get(kind, kind)
    out = device.xp.zeros((n, n), made)
    multiply = partial(device.gemm, a, b, out, ta=False, tb=True, add=False)
    seconds = shortest(device, multiply, sizes.repeats)
    few, all_of_b = a[:16], b
    if kind == np.uint16:  # bfloat16 numbers as float32, exactly
        few, all_of_b = ((y.astype(np.uint32) << 16).view(np.float32) for y in (few, b))
    wanted = few.astype(np.float64) @ all_of_b.astype(np.float64).T
    gap = float(abs(out[:16] - wanted).max() / abs(wanted).max())
    return {"seconds": seconds, "rate": 2.0 * n**3 / seconds, "gap": gap}


def _instructions(device: Any, sizes: Sizes, name: str, each: float) -> dict[str, float]:
    """Rate of an instruction in registers, `each` operations of a thread."""
    blocks = BLOCKS * device.processors
    args = device.xp.zeros(blocks * THREADS, np.int32), np.int32(sizes.loops)
    start = partial(device.launch, str(PEAK), name, (blocks, 1), args, THREADS)
    seconds = shortest(device, start, sizes.repeats)
    return {"seconds": seconds, "rate": each * CHAINS * sizes.loops * THREADS * blocks / seconds}
