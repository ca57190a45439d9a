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
columns it must be known which (`hopfed.spectral.holdings`), or they are counted as classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed._lib.random import derive
from hopfed.errors import ArgumentError
from hopfed.kernels import PackedBits
from hopfed.spectral.column_noise import ColumnNoise
from hopfed.spectral.eigenpairs import EXPLICIT_LIMIT, FULL_LIMIT, Spectrum, eigenpairs
from hopfed.spectral.holdings import Holdings
from hopfed.spectral.noise import NoiseProfile, Sample
from hopfed.spectral.operators import (
    DenseOperator,
    FactorOperator,
    HebbianOperator,
    PooledOperator,
    explicit,
)
from hopfed.spectral.rank import Counting, RankEstimate, RankRule
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.row_energy import diagonal_and_mean, row_energies
from hopfed.spectral.scaling import ScaledOperator, centred, scaled
from hopfed.spectral.sketch import SketchOperator
from hopfed.spectral.variances_ahead import ahead, signal

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

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rates = rng.random((2, 60))  # two classes, every column with a rate of its own in each
    >>> x = np.where(rng.random((500, 60)) < rates[np.arange(500) % 2], 1, -1)
    >>> from hopfed.spectral.rank import TracyWidom
    >>> found = whitened(FactorOperator.from_examples(x), TracyWidom())
    >>> found.rank.n_detected, found.variances.shape, found.spectrum.vectors.shape, found.status
    (2, (60,), (60, 2), 'converged')
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
    seed : of block Krylov and of simulated noise.
    groups : numbers of the columns that are levels of one variable, of which a row has one. Their
        second moment is ``4 (diag(p) - p p^T)`` whatever the classes are; divided by ``4 p`` it is
        a projector, so that it is not counted (theory/NOTES.md, "Categorical variables").
    holdings : which owner holds which columns, where they are not the same ones for all.

    Raises
    ------
    ArgumentError : a sketch of rows with gaps without its `diagonal`, arrays of another length,
        no column that varies.

    Examples
    --------
    >>> from hopfed.spectral.rank import TracyWidom
    >>> rng = np.random.default_rng(1)
    >>> x = np.where(rng.random((400, 50)) < rng.random(50), 1.0, -1.0)  # one class
    >>> x[rng.random((400, 50)) < 0.3] = 0
    >>> gaps = FactorOperator(50, 400.0, 400.0, x, np.ones(400))
    >>> whitened(gaps, TracyWidom()).rank.n_detected
    1
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
