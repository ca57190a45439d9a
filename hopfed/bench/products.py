"""`hopfed bench products`: the operator on a thin matrix, straight from the bits (A2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.arrays import to_host
from hopfed.bench.record import Benchmark, Cost, Data, Sweep, Way
from hopfed.data.channel import rademacher
from hopfed.operators import FactorOperator
from hopfed.rng import stream


def _setup(M: int, N: int, k: int) -> Data:
    rng = stream(0, "bench", "products")
    return {"x": rademacher(M, N, rng), "X": rng.standard_normal((N, k)).astype(np.float32)}


def _ours(held: tuple[FactorOperator, Any]) -> Any:
    operator, X = held
    return operator.matmat(X)


def _float32(held: tuple[Any, Any]) -> Any:
    y, X = held
    return y.T @ (y @ X) / np.float32(len(y))


def _int8(data: Data) -> Any:
    return _float32((data["x"].astype(np.float32), data["X"]))


def _operations(M: int, N: int, k: int) -> dict[str, float]:
    return {"float32": 4 * M * N * k}


def _thin(M: int, N: int, k: int) -> int:
    """Bytes of X and ``C X``, and of ``eta X`` written and read."""
    return 4 * k * (2 * N + 2 * M)


def bits_cost(M: int, N: int, k: int) -> Cost:
    """Cost from bits, read once by each of the two products: additions alone, half the work."""
    return Cost(2 * 8 * M * -(-N // 64) + _thin(M, N, k), {"float32": 2 * M * N * k})


def _float32_cost(M: int, N: int, k: int) -> Cost:
    return Cost(2 * 4 * M * N + _thin(M, N, k), _operations(M, N, k))


def _int8_cost(M: int, N: int, k: int) -> Cost:
    return Cost((1 + 3 * 4) * M * N + _thin(M, N, k), _operations(M, N, k))


def _gap(a: Any, b: Any) -> float:
    a, b = to_host(a).astype(np.float64), to_host(b)
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


BENCHMARK = Benchmark(
    name="products",
    summary="the operator of M examples over N sites on a thin matrix of k columns",
    setup=_setup,
    ways=(
        Way(
            "bits",
            _ours,
            bits_cost,
            prepare=lambda d: (FactorOperator.from_examples(d["x"]), d["X"]),
            tolerance=1e-5,
        ),
        Way(
            "float32 copy held",
            _float32,
            _float32_cost,
            prepare=lambda d: (d["x"].astype(np.float32), d["X"]),
            tolerance=1e-5,
        ),
        Way("int8, converted", _int8, _int8_cost, tolerance=1e-5),
    ),
    gap=_gap,
    sizes={
        "small": (
            Sweep("N", (4_000, 8_000, 16_000, 32_000), {"M": 1_000, "k": 20}),
            Sweep("k", (1, 5, 20, 80), {"M": 1_000, "N": 16_000}),
        ),
        "full": (
            Sweep("N", (6_250, 12_500, 25_000, 50_000), {"M": 4_000, "k": 50}),
            Sweep("M", (500, 1_000, 2_000, 4_000), {"N": 50_000, "k": 50}),
            Sweep("k", (1, 5, 20, 50, 100), {"M": 4_000, "N": 50_000}),
        ),
    },
    cuda=True,
)
