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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed._lib.random import derive
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.spectral.eigenpairs import EXPLICIT_LIMIT, FULL_LIMIT, Spectrum, eigenpairs
from hopfed.spectral.noise import ColumnNoise, Sample
from hopfed.spectral.operators import (
    DenseOperator,
    DerivedOperator,
    FactorOperator,
    HebbianOperator,
    PooledOperator,
    centred,
    explicit,
    scaled,
)
from hopfed.spectral.rank import Counting, RankEstimate, RankRule
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import Bits, column_moments
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
        moments = [[to_host(x) for x in column_moments(op.rows)] for op in owners]
        sums, seen = (np.array(each, np.float64) for each in zip(*moments, strict=True))
        found = cls(np.array([op.mass for op in owners]), seen, sums)
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


def signal(U: np.ndarray, values: np.ndarray, aspect: float) -> np.ndarray:
    """(N,) diagonal of the population's signal behind sample eigenpairs of white noise.

    What an eigenpair holds of a column is ``lambda U^2``, and the rest is the column's sample
    variance about it: exact even where the signal is many times the noise. It is too small by what
    the pair took from the noise: on average ``lambda (1 - c) / N``, c the squared cosine of sample
    and population vector, and by the column's own pull on the pair, ``(lambda c - ell) u^2``, with
    ell the population's strength. Near the threshold U is mostly noise, and taking each entry for
    what it is would make noise look like signal in the next round: there the entries are drawn to
    their mean, but not by more than their spread allows.
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
FREE = 3  # rounds until the noise of the columns is known well enough to be simulated
LEAST = 0.1  # share of a column's variance that classes never explain (Heywood's case)
UNPACKED = 30_000_000  # entries of rows that are unpacked once, in single precision


@dataclass(frozen=True)
class Whitened:
    """Variances of the columns' noise, and the spectrum and count where it is white.

    Attributes
    ----------
    variances : (N,) noise v of every column, zero-filled; 1 in columns that are left out.
    spectrum : of ``diag(v)^-1/2 C diag(v)^-1/2``, vectors (N, K); `n_sites` is the number of
        columns that are not left out, and rows of `vectors` of the others are 0.
    rank : the rule's estimate on it; its variance is 1, that of the coordinates.
    dropped : indices of columns that are left out: never observed, or constant where they are.
    columns : noise of the columns; its `uncertain` tells that they are too rare for the rule.
    rounds : spectra that were computed.
    status : "converged", or what is wrong and what to do.
    """

    variances: np.ndarray = field(repr=False)
    spectrum: Spectrum
    rank: RankEstimate
    dropped: np.ndarray
    columns: ColumnNoise = field(repr=False)
    rounds: int
    status: str


def whitened(
    operator: HebbianOperator,
    rule: RankRule,
    *,
    mean: np.ndarray,
    seed: int = 0,
    groups: Sequence[Sequence[int]] = (),
    holdings: Holdings | None = None,
) -> Whitened:
    """Count the classes behind `operator` in whitened coordinates.

    Parameters
    ----------
    operator : of rows of -1, 0 and +1, as a matrix, as their factors, or pooled. Factors in bits
        stay packed where they are many; an N x N matrix is made where N is below the number of rows
        and at most 3,000.
    rule : of the count, on a `Sample` that is `white`.
    mean : (N,) mean of the zero-filled rows. It tells constant columns, and how small the noise of
        a column can be.
    groups : numbers of the columns that are levels of one variable, of which a row has one. Their
        second moment is ``4 (diag(p) - p p^T)`` whatever the classes are; divided by ``4 p`` it is
        a projector, so that it is not counted (theory/NOTES.md, "Categorical variables").
    holdings : which owner holds which columns, where they are not the same ones for all.

    Raises
    ------
    ArgumentError : a mean of another length, no column that varies.
    """
    N, m = operator.n_sites, operator.n_examples
    require(mean.shape == (N,), "mean", f"of {N} numbers", mean.shape)
    d, raw = _diagonal(operator), _prepared(operator)
    if holdings is None:
        about, spread = centred(raw, mean), d - mean**2
    else:
        (about, raw), spread = holdings.matched(raw), holdings.spread
    spread = spread * m / max(m - 1, 1)
    varying = (d > 0) & (np.abs(mean) < d * (1 - 1e-9))  # else the mean is as large as the diagonal
    if varying.sum() < 2:
        raise ArgumentError("operator", "over at least two columns that vary", int(varying.sum()))
    spread = np.where(varying, spread, 1.0)
    least = np.where(varying, LEAST * spread, 1.0)
    if len(groups):
        level = np.concatenate([np.asarray(group) for group in groups])
        level = level[varying[level]]
        spread[level] = 2 * spread[level] / (1 - mean[level] / d[level])  # over the rate of -1
        least[level] = spread[level]
    return _FixedPoint(raw, about, rule, d, mean, spread, least, varying, seed, holdings).run()


@dataclass
class _FixedPoint:
    """Rounds of: whiten by v, count, take what was counted off the diagonal.

    The rounds look at the second moment about the mean: a rare column, whose mean is many times its
    noise, would else lead the eigenvector of the mean and explain itself.
    """

    raw: HebbianOperator
    about: HebbianOperator
    rule: RankRule
    diagonal: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    least: np.ndarray
    varying: np.ndarray
    seed: int
    holdings: Holdings | None = None

    def run(self) -> Whitened:
        v, start, count = self.spread.copy(), None, -1
        pace, last = np.ones_like(v), np.zeros_like(v)
        columns = self.noise(v)  # if there is one class
        for i in range(ROUNDS):
            rank, spectrum = self.counted(self.about, v, start, i, columns)
            new = self.left(v, spectrum, rank)
            step = float(np.abs(new / v - 1)[self.varying].max())
            still = rank.n_detected == count and step < STILL
            if still and (rank.n_detected == 0 or i >= FREE):
                break
            if i == FREE - 1:
                columns = self.noise(new)
            move = np.log(new / v)
            pace = np.where(move * last < 0, pace / 2, np.minimum(pace * 1.2, 1.0))
            v, last, start = v * np.exp(pace * move), move, spectrum.vectors
            count = rank.n_detected
        lead = like(self.scale(v) * self.mean, spectrum.vectors)[:, None]
        start = namespace(lead).concat([lead, spectrum.vectors], axis=1)
        rank, spectrum = self.counted(self.raw, v, start, i + 1, columns)
        status = spectrum.status
        if status == "converged" and not still:
            status = f"variances still move by {step:.1%} after {ROUNDS} rounds"
        elif status == "converged" and columns.uncertain:
            rows = columns.n_examples
            status = f"columns too rare for {rows} rows: the count may be too high"
        dropped = np.flatnonzero(~self.varying)
        return Whitened(v, spectrum, rank, dropped, columns, i + 1, status)

    def counted(
        self,
        operator: HebbianOperator,
        v: np.ndarray,
        start: Array | None,
        i: int,
        columns: ColumnNoise,
    ) -> tuple[RankEstimate, Spectrum]:
        scale = self.scale(v)
        n, m = int(self.varying.sum()), operator.n_examples
        count = Counting(
            self.rule,
            lambda w, whole: Sample(w[:n], n, m, whole, white=True, columns=columns),
        )
        found = eigenpairs(
            scaled(operator, scale),
            count,
            seed=derive(self.seed, "whitened", i),
            width=WIDTH if start is None else min(WIDTH, start.shape[1] + BESIDE),
            start=start,
        )
        kept = like((scale > 0).astype(np.float64), found.vectors)[:, None]
        return count.estimate, replace(found, n_sites=n, vectors=found.vectors * kept)

    def left(self, v: np.ndarray, spectrum: Spectrum, rank: RankEstimate) -> np.ndarray:
        """What the counted pairs leave of the diagonal."""
        if rank.n_detected == 0:
            return self.spread.copy()
        U = to_host(spectrum.vectors)[self.varying]
        explained = np.zeros(len(v))
        explained[self.varying] = v[self.varying] * signal(
            U, spectrum.values[: U.shape[1]], spectrum.aspect
        )
        return np.clip(self.spread - explained, self.least, self.spread)

    def scale(self, v: np.ndarray) -> np.ndarray:
        return np.where(self.varying, 1 / np.sqrt(v), 0.0)

    def noise(self, v: np.ndarray) -> ColumnNoise:
        seed = derive(self.seed, "whitened", "columns")
        examples = max(round(self.raw.n_examples), 2)
        stretch = 1.0 if self.holdings is None else self.holdings.stretch(self.varying)
        return ColumnNoise(self.diagonal[self.varying], v[self.varying], examples, seed, stretch)


def _prepared(operator: HebbianOperator) -> HebbianOperator:
    """The operator in the form that is cheapest to scale again and again."""
    if not isinstance(operator, FactorOperator):
        return operator
    rows, n = operator.rows.shape
    again = isinstance(operator.rows, Reread)  # whose products are dear
    if n <= (EXPLICIT_LIMIT if again else min(rows, FULL_LIMIT)):
        matrix = explicit(operator) * operator.mass
        return DenseOperator(n, operator.mass, operator.sum_sq_weights, matrix)
    if isinstance(operator.rows, Bits) and rows * n <= UNPACKED:
        return replace(operator, rows=kernels.unpack(operator.rows, np.float32))
    return operator


def _diagonal(operator: HebbianOperator) -> np.ndarray:
    """(N,) diagonal of C: the share of rows in which a column is observed."""
    if isinstance(operator, DenseOperator):
        return np.asarray(to_host(operator.matrix.diagonal()) / operator.mass)
    if isinstance(operator, PooledOperator):
        return sum(_diagonal(op) * (op.mass / operator.mass) for op in operator.parts)  # type: ignore[return-value]
    if not isinstance(operator, FactorOperator):
        raise ArgumentError(
            "operator", "a matrix, rows, or a pool of them", type(operator).__name__
        )
    return np.asarray(to_host(column_moments(operator.rows)[1]) / operator.mass)
