"""Pairs of spectra: leading eigenpairs, the sharpened operator, eigenvalues of scrambled examples.

The Gram route and NumPy's singular value decomposition compute all eigenvalues, which the rank
rules need. The Krylov route and SciPy's `svds` compute only the leading ones.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hopfed._lib.arrays import namespace, to_host
from hopfed.bench.common import examples, factors, float32, packed, relative_distance, signs
from hopfed.bench.harness.record import Cost, Data, Pair, Way, cross, doubling
from hopfed.bench.kernels import gram_cost, product_cost
from hopfed.kernels.shuffle import BASIS
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.sharpening import iterate, sharpened_product
from hopfed.spectral.shuffle_null import null_eigenvalues

WIDTH = 64  # columns of a Krylov block
STEPS, EPS = 200, 0.01  # as in arXiv:2603.19902, eq. (17); the dreaming time is 2
COLUMNS = 8  # columns of the matrix to which the sharpened operator is applied
ARCHETYPES = 10
REPEATS = 4  # number of scrambled copies


class Pairs(NamedTuple):
    """Leading eigenpairs: (K,) values, descending, (N, K) vectors, products with the operator."""

    values: np.ndarray
    vectors: np.ndarray
    products: int = 1


def _route(operator: FactorOperator, K: int, route: str) -> Pairs:
    found = eigenpairs(operator, K, route=route, width=WIDTH)
    return Pairs(found.values[:K], found.vectors, found.products)


def _svds(x: np.ndarray, K: int) -> Pairs:
    from scipy.sparse.linalg import svds

    _, s, vectors = svds(x, K, random_state=0)
    return Pairs(s[::-1] ** 2 / len(x), vectors[::-1].T)


def _svd(x: np.ndarray, K: int) -> Pairs:
    _, s, vectors = namespace(x).linalg.svd(x, full_matrices=False)
    return Pairs(to_host(s[:K]) ** 2 / len(x), vectors[:K].T)


def gram_route_cost(M: int, N: int, K: int) -> Cost:
    """Cost of the Gram matrix, two tridiagonal reductions, the eigenvectors and their check."""
    gram = gram_cost(M, N)
    operations = {**gram.operations, "float64": 2 * (4 / 3) * M**3 + 6 * M * N * K}
    return Cost(gram.bytes + 2 * 8 * M * M + 3 * 8 * M * -(-N // 64) + 3 * 8 * N * K, operations)


def _krylov_route_cost(M: int, N: int, products: int) -> Cost:
    """Cost of products with the operator, and of orthogonalising twice against all blocks."""
    one = product_cost(M, N, WIDTH)
    pairs_of_blocks = products * (products - 1) / 2
    signed, flops = products * one.operations["signed"], 8 * N * WIDTH**2 * pairs_of_blocks
    moved = products * one.bytes + 16 * N * WIDTH * pairs_of_blocks
    return Cost(moved, {"signed": signed, "float32": flops})


def _eig(M: int, N: int, K: int) -> tuple[Way, ...]:
    gram, krylov = (partial(_route, K=K, route=route) for route in ("gram", "krylov"))
    # svd: QR of the longer side, bidiagonal form of R, all vectors transformed back.
    a, b = min(M, N), max(M, N)
    triangle = 2 * a * a * (b - a / 3)
    full = Cost(4 * 4 * M * N, {"float32": 3 * triangle + (8 / 3 + 4) * a**3})
    # svds: at least one restart cycle of ARPACK, 2 K + 1 products of a vector with x and x^T.
    n = max(2 * K + 1, 20)
    some = Cost(n * 2 * 4 * M * N, {"float32": n * 4 * M * N})
    most = {"M": 1_000, "N": 25_000}
    return (
        Way("Gram route", gram, gram_route_cost(M, N, K), factors),
        Way("NumPy svd", partial(_svd, K=K), full, float32, tolerance=1e-4, most=most),
        Way(
            "Krylov route",
            krylov,
            lambda found: _krylov_route_cost(M, N, found.products),
            factors,
            tolerance=1e-2,  # it stops when the angles to the eigenvectors are about 0.03
        ),
        Way("SciPy svds", partial(_svds, K=K), some, float32, tolerance=1e-4),
    )


def _missed(a: Pairs, b: Pairs) -> float:
    """Distance of the values, or the missed part of the subspace, whichever is larger."""
    values = np.abs(a.values - b.values).max() / a.values[0]
    missed = 1 - np.sum((to_host(a.vectors).T @ to_host(b.vectors)) ** 2) / len(a.values)
    return float(max(values, missed))


def _columns(rng: np.random.Generator, M: int, N: int) -> Data:
    return {**examples(rng, M, N, ARCHETYPES), "X": rng.standard_normal((N, COLUMNS))}


def _solve(x: np.ndarray, X: np.ndarray) -> np.ndarray:
    J, t, xp = x.T @ x / x.size, STEPS * EPS, namespace(x)
    return xp.linalg.solve(xp.eye(len(J)) + t * J, (1 + t) * (J @ X))


def _iterate(x: np.ndarray, X: np.ndarray) -> np.ndarray:
    return iterate(x.T @ x / x.size, eps=EPS, steps=STEPS) @ X


def _dream(M: int, N: int) -> tuple[Way, ...]:
    # Gram matrix of the smaller side, written as int32 and read or written four times in float64;
    # its Cholesky decomposition; two thin products (additions).
    a = min(M, N)
    gram = gram_cost(a, max(M, N))
    flops = {"float64": a**3 / 3 + 2 * a * a * COLUMNS + 2 * M * N * COLUMNS}
    thin = Cost(gram.bytes + 32 * a * a + 2 * M * N // 8, {**gram.operations, **flops})
    build = N * (N + 1) * M
    flops = {"float64": build + 2 / 3 * N**3 + 2 * N * N * COLUMNS * 2}
    solve = Cost(8 * M * N + 8 * 6 * N * N, flops)
    # Each step reads J for the product and writes J^2, the difference, its multiple and the sum.
    flops = {"float64": build + STEPS * 2 * N**3}
    steps = Cost(8 * M * N + STEPS * 8 * 10 * N * N, flops)

    def dense(data: Data) -> tuple[Any, Any]:
        return data["x"].astype(np.float64), data["X"]

    def run(function: Any, *more: Any) -> Any:
        return lambda held: function(*held, *more)

    euler = 1e-2  # error of the iteration, which is of order eps
    return (
        Way(
            "thin factor", run(sharpened_product, STEPS * EPS), thin, lambda d: (packed(d), d["X"])
        ),
        Way("dense solve", run(_solve), solve, dense, 1e-8, {"N": 4_000}),
        Way("the paper's 200 steps", run(_iterate), steps, dense, euler, {"N": 500}),
    )


def _factor_form(operator: FactorOperator) -> np.ndarray:
    return null_eigenvalues([operator], repeats=REPEATS, null="signs", seed=0)


def _single(data: Data) -> Data:
    return {**data, "x": float32(data)}


def _scrambled(data: Data) -> np.ndarray:
    """Multiply entries by random signs; return the top eigenvalues by the smaller Gram matrix."""
    x, xp = data["x"], data["xp"]
    rng, tops = xp.random.default_rng(0), []
    for _ in range(REPEATS):
        y = x * (2 * rng.integers(0, 2, x.shape, dtype=np.int8) - 1).astype(np.float32)
        G = y @ y.T if len(y) <= y.shape[1] else y.T @ y
        tops.append(float(xp.linalg.eigvalsh(G)[-1]) / len(y))
    return np.array(tops)


def _shuffle(M: int, N: int) -> tuple[Way, ...]:
    # Bits are copied and flipped; the smaller Gram matrix; the products of one Lanczos basis.
    a, b = min(M, N), max(M, N)
    gram = gram_cost(a, b)
    moved = 4 * M * N // 8 + gram.bytes + (2 + BASIS) * 4 * a * a
    operations = {"words": gram.operations["words"], "float32": BASIS * 2 * a * a}
    thin = Cost(REPEATS * moved, {unit: REPEATS * n for unit, n in operations.items()})
    moved = (3 + 3 * 4 + 4) * M * N + 2 * 4 * a * a
    dense = Cost(REPEATS * moved, {"float32": REPEATS * (a * (a + 1) * b + 4 / 3 * a**3)})
    return (
        Way("factor form", _factor_form, thin, factors),
        # The gap compares means of four eigenvalues, each with about one percent of noise.
        Way("NumPy, float32", _scrambled, dense, _single, tolerance=0.05),
    )


def _distance_of_means(a: np.ndarray, b: np.ndarray) -> float:
    """Relative distance of the means; the two ways draw different random numbers."""
    return float(abs(a.mean() - b.mean()) / a.mean())


PAIRS = (
    Pair(
        "eig",
        "the K leading eigenpairs of the operator of M examples over N sites",
        examples,
        _eig,
        _missed,
        cross({"M": 400, "N": 4_000, "K": 20}, N=doubling(500, 8_000), M=doubling(100, 800)),
        cross(
            {"M": 1_000, "N": 25_000, "K": 20}, N=doubling(6_250, 100_000), M=doubling(250, 2_000)
        ),
        cuda=True,
    ),
    Pair(
        "dream",
        "the operator of M examples sharpened for t = 2, applied to 8 columns",
        _columns,
        _dream,
        relative_distance,
        cross({"M": 200, "N": 1_000}, N=doubling(250, 2_000), M=doubling(50, 400)),
        cross({"M": 200, "N": 4_000}, N=doubling(250, 16_000), M=doubling(125, 1_000)),
        cuda=True,
    ),
    Pair(
        "shuffle",
        f"top eigenvalue of {REPEATS} scrambled copies of M examples over N sites",
        signs,
        _shuffle,
        _distance_of_means,
        cross({"M": 250, "N": 4_000}, N=doubling(1_000, 8_000), M=doubling(125, 500)),
        cross({"M": 1_000, "N": 10_000}, N=doubling(2_500, 40_000), M=doubling(250, 2_000)),
        cuda=True,
    ),
)
