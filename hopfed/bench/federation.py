"""Pair of a round of the Hopfield federation, compared with averages of dense operators.

Clients draw their examples, encode them as factors, and vote on the server's archetypes. The server
pools the factors, counts and factorises. Every call plays the next round, so no call reuses earlier
examples or encodings. The obvious way averages the clients' N x N operators, whose examples are
drawn in advance, and stops at the eigenvectors of the mean.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from hopfed.bench.common import QUALITY
from hopfed.bench.harness.record import Cost, Data, Pair, Way, cross, doubling
from hopfed.federation.engines import Engine
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.engines.pool import PoolEngine
from hopfed.federation.rounds import play_round
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.stream import ArchetypeStream

ROUNDS = 1000  # length of the schedule; measurements play fewer rounds
WORKERS = 2


class Federation:
    """A federation during its run: `play` returns the patterns of the next round."""

    def __init__(self, data: Data, engine: Engine):
        from hopfed.hopfield import HopfieldFederation
        from hopfed.hopfield.encoding import Encoding

        source: ArchetypeStream = data["source"]
        K, N = source.archetypes.shape
        self.method = HopfieldFederation(source, Encoding(N, "factors", width=2 * K))
        self.schedule = {"seed": 0, "clients": source.mixtures.shape[1], "engine": engine}
        self.state: Any = None
        self.t: int = data["first"]
        self.play()  # later rounds use the evidence of the first one

    def play(self) -> np.ndarray:
        """Patterns (K, N) that the server knows after one more round."""
        self.state = play_round(self.method, self.state, self.t, **self.schedule).state
        self.t += 1
        patterns: np.ndarray = self.state.server["memory/patterns"]
        return patterns


@lru_cache(1)
def _pool() -> PoolEngine:
    return PoolEngine(WORKERS)  # its processes end with this one


def _setup(rng: np.random.Generator, L: int, M: int, N: int, K: int) -> Data:
    xi, mixtures = rademacher(K, N, rng), np.full((ROUNDS, L, K), 1 / K)
    return {"source": ArchetypeStream(xi, mixtures, M, QUALITY, seed=0), "first": ROUNDS // 2}


def _dense(x: list[np.ndarray], K: int) -> np.ndarray:
    from scipy.sparse.linalg import eigsh

    J = sum(rows.T @ rows for rows in x) / sum(map(len, x))
    vectors: np.ndarray = eigsh(J, K)[1]
    return vectors.T * len(J) ** 0.5


def _round(L: int, M: int, N: int, K: int) -> tuple[Way, ...]:
    # Gram matrices and factors: of the clients' examples, then of all factors together.
    width, small = 2 * K, min(M, N)
    rows = (L + 4) * width
    flops = L * (4 * small**3 + 2 * M * N * width) + rows**2 * N + 2 * 4 * width * rows * N
    cost = Cost(4 * L * width * N * 3, {"float32": flops, "words": L * M * M * N / 128})
    dense = Cost(3 * 4 * L * N * N, {"float32": 2 * L * M * N * N})

    def drawn(data: Data) -> list[np.ndarray]:
        return [data["source"].examples(0, c).astype(np.float32) for c in range(L)]

    play, label = Federation.play, "dense averages, eigenvectors"
    return (
        Way("two processes", play, cost, lambda d: Federation(d, _pool())),
        Way(label, lambda x: _dense(x, K), dense, drawn, tolerance=None),
        Way("one process", play, cost, lambda d: Federation(d, LocalEngine()), tolerance=1e-9),
    )


def _outside(a: np.ndarray, b: np.ndarray) -> float:
    """Share of the squared norm of the patterns `a` that lies outside of the span of `b`."""
    if len(a) == 0:
        return 1.0
    basis = np.linalg.qr(b.T.astype(float))[0]
    return float(1 - ((a @ basis) ** 2).sum() / a.size)


PAIRS = (
    Pair(
        "round",
        "one round: L clients with M new examples of K archetypes over N sites, and the server",
        _setup,
        _round,
        _outside,
        cross({"L": 20, "M": 500, "N": 1_000, "K": 30}, L=doubling(5, 20), N=doubling(500, 2_000)),
        cross(
            {"L": 20, "M": 500, "N": 2_500, "K": 30},
            L=doubling(5, 40),
            N=(1_000, 2_500, 5_000, 10_000),
        ),
        quiet={"first": 0},  # the comparison plays round 0, which no timing repeats
    ),
)
