"""`hopfed bench lam`: synchronous updates of many layered memories (A6; 8-12)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed import kernels
from hopfed.arrays import to_host
from hopfed.bench.record import Benchmark, Cost, Data, Sweep, Target, Way
from hopfed.data.channel import rademacher
from hopfed.rng import stream

BETA, REPULSION = 3.0, 0.2
UPDATES = 5  # in one call; a relaxation takes tens


def _setup(S: int, L: int, N: int, R: int) -> Data:
    rng = stream(0, "bench", "lam")
    # Gaussian factors: no field is exactly 0, where rounding would decide.
    W = (rng.standard_normal((N, R)) / np.sqrt(N)).astype(np.float32)
    return {"state": rademacher(S * L, N, rng).reshape(S, L, N), "W": W, "noise": 1.0}


def _kernel(data: Data) -> Any:
    options = {"noise": data["noise"], "updates": UPDATES, "repulsion": REPULSION}
    return kernels.lam_step(data["state"], data["W"], beta=BETA, **options).state


def _expression(held: Data) -> Any:
    """Equations (8)-(12) as they read; the state is held as float32, products are large ones."""
    s, W, own, xp = held["s"], held["W"], held["own"], held["xp"]
    S, L, N = s.shape
    rng = xp.random.default_rng(0)
    for _ in range(UPDATES):
        A = (s.reshape(S * L, N) @ W).reshape(S, L, -1)
        overlaps = (A @ A.transpose(0, 2, 1)) * (1 - xp.eye(L, dtype=A.dtype))
        c = A - (REPULSION / N) * (overlaps @ A)
        fields = (c.reshape(S * L, -1) @ W.T).reshape(S, L, N) - own * s
        u = rng.random(s.shape, dtype=xp.float32)
        up = xp.tanh(BETA * fields) + held["noise"] * (2 * u - 1) >= 0
        s = xp.where(up, xp.float32(1), xp.float32(-1))
    return s


def _float32(data: Data) -> Data:
    own = (data["W"] ** 2).sum(axis=1)
    return {**data, "s": data["state"].astype(np.float32), "own": own}


def _operations(S: int, L: int, N: int, R: int) -> dict[str, float]:
    """Coefficients, fields, and the L x L overlaps; noise and hyperbolic tangent not counted.

    The kernel counts alike: it adds the changes of the spins to the coefficients, few of them when
    cold, and sums these afresh at the start of a call.
    """
    return {"float32": UPDATES * S * (4 * L * N * R + 4 * L * L * R)}


def _kernel_cost(S: int, L: int, N: int, R: int) -> Cost:
    """State in and out once, the factor read in every update."""
    return Cost(2 * S * L * N + UPDATES * 4 * N * R, _operations(S, L, N, R))


def _expression_cost(S: int, L: int, N: int, R: int) -> Cost:
    # Per spin and term: s @ W 4, fields 4, own * s 8, their difference 12, u 4, 2 u - 1 16, times
    # noise 8, beta h 8, tanh 8, sum 12, comparison 5, where 5.
    return Cost(UPDATES * (94 * S * L * N + 2 * 4 * N * R), _operations(S, L, N, R))


def _gap(a: Any, b: Any) -> float:
    """Share of the spins that differ."""
    return float((to_host(a) != to_host(b)).mean())


BENCHMARK = Benchmark(
    name="lam",
    summary=f"{UPDATES} updates of S blocks of L layers of N spins, coupling of rank R, with noise",
    setup=_setup,
    ways=(
        Way("fused", _kernel, _kernel_cost),
        Way("NumPy expression", _expression, _expression_cost, _float32, tolerance=1e-3),
    ),
    gap=_gap,
    quiet=lambda data: {**data, "noise": 0.0},
    sizes={
        "small": (
            Sweep("N", (1_250, 2_500, 5_000, 10_000), {"S": 40, "L": 5, "R": 50}),
            Sweep("R", (25, 50, 100, 200), {"S": 40, "L": 5, "N": 5_000}),
        ),
        "full": (
            Sweep("N", (2_500, 5_000, 10_000, 20_000, 40_000), {"S": 200, "L": 5, "R": 50}),
            Sweep("R", (25, 50, 100, 200), {"S": 200, "L": 5, "N": 10_000}),
            Sweep("S", (25, 50, 100, 200, 400), {"L": 5, "N": 10_000, "R": 50}),
        ),
    },
    targets=(Target({"S": 200, "L": 5, "N": 10_000, "R": 50}, ratio=5.0),),
    cuda=True,
)
