"""What owners of complete rows are asked about their second moment, and about patterns.

Every question is a function of an owner and of what it is told. `Owners.ask` puts it and counts the
messages, which are those that would travel:

1. Operator up. Few sites: each owner sends its sums of products, N (N + 1) / 2 counts, or all of
   its eigenpairs where these are fewer bytes, as of few rows; rounded they are the same integers.
   Many sites: the server finds the leading eigenpairs of the pooled operator by block Krylov, and
   every product is an exchange of an (N, k) block; but where all eigenpairs of an owner are fewer
   bytes than the blocks that it takes at least, it sends these once. A single owner sends its own
   leading eigenpairs.
2. Basis V down; the part of each owner's trace along each eigenvector up, and how much its rows
   differ in it, which tell good owners from noisy ones; and the K x K projections of random groups
   (joint diagonalisation).
3. Column sums up, once, which orient the patterns; second moments know them up to a sign.
4. If asked for: archetypes down, sums of the examples nearest to each up (theory/NOTES.md, "Refit
   by one more exchange").
5. Where more archetypes are behind the examples than one spectrum separates: votes for the patterns
   at hand, and then the exchanges above for the rows that none of them explains
   (`hopfed.recovery.patterns.peel`).

Where `masked`, only sums over all owners reach the server, as behind secure aggregation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from hopfed._lib.arrays import Array, all_to_host, like, namespace, to_host
from hopfed.archetypes.graded.owners.asking import Owner, Owners
from hopfed.archetypes.graded.owners.asking import total as added_up
from hopfed.archetypes.joint_diagonalization import group_projections
from hopfed.archetypes.votes import (
    Votes,
    best_overlaps,
    count_votes,
    least_overlap,
    overlap_counts,
    own_level,
)
from hopfed.federation.messages import Message, Traffic
from hopfed.kernels import MaskedBits
from hopfed.recovery.symmetric import Agreement, are_copies, check_channel, is_covered, summed
from hopfed.spectral.eigenpairs import EXPLICIT_LIMIT, Spectrum, Wanted, eigenpairs
from hopfed.spectral.equal_rows import equals
from hopfed.spectral.noise import NoiseProfile, Sample
from hopfed.spectral.operators import (
    DenseOperator,
    FactorOperator,
    HebbianOperator,
    PooledOperator,
    pool,
)
from hopfed.spectral.reread_rows import Reread, Sums
from hopfed.spectral.rows import Bits, array_beside, column_moments, times, total, transposed_times

WIDE = 64  # columns of a block of Krylov products; one spectrum takes one block at least
ROUNDS = 8  # blocks that the spectra of a count in whitened coordinates take at least
DENSE_SITES = 1_024  # up to here the counts are fewer bytes than a few blocks of 64 columns


@dataclass(frozen=True, eq=False)
class _Asked(PooledOperator):
    """The pooled operator of owners who keep theirs: products with it are asked for."""

    product: Callable[[Array], Array] = field(repr=False)

    def matmat(self, X: Array) -> Array:
        return self.product(X)


def column_sums(owner: Owner, _: Message) -> Message:
    """Sums (N,) of the entries of each column."""
    return {"columns": to_host(column_moments(owner.rows)[0]).astype(np.int32)}


def products(owner: Owner, told: Message) -> Message:
    """Product (N, k) of the owner's sum of products with a block."""
    X = like(told["block"], array_beside(owner.rows))
    return {"block": total(owner.rows, lambda part: transposed_times(part, times(part, X)))}


def second_moment(owner: Owner, _: Message) -> Message:
    """Sums of products of two columns, the lower triangle of them: whole numbers."""
    matrix = to_host(DenseOperator.from_examples(owner.rows).matrix)
    return {"counts": matrix[np.tril_indices(len(matrix))].astype(_counted_in(owner))}


def _counted_in(owner: Owner) -> type:
    return np.int16 if owner.rows.shape[0] <= np.iinfo(np.int16).max else np.int32


def factors(owner: Owner, _: Message) -> Message:
    """All eigenpairs of the owner's sum of products: values (k,), and vectors (k, N)."""
    held = owner.rows[:] if isinstance(owner.rows, Reread) else owner.rows
    found = eigenpairs(FactorOperator.from_examples(held), min(held.shape))
    values = found.values[: found.vectors.shape[1]] * held.shape[0]
    return {"values": values.astype(np.float32), "vectors": _single(found.vectors.T)}


def fewer_bytes(owner: Owner, told: Message) -> Message:
    """What of `second_moment` and `factors` is smaller."""
    rows, N = owner.rows.shape
    whole = N * (N + 1) // 2 * np.dtype(_counted_in(owner)).itemsize
    return (factors if 4 * min(rows, N) * (N + 1) < whole else second_moment)(owner, told)


