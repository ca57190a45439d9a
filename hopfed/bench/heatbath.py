"""`hopfed bench heatbath`: serial Glauber sweeps of many chains on a low-rank coupling (A7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed import kernels
from hopfed.arrays import to_host
from hopfed.bench.record import Benchmark, Cost, Data, Sweep, Way
from hopfed.data.channel import rademacher
from hopfed.rng import stream

SWEEPS = 5
BETA = 3.0
COLD = 1e8  # inverse temperature at which the draws decide nothing


def _setup(S: int, N: int, R: int) -> Data:
    rng = stream(0, "bench", "heatbath")
    W = (rng.standard_normal((N, R)) / np.sqrt(N)).astype(np.float32)
    return {"state": rademacher(S, N, rng), "W": W, "beta": BETA}


def _kernel(data: Data) -> Any:
    return kernels.heat_bath(
        data["state"], data["W"], beta=data["beta"], sweeps=SWEEPS, seed=0
    ).state


def _loop(data: Data) -> Any:
    """Site by site as well, all chains at once, the coefficients kept up to date."""
    W, beta, xp = data["W"], data["beta"], data["xp"]
    rng = xp.random.default_rng(0)
    s = data["state"].T.astype(np.float32)  # sites first: rows are contiguous
    A = s.T @ W
    own = (W * W).sum(axis=1)
    for _ in range(SWEEPS):
        u = rng.random(s.shape, dtype=np.float32)
        for i in range(len(s)):
            fields = A @ W[i] - own[i] * s[i]
            new = xp.where(u[i] < (1 + xp.tanh(beta * fields)) / 2, 1, -1).astype(np.float32)
            A += (new - s[i])[:, None] * W[i]
            s[i] = new
    return s.T.astype(np.int8)


def _cost(S: int, N: int, R: int) -> Cost:
    """Coefficients once, then the field of every visit; flips, a share of it, not counted."""
    return Cost(2 * S * N + 4 * N * R, {"float32": (1 + SWEEPS) * 2 * S * N * R})


def _gap(a: Any, b: Any) -> float:
    """Share of the spins that differ."""
    return float((to_host(a) != to_host(b)).mean())


BENCHMARK = Benchmark(
    name="heatbath",
    summary=f"{SWEEPS} serial heat-bath sweeps of S chains of N spins, coupling of rank R",
    setup=_setup,
    ways=(
        Way("kernel", _kernel, _cost),
        # A field within rounding of 0 may turn one spin, and that one others.
        Way("NumPy, site by site", _loop, _cost, tolerance=1e-2),
    ),
    gap=_gap,
    quiet=lambda data: {**data, "beta": COLD},
    sizes={
        "small": (
            Sweep("N", (500, 1_000, 2_000, 4_000), {"S": 24, "R": 100}),
            Sweep("R", (25, 50, 100, 200), {"S": 24, "N": 1_000}),
        ),
        "full": (
            Sweep("N", (500, 1_000, 2_000, 4_000, 8_000, 16_000), {"S": 128, "R": 140}),
            Sweep("R", (35, 70, 140, 280), {"S": 128, "N": 2_000}),
            Sweep("S", (8, 32, 128, 512), {"N": 2_000, "R": 140}),
        ),
    },
    cuda=True,
)
