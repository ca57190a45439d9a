"""Components of any real matrix in noise, each with a p-value: `hopfed.spectrum`.

A null is a model of the noise, and its assumptions are checked on the residuals of the components.
"gaussian" and "entries" use the Tracy-Widom law: the noise variance is estimated
together with the components, which narrows that law, and the excess kurtosis k4 of the entries
moves the edge by ``1 + k4 / sqrt(M N)``; columns of equal sample variance have a k4 of -2, whatever
their entries are. The other nulls scramble the residuals of the components found so far, give them
the variances that these took of rows and columns, and add them to these.

Sources: S. Kritchman, B. Nadler, IEEE Trans. Signal Process. 57 (2009) 3930; B. Nadler, J.
Multivariate Anal. 102 (2011) 363; J. L. Horn, Psychometrika 30 (1965) 179; E. Dobriban, A. B. Owen,
J. R. Stat. Soc. B 81 (2019) 163; D. Hong, Y. Sheng, E. Dobriban, arXiv:2012.02985; sequential
p-values: J. Besag, P. Clifford, Biometrika 78 (1991) 301.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, cast

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import svds
from scipy.special import chdtrc, ndtri, polygamma

from hopfed._lib.arrays import blas_threads
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.spectral.operators import HebbianOperator
from hopfed.spectral.rank import Sample, count_sequentially, robust_start
from hopfed.spectral.rows import DEPENDENT, neighbour_deviation
from hopfed.theory import covariance, marchenko_pastur, spiked, spikes, tracy_widom
from hopfed.theory.planning import START_LEVEL

EXPLICIT = 1_500  # smaller side up to which the largest eigenvalue is computed directly
NULLS = ("gaussian", "entries", "permutation", "flips", "shifts")
COLUMNS = ("centred", "standardised", "raw")
CHECK_LEVEL = 1e-3  # false-alarm rate of the check of an assumption
EXCEED = 10  # number of scrambled matrices above the eigenvalue after which drawing stops
OVERLAP_DRAWS = 200
DRAWN = 1_000_000  # entries of the draws of standardised noise
FILLS = 50  # rounds in which gaps take the fit of the components
COPIES = 0.02  # share of rows that may equal others
SPANS = 8  # correlation times of columns, by component, below which shifts do not suffice
MIXED = 0.8  # variance of a row or column, over the last component's, from which they mix
HEAVY = 0.75  # largest first-order shift of the edge by kurtosis, in widths of its law
_NEEDS = {  # assumptions of each null
    "gaussian": ("order", "columns", "rows", "normal"),
    "entries": ("order", "columns", "rows", "tails"),
    "permutation": ("order", "rows", "mixed"),
    "flips": ("order", "mixed"),
    "shifts": ("rows", "mixed", "slow"),
}
_ADVICE = {
    "order": DEPENDENT + ' Or use the null "shifts".',
    "columns": "Columns differ in variance (p-value {:.1g}): use standardised columns, or the "
    'null "permutation".',
    "rows": 'Rows differ in variance (p-value {:.1g}), as with heavy tails: use the null "flips".',
    "mixed": "A row or column varies {:.2g} times as much as the weakest component: they mix, and "
    "can count twice. Leave it out, or use standardised columns.",
    "copies": "Rows equal others (a share of {:.2g}): give each once.",
    "slow": "Columns are slow ({:.1f} correlation times in the table): use their differences.",
    "normal": 'Entries are not Gaussian (excess kurtosis {:.2g}): use the null "entries".',
    "tails": "Entries have heavy tails (up to {:.0f} deviations), so that a few can cause an "
    'eigenvalue: use the null "permutation".',
}


@dataclass(frozen=True)
class Check:
    """An assumption of the null: its name, the measured value, and whether it holds.

    "order": neighbouring rows are independent (standard errors); "columns", "rows": variances are
    equal (p-value); "normal": entries are Gaussian (excess kurtosis); "tails": entries have light
    tails (deviations of the largest entry); "mixed": no row or column is as
    loud as a component; "slow": columns have many correlation times (their number); "copies": no
    rows are equal (share).
    """

    name: str
    value: float
    holds: bool


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Result of :func:`spectrum`.

    Attributes
    ----------
    eigenvalues : (R,) descending, of ``Y^T Y / m``, R the smaller side: Y the rows prepared by
        `columns`, m their number M, less one if means were subtracted.
    vectors : (N, K) unit eigenvectors of the components.
    p_values : (K + 1,) of the components, and of the next eigenvalue, which counts as noise;
        (K,) if no eigenvalue is left.
    edge : upper edge of the noise bulk, in the units of the eigenvalues.
    variance : variance of the noise.
    strengths : (K,) strengths of the components, in units of `variance`, times the share of
        entries that are seen.
    limits : (2, K) `overlaps` of large tables, and errors over those in white noise.
    kurtosis : excess kurtosis of the residuals of the components; NaN without rows.
    shape : (m, N).
    null, level, columns, seed : settings of the call.
    checks : results for the assumptions of the null.
    status : "ok", or "doubtful" if an assumption does not hold.
    advice : a sentence for each assumption that does not hold.

    >>> found = spectrum(np.random.default_rng(0).standard_normal((100, 40)))
    >>> found.n_components, found.status, round(found.edge, 1)
    (0, 'ok', 2.7)
    """

    eigenvalues: np.ndarray = field(repr=False)
    vectors: np.ndarray = field(repr=False)
    p_values: np.ndarray
    edge: float
    variance: float
    strengths: np.ndarray
    limits: np.ndarray = field(repr=False)
    kurtosis: float
    shape: tuple[int, int]
    null: str
    level: float
    columns: str
    checks: tuple[Check, ...]
    status: str
    advice: tuple[str, ...]
    seed: int = field(repr=False)

    @property
    def n_components(self) -> int:
        """Number K of eigenvalues that are not noise."""
        return int(self.vectors.shape[1])

    @property
    def overlaps(self) -> np.ndarray:
        """(K,) squared cosine of each sample eigenvector and population eigenvector."""
        return self._cosines[0]

    @property
    def overlap_errors(self) -> np.ndarray:
        """(K,) standard errors of `overlaps`."""
        return self._cosines[1]

    @cached_property
    def _cosines(self) -> np.ndarray:
        """Overlaps and their errors (2, K), from exact draws of each component and neighbours."""
        (m, N), K = self.shape, self.n_components
        found = np.zeros((2, K))
        found[0], factor = self.limits
        strengths = spikes.strength_from_cosine(found[0], N / m)  # in white noise
        for k in range(K if min(N, m) > 3 else 0):
            first = max(k - 1, 0)
            rng = stream(self.seed, "overlap", k)
            drawn = spiked.draws(strengths[first : k + 2], N, m, OVERLAP_DRAWS, rng)
            values, cosines = (part[:, k - first] for part in drawn)
            off = cosines[:, k - first] - spikes.overlap(_strengths(values, N / m), N / m)
            found[:, k] = np.clip(found[0, k] + off.mean(), 0, 1), off.std() * factor[k]
        return found

    def plot(self, kind: str = "spectrum") -> Any:
        """Draw "spectrum" (eigenvalues and their law) or "overlaps" as a Matplotlib figure."""
        from hopfed.figures.spectrum import draw

        return draw(self, kind)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the vectors as plain numbers, for JSON."""
        held = {name: getattr(self, name) for name in self.__dataclass_fields__}
        del held["vectors"], held["seed"], held["limits"]
        held |= {"overlaps": self.overlaps, "overlap_errors": self.overlap_errors}
        held["checks"] = [vars(check) for check in self.checks]
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in held.items()}
        return {"n_components": self.n_components} | plain


def spectrum(
    X: Any,
    null: str = "",
    level: float = 0.01,
    *,
    columns: str = "centred",
    n_rows: int | None = None,
    draws: int | None = None,
    seed: int = 0,
) -> Spectrum:
    """Count the components of any matrix that noise does not explain, from its spectrum.

    Parameters
    ----------
    X : (M, N) numbers, NaN for missing entries, which get the components' fit; or a covariance
        (N, N) with `n_rows`; or a `HebbianOperator` of signs.
    null : model of the noise:
        "gaussian", with one unknown variance; "entries", independent, of any kurtosis with light
        tails (t of 5 degrees alarms at .17 for .05, with status "doubtful"); "permutation", columns
        of any law, each permuted (p-values by rank: Horn's 95th percentile of 100 alarms at .064);
        "flips", entries of any variances, each with a random sign; "shifts", columns correlated in
        time, each shifted cyclically. The default is "entries", or "permutation" if these have
        heavy tails or columns differ in variance, "flips" if rows do; "gaussian" for a covariance
    level : false-alarm rate of the test, in (0, 1).
    columns : "centred", less their means; "standardised", also over their deviations; or "raw".
    n_rows : degrees of freedom of a covariance: rows, less one if their mean was subtracted.
    draws : largest number of scrambled matrices per eigenvalue, at least ``1 / level - 1``.
    seed : seed of the draws.

    Raises
    ------
    ArgumentError : numbers that are not finite, fewer than 3 rows or 2 columns, a constant column
        to standardise, an unknown null, or a scrambling null without rows.

    >>> import hopfed
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 50)) + 0.3 * rng.standard_normal((200, 1))
    >>> found = hopfed.spectrum(X)
    >>> found.n_components, found.status, found.overlaps.round(1).tolist()
    (1, 'ok', [0.9])
    >>> hopfed.spectrum(np.cov(X.T), n_rows=199).n_components
    1
    """
    require(isinstance(level, float | np.floating) and 0 < level < 1, "level", "in (0, 1)", level)
    require(columns in COLUMNS, "columns", f"one of {', '.join(COLUMNS)}", repr(columns))
    table = _table(X, columns, n_rows)
    chosen = null or ("gaussian" if table.rows is None and not table.signs else "entries")
    require(chosen in NULLS, "null", f"one of {', '.join(NULLS)}", repr(null))
    if table.rows is None and chosen != "gaussian" and not (chosen == "entries" and table.signs):
        raise ArgumentError("null", "gaussian where there are no rows", repr(null))
    whole, p_values, kurtosis, checks = _tested(table, chosen, level, draws, seed)
    broken = {check.name for check in checks if not check.holds}
    free = not null and table.rows is not None
    if free and broken & {"rows", "columns", "tails"}:  # scrambles do not assume these
        chosen = "flips" if "rows" in broken else "permutation"
        whole, p_values, kurtosis, checks = _tested(table, chosen, level, draws, seed)
    table, K = whole, _count(p_values, level)
    said = [c for c in checks if not c.holds and (c.name != "tails" or "rows" not in broken)]
    advice = tuple(_ADVICE[c.name].format(c.value) for c in said)
    s2, seen = table.sample.variance(K), 1 if table.gaps is None else 1 - float(table.gaps.mean())
    top = table.values[:K] / max(s2, 1e-300)
    top = top * (seen + (1 - seen) / np.maximum(top, 1)) ** 2  # without what gaps were filled with
    shift = float(spikes.small_table_shift(table.excess(chosen, K, s2), table.m, table.N))
    edge = float(marchenko_pastur.edges(table.N / table.m, s2)[1]) * shift
    strengths, limits = _limits(table, chosen, top, s2)
    return Spectrum(
        table.values, table.vectors(K), p_values[: K + 1], edge, s2 / seen,
        strengths, limits, kurtosis, (table.m, table.N), chosen, level, columns,
        checks, "doubtful" if advice else "ok", advice, seed,
    )  # fmt: skip


def _tested(
    table: _Table, null: str, level: float, draws: int | None, seed: int
) -> tuple[_Table, np.ndarray, float, tuple[Check, ...]]:
    """Return the table with gaps filled, p-values, kurtosis of the residuals, and checks."""
    if null in _SCRAMBLES:
        most = 2 * int(np.ceil(1 / level)) - 1 if draws is None else draws
        require(most >= 1 / level - 1 - 1e-9, "draws", f"at least {1 / level - 1:.0f}", most)
        table, p_values = _by_scrambling(table, null, level, most, seed)
    else:
        p_values, filled = _by_law(table, null, level), 0
        while table.gaps is not None and _count(p_values, level) > filled:
            filled += 1
            p_values = _by_law(table := table.filled(filled), null, level)
    K = _count(p_values, level)
    if table.rows is None:
        return table, p_values, np.nan, () if table.signs else (table.even_columns(K),)
    left = table.left(K)
    kurtosis, sizes = _kurtosis(left), np.abs(left).round(12)  # ties despite rounding errors
    needs = (*_NEEDS[null], "copies")
    checks = (Check(name, *table.checked(name, K, left, sizes, kurtosis)) for name in needs)
    return table, p_values, kurtosis, tuple(checks)


def _count(p_values: np.ndarray, level: float) -> int:
    """Return the number of components before the first p-value above the level."""
    return int((np.append(p_values, 1.0) > level).argmax())


@dataclass(frozen=True, eq=False)
class _Table:
    """Prepared rows or a covariance, with its spectrum."""

    rows: np.ndarray | None
    values: np.ndarray
    axes: np.ndarray  # eigenvectors of the shorter side, by descending eigenvalue
    m: int
    N: int
    signs: bool
    columns: str
    gaps: np.ndarray | None = None

    @classmethod
    def of(cls, rows: np.ndarray, columns: str, gaps: np.ndarray | None) -> _Table:
        """Decompose prepared rows."""
        M, N = rows.shape
        m = M - (columns != "raw")
        values, axes = np.linalg.eigh((rows.T @ rows if N <= M else rows @ rows.T) / m)
        leading = np.maximum(values[::-1][: min(m, N)], 0)
        return cls(rows, leading, axes[:, ::-1], m, N, False, columns, gaps)

    def filled(self, K: int) -> _Table:
        """Return the table with its gaps filled by the fit of K components, less their noise."""
        if self.gaps is None or K == 0:
            return self
        rows, V = np.array(self.rows), self.vectors(K)
        for _ in range(FILLS):
            scores = rows @ V
            size = (scores**2).sum(axis=0)
            noise = ((rows**2).sum() - size.sum()) / max(self.N - K, 1)
            rows[self.gaps] = ((scores * np.maximum(1 - noise / size, 0)) @ V.T)[self.gaps]
            if self.columns != "raw":
                rows -= rows.mean(axis=0)
            V = np.linalg.qr(rows.T @ (rows @ V))[0]
        return _Table.of(rows, self.columns, self.gaps)

    @cached_property
    def sample(self) -> Sample:
        return Sample(self.values, self.N, self.m, kurtosis=0.0)

    def vectors(self, K: int) -> np.ndarray:
        """Eigenvectors (N, K) in the space of the columns."""
        if self.rows is None or len(self.axes) == self.N:
            return self.axes[:, :K]
        return np.asarray(self.rows.T @ self.axes[:, :K] / np.sqrt(self.m * self.values[:K]))

    def left(self, K: int) -> np.ndarray:
        """Rows without their K leading components."""
        rows, V = cast(np.ndarray, self.rows), self.vectors(K)
        return np.asarray(rows - (rows @ V) @ V.T) if K else rows

    def noise(self, K: int, null: str) -> np.ndarray:
        """Rows without K components, with the variances that these took of rows and columns."""
        left, V = self.left(K), self.vectors(K)
        taken = ((cast(np.ndarray, self.rows) @ V) ** 2 / (self.m * self.values[:K])).sum(axis=1)
        if null == "flips" and self.columns != "raw":
            taken = taken + 1 / len(taken)  # by the means of columns
        for axis, lost in enumerate(((V**2).sum(axis=1), taken)):
            size, kept = (left**2).mean(axis=axis), np.maximum(1 - lost, 0.1)
            mean = size.sum() / kept.sum()
            # A projection leaves kept^2 of a row's own noise, and adds that of other rows.
            own = np.maximum(size - lost * kept * mean, 0) / kept**2
            factor = np.sqrt(own / np.maximum(size, 1e-300))
            left = left * (factor if axis == 0 else factor[:, None])
        if null == "shifts":
            left = left * np.sqrt(_lost_in_circles(left))
        return left

    def excess(self, null: str, K: int, s2: float) -> float:
        """Excess kurtosis that moves the edge."""
        if self.signs:
            part = s2 * self.N / max(float(self.values.sum()), 1e-300)
            return float(spikes.excess_kurtosis(min(np.sqrt(max(1 - part, 0)), 1 - 1e-9)))
        if self.columns == "standardised":
            return -2.0
        return _kurtosis(self.left(K)) if null == "entries" else 0.0

    def even_columns(self, K: int) -> Check:
        """Check that the columns of a covariance have one variance beside its K components."""
        parts = self.axes[:, : len(self.values)] ** 2
        own = parts[:, K:] @ self.values[K:] / np.maximum(1 - parts[:, :K].sum(axis=1), 1e-9)
        logs = np.log(np.maximum(own, 1e-300))
        spread = logs.var() / polygamma(1, max(self.m - K, 1) / 2)  # over that of Gaussian rows
        value = float(chdtrc(self.N - 1, spread * self.N))
        return Check("columns", value, self.columns == "standardised" or value >= CHECK_LEVEL)

    def checked(
        self, name: str, K: int, left: np.ndarray, sizes: np.ndarray, kurtosis: float
    ) -> tuple[float, bool]:
        """Measure of an assumption on the rest beside K components, and whether it holds."""
        if name == "order":
            value = neighbour_deviation(left)
            return value, bool(abs(value) < -ndtri(CHECK_LEVEL / 2))
        if name == "rows" or (name == "columns" and (K or self.columns != "standardised")):
            # Bounded scores make the test of equal variances valid for any tails, without a sort.
            sizes = sizes if name == "rows" else sizes.T
            scores = sizes / (sizes + max(float(sizes.mean()), 1e-300))
            spread, (G, n) = float(scores.var()), sizes.shape
            if spread < 1e-20:
                return 1.0, True
            between = n * ((scores.mean(axis=1) - scores.mean()) ** 2).sum()
            value = float(chdtrc(G - 1, between / spread * (1 - 1 / sizes.size)))
            return value, value >= CHECK_LEVEL
        if name == "copies":  # where columns have so many values that chance makes no equal rows
            rows = cast(np.ndarray, self.rows)
            rows = rows[np.argsort(rows.sum(axis=1))]
            value = float((rows[1:] == rows[:-1]).all(axis=1).mean())
            return value, value < COPIES or len(np.unique(rows[:, 0])) < len(rows) / 10
        if name == "slow":
            own = _autocovariance(left)
            value = float(self.m / (2 * own.sum() / max(own[0], 1e-300) - 1))
            return value, value >= SPANS * (1 + K)  # components can be slow noise, too
        if name == "mixed":
            square = self.noise(K - 1, "") ** 2 if K else np.zeros((1, 1))
            loudest = max(square.mean(axis=0).max(), square.mean(axis=1).max() * self.N / self.m)
            value = float(loudest / self.values[max(K - 1, 0)])
            return value, value < MIXED
        size = np.sqrt(self.m * self.N)
        centre, scale = _scaling(self.m, self.N)
        width = float(scale / centre)
        if name == "normal":  # fails if significant and shifting the edge by a tenth of its width
            seen = abs(kurtosis) > 4 * np.sqrt(24) / size and self.columns != "standardised"
            return kurtosis, bool(not (seen and abs(kurtosis) / size > 0.1 * width))
        if name == "tails":
            V = self.vectors(K)
            parts = cast(np.ndarray, self.rows) @ V
            peaks = np.abs(parts).max(axis=0) * np.abs(V).max(axis=0)  # largest entry of each
            alone = peaks[peaks**2 > (parts**2).sum(axis=0) / 4]
            largest = max(float(sizes.max()), float(alone.max(initial=0)))
            value = largest / max(float(np.linalg.norm(left)) / left.size**0.5, 1e-300)
            heavy = kurtosis / size > HEAVY * width and self.columns != "standardised"
            return value, bool(value**2 < size and not heavy and not len(alone))
        return 1.0, True  # standardised columns


def _table(X: Any, columns: str, n_rows: int | None) -> _Table:
    """Check and prepare the matrix `X`."""
    signs = isinstance(X, HebbianOperator)
    if isinstance(X, HebbianOperator):
        X, n_rows = X.matmat(np.eye(X.n_sites)), round(X.n_examples)
    try:
        A = np.array(X)
        A = A.astype(np.float64, casting="unsafe" if A.dtype == object else "same_kind")
    except (TypeError, ValueError):
        raise ArgumentError("X", "a matrix of real numbers", type(X).__name__) from None
    require(A.ndim == 2 and min(A.shape) >= 2, "X", "a matrix of two or more columns", A.shape)
    require(not np.isinf(A).any(), "X", "finite, NaN in gaps", "an infinite entry")
    size = float(np.nanmax(np.abs(A), initial=0.0))
    require(size == 0 or 1e-70 < size < 1e70, "X", "in other units: a power may overflow", size)
    if n_rows is not None:
        require(n_rows >= 2, "n_rows", "at least 2", n_rows)
        square = A.shape[0] == A.shape[1] and bool(np.allclose(A, A.T, rtol=1e-6, atol=1e-12))
        require(square, "X", "a symmetric matrix when n_rows is given", A.shape)
        equal = np.ptp(A.diagonal()) <= 1e-9 * np.abs(A).max() and not signs  # correlations
        if columns == "standardised" or equal:
            columns, A = "standardised", A / np.sqrt(np.outer(A.diagonal(), A.diagonal()))
        values, axes = np.linalg.eigh(A)
        leading = np.maximum(values[::-1][: min(len(A), n_rows)], 0)
        return _Table(None, leading, axes[:, ::-1], n_rows, len(A), signs, columns)
    require(len(A) >= 3, "X", "a matrix of 3 or more rows, or a covariance with n_rows", A.shape)
    seen = ~np.isnan(A)
    require(bool(seen.any(axis=0).all()), "X", "without empty columns", "a column of NaN")
    Y = np.where(seen, A, 0.0)
    if columns != "raw":
        Y = np.where(seen, Y - Y.sum(axis=0) / seen.sum(axis=0), 0.0)
    if columns == "standardised":
        spread = np.sqrt((Y**2).sum(axis=0) / (len(Y) - 1))
        flat = np.flatnonzero(spread <= 1e-12 * max(float(spread.max()), 1e-300))
        which = f"column {flat[0] + 1}" if len(flat) else ""
        require(not which, "X", "without constant columns, to be standardised", which)
        Y = Y / spread
    require(bool((Y != 0).any()), "X", "a matrix with entries that vary", "a single value")
    return _Table.of(Y, columns, None if seen.all() else ~seen)


def _kurtosis(entries: np.ndarray) -> float:
    """Excess kurtosis of entries of mean 0."""
    square = (entries**2).ravel()
    return float(square @ square / square.size / square.mean() ** 2 - 3)


def _limits(table: _Table, null: str, top: np.ndarray, s2: float) -> tuple[np.ndarray, np.ndarray]:
    """Strengths of components, and (2, K) overlaps with their errors over those of white noise.

    In other noise by the traces `a`, `b` of ``z / (z^2 - E^T E)`` and ``z / (z^2 - E E^T)`` over
    their sizes, at ``z^2 = top``: the strength is ``1 / (a b)``, the overlap ``-2 a / (a b)'`` over
    it (F. Benaych-Georges, R. R. Nadakuditi, J. Multivariate Anal. 111 (2012) 120).
    """
    K, q, one = len(top), table.N / table.m, np.ones(len(top))
    if null not in _SCRAMBLES or not 0 < K < len(table.values):
        strengths = _strengths(top, q)
        return strengths, np.array([spikes.overlap(strengths, q), one])
    rest, sides = table.values[K:] / s2, np.array([[table.N], [table.m]]) - K
    gap, zeros = np.maximum(top[:, None] - rest, 1e-9 * top[:, None]), sides - len(rest)
    a, b = np.sqrt(top) * ((1 / gap).sum(axis=1) + zeros / top) / sides
    da, db = -(((top[:, None] + rest) / gap**2).sum(axis=1) + zeros / top) / sides
    overlaps = np.clip(-2 * a * a * b / (da * b + a * db), 0, 1)
    # Loud rows and columns make the error depend on where the signal lies.
    square = table.left(K) ** 2
    shared = [(x @ x) / x.sum() ** 2 for x in (square.sum(axis=0), square.sum(axis=1))]
    return 1 / (a * b), np.array([overlaps, one * np.sqrt(sum(shared) / (1 / sides).sum())])


def _strengths(values: np.ndarray, q: float) -> np.ndarray:
    """Strengths of spikes from eigenvalues over the variance; in the bulk, the threshold's."""
    return np.nan_to_num(spikes.strength(values, q), nan=np.sqrt(q)) if len(values) else values


