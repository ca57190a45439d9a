"""`hopfed bench eig`: leading eigenpairs of the operator (A2; the routes of `hopfed.spectrum`).

The Gram route and NumPy's singular value decomposition also give every other eigenvalue, which
the rank rules read; the Krylov route and SciPy's `svds` give the leading ones only.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from hopfed.bench.gram import bits_cost
from hopfed.bench.products import bits_cost as products_cost
from hopfed.bench.record import Benchmark, Cost, Data, Point, Sweep, Way
from hopfed.data.channel import draw_examples, rademacher
from hopfed.operators import FactorOperator
from hopfed.rng import stream
from hopfed.spectrum import eigenpairs

WIDTH = 64  # columns of a Krylov block


class Pairs(NamedTuple):
    """Leading eigenpairs: (K,) values, descending, (N, K) vectors, products with the operator."""

    values: np.ndarray
    vectors: np.ndarray
    products: int = 1


def _setup(M: int, N: int, K: int) -> Data:
    rng = stream(0, "bench", "eig")
    return {"x": draw_examples(rademacher(K, N, rng), M, 0.8, rng)[0], "K": K}


def _bits(data: Data) -> tuple[FactorOperator, int]:
    return FactorOperator.from_examples(data["x"]), data["K"]


def _float32(data: Data) -> tuple[np.ndarray, int]:
    return data["x"].astype(np.float32), data["K"]


def _ours(held: tuple[FactorOperator, int], route: str) -> Pairs:
    operator, K = held
    found = eigenpairs(operator, K, route=route, width=WIDTH)
    return Pairs(found.values[:K], found.vectors, found.products)


def _svds(held: tuple[np.ndarray, int]) -> Pairs:
    from scipy.sparse.linalg import svds

    x, K = held
    _, s, vectors = svds(x, K, random_state=0)
    return Pairs(s[::-1] ** 2 / len(x), vectors[::-1].T)


def _svd(held: tuple[np.ndarray, int]) -> Pairs:
    x, K = held
    _, s, vectors = np.linalg.svd(x, full_matrices=False)
    return Pairs(s[:K] ** 2 / len(x), vectors[:K].T)


def gram_route_cost(M: int, N: int, K: int) -> Cost:
    """Cost of the Gram matrix, two reductions to tridiagonal form, the lift and its check."""
    gram = bits_cost(M, N)
    operations = {**gram.operations, "float64": 2 * (4 / 3) * M**3 + 6 * M * N * K}
    return Cost(gram.bytes + 2 * 8 * M * M + 3 * 8 * M * -(-N // 64) + 3 * 8 * N * K, operations)


def _krylov_cost(M: int, N: int, K: int, products: int = 1) -> Cost:  # noqa: ARG001
    """Products with the operator, and orthogonalisation, twice, against all blocks before."""
    one = products_cost(M, N, WIDTH)
    pairs_of_blocks = products * (products - 1) / 2
    flops = products * one.operations["float32"] + 8 * N * WIDTH**2 * pairs_of_blocks
    moved = products * one.bytes + 4 * 4 * N * WIDTH * pairs_of_blocks
    return Cost(moved, {"float32": flops})


def _svds_cost(M: int, N: int, K: int) -> Cost:
    """One restart cycle of ARPACK at least: 2 K + 1 products of a vector with x and x^T."""
    vectors = max(2 * K + 1, 20)
    return Cost(vectors * 2 * 4 * M * N, {"float32": vectors * 4 * M * N})


def _svd_cost(M: int, N: int, K: int) -> Cost:  # noqa: ARG001
    """Triangle of the longer side, bidiagonal form of it, all vectors transformed back."""
    a, b = min(M, N), max(M, N)
    triangle = 2 * a * a * (b - a / 3)
    return Cost(4 * 4 * M * N, {"float32": 3 * triangle + (8 / 3 + 4) * a**3})


def _observe(pairs: Pairs) -> Point:
    return {"products": pairs.products}


def _gap(a: Pairs, b: Pairs) -> float:
    """Distance of the values, or the part of the subspace missed, whichever is larger."""
    values = np.abs(a.values - b.values).max() / a.values[0]
    missed = 1 - np.sum((a.vectors.T @ b.vectors) ** 2) / len(a.values)
    return float(max(values, missed))


BENCHMARK = Benchmark(
    name="eig",
    summary="the K leading eigenpairs of the operator of M examples over N sites",
    setup=_setup,
    ways=(
        Way("Gram route", partial(_ours, route="gram"), gram_route_cost, prepare=_bits),
        Way("NumPy svd", _svd, _svd_cost, _float32, most={"M": 1_000, "N": 25_000}, tolerance=1e-4),
        Way(
            "Krylov route",
            partial(_ours, route="krylov"),
            _krylov_cost,
            prepare=_bits,
            tolerance=1e-2,  # it stops at angles of 0.03 to the eigenvectors
            observe=_observe,
        ),
        Way("SciPy svds", _svds, _svds_cost, _float32, tolerance=1e-4),
    ),
    gap=_gap,
    sizes={
        "small": (
            Sweep("N", (500, 1_000, 2_000, 4_000, 8_000), {"M": 400, "K": 20}),
            Sweep("M", (100, 200, 400, 800), {"N": 4_000, "K": 20}),
        ),
        "full": (
            Sweep("N", (6_250, 12_500, 25_000, 50_000, 100_000), {"M": 1_000, "K": 20}),
            Sweep("M", (250, 500, 1_000, 2_000), {"N": 25_000, "K": 20}),
        ),
    },
)
