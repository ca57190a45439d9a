"""The count of classes in whitened coordinates, for rows of -1, 0 (missing) and +1.

Given its class, a row has independent columns, each with a rate of its own, so the noise of C is
``diag(v)`` with v different in every column. Divided by ``sqrt(v)`` on both sides it is white, and
the rank rules of `hopfed.spectral.rank` hold. v is what the counted pairs leave of the diagonal of
C, and both are found together (theory/NOTES.md, "Counting in whitened coordinates").

C is not centred. One class of independent columns has rank 1, that of its mean, and rank 0 where
every rate is close to a half; K classes have rank K, or less where their means are linearly
dependent. So "no more than one class" is a count of 0 or 1.

Entries are taken to be missing at random within a column. Owners who see all columns at rates that
differ by one factor keep their means parallel and the count right. Of owners who hold different
columns it must be known which (`hopfed.spectral.whitening`), or they are counted as classes.

The variances of columns after this round of whitening and all later ones, from one spectrum.

Rounds of whitening change the scale of the columns only. Of the second moment scaled anew the
eigenpairs in the span of the counted ones follow from a small matrix, with no product with the
rows: for vectors U and values L at variances v, those at w are of
``L^1/2 U^T diag(v / w) U L^1/2``. That is exact but for what noise would gain by turning the
directions, which is of second order.

How much noise rows hold: power sums of their residual energy, which owners can add up.

Classes differ in the noise of their columns, owners in what they observe, rows in their quality.
Where rows hold unequal noise the edge lies higher than that of white noise, and a few leading
eigenvalues of nothing but noise pass it.

Second moments of owners who hold different columns, pooled so that owners are no classes.

A column that an owner does not hold is missing in all of its rows, and so are the others that it
lacks: gaps that come together, unlike those of one row. Two things follow for the pooled second
moment, and both are mended from the column sums of every owner:

- zero-filled rows of different owners have different means, which look like classes. So the mean
  of a column is taken off where the column is held only;
- a product of two columns is seen by the owners who hold both. Each entry is multiplied by what
  leaves of it what gaps at random would have left (`hopfed.theory.held_columns`), or a class would
  have as many directions as there are owners. Noise is no longer white then; its edge is known.

A pair of columns that no owner holds together says nothing, and its entry is 0. The count is right
where there are no classes. Strong classes are counted a few times too often, since what chance
makes of a class differs from owner to owner. The search merges what was counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Self

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed._lib.random import derive
from hopfed.errors import ArgumentError
from hopfed.kernels import PackedBits
from hopfed.spectral.eigenpairs import EXPLICIT_LIMIT, FULL_LIMIT, Spectrum, eigenpairs
from hopfed.spectral.noise import ColumnNoise, NoiseProfile, Sample
from hopfed.spectral.operators import (
    DenseOperator,
    DerivedOperator,
    FactorOperator,
    HebbianOperator,
    PooledOperator,
    ScaledOperator,
    centred,
    explicit,
    scaled,
)
from hopfed.spectral.rank import Counting, RankEstimate, RankRule
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import SITES, times, transposed_times
from hopfed.spectral.sketch import SketchOperator
from hopfed.theory import held_columns, spikes

KINDS = 64  # of columns from which the edge is computed, the most numerous ones


@dataclass(frozen=True)
class Holdings:
    """Which owner holds which columns, and their sums.

    Attributes
    ----------
    rows : (L,) of each owner.
    seen, sums : (L, N) number of the entries of a column at each owner, and their sum.
    """

    rows: np.ndarray
    seen: np.ndarray = field(repr=False)
    sums: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, owners: Sequence[FactorOperator]) -> Self | None:
        """Look at the columns of owners; None where all hold the same ones."""
        moments = [diagonal_and_mean(op) for op in owners]
        rows = np.array([op.mass for op in owners])
        seen = np.array([d for d, _ in moments]) * rows[:, None]
        sums = np.array([d * 0 if m is None else m for d, m in moments]) * rows[:, None]
        found = cls(rows, seen, sums)
        return None if found.held.all() else found

    @cached_property
    def held(self) -> np.ndarray:
        """(L, N) whether an owner holds a column; one that nobody holds counts as held by all."""
        there = np.asarray(self.seen) > 0
        return np.asarray(there | ~there.any(axis=0))

    @cached_property
    def _kinds(self) -> tuple[np.ndarray, np.ndarray]:
        kinds, label = np.unique(self.held.T, axis=0, return_inverse=True)
        return kinds.T, label.ravel()

    @property
    def label(self) -> np.ndarray:
        """(N,) kind of each column: those of one kind are held by the same owners."""
        return self._kinds[1]

    @cached_property
    def shares(self) -> np.ndarray:
        """(L,) of the rows."""
        return np.asarray(self.rows / self.rows.sum())

    @cached_property
    def factors(self) -> np.ndarray:
        """(G, G) what entries of the second moment are multiplied by, by kind of both columns."""
        return held_columns.factors(self._kinds[0], self.shares)

    @cached_property
    def spread(self) -> np.ndarray:
        """(N,) mean squares of zero-filled columns about their means where they are held."""
        mean, centres = self._centres
        taken = 2 * mean * centres - centres**2
        found: np.ndarray = self.seen.sum(axis=0) / self.rows.sum() - self.shares @ taken
        return found

    @cached_property
    def _centres(self) -> tuple[np.ndarray, np.ndarray]:
        """(L, N) mean of each owner's zero-filled rows, and what it would be at the common mean."""
        common = self.sums.sum(axis=0) / np.maximum(self.seen.sum(axis=0), 1)
        rows = self.rows[:, None]
        return self.sums / rows, self.seen / rows * common

    def stretch(self, varying: np.ndarray) -> float:
        """Edge of the noise of the columns `varying` (N,) over that of white noise."""
        kinds, label = self._kinds
        sizes = np.bincount(label[varying], minlength=kinds.shape[1]).astype(np.float64)
        chosen = np.argsort(-sizes, kind="stable")[:KINDS]
        chosen = chosen[sizes[chosen] > 0]
        ratios = sizes[chosen] * sizes.sum() / sizes[chosen].sum() / self.rows.sum()
        edge = held_columns.upper_edge(kinds[:, chosen], self.shares, ratios)
        return float(edge / (1 + np.sqrt(ratios.sum())) ** 2)

    def matched(self, operator: HebbianOperator) -> tuple[HebbianOperator, HebbianOperator]:
        """The second moment about columns' means, and with these, as gaps at random leave it."""
        mean, centres = self._centres
        root = np.sqrt(self.shares)[:, None]
        whole = self.sums.sum(axis=0) / self.rows.sum()
        about = MatchedOperator(
            *(operator.n_sites, operator.mass, operator.sum_sq_weights),
            base=operator,
            taken=like(np.concatenate([root * (mean - centres), root * mean]).T, operator.home),
            label=self.label,
            factors=self.factors,
            diagonal=like((1 - np.diag(self.factors)[self.label]) * self.spread, operator.home),
            mean=like(0 * whole, operator.home),
        )
        both = about, replace(about, mean=like(whole, operator.home))
        if isinstance(operator, DenseOperator):
            return both[0].dense(), both[1].dense()
        return both