def captured(owner: Owner, told: Message) -> Message:
    """Energy along each column of a basis (K,), and that of rows and its square added up (2,)."""
    V = like(told["basis"], array_beside(owner.rows))
    along, energies = total(owner.rows, partial(_energies, columns=V))
    return {"along": _single(along), "energies": energies}


def _energies(part: Any, columns: Array) -> Sums:
    squares = to_host(times(part, columns) ** 2).astype(np.float64)
    each = squares.sum(axis=1)
    return Sums((squares.sum(axis=0), np.array([each.sum(), (each**2).sum()])))


def agreement(owner: Owner, told: Message) -> Message:
    """Sums over rows, each with the pattern that it resembles most.

    `moments` (3,): their number, the sum of their products with it, and of the squares; `counts`
    (K,) and `sums` (K, N) of each pattern; `equal` (2,): how many rows an equal one came before in
    the same block, and how many have no equal. They are sums of whole numbers.

    Parameters
    ----------
    told : `patterns`, in bits; with a `quality` only rows count that a pattern explains.
    """
    patterns, rows = _patterns(owner, told), owner.rows
    if "quality" in told:
        rows = _split(owner, told, explained=True)
    if rows is None:
        empty = np.zeros(len(patterns)), np.zeros(patterns.shape, np.int32)
        return {"moments": np.zeros(3), "counts": empty[0], "sums": empty[1], "equal": np.zeros(2)}
    found = total(rows, partial(_nearest, patterns=patterns))
    kinds = np.float64, np.float64, np.int32, np.float64
    names = "moments", "counts", "sums", "equal"
    return {n: np.asarray(x, kind) for n, x, kind in zip(names, found, kinds, strict=True)}


def _nearest(part: Any, patterns: np.ndarray) -> Sums:
    found = times(part, like(patterns.T.astype(np.float32), array_beside(part)))
    xp = namespace(found)
    nearest = xp.eye(len(patterns), dtype=xp.float32)[found.argmax(axis=1)]
    sums = transposed_times(part, nearest)
    best, counts, sums, equal = all_to_host(
        found.max(axis=1), nearest.sum(axis=0), sums, equals(part)
    )
    best = best.astype(np.float64)
    moments = np.array([len(best), best.sum(), (best**2).sum()])
    return Sums((moments, counts.astype(np.float64), sums.T.astype(np.float64), equal))


def own_agreement(owner: Owner, told: Message) -> Message:
    """What an owner sees of these sums by itself: 3 K + 4 numbers."""
    found = _of_sums(_patterns(owner, told), agreement(owner, told))
    parts = found.counts, found.first, found.second, found.overlaps, [found.repeats]
    return {"moments": np.concatenate(parts)}


def _of_sums(patterns: np.ndarray, answer: Message) -> Agreement:
    return summed(patterns, *(answer[n] for n in ("moments", "counts", "sums", "equal")))


def votes(owner: Owner, told: Message) -> Message:
    """Sums over rows by the pattern that they resemble most (`hopfed.archetypes.votes.Votes`)."""
    patterns = _patterns(owner, told)
    found = count_votes(owner.rows, patterns, _level(owner, told, patterns))
    ballots = {"counts": found.counts, "signs": found.signs, "sums": found.sums}
    return {n: x.astype(np.int32) for n, x in ballots.items()} | {"moments": found.moments}


def _level(owner: Owner, told: Message, patterns: np.ndarray) -> float:
    """Overlap above which an owner's rows vote, or are explained where it is `strict`."""
    quality = float(told["quality"])
    least = least_overlap(quality, *patterns.shape)
    if not told.get("strict", True):
        return least
    return own_level(overlap_counts(owner.rows, patterns), least, quality)


def _split(owner: Owner, told: Message, explained: bool) -> Bits | Reread | None:
    """Rows that a pattern explains, or the others; None where there are none."""
    patterns, rows = _patterns(owner, told), owner.rows
    level = _level(owner, told, patterns)

    def fits(part: Bits) -> np.ndarray:
        found: np.ndarray = (best_overlaps(part, patterns) > level) == explained
        return found

    if isinstance(rows, Reread):
        rows = rows.where(fits)
    else:
        rows = rows[like(np.flatnonzero(fits(rows)), array_beside(rows))]
    return rows if len(rows) else None


def _patterns(owner: Owner, told: Message) -> np.ndarray:
    """Patterns of a message, (K, N) int8."""
    plus = np.unpackbits(told["patterns"], axis=1, count=owner.rows.shape[1])
    return 2 * plus.astype(np.int8) - 1


def _packed(patterns: np.ndarray) -> Message:
    return {"patterns": np.packbits(patterns > 0, axis=1)}


