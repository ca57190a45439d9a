"""Pairs of rows with gaps: the same work on two planes of bits, and on the one of complete rows.

Nothing that the kernels do depends on how many entries are missing, so the rows that are multiplied
are the same on either side, all of them seen; those that are packed do have gaps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed.archetypes.graded.verdict.judging import REPLICAS
from hopfed.archetypes.overlap import retrieval
from hopfed.bench.common import (
    examples,
    factors,
    largest_difference,
    packed,
    relative_distance,
    signs,
)
from hopfed.bench.harness.record import Cost, Data, Pair, Target, Way, cross, doubling
from hopfed.bench.kernels import gram_cost, product_cost, thin_matrix
from hopfed.bench.spectral import gram_route_cost
from hopfed.kernels.cpu.plane_blocks import MANY
from hopfed.recovery.recover import recover
from hopfed.recovery.sampled import SEARCHED
from hopfed.spectral.whitening import BESIDE

MISSING = 0.2  # share of the entries
AT_MOST = 2.2  # times the seconds of complete rows
IN_ALL = 3.0  # the same of a whole recovery


def _two_planes(data: Data) -> Any:
    return kernels.with_gaps(packed(data))


def _gram(M: int, N: int) -> tuple[Way, ...]:
    one = gram_cost(M, N)
    words = -(-N // 64)
    two = Cost(one.bytes + 8 * M * words, {"words": 2 * one.operations["words"]})
    return (
        Way("two planes", kernels.gram, two, _two_planes),
        Way("complete rows", kernels.gram, one, packed),
    )


def _products(M: int, N: int, k: int) -> tuple[Way, ...]:
    one = product_cost(M, N, k)
    bits = 2 * 8 * M * -(-N // 64)
    # Where k is large, blocks are unpacked, and numbers multiplied: an addition each beside.
    many = {"float32": 2 * one.operations["signed"]}
    two = Cost(one.bytes + bits, many if k >= MANY else {"signed": 2 * one.operations["signed"]})

    def apply(held: Any) -> Any:
        return held[0].matmat(held[1])

    def gappy(data: Data) -> Any:
        operator = factors(data)
        return replace(operator, rows=kernels.with_gaps(operator.rows)), data["X"]

    return (
        Way("two planes", apply, two, gappy),
        Way("complete rows", apply, one, lambda d: (factors(d), d["X"]), 1e-5),
    )


def _with_gaps(rng: np.random.Generator, M: int, N: int) -> Data:
    data = signs(rng, M, N)
    missing = rng.random((M, N), np.float32) < MISSING
    return {**data, "gaps": np.where(missing, np.int8(0), data["x"])}


def _packing(M: int, N: int) -> tuple[Way, ...]:
    bits = 8 * M * -(-N // 64)
    return (
        Way("two planes", lambda d: kernels.pack_masked(d["gaps"]), Cost(M * N + 2 * bits, {})),
        Way("complete rows", lambda d: kernels.pack(d["x"]), Cost(M * N + bits, {})),
    )


def _rows_of_archetypes(rng: np.random.Generator, M: int, N: int, K: int) -> Data:
    """M examples of K archetypes, complete and with gaps."""
    data = examples(rng, M, N, K)
    missing = rng.random((M, N), np.float32) < MISSING
    return {**data, "gaps": np.where(missing, np.int8(0), data["x"])}


def _recovery(M: int, N: int, K: int) -> tuple[Way, ...]:
    one = gram_route_cost(min(M, N), max(M, N), K)
    # Beside it three spectra of two blocks each; and in the part that is searched, for the rows and
    # each replica, three exchanges over the classes and twenty products of residuals.
    part = min(M * N, SEARCHED)
    worlds = 1 + REPLICAS
    more = 3 * 2 * 4 * M * N * (K + BESIDE) + worlds * part * (3 * 4 * K + 20 * 4)
    two = Cost(one.bytes + M * N // 4, {**one.operations, "float32": more})

    def found(rows: Any) -> np.ndarray:
        return recover(rows, seed=0).patterns

    return (
        Way("with gaps", found, two, lambda data: kernels.pack_masked(data["gaps"]), None),
        Way("complete rows", found, one, packed, None),
    )


def _not_found(a: np.ndarray, b: np.ndarray) -> float:
    """1 minus the mean overlap of patterns with the nearest ones of the other way."""
    return float(1 - retrieval(b, a).magnetisation.mean()) if len(a) and len(b) else 1.0


def _signs_that_differ(a: Any, b: Any) -> float:
    """Share of the entries of `a` whose sign is not that of `b`."""
    a, b = (to_host(kernels.unpack(rows)) for rows in (a, b))
    return float(((a != 0) & (a != b)).mean())


PAIRS = (
    Pair(
        "gaps-pack",
        f"packing of M examples over N sites held as int8, {MISSING:.0%} of the entries missing",
        _with_gaps,
        _packing,
        _signs_that_differ,
        cross({"M": 2_000, "N": 8_000}, N=doubling(2_000, 16_000), M=doubling(500, 4_000)),
        cross({"M": 10_000, "N": 10_000}, N=doubling(2_500, 20_000), M=doubling(2_500, 20_000)),
        targets=(Target({"M": 10_000, "N": 10_000}, 1 / AT_MOST),),
        cuda=True,
    ),
    Pair(
        "gaps-gram",
        "inner products of all pairs of M examples over N sites, as if they had gaps",
        signs,
        _gram,
        largest_difference,
        cross({"M": 1_000, "N": 16_000}, N=doubling(4_000, 32_000), M=doubling(250, 2_000)),
        cross({"M": 4_000, "N": 50_000}, N=doubling(6_250, 100_000), M=doubling(500, 4_000)),
        targets=(Target({"M": 4_000, "N": 50_000}, 1 / AT_MOST),),
        cuda=True,
    ),
    Pair(
        "gaps-products",
        "the operator of M examples over N sites on k columns, as if they had gaps",
        thin_matrix,
        _products,
        relative_distance,
        cross({"M": 1_000, "N": 16_000, "k": 20}, N=doubling(4_000, 32_000), k=(1, 5, 20, 80)),
        cross({"M": 4_000, "N": 50_000, "k": 50}, N=doubling(6_250, 50_000), k=(1, 5, 50, 100)),
        targets=(Target({"M": 4_000, "N": 50_000, "k": 50}, 1 / AT_MOST),),
        cuda=True,
    ),
    Pair(
        "gaps-recover",
        f"M examples over N sites to K archetypes, {MISSING:.0%} of the entries missing",
        _rows_of_archetypes,
        _recovery,
        _not_found,
        cross({"M": 1_000, "N": 4_000, "K": 10}, N=doubling(2_000, 4_000), K=(10, 20)),
        cross({"M": 5_000, "N": 100_000, "K": 50}, N=(5_000, 25_000, 100_000), K=(20, 50)),
        targets=(Target({"M": 5_000, "N": 100_000, "K": 50}, 1 / IN_ALL),),
    ),
)
