"""`hopfed bench build`: the operator of many examples over few sites (A2; 5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.arrays import to_host
from hopfed.bench.record import Benchmark, Cost, Data, Sweep, Way
from hopfed.data.channel import rademacher
from hopfed.operators import DenseOperator
from hopfed.rng import stream


def _setup(M: int, N: int) -> Data:
    return {"x": rademacher(M, N, stream(0, "bench", "build"))}


def _ours(data: Data) -> Any:
    return DenseOperator.from_examples(data["x"]).matrix


def _obvious(data: Data) -> Any:
    y = data["x"].astype(np.float32)
    return y.T @ y


def _ours_cost(M: int, N: int) -> Cost:
    # int8 read; bits written and read, and once more transposed; int32, then float64 sums.
    words = -(-M // 64)
    moved = M * N + 4 * (M * N // 8) + (2 * 4 + 8) * N * N
    return Cost(moved, {"words": N * (N + 1) // 2 * words})


def _obvious_cost(M: int, N: int) -> Cost:
    return Cost(M * N + 8 * M * N + 4 * N * N, {"float32": N * (N + 1) * M})


def _gap(a: Any, b: Any) -> float:
    return float(np.abs(to_host(a).astype(np.float64) - to_host(b)).max(initial=0.0))


BENCHMARK = Benchmark(
    name="build",
    summary="N x N operator of M examples held as int8, packing included, exactly",
    setup=_setup,
    ways=(
        Way("DenseOperator", _ours, _ours_cost),
        Way("float32 BLAS", _obvious, _obvious_cost),
    ),
    gap=_gap,
    sizes={
        "small": (
            Sweep("M", (4_000, 8_000, 16_000, 32_000), {"N": 500}),
            Sweep("N", (125, 250, 500, 1_000), {"M": 16_000}),
        ),
        "full": (
            Sweep("M", (12_500, 25_000, 50_000, 100_000), {"N": 1_000}),
            Sweep("N", (250, 500, 1_000, 2_000), {"M": 50_000}),
        ),
    },
    cuda=True,
)