def _single(x: Array) -> np.ndarray:
    return np.asarray(to_host(x), np.float32)


@dataclass
class Federation(Owners):
    """Owners of complete rows, and what is asked of their operators.

    Attributes
    ----------
    members, seed, traffic, exchanges : as of `Owners`.
    masked : whether the server sees sums over all owners only.
    """

    masked: bool = False

    @classmethod
    def over(cls, rows: Sequence[Bits | Reread], seed: int, masked: bool = False) -> Self:
        """Take the packed rows of each owner."""
        members = [Owner(part, i) for i, part in enumerate(rows)]
        return cls(members, seed, Traffic(len(members)), masked=masked)

    @cached_property
    def operators(self) -> list[FactorOperator]:
        """The owners' exact operators."""
        return [FactorOperator.from_examples(owner.rows) for owner in self.members]

    @property
    def n_sites(self) -> int:
        """N."""
        return self.n_columns

    @property
    def n_rows(self) -> float:
        """M, over all owners."""
        return float(self.sizes.sum())

    @property
    def dense_nbytes(self) -> int:
        """Bytes of the N x N operator in float32."""
        return self.operators[0].dense_nbytes

    @property
    def raw_nbytes(self) -> list[int]:
        """Bytes of each owner's rows in bits, of two planes where entries are missing."""
        rows = [owner.rows for owner in self.members]
        planes = [1 + bool(getattr(r, "gaps", isinstance(r, MaskedBits))) for r in rows]
        sizes = [int(r.shape[0]) * self.n_sites for r in rows]
        return [-(-p * e // 8) for p, e in zip(planes, sizes, strict=True)]

    def sample(
        self,
        values: np.ndarray,
        complete: bool,
        quality: float | None,
        profile: NoiseProfile | None = None,
    ) -> Sample:
        """Describe the pooled sample to a rank rule."""
        owners = tuple(self.operators)
        return Sample(values, self.n_sites, self.n_rows, complete, quality, owners, profile)

    def spectrum(self, wanted: Wanted) -> Spectrum:
        """Leading eigenpairs of the pooled operator."""
        if len(self.members) == 1:
            rows, found = self.members[0].rows, list[Spectrum]()
            again = isinstance(rows, Reread) and self.n_sites <= EXPLICIT_LIMIT
            alone: HebbianOperator = self.operators[0]
            alone = DenseOperator.from_examples(rows) if again else alone

            def leading(_: Owner, __: Message) -> Message:
                found.append(eigenpairs(alone, wanted, seed=self.seed))
                return {n: _single(getattr(found[0], n)) for n in ("values", "vectors")}

            self.ask(leading, {})
            return found[0]
        if self.n_sites <= DENSE_SITES:
            return eigenpairs(self._summed, wanted)
        return eigenpairs(self._wide(1), wanted, route="krylov", seed=self.seed)

    def pooled(self) -> HebbianOperator:
        """Return the pooled operator for a count in whitened coordinates, as it travels."""
        if len(self.members) == 1:
            return self.operators[0]
        return self._summed if self.n_sites <= DENSE_SITES else self._wide(ROUNDS)

    def _wide(self, blocks: int) -> PooledOperator:
        """The pooled operator over many sites: products with it travel, or all factors do, once."""
        pooled = PooledOperator.over(self.operators)
        rows = max(owner.rows.shape[0] for owner in self.members)
        product = self._product
        if not self.masked and rows <= blocks * WIDE:  # factors of one owner do not add up
            product = self._sent.matmat
        masses = pooled.n_sites, pooled.mass, pooled.sum_sq_weights
        return _Asked(*masses, pooled.parts, product=product)

    def _product(self, X: Array) -> Array:
        """The pooled operator times a block: one exchange."""
        answers = self.ask(products, {"block": to_host(X)})
        block = sum((a["block"] for a in answers[1:]), start=answers[0]["block"]) / self.n_rows
        return like(block.astype(X.dtype), X)

    @cached_property
    def _sent(self) -> HebbianOperator:
        """The pooled operator from all eigenpairs of the owners."""
        answers, home = self.ask(factors, {}), self.operators[0].home
        rows, values = (np.concatenate([a[n] for a in answers]) for n in ("vectors", "values"))
        masses = self.n_sites, self.n_rows, self.n_rows
        return FactorOperator(*masses, like(rows, home), like(values.astype(np.float64), home))

    @cached_property
    def _summed(self) -> HebbianOperator:
        """The owners' operators in dense form; they travel once."""
        N, home, m = self.n_sites, self.operators[0].home, self.sizes.astype(np.float64)
        whole = []
        for answer in self.ask(second_moment if self.masked else fewer_bytes, {}):
            S = np.zeros((N, N))
            if "counts" in answer:
                S[np.tril_indices(N)] = answer["counts"]
                S += np.tril(S, -1).T
            else:
                V = answer["vectors"].astype(np.float64)
                S = np.rint((V.T * answer["values"]) @ V)
            whole.append(S)
        return pool([DenseOperator(N, a, a, like(S, home)) for a, S in zip(m, whole, strict=True)])

    def profile(self, V: Array) -> NoiseProfile:
        """How much of each owner's trace lies along each eigenvector."""
        answers, m = self.ask(captured, {"basis": _single(V)}), self.sizes.astype(np.float64)
        along = np.array([a["along"] for a in answers], np.float64) / m[:, None]
        first, second = (np.array([a["energies"] for a in answers]) / m[:, None]).T
        spreads = np.sqrt(np.maximum(second - first**2, 0.0))
        return NoiseProfile(along, m / m.sum(), self.n_sites, rows=m, spreads=spreads)

    def project(self, V: Array, groups: int) -> tuple[np.ndarray, np.ndarray]:
        """K x K sums of at least `groups` groups over all owners, and counts."""
        each, K = groups if self.masked else -(-groups // len(self.members)), V.shape[1]
        lower = np.tril_indices(K)

        def projected(owner: Owner, told: Message) -> Message:
            basis = like(told["basis"], array_beside(owner.rows))
            sums, sizes = group_projections(owner.rows, basis, each, self.seed, owner.index)
            return {"groups": _single(sums)[:, *lower], "sizes": sizes.astype(np.int32)}

        answers = self.ask(projected, {"basis": _single(V)})
        if self.masked:  # every owner forms all groups; group index by group index they add up
            answers = [{n: added_up(answers, n) for n in answers[0]}]
        sums = np.zeros((each * len(answers), K, K))
        sums[:, *lower] = np.concatenate([a["groups"] for a in answers])
        sums += np.tril(sums, -1).transpose(0, 2, 1)
        return sums, np.concatenate([a["sizes"] for a in answers]).astype(np.float64)

    def mean(self) -> np.ndarray:
        """(N,) mean of all examples; its sums travel with the operator."""
        self.exchanges -= 1
        return added_up(self.ask(column_sums, {}), "columns") / self.n_rows

    def refit(self, patterns: np.ndarray) -> np.ndarray:
        """Sign of the sum of the examples nearest to each pattern."""
        sums = added_up(self.ask(agreement, _packed(patterns)), "sums")
        return np.where(sums == 0, patterns, np.sign(sums)).astype(np.int8)

    def agrees(self, patterns: np.ndarray, quality: float | None = None) -> bool:
        """Whether the rows bear out that every column of them is flipped equally often.

        Owners of few rows for each pattern are asked for sums over these as well, which say
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
        """Sums over each owner's rows that tell whether the patterns' channel is symmetric.

        With a `quality`, over the rows only that a pattern explains; `pooled`, as of one owner.
        """
        told, K = _packed(patterns), len(patterns)
        if quality is not None:
            told["quality"] = np.array(quality, np.float32)
        if self.masked or pooled:
            answers = self.ask(agreement, told)
            found = [_of_sums(patterns, {n: added_up(answers, n) for n in answers[0]})]
        else:
            parts = (a["moments"] for a in self.ask(own_agreement, told))
            found = []
            for x in parts:
                counts, first, second, overlaps, repeats = np.split(x, [K, 2 * K, 3 * K, -1])
                found.append(Agreement(counts, first, second, overlaps, float(repeats[0])))
        return [a for a in found if a.overlaps[0] > 0]

    def vote(self, patterns: np.ndarray, quality: float, strict: bool = False) -> Votes:
        """Sums over all rows by the pattern that they resemble most.

        Where `strict`, only rows vote that a pattern explains.
        """
        told = {"quality": np.array(quality, np.float32), "strict": np.array(strict)}
        answers = self.ask(votes, {**_packed(patterns), **told})
        return Votes(*(added_up(answers, n) for n in ("counts", "signs", "sums", "moments")))

    def rest(self, patterns: np.ndarray, quality: float) -> Federation:
        """Set the rows aside that a pattern explains; a federation of what is left.

        Each owner does so with its own rows, by their own quality, and tells of their number. What
        is said there counts here as well.
        """
        left: list[Owner] = []

        def set_aside(owner: Owner, told: Message) -> Message:
            rows = _split(owner, told, explained=False)
            left.extend([] if rows is None else [Owner(rows, owner.index)])
            return {"rows": np.array(0 if rows is None else len(rows), np.int32)}

        self.ask(set_aside, {**_packed(patterns), "quality": np.array(quality, np.float32)})
        return Federation(left, self.seed, self.traffic, masked=self.masked)


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
