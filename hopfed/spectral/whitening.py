"""Count of classes in whitened coordinates, for rows of -1, 0 (missing) and +1.

Given its class, a row has independent columns, each with its own rate, so the noise of C is
``diag(v)`` with v different in every column. Divided by ``sqrt(v)`` on both sides it is white, and
the rank rules of `hopfed.spectral.rank` hold. v is the diagonal of C less that of the counted
pairs, and both are found together (theory/NOTES.md, "Counting in whitened coordinates").

C is not centred. One class of independent columns has rank 1, due to its mean, or rank 0 if
every rate is close to a half; K classes have rank K, or less if their means are linearly
dependent. A count of 0 or 1 therefore means at most one class.

Entries are assumed to be missing at random within a column. Owners whose observation rates differ
by a common factor in all columns do not change the count. Owners with different
columns may add directions; the search for classes starts from that count and merges them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed._lib.random import derive
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.kernels import Rows
from hopfed.spectral.eigenpairs import EXPLICIT_LIMIT, FULL_LIMIT, Spectrum, eigenpairs
from hopfed.spectral.operators import (
    DenseOperator,
    FactorOperator,
    HebbianOperator,
    PooledOperator,
    explicit,
    scale_operator,
)
from hopfed.spectral.rank import CountingRule, RankEstimate, RankRule, Sample
from hopfed.spectral.rows import column_moments
from hopfed.theory import spikes


def signal(U: np.ndarray, values: np.ndarray, aspect: float) -> np.ndarray:
    """(N,) diagonal of the signal, for whitening, from sample eigenpairs in white noise."""
    n, root = len(U), float(np.sqrt(aspect))
    ell = spikes.strength_at(values - (1 + root) ** 2, root)
    c = np.asarray(spikes.overlap(ell, aspect))
    uneven = U**2 - 1 / n
    noise = 2 * (1 - c**2) / n**2
    trust = np.maximum(c, 1 - noise / np.maximum(uneven.var(axis=0), 1e-300))
    pull = values * c - ell
    alone = spikes.overlap(np.maximum(ell * (1 - U**2), 1e-300), aspect)
    shared = alone / np.maximum(c, 1e-300)
    return (ell / n + (values - pull * c) * trust * shared * uneven).sum(axis=1)


ROUNDS = 40
WIDTH, BESIDE = 64, 16  # columns of Krylov blocks: in all, and in addition to a start
STILL = 1e-3  # largest relative change of a variance at which an unchanged count is final
LEAST = 0.1  # smallest share of noise in a column's variance (Heywood's case)
UNPACKED = 30_000_000  # most entries of rows that are unpacked once, in single precision


@dataclass(frozen=True)
class Whitened:
    """Noise variances of the columns, and the spectrum and count in whitened coordinates."""

    # (N,) noise variance v of every zero-filled column; 1 in dropped columns
    variances: np.ndarray = field(repr=False)
    # of ``diag(v)^-1/2 C diag(v)^-1/2``, vectors (N, K); `n_sites` is the number of columns that
    # are not dropped, and rows of `vectors` are 0 in dropped columns
    spectrum: Spectrum
    rank: RankEstimate  # the rule's estimate from the spectrum; its variance is 1
    # indices of dropped columns: never observed, or constant where observed
    dropped: np.ndarray


def count_whitened_classes(
    operator: HebbianOperator,
    rule: RankRule,
    *,
    mean: np.ndarray,
    seed: int = 0,
    groups: Sequence[Sequence[int]] = (),
) -> Whitened:
    """Count the classes in an `operator` of rows of -1, 0 and +1 in whitened coordinates.

    The `rule` is applied to a `white` `Sample`; `mean` (N,) is the mean of the zero-filled rows,
    and `groups` are groups of columns that are levels of one variable.
    """
    N, m = operator.n_sites, operator.n_examples
    require(mean.shape == (N,), "mean", f"of {N} numbers", mean.shape)
    d, raw = _diagonal(operator), _prepared(operator)
    about, spread = scale_operator(raw, mean=mean), (d - mean**2) * m / max(m - 1, 1)
    varying = (d > 0) & (np.abs(mean) < d * (1 - 1e-9))  # not constant where observed
    n = int(varying.sum())
    require(n >= 2, "operator", "over at least two columns that vary", n)
    spread = np.where(varying, spread, 1.0)
    least = np.where(varying, LEAST * spread, 1.0)
    if len(groups):  # 4 (diag(p) - p p^T) over 4 p is a projector, so levels add nothing
        level = np.concatenate([np.asarray(group) for group in groups])
        level = level[varying[level]]
        spread[level] = 2 * spread[level] / (1 - mean[level] / d[level])  # by the rate of -1
        least[level] = spread[level]

    def counted(
        operator: HebbianOperator, v: np.ndarray, start: Array | None, i: int
    ) -> tuple[RankEstimate, Spectrum]:
        def sample(values: np.ndarray, whole: bool) -> Sample:
            return Sample(values[:n], n, m, whole, white=True)

        count = CountingRule(rule, sample)
        width = WIDTH if start is None else min(WIDTH, start.shape[1] + BESIDE)
        white = scale_operator(operator, np.where(varying, 1 / np.sqrt(v), 0.0))
        found = eigenpairs(white, count, seed=derive(seed, "whitened", i), width=width, start=start)
        kept = like(varying.astype(np.float64), found.vectors)[:, None]
        return count.estimate, replace(found, n_sites=n, vectors=found.vectors * kept)

    # Each round whitens by v, counts, and subtracts the counted signal from the diagonal. Rounds
    # use the second moment about the mean: otherwise a rare column, whose mean is many times its
    # noise, would dominate the eigenvector of the mean and explain itself.
    v, start, last_count = spread.copy(), None, -1
    pace, last = np.ones(N), np.zeros(N)
    for i in range(ROUNDS):
        rank, spectrum = counted(about, v, start, i)
        new = spread.copy()
        if rank.n_detected:
            U = to_host(spectrum.vectors)[varying]
            new[varying] -= v[varying] * signal(U, spectrum.values[: U.shape[1]], spectrum.aspect)
        new = np.clip(new, least, spread)
        step = float(np.abs(new / v - 1)[varying].max())
        if rank.n_detected == last_count and step < STILL:
            break
        move = np.log(new / v)
        pace = np.where(move * last < 0, pace / 2, np.minimum(pace * 1.2, 1.0))
        v, last, start = v * np.exp(pace * move), move, spectrum.vectors
        last_count = rank.n_detected
    lead = like(np.where(varying, mean / np.sqrt(v), 0.0), spectrum.vectors)[:, None]
    start = namespace(lead).concat([lead, spectrum.vectors], axis=1)
    rank, spectrum = counted(raw, v, start, i + 1)
    return Whitened(v, spectrum, rank, np.flatnonzero(~varying))


def _prepared(operator: HebbianOperator) -> HebbianOperator:
    """Return the operator in the form that is cheapest to scale repeatedly."""
    if not isinstance(operator, FactorOperator):
        return operator
    rows, n = operator.rows.shape
    if n <= (min(rows, FULL_LIMIT) if operator.held else EXPLICIT_LIMIT):
        matrix = explicit(operator) * operator.mass
        return DenseOperator(n, operator.mass, operator.sum_sq_weights, matrix)
    if isinstance(operator.rows, Rows) and operator.held and rows * n <= UNPACKED:
        return replace(operator, rows=kernels.unpack(operator.rows, np.float32))
    return operator


def _diagonal(operator: HebbianOperator) -> np.ndarray:
    """(N,) diagonal of C: the share of rows in which a column is observed."""
    if isinstance(operator, DenseOperator):
        return np.asarray(to_host(operator.matrix.diagonal()) / operator.mass)
    if isinstance(operator, PooledOperator):
        return sum(_diagonal(op) * (op.mass / operator.mass) for op in operator.parts)  # type: ignore[return-value]
    if not isinstance(operator, FactorOperator):
        kind = type(operator).__name__
        raise ArgumentError("operator", "a matrix, rows, or a pool of them", kind)
    return np.asarray(to_host(column_moments(operator.rows)[1]) / operator.mass)
