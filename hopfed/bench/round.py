"""`hopfed bench round`: one round of the Hopfield federation, beside averages of dense operators.

Clients draw their examples, encode them as factors, and vote on what the server finds; the server
pools, counts and factors (A2, A8). Every call plays the next round, so that nothing drawn or
encoded before is met again. The obvious way averages the clients' N x N operators, examples drawn
beforehand, and stops at the eigenvectors of the mean.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from hopfed.bench.record import Benchmark, Cost, Data, Sweep, Way
from hopfed.data.channel import rademacher
from hopfed.data.stream import ArchetypeStream
from hopfed.federation.engines import Engine
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.engines.pool import PoolEngine
from hopfed.federation.rounds import play_round
from hopfed.rng import stream

ROUNDS = 1000  # of the schedule, more than any measurement plays
QUALITY = 0.8
WORKERS = 2


class Federation:
    """A federation in the middle of its run: `play` gives the patterns of the next round."""

    def __init__(self, data: Data, engine: Engine):
        from hopfed.hopfield import HopfieldFederation
        from hopfed.hopfield.encoding import Encoding

        source: ArchetypeStream = data["source"]
        K, N = source.archetypes.shape
        self.method = HopfieldFederation(source, Encoding(N, "factors", width=2 * K))
        self.clients, self.engine = source.mixtures.shape[1], engine
        self.state: Any = None
        self.t: int = data["first"]
        self.play()  # later rounds carry what the first one left

    def play(self) -> np.ndarray:
        """Patterns (K, N) that the server knows after one more round."""
        played = play_round(
            self.method, self.state, self.t, seed=0, clients=self.clients, engine=self.engine
        )
        self.state, self.t = played.state, self.t + 1
        patterns: np.ndarray = self.state.server["memory/patterns"]
        return patterns


@lru_cache(1)
def _pool() -> PoolEngine:
    return PoolEngine(WORKERS)  # its processes end with this one


def _setup(L: int, M: int, N: int, K: int) -> Data:
    xi = rademacher(K, N, stream(0, "bench", "round"))
    mixtures = np.full((ROUNDS, L, K), 1 / K)
    return {"source": ArchetypeStream(xi, mixtures, M, QUALITY, seed=0), "first": ROUNDS // 2}


def _other_rounds(data: Data) -> Data:
    """Rounds of which none is met again when the time is taken."""
    return {**data, "first": 0}


def _drawn(data: Data) -> tuple[list[np.ndarray], int]:
    source: ArchetypeStream = data["source"]
    clients = range(source.mixtures.shape[1])
    x = [source.examples(0, c).astype(np.float32) for c in clients]
    return x, len(source.archetypes)


def _dense(given: tuple[list[np.ndarray], int]) -> np.ndarray:
    from scipy.sparse.linalg import eigsh

    x, K = given
    J = sum(rows.T @ rows for rows in x) / sum(map(len, x))
    vectors: np.ndarray = eigsh(J, K)[1]
    return vectors.T * len(J) ** 0.5


def _cost(L: int, M: int, N: int, K: int) -> Cost:
    """Gram matrices and their factors, of the clients' examples, then of all factors together."""
    width, small = 2 * K, min(M, N)
    rows = (L + 4) * width
    floats = L * (4 * small**3 + 2 * M * N * width) + rows**2 * N + 2 * 4 * width * rows * N
    return Cost(4 * L * width * N * 3, {"float32": floats, "words": L * M * M * N / 128})


def _dense_cost(L: int, M: int, N: int, K: int) -> Cost:  # noqa: ARG001
    return Cost(3 * 4 * L * N * N, {"float32": 2 * L * M * N * N})


def _gap(a: np.ndarray, b: np.ndarray) -> float:
    """How far the patterns `a`, as they are, are from the space of `b`."""
    if len(a) == 0:
        return 1.0
    basis = np.linalg.qr(b.T.astype(float))[0]
    return float(1 - ((a @ basis) ** 2).sum() / a.size)


BENCHMARK = Benchmark(
    name="round",
    summary="one round: L clients with M new examples of K archetypes over N sites, and the server",
    setup=_setup,
    ways=(
        Way("two processes", Federation.play, _cost, prepare=lambda d: Federation(d, _pool())),
        Way("dense averages, eigenvectors", _dense, _dense_cost, _drawn, tolerance=None),
        Way(
            "one process",
            Federation.play,
            _cost,
            lambda d: Federation(d, LocalEngine()),
            tolerance=1e-9,
        ),
    ),
    gap=_gap,
    quiet=_other_rounds,
    sizes={
        "small": (
            Sweep("L", (5, 10, 20), {"M": 500, "N": 1_000, "K": 30}),
            Sweep("N", (500, 1_000, 2_000), {"L": 20, "M": 500, "K": 30}),
        ),
        "full": (
            Sweep("L", (5, 10, 20, 40), {"M": 500, "N": 2_500, "K": 30}),
            Sweep("N", (1_000, 2_500, 5_000, 10_000), {"L": 20, "M": 500, "K": 30}),
        ),
    },
)
