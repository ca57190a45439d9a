"""`hopfed bench e2e`: from examples to archetypes (A7), beside the paper's way and k-means."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hopfed.bench.eig import gram_route_cost
from hopfed.bench.paper import recover_densely
from hopfed.bench.record import Benchmark, Cost, Data, Point, Sweep, Way
from hopfed.data.channel import draw_examples, rademacher
from hopfed.metrics import retrieval
from hopfed.recovery import recover
from hopfed.rng import stream


class Patterns(NamedTuple):
    """Patterns (C, N) of +-1 and the passes over the data that it took to find them."""

    patterns: np.ndarray
    passes: int = 1


def _setup(M: int, N: int, K: int) -> Data:
    rng = stream(0, "bench", "e2e")
    return {"x": draw_examples(rademacher(K, N, rng), M, 0.8, rng)[0], "K": K}


def _recover(data: Data) -> Patterns:
    return Patterns(recover(data["x"], seed=0).patterns)


def _paper(data: Data) -> Patterns:
    return Patterns(recover_densely(data["x"], data["K"], seed=0))


def _k_means(data: Data) -> Patterns:
    from sklearn.cluster import KMeans

    found = KMeans(data["K"], random_state=0).fit(data["x"].astype(np.float32))
    return Patterns(np.where(found.cluster_centers_ >= 0, 1, -1), found.n_iter_)


def _recover_cost(M: int, N: int, K: int) -> Cost:
    """Packing, eigenpairs by the smaller side, and the projections of all examples."""
    pairs = gram_route_cost(min(M, N), max(M, N), K)
    operations = {**pairs.operations, "float32": 2 * M * N * K}
    return Cost(M * N + M * N // 8 + pairs.bytes, operations)


def _paper_cost(M: int, N: int, K: int) -> Cost:  # noqa: ARG001
    """The operator and its 200 sharpening steps; the relaxation comes on top."""
    return Cost(9 * M * N + 200 * 8 * 10 * N * N, {"float64": 2 * M * N * N + 200 * 2 * N**3})


def _k_means_cost(M: int, N: int, K: int, passes: int = 1) -> Cost:
    """Distances of all examples to all centres, in every pass."""
    return Cost(5 * M * N + passes * 4 * M * N, {"float32": passes * 2 * M * N * K})


def _observe(found: Patterns) -> Point:
    return {"passes": found.passes}


def _gap(a: Patterns, b: Patterns) -> float:
    """One minus the mean overlap of the first's patterns with the nearest of the second."""
    if len(a.patterns) == 0:
        return 1.0
    return float(1 - retrieval(b.patterns, a.patterns).magnetisation.mean())


BENCHMARK = Benchmark(
    name="e2e",
    summary="from M examples over N sites to K archetypes; only the first is not told K",
    setup=_setup,
    ways=(
        Way("recover", _recover, _recover_cost),
        Way("the paper's, dense", _paper, _paper_cost, most={"N": 500}, tolerance=None),
        Way("k-means on raw data", _k_means, _k_means_cost, tolerance=None, observe=_observe),
    ),
    gap=_gap,
    sizes={
        "small": (
            Sweep("N", (125, 250, 500, 1_000, 2_000, 4_000), {"M": 500, "K": 4}),
            Sweep("M", (250, 500, 1_000), {"N": 4_000, "K": 4}),
        ),
        "full": (
            Sweep("N", (125, 250, 500, 1_000, 4_000, 16_000, 64_000), {"M": 1_000, "K": 4}),
            Sweep("M", (250, 500, 1_000, 2_000, 4_000), {"N": 16_000, "K": 4}),
        ),
    },
)
