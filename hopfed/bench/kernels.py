"""Pairs of the kernels: products of packed bits, and the dynamics, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from hopfed import kernels
from hopfed.bench.common import (
    factors,
    float32,
    largest_difference,
    packed,
    relative_distance,
    share_that_differs,
    signs,
)
from hopfed.bench.harness.record import Cost, Data, Pair, Target, Way, cross, doubling
from hopfed.hopfield.channel import rademacher
from hopfed.kernels import mixtures
from hopfed.spectral.operators import DenseOperator

SWEEPS = UPDATES = 5  # heat-bath sweeps, and updates of the layered memory, in one call
BETA, REPULSION = 3.0, 0.2
COLD = 1e8  # inverse temperature at which random numbers have no effect


def gram_cost(M: int, N: int) -> Cost:
    """Half of the pairs are computed, word by word; both halves of the int32 result are written."""
    words = -(-N // 64)
    return Cost(8 * M * words + 4 * M * M, {"words": M * (M + 1) // 2 * words})


def product_cost(M: int, N: int, k: int) -> Cost:
    """Each of the two products reads the bits once and only adds, which is half the work."""
    return Cost(2 * 8 * M * -(-N // 64) + _thin(M, N, k), {"signed": 2 * M * N * k})


def _thin(M: int, N: int, k: int) -> int:
    """Bytes of X and ``C X``, and of ``eta X``, which is written and read."""
    return 4 * k * (2 * N + 2 * M)


def _gram(M: int, N: int) -> tuple[Way, ...]:
    # NumPy recognises a product with the own transpose, and lets BLAS compute one half.
    blas = Cost(4 * M * N + 4 * M * M, {"float32": M * (M + 1) * N})
    return (
        Way("bits", kernels.gram, gram_cost(M, N), packed),
        Way("float32 BLAS", lambda x: x @ x.T, blas, float32),
    )


def _build(M: int, N: int) -> tuple[Way, ...]:
    # int8 is read; bits are written and read, also in transposed form; int32, then float64 sums.
    moved = M * N + 4 * (M * N // 8) + (2 * 4 + 8) * N * N
    bits = Cost(moved, {"words": N * (N + 1) // 2 * -(-M // 64)})
    blas = Cost(M * N + 8 * M * N + 4 * N * N, {"float32": N * (N + 1) * M})
    return (
        Way("DenseOperator", lambda d: DenseOperator.from_examples(d["x"]).matrix, bits),
        Way("float32 BLAS", lambda d: (lambda y: y.T @ y)(float32(d)), blas),
    )


def thin_matrix(rng: np.random.Generator, M: int, N: int, k: int) -> Data:
    """M examples of fair signs over N sites, and a Gaussian matrix of k columns."""
    return {**signs(rng, M, N), "X": rng.standard_normal((N, k)).astype(np.float32)}


def _apply(y: Any, X: Any) -> Any:
    return y.T @ (y @ X) / np.float32(len(y))


def _products(M: int, N: int, k: int) -> tuple[Way, ...]:
    held = Cost(2 * 4 * M * N + _thin(M, N, k), {"float32": 4 * M * N * k})
    read = Cost((1 + 3 * 4) * M * N + _thin(M, N, k), held.operations)
    bits = product_cost(M, N, k)
    return (
        Way("bits", lambda h: h[0].matmat(h[1]), bits, lambda d: (factors(d), d["X"])),
        Way("float32 copy held", lambda h: _apply(*h), held, lambda d: (float32(d), d["X"]), 1e-5),
        Way("int8, converted", lambda d: _apply(float32(d), d["X"]), read, tolerance=1e-5),
    )


def _chains(rng: np.random.Generator, S: int, N: int, R: int) -> Data:
    """Chains of spins, and Gaussian factors, so that no field is exactly 0."""
    W = (rng.standard_normal((N, R)) / np.sqrt(N)).astype(np.float32)
    return {"state": rademacher(S, N, rng), "W": W, "beta": BETA}


def _layers(rng: np.random.Generator, S: int, L: int, N: int, R: int) -> Data:
    data = _chains(rng, S * L, N, R)
    return {**data, "state": data["state"].reshape(S, L, N), "noise": 1.0}


def _fused(data: Data) -> Any:
    options = {"noise": data["noise"], "updates": UPDATES, "repulsion": REPULSION}
    return kernels.layered_step(data["state"], data["W"], beta=data["beta"], **options).state


def _expression(data: Data) -> Any:
    """arXiv:2603.19902, eqs. (8) to (12), written directly as large float32 products."""
    s, W, own, xp = data["s"], data["W"], data["own"], data["xp"]
    S, L, N = s.shape
    rng = xp.random.default_rng(0)
    for _ in range(UPDATES):
        A = (s.reshape(S * L, N) @ W).reshape(S, L, -1)
        overlaps = (A @ A.transpose(0, 2, 1)) * (1 - xp.eye(L, dtype=A.dtype))
        c = A - (REPULSION / N) * (overlaps @ A)
        fields = (c.reshape(S * L, -1) @ W.T).reshape(S, L, N) - own * s
        u = rng.random(s.shape, dtype=xp.float32)
        up = xp.tanh(data["beta"] * fields) + data["noise"] * (2 * u - 1) >= 0
        s = xp.where(up, xp.float32(1), xp.float32(-1))
    return s


def _in_float32(data: Data) -> Data:
    own = (data["W"] ** 2).sum(axis=1)
    return {**data, "s": data["state"].astype(np.float32), "own": own}


def _layered(S: int, L: int, N: int, R: int) -> tuple[Way, ...]:
    # Coefficients, fields, and L x L overlaps; noise and hyperbolic tangent are not counted. The
    # kernel has the same cost by formula. It updates the coefficients by the spins that changed,
    # few of them at low temperature, and computes them from all spins at the start of a call.
    flops = {"float32": UPDATES * S * (4 * L * N * R + 4 * L * L * R)}
    # The state is read and written once, the factor is read in every update.
    fused = Cost(2 * S * L * N + UPDATES * 4 * N * R, flops)
    # Bytes per spin and term: s @ W 4, fields 4, own * s 8, their difference 12, u 4, 2 u - 1 16,
    # times noise 8, beta h 8, tanh 8, sum 12, comparison 5, where 5.
    plain = Cost(UPDATES * (94 * S * L * N + 2 * 4 * N * R), flops)
    return (
        Way("fused", _fused, fused),
        Way("NumPy expression", _expression, plain, _in_float32, tolerance=1e-3),
    )


def _heat_bath(data: Data) -> Any:
    options = {"beta": data["beta"], "sweeps": SWEEPS, "seed": 0}
    return kernels.heat_bath(data["state"], data["W"], **options).state


def _site_by_site(data: Data) -> Any:
    """Update all chains together, site by site, and keep the coefficients up to date."""
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


def _heatbath(S: int, N: int, R: int) -> tuple[Way, ...]:
    # The coefficients once, then the field at every visit; the cost of flips is not counted.
    cost = Cost(2 * S * N + 4 * N * R, {"float32": (1 + SWEEPS) * 2 * S * N * R})
    return (
        Way("kernel", _heat_bath, cost),
        # Rounding of a field near 0 may flip one spin, which may flip others.
        Way("NumPy, site by site", _site_by_site, cost, tolerance=1e-2),
    )


def _logs(rng: np.random.Generator, K: int, M: int) -> Data:
    """Log-likelihoods of M rows in K classes, some far below the largest, and log-shares."""
    logs = (-20 * rng.random((K, M))).astype(np.float32)
    return {"logs": logs, "shifts": np.log(rng.dirichlet(np.ones(K)))}


def _normalised(data: Data) -> Any:
    logs = data["logs"] + data["shifts"][:, None]
    return np.exp(logs - logsumexp(logs, axis=0))


def _responsibilities(K: int, M: int) -> tuple[Way, ...]:
    # Read float32, write float64, float32 and the sums; exponentials and logarithms not counted.
    fused = Cost(4 * K * M + 12 * K * M + 8 * M, {"float64": 4 * K * M})
    # Sum, its maximum, difference and exponential, their sum; difference and exponential again.
    plain = Cost(4 * K * M + 8 * K * M * 11, {"float64": 4 * K * M})
    return (
        Way("kernel", lambda d: mixtures.responsibilities(d["logs"], d["shifts"])[0], fused),
        Way("SciPy's logsumexp", _normalised, plain, tolerance=1e-6),
    )


PAIRS = (
    Pair(
        "gram",
        "inner products of all pairs of M examples over N sites, exactly",
        signs,
        _gram,
        largest_difference,
        cross({"M": 1_000, "N": 16_000}, N=doubling(4_000, 32_000), M=doubling(250, 2_000)),
        cross({"M": 4_000, "N": 50_000}, N=doubling(6_250, 100_000), M=doubling(500, 4_000)),
        targets=(Target({"M": 4_000, "N": 50_000}, 8.0),),
        cuda=True,
    ),
    Pair(
        "build",
        "N x N operator of M examples held as int8, packing included, exactly",
        signs,
        _build,
        largest_difference,
        cross({"M": 16_000, "N": 500}, M=doubling(4_000, 32_000), N=doubling(125, 1_000)),
        cross({"M": 50_000, "N": 1_000}, M=doubling(12_500, 100_000), N=doubling(250, 2_000)),
        cuda=True,
    ),
    Pair(
        "products",
        "the operator of M examples over N sites on a thin matrix of k columns",
        thin_matrix,
        _products,
        relative_distance,
        cross({"M": 1_000, "N": 16_000, "k": 20}, N=doubling(4_000, 32_000), k=(1, 5, 20, 80)),
        cross(
            {"M": 4_000, "N": 50_000, "k": 50},
            N=doubling(6_250, 50_000),
            M=doubling(500, 4_000),
            k=(1, 5, 20, 50, 100),
        ),
        cuda=True,
    ),
    Pair(
        "layered",
        f"{UPDATES} updates of S blocks of L layers of N spins, coupling of rank R, with noise",
        _layers,
        _layered,
        share_that_differs,
        cross(
            {"S": 40, "L": 5, "N": 5_000, "R": 50}, N=doubling(1_250, 10_000), R=doubling(25, 200)
        ),
        cross(
            {"S": 200, "L": 5, "N": 10_000, "R": 50},
            N=doubling(2_500, 40_000),
            R=doubling(25, 200),
            S=doubling(25, 400),
        ),
        quiet={"noise": 0.0},
        targets=(Target({"S": 200, "L": 5, "N": 10_000, "R": 50}, 5.0),),
        cuda=True,
    ),
    Pair(
        "heatbath",
        f"{SWEEPS} serial heat-bath sweeps of S chains of N spins, coupling of rank R",
        _chains,
        _heatbath,
        share_that_differs,
        cross({"S": 24, "N": 1_000, "R": 100}, N=doubling(500, 4_000), R=doubling(25, 200)),
        cross(
            {"S": 128, "N": 2_000, "R": 140},
            N=doubling(500, 16_000),
            R=doubling(35, 280),
            S=(8, 32, 128, 512),
        ),
        quiet={"beta": COLD},
        cuda=True,
    ),
    Pair(
        "responsibilities",
        "how much of each of M rows each of K classes has, from log-likelihoods",
        _logs,
        _responsibilities,
        largest_difference,
        cross({"K": 10, "M": 10_000}, M=doubling(1_000, 16_000), K=(2, 10, 50)),
        cross({"K": 50, "M": 100_000}, M=doubling(12_500, 100_000), K=(2, 10, 50)),
    ),
)