_scaling = lru_cache(maxsize=1 << 10)(tracy_widom.wishart_scaling)


@lru_cache(maxsize=1 << 10)
def ratio_law(M: float, N: float) -> tuple[float, float]:
    """For `hopfed.spectrum`: centre, scale of noise's top eigenvalue over mean squared entry."""
    # The ratio and the trace are independent, which gives the variance of the ratio (Nadler 2011).
    centre, scale = (float(x) for x in _scaling(M, N))
    law, trace = tracy_widom.moments(1), 2 / (M * N)
    mean = centre + scale * law.mean
    variance = (scale**2 * law.variance - mean**2 * trace) / (1 + trace)
    narrow = np.sqrt(max(variance, 0.1 * scale**2) / law.variance)
    return float(mean - narrow * law.mean), float(narrow)


@lru_cache(maxsize=1 << 10)
def _standardised_law(M: int, N: int) -> tuple[float, float]:
    """Return what `ratio_law` gives, of normal columns over their deviations, from draws."""
    drawn = stream(0, "standardised", M, N).standard_normal((min(2000, DRAWN // (M * N)), M, N))
    drawn *= np.sqrt(M) / np.linalg.norm(drawn, axis=1, keepdims=True)
    top = np.linalg.norm(drawn, 2, axis=(1, 2)) ** 2
    law = tracy_widom.moments(1)
    scale = float(top.std() / np.sqrt(law.variance))
    return float(top.mean()) - scale * law.mean, scale


def _by_law(table: _Table, null: str, level: float) -> np.ndarray:
    """P-values of the components, and of the next eigenvalue, by the Tracy-Widom law."""
    sample, m, N = table.sample, table.m, table.N
    excess = table.excess(null, 0, sample.variance(0))
    last, counted = 0, set[int]()
    drawn = table.columns == "standardised" and m * N <= DRAWN // 200
    law, least = (_standardised_law, 2) if drawn else (ratio_law, 1)
    while True:  # count again with the kurtosis of the residuals until it is consistent
        shift = (1.0 if drawn else float(spikes.small_table_shift(excess, m, N))) / m

        def edge(k: int, s2: float, alpha: float = level, shift: float = shift) -> float:
            centre, scale = law(max(m - k, least), max(N - k, least))
            return s2 * shift * (centre + scale * tracy_widom.critical_value(alpha))

        start = robust_start(sample, partial(edge, alpha=START_LEVEL))
        K = count_sequentially(sample, start, edge)
        s2 = sample.variance(K)
        if last == K or K in counted:
            break
        last, excess = K, table.excess(null, K, s2)
        counted.add(K)
    size = min(K + 1, len(table.values))
    laws = [law(max(m - k, least), max(N - k, least)) for k in range(size)]
    centre, scale = np.array(laws).T
    z = (table.values[: len(laws)] / (s2 * shift) - centre) / scale
    p = tracy_widom.sf(z)
    p[:K] = np.minimum(p[:K], level)  # the count used the variance of each step
    return p


def _by_scrambling(
    table: _Table, null: str, level: float, draws: int, seed: int
) -> tuple[_Table, np.ndarray]:
    """Return the table with gaps filled, and p-values by scrambles added to the components."""
    scramble, found, centred = _SCRAMBLES[null], [], table.columns != "raw"
    for k in range(min(len(table.values), table.N - 1, table.m - 1)):
        table = table.filled(k)
        noise, rng = table.noise(k, null), stream(seed, "spectrum", null, k)
        fit = cast(np.ndarray, table.rows) - table.left(k)
        above = done = 0
        while done < draws and above < EXCEED:
            Z = scramble(noise, rng)
            Z = Z - Z.mean(axis=0) if centred else Z
            top = _eigenvalue(fit + Z if k else Z.astype(np.float32), k, rng) / table.m
            above, done = above + (top >= table.values[k] * (1 - 1e-6)), done + 1
        found.append(above / done if above >= EXCEED else (above + 1) / (done + 1))
        if found[-1] > level:
            break
    return table, np.array(found)


def _lost_in_circles(rows: np.ndarray) -> float:
    """Edge of noise with the autocovariance of the rows, over the edge of its cyclic shifts."""
    (M, N), own = rows.shape, _autocovariance(rows)
    lags = np.arange(M)
    joined = ((M - lags) * own + lags * np.append(0, own[:0:-1])) / M
    edges = []
    for lagged in (own, joined):
        values = np.linalg.eigvalsh(scipy.linalg.toeplitz(lagged))
        population = covariance.Population(np.maximum(values, 1e-3 * own[0]))
        edges.append(covariance.upper_edge(population, M / N).location)
    return edges[0] / edges[1]


def _autocovariance(rows: np.ndarray) -> np.ndarray:
    """Mean autocovariance (M,) of the columns, 0 from the first lag that noise explains."""
    M, N = rows.shape
    power = (np.abs(np.fft.rfft(rows, 2 * M, axis=0)) ** 2).sum(axis=1)
    lags = np.arange(M)
    own = np.fft.irfft(power, 2 * M)[:M] / (N * (M - lags))
    noise = np.abs(own) < 3 * own[0] / np.sqrt(N * (M - lags))
    own[int(noise.argmax()) if noise.any() else M :] = 0
    return np.asarray(own)


def _shifted(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    M, N = rows.shape
    return np.asarray(rows[(np.arange(M)[:, None] + rng.integers(M, size=N)) % M, np.arange(N)])


_SCRAMBLES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "permutation": lambda rows, rng: rng.permuted(rows, axis=0),
    "flips": lambda rows, rng: np.where(rng.random(rows.shape) < 0.5, rows, -rows),
    "shifts": _shifted,
}


def _eigenvalue(Z: np.ndarray, k: int, rng: np.random.Generator) -> float:
    """Eigenvalue of ``Z^T Z`` below the k largest."""
    (M, N), side = Z.shape, min(Z.shape)
    if side > EXPLICIT:
        start = rng.standard_normal(side, Z.dtype)
        return float(svds(Z, k + 1, v0=start, tol=1e-4, return_singular_vectors=False).min() ** 2)
    with blas_threads(1):  # a second thread saves little, and is slow on a busy machine
        G = (Z.T @ Z if N <= M else Z @ Z.T).astype(np.float64)
        last = scipy.linalg.eigh(G, eigvals_only=True, subset_by_index=[side - 1 - k] * 2)
    return float(last[0])