@dataclass(frozen=True)
class MatchedOperator(DerivedOperator):
    """``F * (S - taken) + diag + mass m m^T`` as products with `base`, * entry by entry.

    Attributes
    ----------
    base : the operator of zero-filled rows.
    taken : (N, 2 L) pairs of columns b, a: ``sum a a^T - b b^T`` is taken off C.
    label, factors : (N,) and (G, G): F has ``factors[label_i, label_j]``.
    diagonal : (N,) what is added to the diagonal of C.
    mean : (N,) m.
    """

    made = "matched"
    taken: Array = field(repr=False)
    label: np.ndarray = field(repr=False)
    factors: np.ndarray = field(repr=False)
    diagonal: Array = field(repr=False)
    mean: Array = field(repr=False)

    def matmat(self, X: Array) -> Array:  # noqa: D102
        xp = namespace(X)
        k, kinds = X.shape[1], len(self.factors)
        one = xp.astype(like(np.eye(kinds)[self.label], X), X.dtype)  # (N, G)
        apart = xp.reshape(one[:, :, None] * X[:, None, :], (-1, kinds * k))
        found = self.base.matmat(apart) - self._taken(apart)
        weights = xp.astype(like(self.factors[self.label], X), X.dtype)
        found = xp.sum(xp.reshape(found, (-1, kinds, k)) * weights[:, :, None], axis=1)
        d, m = (xp.astype(x, X.dtype)[:, None] for x in (self.diagonal, self.mean))
        return found + d * X + m * (m.T @ X)

    def _taken(self, X: Array) -> Array:
        both = namespace(X).astype(self.taken, X.dtype)
        half = both.shape[1] // 2
        b, a = both[:, :half], both[:, half:]
        found: Array = a @ (a.T @ X) - b @ (b.T @ X)
        return found

    def dense(self) -> DenseOperator:
        """The same as a matrix, of a base that is one."""
        if not isinstance(self.base, DenseOperator):
            raise ArgumentError("base", "a matrix", type(self.base).__name__)
        C = to_host(self.base.matrix) / self.mass - self._taken(np.eye(self.n_sites))
        C = C * self.factors[np.ix_(self.label, self.label)]
        m = to_host(self.mean)
        C += np.diag(to_host(self.diagonal)) + m[:, None] * m
        matrix = like(C * self.mass, self.base.matrix)
        return DenseOperator(self.n_sites, self.mass, self.sum_sq_weights, matrix)

    @property
    def nbytes(self) -> int:  # noqa: D102
        return int(self.base.nbytes + 8 * self.n_sites * (2 + self.taken.shape[1] // 2))


SURE = 3.0  # standard errors by which the spread of the rows' noise must exceed its chance value


@dataclass(frozen=True)
class RowEnergies:
    """Power sums of the rows' residual energy per column, in whitened coordinates.

    Attributes
    ----------
    sums : (5,) number of rows, and sums of the first four powers.
    """

    sums: np.ndarray

    @classmethod
    def of(cls, energies: np.ndarray) -> RowEnergies:
        """Sum the powers of the `energies` (R,) of rows."""
        e = np.asarray(energies, dtype=np.float64)
        return cls(np.array([(e**k).sum() for k in range(5)]))

    def __add__(self, other: RowEnergies) -> RowEnergies:
        return RowEnergies(self.sums + other.sums)

    def spread(self, chance: float) -> float:
        """Standard deviation of the rows' noise variance over its mean; 0 where it may be chance.

        Parameters
        ----------
        chance : variance over rows that energies have where all hold the same noise.
        """
        m, first, second, third, fourth = self.sums
        mean = first / m
        if m < 8 or mean <= 0:
            return 0.0
        variance = second / m - mean**2
        central = fourth / m - 4 * mean * third / m + 6 * mean**2 * second / m - 3 * mean**4
        error = np.sqrt(max(central - variance**2, 0.0) / m)
        excess = variance / mean**2 - chance
        if excess <= SURE * error / mean**2:
            return 0.0
        return float(min(np.sqrt(excess), 0.95))


def row_energies(
    operator: HebbianOperator, scale: np.ndarray, mean: np.ndarray, vectors: Array
) -> RowEnergies | None:
    """Residual energies of an operator's rows; None where it does not hold the rows.

    Parameters
    ----------
    operator : in factor form, its rows the examples; or the pool of such operators.
    scale : (N,) of the columns, 0 where a column is left out.
    mean : (N,) of the zero-filled rows.
    vectors : (N, K) directions of signal in whitened coordinates.
    """
    if isinstance(operator, PooledOperator):
        parts = [row_energies(op, scale, mean, vectors) for op in operator.parts]
        known = [p for p in parts if p is not None]
        return sum(known[1:], known[0]) if len(known) == len(parts) else None
    if not isinstance(operator, FactorOperator):
        return None
    if isinstance(operator.rows, Reread):
        return operator.rows.total(
            lambda part: _energies(FactorOperator.from_examples(part), scale, mean, vectors)
        )
    return _energies(operator, scale, mean, vectors)


def _energies(
    operator: FactorOperator, scale: np.ndarray, mean: np.ndarray, vectors: Array
) -> RowEnergies:
    s = like(scale, operator.home)[:, None]
    m = like(mean, operator.home)[:, None]
    U = like(to_host(vectors), operator.home) * s
    inner = times(operator.rows, namespace(U).concat([U, m * s**2], axis=1))
    inside = inner[:, :-1] - m.T @ U
    energy = _squares(operator.rows, s**2) - 2 * inner[:, -1] + float((m**2 * s**2).sum())
    energy = energy - (inside**2).sum(axis=1)
    return RowEnergies.of(to_host(energy) / max(int((scale > 0).sum()) - vectors.shape[1], 1))


def _squares(rows: PackedBits | Array, weights: Array) -> Array:
    """(R,) sums over columns of squared entries times `weights` (N, 1)."""
    if isinstance(rows, PackedBits):
        return weights.sum()
    presence = getattr(rows, "presence", None)  # of rows with gaps: 1 where there is an entry
    if presence is not None:
        return times(presence, weights)[:, 0]
    total = 0.0
    for a in range(0, rows.shape[1], SITES):
        total = total + times(rows[:, a : a + SITES] ** 2, weights[a : a + SITES])[:, 0]
    return total


def diagonal_and_mean(operator: FactorOperator) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the diagonal of C and the mean row, (N,) both.

    The mean is None where the rows are no examples of -1, 0 and +1.
    """
    rows: Array = operator.rows
    if isinstance(rows, Reread):
        return rows.totals.seen / operator.mass, rows.totals.sums / operator.mass
    weights = operator.weights[:, None] / operator.mass
    n = operator.n_sites
    if not hasattr(rows, "dtype"):
        presence = getattr(rows, "presence", None)
        if presence is None:
            return np.full(n, float(weights.sum())), _sums(rows, weights)
        return _sums(presence, weights), _sums(rows, weights)
    xp = namespace(rows)
    seen, mean, signs = np.empty(n), np.empty(n), True
    for a in range(0, n, SITES):
        part = xp.astype(rows[:, a : a + SITES], xp.float64)
        seen[a : a + SITES] = to_host(xp.sum(part**2 * weights, axis=0))
        mean[a : a + SITES] = to_host(xp.sum(part * weights, axis=0))
        signs &= bool(xp.all((part == 0) | (xp.abs(part) == 1)))
    return seen, mean if signs else None


def _sums(rows: PackedBits | Array, weights: Array) -> np.ndarray:
    return to_host(transposed_times(rows, weights))[:, 0]


AHEAD = 20
REST = 1e-4  # relative change of every variance at which the rounds end


def ahead(
    v: np.ndarray,
    spectrum: Spectrum,
    count: int,
    left: Callable[[np.ndarray, Spectrum], np.ndarray],
) -> np.ndarray:
    """Variances (N,) at which rounds in the span of the counted eigenpairs come to rest.

    Parameters
    ----------
    v : (N,) variances of the columns' noise by which `spectrum` was whitened.
    count : of eigenpairs that are signal, at least 1.
    left : the rule of a round: what a spectrum at given variances leaves of the columns.
    """
    U, values = to_host(spectrum.vectors)[:, :count], spectrum.values
    lifted = U * np.sqrt(values[:count]) * np.sqrt(v)[:, None]
    w, now = v, spectrum
    pace, last = np.ones_like(v), np.zeros_like(v)
    for _ in range(AHEAD):
        move = np.log(left(w, now) / w)
        pace = np.where(move * last < 0, pace / 2, np.minimum(pace * 1.2, 1.0))
        w, last = w * np.exp(pace * move), move
        if np.abs(move).max() < REST:
            break
        B = lifted / np.sqrt(w)[:, None]
        ascending, E = np.linalg.eigh(B.T @ B)
        found = np.maximum(ascending[::-1], 1e-300)
        vectors = B @ (E[:, ::-1] / np.sqrt(found))
        now = replace(spectrum, values=np.append(found, values[count:]), vectors=vectors)
    return w


def signal(U: np.ndarray, values: np.ndarray, aspect: float) -> np.ndarray:
    """(N,) diagonal of the population's signal behind sample eigenpairs of white noise.

    What an eigenpair holds of a column is ``lambda U^2``, and the rest is the column's sample
    variance about it: exact even where the signal is many times the noise. It is too small by what
    the pair took from the noise: on average ``lambda (1 - c) / N``, c the squared cosine of sample
    and population vector, and by the column's own pull on the pair, ``(lambda c - ell) u^2``, with
    ell the population's strength. Near the threshold U is mostly noise, and taking each entry for
    what it is would make noise look like signal in the next round: there the entries are drawn to
    their mean, but not by more than their spread allows.

    Parameters
    ----------
    U, values : (N, k) and (k,), of the second moment in whitened coordinates.
    """
    n, root = len(U), float(np.sqrt(aspect))
    ell = spikes.strength_at(values - (1 + root) ** 2, root)
    c = np.asarray(spikes.overlap(ell, aspect))
    uneven = U**2 - 1 / n
    noise = 2 * (1 - c**2) / n**2
    trust = np.maximum(c, 1 - noise / np.maximum(uneven.var(axis=0), 1e-300))
    pull = values * c - ell
    alone = spikes.overlap(np.maximum(ell * (1 - U**2), 1e-300), aspect)
    shared = alone / np.maximum(c, 1e-300)
    found: np.ndarray = (ell / n + (values - pull * c) * trust * shared * uneven).sum(axis=1)
    return found


ROUNDS = 40
WIDTH, BESIDE = 64, 16  # columns of Krylov blocks: of the first, and beside the vectors at hand
STILL = 1e-3  # relative change of every variance at which a count that stands still is final
SETTLED = 8  # rounds after which the law of the rows' noise stays as it is
FREE = 3  # rounds until the noise of the columns is known well enough to be simulated
LEAST = 0.1  # share of a column's variance that classes never explain (Heywood's case)
UNKNOWN = 0.02  # of its second moment, where its mean is not known
DEAR = 4_000_000  # entries of a table from which a round goes as far as its eigenpairs tell
UNPACKED = 30_000_000  # entries of rows that are unpacked once, in single precision


@dataclass(frozen=True)
class Whitened:
    """Variances of the columns' noise, and the spectrum and count where it is white.

    Attributes
    ----------
    variances : (N,) noise v of every column, zero-filled; 1 in columns that are left out.
    diagonal : (N,) of C: the share of rows in which a column is observed.
    spectrum : of ``diag(v)^-1/2 C diag(v)^-1/2``, vectors (N, K); `n_sites` is the number of
        columns that are not left out, and rows of `vectors` of the others are 0.
    rank : the rule's estimate on it; its variance is 1, that of the coordinates.
    dropped : indices of columns that are left out: never observed, or constant where they are.
    columns : noise of the columns; its `uncertain` tells that they are too rare for the rule.
    profile : law of the rows' noise, where rows hold unequal amounts of it.
    rounds : spectra that were computed.
    products : times that the operator was applied to a block, over all rounds.
    status : "converged", or what is wrong and what to do.
    """

    variances: np.ndarray = field(repr=False)
    diagonal: np.ndarray = field(repr=False)
    spectrum: Spectrum
    rank: RankEstimate
    dropped: np.ndarray
    columns: ColumnNoise = field(repr=False)
    profile: NoiseProfile | None = field(repr=False)
    rounds: int
    products: int
    status: str

    def sample(self, profile: NoiseProfile | None = None) -> Sample:
        """Describe the whitened spectrum to a rank rule, with the owners' noise if it differs."""
        s = self.spectrum
        law = profile or self.profile
        return _sample(s.values, s.complete, s.n_sites, s.n_examples, self.columns, law)


def whitened(
    operator: HebbianOperator,
    rule: RankRule,
    *,
    diagonal: np.ndarray | None = None,
    mean: np.ndarray | None = None,
    seed: int = 0,
    groups: Sequence[Sequence[int]] = (),
    holdings: Holdings | None = None,
) -> Whitened:
    """Count the classes behind `operator` in whitened coordinates.

    Parameters
    ----------
    operator : of rows of -1, 0 and +1, in any form. Factors in bits stay packed where they are
        many; an N x N matrix is made where N is below the number of rows and at most 3,000.
    rule : of the count, on a `Sample` that is `white`.
    diagonal : (N,) of C, where the form does not hold it: a sketch of rows with gaps.
    mean : (N,) mean of the zero-filled rows; computed where the form holds the rows. It tells
        constant columns, and how small the noise of a column can be.
    groups : numbers of the columns that are levels of one variable, of which a row has one. Their
        second moment is ``4 (diag(p) - p p^T)`` whatever the classes are; divided by ``4 p`` it is
        a projector, so that it is not counted (theory/NOTES.md, "Categorical variables").
    holdings : which owner holds which columns, where they are not the same ones for all.

    Raises
    ------
    ArgumentError : a sketch of rows with gaps without its `diagonal`, arrays of another length,
        no column that varies.
    """
    d, mean, own = _moments(operator, diagonal, mean)
    raw = _prepared(operator)
    if holdings is not None and mean is not None:
        m, matched = operator.n_examples, holdings.matched(raw)
        (about, raw), spread = matched, holdings.spread * m / max(m - 1, 1)
        least = LEAST * spread
    elif mean is None:
        about, spread, least = raw, d, UNKNOWN * d
    else:
        if not own and isinstance(raw, FactorOperator):  # whose rows are not the examples
            raw = ScaledOperator(raw.n_sites, raw.mass, raw.sum_sq_weights, raw, *_identity(raw))
        m = operator.n_examples
        about, spread = centred(raw, mean), (d - mean**2) * m / max(m - 1, 1)
        least = LEAST * spread
    constant = 0.0 if mean is None else np.abs(mean)  # then the mean is as large as the diagonal
    varying = (d > 0) & (constant < d * (1 - 1e-9))
    spread, least = (np.where(varying, x, 1.0) for x in (spread, least))
    if varying.sum() < 2:
        raise ArgumentError("operator", "over at least two columns that vary", int(varying.sum()))
    if len(groups) and mean is not None:
        level = np.concatenate([np.asarray(group) for group in groups])
        level = level[varying[level]]
        spread = spread.copy()
        spread[level] = 2 * spread[level] / (1 - mean[level] / d[level])  # over the rate of -1
        least[level] = spread[level]
    told = raw, about, rule, d, mean, spread, least, varying, seed
    return _FixedPoint(operator, *told, holdings).run()


@dataclass
class _FixedPoint:
    """Rounds of: whiten by v, count, take what was counted off the diagonal.

    The rounds look at the second moment about the mean where that is known: a rare column, whose
    mean is many times its noise, would else lead the eigenvector of the mean and explain itself.
    """

    source: HebbianOperator
    raw: HebbianOperator
    about: HebbianOperator
    rule: RankRule
    diagonal: np.ndarray
    mean: np.ndarray | None
    spread: np.ndarray
    least: np.ndarray
    varying: np.ndarray
    seed: int
    holdings: Holdings | None = None
    columns: ColumnNoise | None = None
    profile: NoiseProfile | None = None
    products: int = 0

    def run(self) -> Whitened:
        v, start = self.spread.copy(), None
        counts: list[int] = []
        pace, last, before = np.ones_like(v), np.zeros_like(v), 1.0
        free = 1 if self.dear else FREE
        if self.mean is not None:  # the columns' noise, if there is one class
            self.columns = self.noise(v)
        for i in range(ROUNDS):
            rank, spectrum = self.counted(self.about, v, start, i)
            new = self.left(v, spectrum, rank)
            step = float(np.abs(new / v - 1)[self.varying].max())
            same = rank.n_detected in counts[-1:]
            still = same and step < STILL
            if still and (rank.n_detected == 0 or i >= free):
                break
            if self.dear and rank.n_detected:
                new = ahead(v, spectrum, rank.n_detected, partial(self.left, rank=rank))
            if i == free - 1:
                self.columns = self.noise(new)
            if max(free - 1, 1) <= i < SETTLED:  # again: false pairs of the first rounds hide it
                self.profile = self.uneven(v, spectrum)
            move = np.log(new / v)
            pace = np.where(move * last < 0, pace / 2, np.minimum(pace * 1.2, 1.0))
            v, last, start = v * np.exp(pace * move), move, spectrum.vectors
            counts.append(rank.n_detected)
            if self.dear and same and self.profile is None and step**2 < STILL * before:
                still = True  # a step shrinks as the last one did: the next would be none
                break
            before = step
        self.columns = self.columns or self.noise(v)
        if self.mean is not None:
            lead = like(self.scale(v) * self.mean, spectrum.vectors)[:, None]
            start = namespace(lead).concat([lead, spectrum.vectors], axis=1)
            rank, spectrum = self.counted(self.raw, v, start, i + 1)
        return Whitened(
            variances=v,
            diagonal=self.diagonal,
            spectrum=spectrum,
            rank=rank,
            dropped=np.flatnonzero(~self.varying),
            columns=self.columns,
            profile=self.profile,
            rounds=i + 1,
            products=self.products,
            status=self.status(still, step, spectrum),
        )

    @property
    def dear(self) -> bool:
        """Whether a spectrum costs so much that it pays to look ahead from it."""
        entries = self.raw.n_sites * self.raw.n_examples
        return self.mean is not None and self.holdings is None and entries >= DEAR

    def status(self, still: bool, step: float, spectrum: Spectrum) -> str:
        if spectrum.status != "converged":
            return spectrum.status
        if not still:
            return f"variances still move by {step:.1%} after {ROUNDS} rounds"
        if self.columns is not None and self.columns.uncertain:
            m = self.columns.n_examples
            return f"columns too rare for {m} rows: the count may be too high"
        return "converged"

    def counted(
        self, operator: HebbianOperator, v: np.ndarray, start: Array | None, i: int
    ) -> tuple[RankEstimate, Spectrum]:
        scale = self.scale(v)
        n, m = int(self.varying.sum()), operator.n_examples
        count = Counting(
            self.rule, lambda w, whole: _sample(w, whole, n, m, self.columns, self.profile)
        )
        found = eigenpairs(
            scaled(operator, scale),
            count,
            seed=derive(self.seed, "whitened", i),
            width=WIDTH if start is None else min(WIDTH, start.shape[1] + BESIDE),
            start=start,
        )
        self.products += found.products
        kept = like((scale > 0).astype(np.float64), found.vectors)[:, None]
        return count.estimate, replace(found, n_sites=n, vectors=found.vectors * kept)

    def left(self, v: np.ndarray, spectrum: Spectrum, rank: RankEstimate) -> np.ndarray:
        """What the counted pairs leave of the diagonal."""
        if rank.n_detected == 0:
            return self.spread.copy()
        U = to_host(spectrum.vectors)[self.varying]
        values = spectrum.values[: U.shape[1]]
        explained = np.zeros(len(v))
        explained[self.varying] = v[self.varying] * signal(U, values, spectrum.aspect)
        return np.clip(self.spread - explained, self.least, self.spread)

    def scale(self, v: np.ndarray) -> np.ndarray:
        return np.where(self.varying, 1 / np.sqrt(v), 0.0)

    def uneven(self, v: np.ndarray, spectrum: Spectrum) -> NoiseProfile | None:
        """Law of the rows' noise where it differs beyond chance: two levels, of half the rows."""
        if self.mean is None or self.columns is None or self.holdings is not None:
            return None
        found = row_energies(self.source, self.scale(v), self.mean, spectrum.vectors)
        n, m = len(self.columns.seen), self.columns.n_examples
        spread = 0.0 if found is None else found.spread(self.columns.scarcity * m / n)
        gains = np.array([1 - spread, 1 + spread])
        return NoiseProfile(None, np.array([0.5, 0.5]), n, gains) if spread else None

    def noise(self, v: np.ndarray) -> ColumnNoise:
        seed = derive(self.seed, "whitened", "columns")
        examples = max(round(self.raw.n_examples), 2)
        stretch = 1.0 if self.holdings is None else self.holdings.stretch(self.varying)
        return ColumnNoise(self.diagonal[self.varying], v[self.varying], examples, seed, stretch)


def _prepared(operator: HebbianOperator) -> HebbianOperator:
    """The operator in the form that is cheapest to scale again and again."""
    if isinstance(operator, SketchOperator):
        return operator.factors()
    if isinstance(operator, PooledOperator) and operator.n_sites <= FULL_LIMIT:
        return operator
    if not isinstance(operator, FactorOperator):
        return operator
    rows, n = operator.rows.shape
    again = isinstance(operator.rows, Reread)  # whose products are dear
    if n <= (EXPLICIT_LIMIT if again else min(rows, FULL_LIMIT)):
        matrix = explicit(operator) * operator.mass
        return DenseOperator(n, operator.mass, operator.sum_sq_weights, matrix)
    if not (_plain(operator.rows) or again) and rows * n <= UNPACKED:
        from hopfed import kernels

        return replace(operator, rows=kernels.unpack(operator.rows, np.float32))
    return operator


def _plain(rows: PackedBits | Array) -> bool:
    return hasattr(rows, "dtype")


def _sample(
    values: np.ndarray,
    complete: bool,
    n: int,
    m: float,
    columns: ColumnNoise | None,
    profile: NoiseProfile | None = None,
) -> Sample:
    return Sample(values[:n], n, m, complete, profile=profile, white=True, columns=columns)


def _identity(operator: HebbianOperator) -> tuple[Array, Array]:
    n = operator.n_sites
    return like(np.ones(n), operator.home), like(np.zeros(n), operator.home)


def _moments(
    operator: HebbianOperator, diagonal: np.ndarray | None, mean: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None, bool]:
    """Diagonal of C, the mean row where it is known, and whether the operator's rows tell it."""
    found, centre = _own_moments(operator)
    diagonal = found if diagonal is None else diagonal
    if diagonal is None:
        raise ArgumentError("diagonal", "given for a sketch of rows with gaps", None)
    used = centre if mean is None else mean
    for name, x in (("diagonal", diagonal), ("mean", used)):
        if x is not None and np.shape(x) != (operator.n_sites,):
            raise ArgumentError(name, f"of {operator.n_sites} numbers", np.shape(x))
    return np.asarray(diagonal, dtype=np.float64), used, centre is not None


def _own_moments(operator: HebbianOperator) -> tuple[np.ndarray | None, np.ndarray | None]:
    n = operator.n_sites
    if isinstance(operator, DenseOperator):
        return to_host(operator.matrix.diagonal()) / operator.mass, None
    if isinstance(operator, PooledOperator):
        parts = [_own_moments(op) for op in operator.parts]
        weights = [op.mass / operator.mass for op in operator.parts]
        return _mixed([d for d, _ in parts], weights), _mixed([m for _, m in parts], weights)
    if isinstance(operator, FactorOperator):
        return diagonal_and_mean(operator)
    if abs(operator.trace - n) <= 1e-5 * n:  # complete rows of +-1
        return np.ones(n), None
    return None, None


def _mixed(parts: list[np.ndarray | None], weights: list[float]) -> np.ndarray | None:
    known = [p for p in parts if p is not None]
    return np.average(known, axis=0, weights=weights) if len(known) == len(parts) else None
