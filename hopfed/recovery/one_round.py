"""What clients and server say to each other in one recovery, with every byte counted.

1. Operator up. Few sites: each client sends its sums of products, N (N + 1) / 2 counts, or all of
   its eigenpairs where these are fewer bytes, as of few rows; rounded they are the same integers.
   Many sites: the server finds the leading eigenpairs of the pooled operator by block Krylov, and
   every product is an exchange of an (N, k) block; but where all eigenpairs of a client are fewer
   bytes than the blocks that it takes at least, it sends these once. A single client sends its own
   leading eigenpairs, or its N (N + 1) / 2 sums where those are fewer bytes.
2. Basis V down; the part of each client's trace along each eigenvector up, K numbers, and how much
   its rows differ in it, one number, which tell good clients from noisy ones; and the K x K
   projections of random groups (joint diagonalisation).
3. Column sums up, once, which orient the patterns; second moments know them up to a sign.
4. If asked for: archetypes down, sums of the examples nearest to each up (theory/NOTES.md, "Refit
by one more exchange").
5. Where more archetypes are behind the examples than one spectrum separates: votes for the patterns
   at hand, and then the exchanges above for the rows that none of them explains
   (`hopfed.recovery.peeling`).

Where `masked`, only sums over all owners reach the server, as behind secure aggregation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from hopfed._lib.arrays import Array, namespace, to_host
from hopfed.archetypes.joint_diagonalization import group_projections
from hopfed.archetypes.votes import (
    Votes,
    count_votes,
    least_overlap,
    overlap_counts,
    own_level,
)
from hopfed.federation.messages import Message, Traffic, nbytes
from hopfed.kernels import MaskedBits
from hopfed.recovery.answers import energies, explains, nearest, some
from hopfed.recovery.symmetric import Agreement, are_copies, check_channel, is_covered, summed
from hopfed.spectral.device_matrices import Wanted
from hopfed.spectral.eigenpairs import EXPLICIT_LIMIT, Spectrum, eigenpairs
from hopfed.spectral.noise import NoiseProfile, Sample
from hopfed.spectral.operators import (
    DenseOperator,
    FactorOperator,
    HebbianOperator,
    PooledOperator,
    pool,
)
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import column_moments, total

WIDE = 64  # columns of a block of Krylov products; one spectrum takes one block at least
ROUNDS = 8  # blocks that the spectra of a count in whitened coordinates take at least
DENSE_SITES = 1_024  # up to here the counts are fewer bytes than a few blocks of 64 columns


@dataclass(frozen=True)
class _Metered(PooledOperator):
    """A pooled operator that reports the blocks it is asked about."""

    report: Callable[[Message, Message], None] | None = field(default=None, repr=False)

    def matmat(self, X: Array) -> Array:
        if self.report is not None:
            block = {"block": _form(X.shape, np.float32)}
            self.report(block, block)
        return super().matmat(X)


def _form(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Stand in for an array in the count of bytes, without its memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


@dataclass
class Federation:
    """Clients with their exact operators, and the traffic of talking to them.

    Attributes
    ----------
    clients : their operators, in factor form.
    seed : of random groups and of the start of block Krylov.
    masked : whether the server sees sums over all clients only.
    owners : place of each client among those of the federation that this one is a part of.
    traffic : bytes and numbers each way, by client.
    exchanges : times the server heard from the clients.
    """

    clients: list[FactorOperator]
    seed: int
    masked: bool = False
    owners: list[int] = field(default_factory=list)
    traffic: Traffic = field(init=False)
    exchanges: int = 0
    _dense: HebbianOperator | None = field(default=None, init=False, repr=False)
    _sent: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        self.traffic = Traffic(len(self.clients))

    def _exchange(self, up: Message, down: Message) -> None:
        """Count one exchange of equal size with every client."""
        for c in range(len(self.clients)):
            self.traffic.received(c, down)
            self.traffic.sent(c, up)
        self.exchanges += 1

    @property
    def n_sites(self) -> int:
        """N."""
        return self.clients[0].n_sites

    @property
    def dense_nbytes(self) -> int:
        """Bytes of the N x N operator in float32."""
        return self.clients[0].dense_nbytes

    @property
    def raw_nbytes(self) -> list[int]:
        """Bytes of each client's rows in bits, of two planes where entries are missing."""
        gaps = [getattr(op.rows, "gaps", isinstance(op.rows, MaskedBits)) for op in self.clients]
        planes = [2 if some else 1 for some in gaps]
        entries = [int(op.rows.shape[0]) * self.n_sites for op in self.clients]
        return [-(-p * e // 8) for p, e in zip(planes, entries, strict=True)]

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
            alone: HebbianOperator = self.clients[0]
            if isinstance(self.clients[0].rows, Reread) and self.n_sites <= EXPLICIT_LIMIT:
                alone = DenseOperator.from_examples(self.clients[0].rows)
            spectrum = eigenpairs(alone, wanted, seed=self.seed)
            counts = {"counts": _form((self.n_sites * (self.n_sites + 1) // 2,), np.int32)}
            pairs = {
                "values": _form(spectrum.values.shape, np.float32),
                "vectors": _form(spectrum.vectors.shape, np.float32),
            }
            self._exchange(min(pairs, counts, key=nbytes), {})
            return spectrum
        if self.n_sites <= DENSE_SITES:
            return eigenpairs(self._summed(), wanted)
        return eigenpairs(self._wide(1), wanted, route="krylov", seed=self.seed)

    def pooled(self) -> HebbianOperator:
        """Return the pooled operator for a count in whitened coordinates, as it travels."""
        if len(self.clients) == 1:
            return self.clients[0]
        if self.n_sites <= DENSE_SITES:
            return self._summed()
        return self._wide(ROUNDS)

    def _wide(self, blocks: int) -> PooledOperator:
        """The pooled operator over many sites: products with it travel, or all factors do, once.

        Parameters
        ----------
        blocks : of products that will be needed at least.
        """
        pooled = PooledOperator.over(self.clients)
        rows = max(op.rows.shape[0] for op in self.clients)
        if not self.masked and rows <= blocks * WIDE:  # factors of one client do not add up
            if not self._sent:
                for c in range(len(self.clients)):
                    self.traffic.sent(c, self._factors(c))
                self.exchanges += 1
                self._sent = True
            return pooled
        masses = pooled.n_sites, pooled.mass, pooled.sum_sq_weights
        return _Metered(*masses, pooled.parts, report=self._exchange)

    def _summed(self) -> HebbianOperator:
        """Sum the clients' operators in dense form; they travel once."""
        if self._dense is None:
            operators = [DenseOperator.from_examples(op.rows) for op in self.clients]
            for c, op in enumerate(operators):
                matrix: Message = {"matrix": _form((op.nbytes,), np.int8)}
                forms = [matrix] if self.masked else [matrix, self._factors(c)]
                self.traffic.sent(c, min(forms, key=nbytes))
            self.exchanges += 1
            self._dense = pool(operators)
        return self._dense

    def _factors(self, client: int) -> Message:
        """Form of all eigenpairs of a client's operator, which are as many as its rows at most."""
        rows, N = self.clients[client].rows.shape
        k = min(rows, N)
        return {"values": _form((k,), np.float32), "vectors": _form((k, N), np.float32)}

    def profile(self, V: Array) -> NoiseProfile:
        """How much of each client's trace lies along each eigenvector (exchange 2)."""
        columns = namespace(V).astype(V, np.float32)
        captured, spreads = [], []
        for op in self.clients:
            along, (m, first, second) = total(op.rows, partial(energies, columns=columns))
            captured.append(along / op.mass)
            spreads.append(np.sqrt(max(second / m - (first / m) ** 2, 0.0)))
        up = {"captured": _form((V.shape[1],), np.float32), "spread": _form((1,), np.float32)}
        self._exchange(up, {"basis": _form(V.shape, np.float32)})
        rows = np.array([op.mass for op in self.clients])
        return NoiseProfile(
            np.array(captured),
            rows / rows.sum(),
            self.n_sites,
            rows=rows,
            spreads=np.array(spreads),
        )

    def project(self, V: Array, groups: int) -> tuple[np.ndarray, np.ndarray]:
        """K x K sums of at least `groups` groups over all clients, and counts (exchange 2)."""
        each = groups if self.masked else -(-groups // len(self.clients))
        answers = [
            group_projections(op.rows, V, each, self.seed, client=c)
            for c, op in enumerate(self.clients)
        ]
        if self.masked:  # every client forms all groups; group index by group index they add up
            answers = [tuple(np.sum(part, axis=0) for part in zip(*answers, strict=True))]
        K = V.shape[1]
        triangles = {
            "groups": _form((each, K * (K + 1) // 2), np.float32),
            "sizes": _form((each,), np.int32),
        }
        self._exchange(triangles, {})
        sums, counts = zip(*answers, strict=True)
        return np.concatenate(sums), np.concatenate(counts)

    def mean(self) -> np.ndarray:
        """(N,) mean of all examples (exchange 3, sent with the first)."""
        for c in range(len(self.clients)):
            self.traffic.sent(c, {"columns": _form((self.n_sites,), np.int32)})
        sums = [to_host(column_moments(op.rows)[0]) for op in self.clients]
        found: np.ndarray = np.sum(sums, axis=0) / sum(op.mass for op in self.clients)
        return found

    def refit(self, patterns: np.ndarray) -> np.ndarray:
        """Sign of the sum of the examples nearest to each pattern (exchange 4)."""
        K, N = patterns.shape
        sums = sum(nearest(op, patterns)[2] for op in self.clients)
        self._exchange({"sums": _form((K, N), np.int32)}, _packed(patterns))
        return np.where(sums == 0, patterns, np.sign(sums)).astype(np.int8)

    def agrees(self, patterns: np.ndarray, quality: float | None = None) -> bool:
        """Whether the rows bear out that every column of them is flipped equally often.

        Clients of few rows for each pattern are asked for sums over these as well, which say
        together what none of them can say alone. Rows that are copies of others bear out nothing.
        """
        answers = self.agreement(patterns, quality)
        if not answers or are_copies(answers, patterns):
            return False  # no row is explained, or more of them than there are
        holds = check_channel(answers, self.n_sites)
        if not holds or is_covered(answers) or self.masked:
            return holds
        return check_channel(self.agreement(patterns, quality, True), self.n_sites)

    def agreement(
        self, patterns: np.ndarray, quality: float | None = None, pooled: bool = False
    ) -> list[Agreement]:
        """Sums over each client's rows that tell whether the patterns' channel is symmetric.

        With a `quality`, over the rows only that a pattern explains; `pooled`, as of one client.
        """
        found = [nearest(op, patterns) for op in self._explained(patterns, quality)]
        if not found:
            return []
        if self.masked or pooled:
            sums = {"sums": _form(patterns.shape, np.int32)}
            self._exchange({**sums, "moments": _form((4,), np.float32)}, _packed(patterns))
            return [summed(patterns, *sum(found[1:], start=found[0]))]
        moments = {"moments": _form((3 * len(patterns) + 4,), np.float32)}
        self._exchange(moments, _packed(patterns))
        return [summed(patterns, *part) for part in found]

    def vote(self, patterns: np.ndarray, quality: float, strict: bool = False) -> Votes:
        """Sums over all rows by the pattern that they resemble most (exchange 5).

        Where `strict`, only rows vote that a pattern explains.
        """
        K, N = patterns.shape
        levels = self._levels(patterns, quality, strict)
        votes = [
            count_votes(op.rows, patterns, at) for op, at in zip(self.clients, levels, strict=True)
        ]
        up = {
            "counts": _form((2, K), np.int32),
            "sums": _form((K, N), np.int32),
            "moments": _form((2,), np.float32),
        }
        self._exchange(up, {**_packed(patterns), "quality": _form((1,), np.float32)})
        return sum(votes[1:], start=votes[0])

    def rest(self, patterns: np.ndarray, quality: float) -> Federation:
        """Set the rows aside that a pattern explains; a federation of what is left.

        Each owner does so with its own rows, by their own quality, and tells of their number.
        """
        left = self._split(patterns, quality, explained=False)
        owners = [c for c, part in enumerate(left) if part is not None]
        self._exchange({"rows": _form((1,), np.int32)}, {})  # the patterns are those last voted on
        return Federation([p for p in left if p is not None], self.seed, self.masked, owners)

    def include(self, part: Federation) -> None:
        """Count what was said in a federation of some of the rows."""
        for name in ("up", "down", "parameters_up", "parameters_down"):
            np.add.at(getattr(self.traffic, name), part.owners, getattr(part.traffic, name))
        self.exchanges += part.exchanges

    @property
    def n_rows(self) -> float:
        """M, over all clients."""
        return float(sum(op.mass for op in self.clients))

    def _levels(self, patterns: np.ndarray, quality: float, strict: bool) -> list[float]:
        """Overlap above which each owner's rows vote."""
        N = self.n_sites
        least = least_overlap(quality, len(patterns), N)
        if not strict:
            return [least] * len(self.clients)
        counts = (overlap_counts(op.rows, patterns) for op in self.clients)
        return [own_level(found, least, quality) for found in counts]

    def _split(
        self, patterns: np.ndarray, quality: float, explained: bool
    ) -> list[FactorOperator | None]:
        """Each owner's rows that a pattern explains, or the others; None where there are none."""
        levels = self._levels(patterns, quality, True)
        fits = (partial(explains, patterns=patterns, level=x, right=explained) for x in levels)
        return [some(op, fit) for op, fit in zip(self.clients, fits, strict=True)]

    def _explained(self, patterns: np.ndarray, quality: float | None) -> list[FactorOperator]:
        if quality is None:
            return self.clients
        found = self._split(patterns, quality, explained=True)
        return [part for part in found if part is not None]


def _packed(patterns: np.ndarray) -> Message:
    """Form of patterns on the wire, in bits."""
    return {"patterns": _form((len(patterns), -(-patterns.shape[1] // 8)), np.uint8)}


def orient(patterns: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Turn patterns the way the examples point: ``mean ~ sum_mu (r e_mu) xi_mu``.

    Second moments do not see signs; the mean of the examples does. Least squares on the patterns
    gives each coefficient, which is positive for a pattern that points the right way. The products
    of patterns with each other are whole numbers, so nothing is lost by solving with these.
    """
    if len(patterns) == 0:
        return patterns
    rows = patterns.astype(np.float64)
    coefficients = np.linalg.lstsq(rows @ rows.T, rows @ mean, rcond=None)[0]
    return (patterns * np.where(coefficients < 0, -1, 1)[:, None]).astype(np.int8)
