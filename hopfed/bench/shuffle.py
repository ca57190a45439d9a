"""`hopfed bench shuffle`: top eigenvalues of scrambled examples, the null of a rank rule (A4)."""

from __future__ import annotations

import numpy as np

from hopfed.bench.gram import bits_cost
from hopfed.bench.record import Benchmark, Cost, Data, Sweep, Way
from hopfed.data.channel import rademacher
from hopfed.kernels.shuffle import BASIS
from hopfed.operators import FactorOperator
from hopfed.rng import stream
from hopfed.shuffle import null_eigenvalues

REPEATS = 4


def _setup(M: int, N: int) -> Data:
    return {"x": rademacher(M, N, stream(0, "bench", "shuffle"))}


def _factor_form(operator: FactorOperator) -> np.ndarray:
    return null_eigenvalues([operator], repeats=REPEATS, null="signs", seed=0)


def _obvious(x: np.ndarray) -> np.ndarray:
    """A random sign for every entry, the smaller of the two Gram matrices, all eigenvalues."""
    rng = np.random.default_rng(0)
    tops = []
    for _ in range(REPEATS):
        y = x * (2 * rng.integers(0, 2, x.shape, dtype=np.int8) - 1).astype(np.float32)
        G = y @ y.T if len(y) <= y.shape[1] else y.T @ y
        tops.append(np.linalg.eigvalsh(G)[-1] / len(y))
    return np.array(tops)


def _ours_cost(M: int, N: int) -> Cost:
    """Bits copied and flipped, the smaller Gram matrix, the products of one Lanczos basis."""
    a, b = min(M, N), max(M, N)
    gram = bits_cost(a, b)
    moved = 4 * M * N // 8 + gram.bytes + (2 + BASIS) * 4 * a * a
    operations = {**gram.operations, "float32": BASIS * 2 * a * a}
    return Cost(REPEATS * moved, {unit: REPEATS * n for unit, n in operations.items()})


def _obvious_cost(M: int, N: int) -> Cost:
    a, b = min(M, N), max(M, N)
    moved = (3 + 3 * 4 + 4) * M * N + 2 * 4 * a * a
    return Cost(REPEATS * moved, {"float32": REPEATS * (a * (a + 1) * b + 4 / 3 * a**3)})


def _gap(a: np.ndarray, b: np.ndarray) -> float:
    """Relative distance of the means; the draws are different ones."""
    return float(abs(a.mean() - b.mean()) / a.mean())


BENCHMARK = Benchmark(
    name="shuffle",
    summary=f"top eigenvalue of {REPEATS} scrambled copies of M examples over N sites",
    setup=_setup,
    ways=(
        Way(
            "factor form", _factor_form, _ours_cost, lambda d: FactorOperator.from_examples(d["x"])
        ),
        # Means of four eigenvalues that each fluctuate by about one percent.
        Way(
            "NumPy, float32",
            _obvious,
            _obvious_cost,
            prepare=lambda d: d["x"].astype(np.float32),
            tolerance=0.05,
        ),
    ),
    gap=_gap,
    sizes={
        "small": (
            Sweep("N", (1_000, 2_000, 4_000, 8_000), {"M": 250}),
            Sweep("M", (125, 250, 500), {"N": 4_000}),
        ),
        "full": (
            Sweep("N", (2_500, 5_000, 10_000, 20_000, 40_000), {"M": 1_000}),
            Sweep("M", (250, 500, 1_000, 2_000), {"N": 10_000}),
        ),
    },
)
