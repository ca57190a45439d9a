"""`hopfed bench gram`: inner products of all pairs of examples (A2, the Gram route)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed import kernels
from hopfed.arrays import to_host
from hopfed.bench.record import Benchmark, Cost, Data, Sweep, Target, Way
from hopfed.data.channel import rademacher
from hopfed.rng import stream


def _setup(M: int, N: int) -> Data:
    return {"x": rademacher(M, N, stream(0, "bench", "gram"))}


def bits_cost(M: int, N: int) -> Cost:
    """Cost of one half of the pairs, a word at a time; both halves of the int32 result written."""
    words = -(-N // 64)
    return Cost(8 * M * words + 4 * M * M, {"words": M * (M + 1) // 2 * words})


def _blas_cost(M: int, N: int) -> Cost:
    # NumPy sees that the factors are transposes of each other: BLAS computes one half.
    return Cost(4 * M * N + 4 * M * M, {"float32": M * (M + 1) * N})


def _gap(a: Any, b: Any) -> float:
    return float(np.abs(to_host(a).astype(np.float64) - to_host(b)).max(initial=0.0))


BENCHMARK = Benchmark(
    name="gram",
    summary="inner products of all pairs of M examples over N sites, exactly",
    setup=_setup,
    ways=(
        Way("bits", kernels.gram, bits_cost, prepare=lambda d: kernels.pack(d["x"])),
        Way(
            "float32 BLAS",
            lambda x: x @ x.T,
            _blas_cost,
            prepare=lambda d: d["x"].astype("float32"),
        ),
    ),
    gap=_gap,
    sizes={
        "small": (
            Sweep("N", (4_000, 8_000, 16_000, 32_000), {"M": 1_000}),
            Sweep("M", (250, 500, 1_000, 2_000), {"N": 16_000}),
        ),
        "full": (
            Sweep("N", (6_250, 12_500, 25_000, 50_000, 100_000), {"M": 4_000}),
            Sweep("M", (500, 1_000, 2_000, 4_000), {"N": 50_000}),
        ),
    },
    targets=(Target({"M": 4_000, "N": 50_000}, ratio=8.0),),
    cuda=True,
)
