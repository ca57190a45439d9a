"""What clients and server say to each other in one recovery, with every byte counted.

1. Operator up. Few sites: each client sends its sums of products, N (N + 1) / 2 counts. Many
   sites: the server finds the leading eigenpairs of the pooled operator by block Krylov, and every
   product is an exchange of an (N, k) block. A single client sends its own leading eigenpairs, or
   its N (N + 1) / 2 sums where those are fewer bytes.
2. Basis V down; the part of each client's trace along each eigenvector up, K numbers, which tell
   good clients from noisy ones; and the K x K projections of random groups (joint
   diagonalisation).
3. Column sums up, once, which orient the patterns; second moments know them up to a sign.
4. If asked for: archetypes down, sums of the examples nearest to each up (the refit of A7).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hopfed import kernels
from hopfed.arrays import Array, like, namespace, to_host
from hopfed.joint import group_projections
from hopfed.operators import DenseOperator, FactorOperator, PooledOperator, pool
from hopfed.rows import times
from hopfed.sample import NoiseProfile, Sample
from hopfed.spectrum import Spectrum, Wanted, eigenpairs

DENSE_SITES = 1_024  # up to here the counts are fewer bytes than a few blocks of 64 columns


@dataclass
class Traffic:
    """Bytes that crossed the wire, by client, and the number of exchanges.

    Attributes
    ----------
    up, down : bytes sent and received by each client.
    dense : bytes of the N x N operator in float32, which the paper's clients send.
    exchanges : times the server heard from the clients.
    """

    up: list[int]
    down: list[int]
    dense: int
    exchanges: int = 0

    def exchange(self, up: int, down: int) -> None:
        """Count one exchange of equal size with every client."""
        self.up = [b + up for b in self.up]
        self.down = [b + down for b in self.down]
        self.exchanges += 1


@dataclass(frozen=True)
class _Metered(PooledOperator):
    """A pooled operator that counts the blocks it is asked about."""

    traffic: Traffic | None = field(default=None, repr=False)

    def matmat(self, X: Array) -> Array:
        if self.traffic is not None:
            self.traffic.exchange(up=4 * X.size, down=4 * X.size)
        return super().matmat(X)


@dataclass
class Federation:
    """Clients with their exact operators, and the traffic of talking to them."""

    clients: list[FactorOperator]
    seed: int
    traffic: Traffic = field(init=False)

    def __post_init__(self) -> None:
        zeros = [0] * len(self.clients)
        self.traffic = Traffic(zeros, list(zeros), self.clients[0].dense_nbytes)

    @property
    def n_sites(self) -> int:
        """N."""
        return self.clients[0].n_sites

    def sample(
        self,
        values: np.ndarray,
        complete: bool,
        quality: float | None,
        profile: NoiseProfile | None = None,
    ) -> Sample:
        """Describe the pooled sample to a rank rule."""
        m = sum(op.mass for op in self.clients)
        return Sample(values, self.n_sites, m, complete, quality, tuple(self.clients), profile)

    def spectrum(self, wanted: Wanted) -> Spectrum:
        """Leading eigenpairs of the pooled operator (exchange 1)."""
        if len(self.clients) == 1:
            spectrum = eigenpairs(self.clients[0], wanted, seed=self.seed)
            pairs = 4 * spectrum.vectors.size + 4 * len(spectrum.values)
            self.traffic.exchange(up=min(pairs, 2 * self.n_sites * (self.n_sites + 1)), down=0)
            return spectrum
        if self.n_sites <= DENSE_SITES:
            operators = [DenseOperator.from_examples(op.rows) for op in self.clients]
            self.traffic.up = [
                b + op.nbytes for b, op in zip(self.traffic.up, operators, strict=True)
            ]
            self.traffic.exchanges += 1
            return eigenpairs(pool(operators), wanted)
        pooled = PooledOperator.over(self.clients)
        metered = _Metered(
            pooled.n_sites, pooled.mass, pooled.mass2, pooled.parts, traffic=self.traffic
        )
        return eigenpairs(metered, wanted, route="krylov", seed=self.seed)

    def profile(self, V: Array) -> NoiseProfile:
        """How much of each client's trace lies along each eigenvector (exchange 2)."""
        columns = namespace(V).astype(V, np.float32)
        captured = [
            to_host((times(op.rows, columns) ** 2).sum(axis=0)) / op.mass for op in self.clients
        ]
        self.traffic.exchange(up=4 * V.shape[1], down=4 * V.size)
        mass = np.array([op.mass for op in self.clients])
        return NoiseProfile(np.array(captured, dtype=np.float64), mass / mass.sum(), self.n_sites)

    def project(self, V: Array, groups: int) -> tuple[np.ndarray, np.ndarray]:
        """K x K sums of at least `groups` groups over all clients, and counts (exchange 2)."""
        each = -(-groups // len(self.clients))
        answers = [
            group_projections(op.rows, V, each, self.seed, client=c)
            for c, op in enumerate(self.clients)
        ]
        K = V.shape[1]
        self.traffic.exchange(up=4 * each * (K * (K + 1) // 2 + 1), down=0)
        sums, counts = zip(*answers, strict=True)
        return np.concatenate(sums), np.concatenate(counts)

    def mean(self) -> np.ndarray:
        """(N,) mean of all examples (exchange 3, sent with the first)."""
        self.traffic.up = [b + 4 * self.n_sites for b in self.traffic.up]
        sums = [to_host(kernels.column_sums(op.rows)) for op in self.clients]
        total = np.sum(sums, axis=0)
        return total / sum(op.mass for op in self.clients)

    def refit(self, patterns: np.ndarray) -> np.ndarray:
        """Sign of the sum of the examples nearest to each pattern (exchange 4)."""
        K, N = patterns.shape
        total = np.zeros((K, N))
        for op in self.clients:
            columns = like(patterns.T.astype(np.float32), op.home)
            choice = kernels.matmat(op.rows, columns).argmax(axis=1)
            nearest = like(np.eye(K, dtype=np.float32), op.home)[choice]
            total += to_host(kernels.rmatmat(op.rows, nearest)).T
        self.traffic.exchange(up=4 * K * N, down=-(-N // 8) * K)
        return np.where(total == 0, patterns, np.sign(total)).astype(np.int8)


def orient(patterns: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Turn patterns the way the examples point: ``mean ~ sum_mu (r e_mu) xi_mu``.

    Second moments do not see signs; the mean of the examples does. Least squares on the patterns
    gives each coefficient, which is positive for a pattern that points the right way.
    """
    if len(patterns) == 0:
        return patterns
    coefficients = np.linalg.lstsq(patterns.T.astype(np.float64), mean, rcond=None)[0]
    return (patterns * np.where(coefficients < 0, -1, 1)[:, None]).astype(np.int8)
