"""`hopfed bench dream`: products with the sharpened operator, in closed form (A3; 17, 53-55)."""

from __future__ import annotations

import numpy as np

from hopfed import kernels
from hopfed.bench.gram import bits_cost
from hopfed.bench.record import Benchmark, Cost, Data, Sweep, Way
from hopfed.data.channel import draw_examples, rademacher
from hopfed.kernels import PackedBits
from hopfed.rng import stream
from hopfed.sharpen import iterate, sharpened_product

STEPS, EPS = 200, 0.01  # the paper's; dreaming time 2
COLUMNS = 8  # of the matrix that the sharpened operator is applied to
ARCHETYPES = 10


def _setup(M: int, N: int) -> Data:
    rng = stream(0, "bench", "dream")
    examples = draw_examples(rademacher(ARCHETYPES, N, rng), M, 0.8, rng)[0]
    return {"x": examples, "X": rng.standard_normal((N, COLUMNS))}


def _thin(held: tuple[PackedBits, np.ndarray]) -> np.ndarray:
    return sharpened_product(*held, STEPS * EPS)


def _operator(x: np.ndarray) -> np.ndarray:
    return (x.T @ x) / x.size


def _solve(held: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    x, X = held
    J, t = _operator(x), STEPS * EPS
    return np.linalg.solve(np.eye(len(J)) + t * J, (1 + t) * (J @ X))


def _iterate(held: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    x, X = held
    return iterate(_operator(x), eps=EPS, steps=STEPS) @ X


def _float64(data: Data) -> tuple[np.ndarray, np.ndarray]:
    return data["x"].astype(np.float64), data["X"]


def _thin_cost(M: int, N: int) -> Cost:
    """Gram matrix of the smaller side, its Cholesky decomposition, two thin products (additions).

    The matrix is written as int32, and passed four times in float64.
    """
    a = min(M, N)
    gram = bits_cost(a, max(M, N))
    factored = a**3 / 3 + 2 * a * a * COLUMNS + 2 * M * N * COLUMNS
    moved = gram.bytes + 4 * 8 * a * a + 2 * M * N // 8
    return Cost(moved, {**gram.operations, "float64": factored})


def _solve_cost(M: int, N: int) -> Cost:
    factored = 2 / 3 * N**3 + 2 * N * N * COLUMNS * 2
    return Cost(8 * M * N + 8 * 6 * N * N, {"float64": N * (N + 1) * M + factored})


def _iterate_cost(M: int, N: int) -> Cost:
    # Each step reads J for the product and writes J^2, the difference, its multiple and the sum.
    moved = STEPS * 8 * 10 * N * N
    return Cost(8 * M * N + moved, {"float64": N * (N + 1) * M + STEPS * 2 * N**3})


def _gap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


BENCHMARK = Benchmark(
    name="dream",
    summary="the operator of M examples sharpened for t = 2, applied to 8 columns",
    setup=_setup,
    ways=(
        Way(
            "thin factor",
            _thin,
            _thin_cost,
            prepare=lambda d: (kernels.pack(d["x"]), d["X"]),
        ),
        Way("dense solve", _solve, _solve_cost, _float64, most={"N": 4_000}, tolerance=1e-8),
        Way(
            "the paper's 200 steps",
            _iterate,
            _iterate_cost,
            _float64,
            most={"N": 500},
            tolerance=1e-2,  # the Euler error of the iteration, of order eps
        ),
    ),
    gap=_gap,
    sizes={
        "small": (
            Sweep("N", (250, 500, 1_000, 2_000), {"M": 200}),
            Sweep("M", (50, 100, 200, 400), {"N": 1_000}),
        ),
        "full": (
            Sweep("N", (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000), {"M": 200}),
            Sweep("M", (125, 250, 500, 1_000), {"N": 4_000}),
        ),
    },
)
