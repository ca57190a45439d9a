"""What archetypes have to do with something else: an outcome, or covariates.

A row belongs to its classes with probabilities R, so that means over the likeliest class of each
row are those of mixed classes. Two corrections undo that; both take the classes as they are, and
neither lets the outcome change them.

- *Outcomes* (Bolck, Croon and Hagenaars, 2004; Vermunt, 2010): with rows assigned in proportion to
  R the corrected weights of rows are ``R S^-1 diag(n)``, S the sum of ``R_i R_i^T`` and n that of
  ``R_i``. Means under these weights are ``S^-1 sum_i R_i z_i``, a regression of the outcome on R.
- *Covariates* (three-step maximum likelihood; Vermunt, 2010; Bakk, Tekle and Vermunt, 2013): class
  t of a row has the probability ``pi_t(q) = softmax(b_t q)``. The row is taken for its likeliest
  class s_i, which it is with the probability ``D_ts = sum_i R_it [s_i = s] / n_t``; b maximises
  ``sum_i log sum_t pi_t(q_i) D_t,s_i``.

Standard errors count that the classes were estimated from the rows as well (Bakk, Oberski and
Vermunt, 2014): the equations of the classes and those of the third step are one system, whose
sandwich gives the covariance. With g_i and s_i the parts of row i in both, H the information about
the classes and C the derivative of ``sum_i g_i`` by them, row i contributes ``g_i + C H^-1 s_i``. H
is never formed: a product with it is a pass over the rows, as in expectation maximisation, and
conjugate gradients need a few of them where classes are clear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import chdtrc, log_softmax, ndtri

from hopfed._lib.arrays import like, to_host
from hopfed._lib.settings import require
from hopfed.archetypes.assignment import (
    expected_means,
    expected_shares,
    probabilities,
    rows_of,
    variables_of,
    without_copies,
)
from hopfed.archetypes.weights import weights_of
from hopfed.errors import ArgumentError, DataError, shown
from hopfed.kernels import Rows
from hopfed.spectral.rows import (
    array_beside,
    seen_times,
    seen_transposed_times,
    times,
    transposed_times,
)
from hopfed.tables.formats import source_of
from hopfed.tables.words import MISSING, Cells, number, token

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes

LEVELS = 50  # of words that are told apart
STEPS = 100  # of Newton's method, and of conjugate gradients
FAR = 30.0  # log odds from which a covariate separates classes
STILL = 1e-8
AHEAD = 1e-3  # nats that are left where Newton's method is not at its end
TINY = 1e-300
ALIKE = 1e-9  # smallest eigenvalue of S, for each row, of classes that rows tell apart
NAMES = {"mean": "mean", "rate": "rate", "log odds": "log_odds"}


@dataclass(frozen=True, eq=False)
class Relation:
    """What `hopfed.Archetypes.relate` found.

    Attributes
    ----------
    kind : "mean" of a number in each class, "rate" of each word in each class, or "log odds" of a
        class against the first one, for each covariate.
    names : C words of the outcome, its name, or the covariates, "constant" first.
    estimates, errors : (K, C) and their standard errors, in units of the outcome, as rates, or in
        log odds for one unit more of a covariate.
    covariance : (K C, K C) of the estimates, those of one class together.
    tests : for each name of what is tested: Wald's statistic, its degrees of freedom, and p.
    rows : number of rows that were used.
    left_out : number of rows in which the outcome or a covariate is missing.

    >>> import numpy as np
    >>> from hopfed import recover
    >>> from hopfed.hopfield.channel import small_sample
    >>> x = small_sample()[1]
    >>> found = recover(x)
    >>> related = found.relate(x, 20 + 5 * found.assign(x, alpha=0).archetype)
    >>> related.estimates[:, 0].round(1).tolist(), related.tests["outcome"][1]
    ([20.0, 25.0, 30.0], 2)
    """

    kind: str
    names: tuple[str, ...]
    estimates: np.ndarray
    errors: np.ndarray
    covariance: np.ndarray = field(repr=False)
    tests: dict[str, tuple[float, int, float]]
    rows: int
    left_out: int

    @property
    def odds(self) -> np.ndarray:
        """(K, C) odds of a rate, or odds ratio of a unit of a covariate; NaN of means."""
        x = self.estimates
        if self.kind == "log odds":
            return np.asarray(np.exp(x))
        inside = (x > 0) & (x < 1) & (self.kind == "rate")
        return np.where(inside, x / np.where(inside, 1 - x, 1.0), np.nan)

    @property
    def odds_errors(self) -> np.ndarray:
        """(K, C) standard errors of `odds`, to first order."""
        slope = self.odds if self.kind == "log odds" else (1 + self.odds) ** 2
        return np.asarray(slope * self.errors)

    def intervals(self, level: float = 0.95) -> np.ndarray:
        """(K, C, 2) intervals that hold the true values with probability `level`."""
        half = ndtri((1 + level) / 2) * self.errors
        return np.stack([self.estimates - half, self.estimates + half], axis=-1)

    def table(self) -> dict[str, np.ndarray]:
        """Columns of a table with a row for each class and name: arrays of K C entries."""
        K, C = self.estimates.shape
        span = self.intervals()
        made = {
            "archetype": np.repeat(np.arange(1, K + 1), C),
            "of": np.tile(np.array(self.names, object), K),
            NAMES[self.kind]: self.estimates.ravel(),
            "error": self.errors.ravel(),
            "low": span[..., 0].ravel(),
            "high": span[..., 1].ravel(),
        }
        if self.kind != "mean":
            made |= {"odds": self.odds.ravel(), "odds_error": self.odds_errors.ravel()}
        return made

    def said(self) -> list[str]:
        """Say what the tests say, a line each, and how many rows were left out."""
        lines = [
            f"{shown(name)}: Wald's chi2({degrees}) = {value:.2f}, p = {p:.2g}"
            for name, (value, degrees, p) in self.tests.items()
        ]
        if self.left_out:
            lines.append(f"{self.left_out:,} rows without an entry are left out")
        if self.kind == "log odds":
            lines.append("log odds are against archetype 1, for one unit more of a covariate")
        return lines

    def to_frame(self) -> Any:
        """The table as a pandas frame; it wants pandas."""
        import pandas

        return pandas.DataFrame(self.table())

    def to_csv(self, path: str | Path) -> None:
        """Write the table to a .csv file at `path`, which replaces one of that name."""
        from hopfed.tables import writers

        writers.write(path, list(self.table().items()), endings=(".csv",))

    def plot(self, path: Any = None) -> Any:
        """Draw estimates and their 95% intervals by class; write it to `path` where given."""
        from hopfed.figures import save
        from hopfed.figures.relate import draw

        figure = draw(self)
        if path is not None:
            save(figure, path)
        return figure

    def __str__(self) -> str:
        columns = self.table()
        rows = zip(*columns.values(), strict=True)
        lines = [", ".join(f"{c:.4g}" if isinstance(c, float) else str(c) for c in r) for r in rows]
        return "\n".join([", ".join(columns), *lines, *self.said()])


def relate(
    found: Archetypes, X: Any, outcome: Any = None, *, covariates: Any = None, weights: Any = None
) -> Relation:
    """See `Archetypes.relate`."""
    require((outcome is None) != (covariates is None), "outcome", "given, or covariates", "both")
    rows = rows_of(found, X)
    if outcome is not None:
        return related(found, rows, as_columns({"outcome": outcome}, len(rows))[0], (), weights)
    if not isinstance(covariates, dict):
        array = np.asarray(covariates)
        array = array[:, None] if array.ndim == 1 else array
        covariates = {f"covariate {j + 1}": column for j, column in enumerate(array.T)}
    return related(found, rows, None, as_columns(covariates, len(rows)), weights)


def related(
    found: Archetypes,
    rows: Rows,
    outcome: Column | None,
    covariates: Sequence[Column],
    weights: Any = None,
) -> Relation:
    """Relate archetypes to an outcome, or to covariates."""
    if len(found) < 2:
        raise DataError(f"{len(found)} archetype(s): at least two are needed to tell them apart")
    rows = without_copies(found, rows)
    often = np.ones(len(rows)) if weights is None else weights_of(weights, len(rows))
    step = FirstStep(found, rows, probabilities(found, rows), often)
    return _of_covariates(step, covariates) if outcome is None else _of_outcome(step, outcome)


@dataclass(frozen=True)
class Column:
    """A column beside the rows: numbers (M, 1), or (M, C) of 0 and 1 for words; NaN is missing."""

    name: str
    values: np.ndarray
    words: tuple[str, ...] = ()

    def at(self, rows: np.ndarray) -> Column:
        """Some rows of it, in which some word or two numbers must occur."""
        values = self.values[rows]
        if len(values) < 2 or (values == values[:1]).all():
            raise DataError(f"{shown(self.name)} holds a single value: nothing can depend on it")
        return Column(self.name, values, self.words)


def as_columns(given: Any, rows: int) -> list[Column]:
    """Columns of numbers or words, of a dict of lists."""
    found = []
    for name, values in given.items():
        if isinstance(values, np.ma.MaskedArray):
            values = [
                None if gone else v
                for v, gone in zip(values.data, np.ma.getmaskarray(values), strict=True)
            ]
        if np.ndim(values) != 1 or len(values) != rows:
            got = " x ".join(map(str, np.shape(values)))
            raise ArgumentError(name, f"{rows:,} values, one for each row", got)
        cells = source_of({name: values}, name)
        found.append(of_cells(name, [Cells(block[0]) for block in cells.blocks()]))
    return found


def of_cells(name: str, blocks: Sequence[Cells]) -> Column:
    """A column of blocks of cells: numbers if all are, else words."""
    words = sorted({word for block in blocks for word in block.words})
    kept = [word for word in words if token(word) not in MISSING]
    numbers = {word: number(word) for word in kept}
    if all(value is not None and np.isfinite(value) for value in numbers.values()):
        parts = [
            np.array([*(numbers.get(w, np.nan) for w in block.words), np.nan], float)[block.places]
            for block in blocks
        ]
        return Column(name, np.concatenate(parts)[:, None])
    levels = sorted({word.strip() for word in kept})
    if len(levels) > LEVELS:
        few = ", ".join(shown(word, 20) for word in levels[:3])
        raise DataError(f"{shown(name)} holds {len(levels):,} words ({few}, ...): at most {LEVELS}")
    place = {word: k for k, word in enumerate(levels)}
    codes = np.concatenate(
        [
            np.array([*(place.get(w.strip(), -1) for w in block.words), -1])[block.places]
            for block in blocks
        ]
    )
    values = np.where(codes[:, None] < 0, np.nan, codes[:, None] == np.arange(len(levels)))
    return Column(name, values, tuple(levels))


@dataclass(frozen=True)
class FirstStep:
    """The classes as estimates from the rows: what an error of theirs does to a third step."""

    found: Archetypes  # the classes
    rows: Rows  # (M, N) that they come from
    shares: np.ndarray  # (M, K) probabilities of the classes of each row
    often: np.ndarray  # (M,) weights of the rows

    def meat(self, each: np.ndarray) -> np.ndarray:
        """Covariance of a sum of parts (M, P); rows whose weights are whole occur so often."""
        whole = bool((self.often == np.rint(self.often)).all())
        weighed = each * (self.often if whole else self.often**2)[:, None]
        return weighed.T @ each

    def carried(self, slopes: np.ndarray) -> np.ndarray:
        """(M, P) what each row adds to P equations by way of the classes."""
        R = self.shares
        wanted = [self._back(R * (L - (R * L).sum(axis=1, keepdims=True))) for L in slopes]
        solved = self._solved(np.array(wanted))
        return np.array([(R * self._along(v)).sum(axis=1) for v in solved]).T

    def _along(self, v: np.ndarray) -> np.ndarray:
        """(M, K) slopes of the log-likelihood of each row in each class along v (K, N + 1)."""
        T, share = expected_means(self.found), expected_shares(self.found)
        home = array_beside(self.rows)
        inner = times(self.rows, like(v[:, :-1].T / 2, home))
        inner = inner - seen_times(self.rows, like((v[:, :-1] * T).T / 2, home))
        return np.asarray(to_host(inner) + v[:, -1] - share @ v[:, -1])

    def _back(self, a: np.ndarray) -> np.ndarray:
        """(K, N + 1) sums of slopes of rows with parts a (M, K): what `_along` is transposed."""
        T, share = expected_means(self.found), expected_shares(self.found)
        a = like(a * self.often[:, None], array_beside(self.rows))
        columns = to_host(transposed_times(self.rows, a)).T / 2
        columns -= T * to_host(seen_transposed_times(self.rows, a)).T / 2
        each = to_host(a).sum(axis=0)
        return np.hstack([columns, (each - share * each.sum())[:, None]])

    def _solved(self, wanted: np.ndarray) -> np.ndarray:
        """(P, K, N + 1) solutions of H v = wanted."""
        R, T, share = self.shares, expected_means(self.found), expected_shares(self.found)
        variables = variables_of(self.found)
        rates = variables.normalised((1 + T) / 2)
        weighed = like(R * self.often[:, None], array_beside(self.rows))
        seen = to_host(seen_transposed_times(self.rows, weighed)).T + 1.0  # a row of the prior
        total = self.often.sum()

        def complete(v: np.ndarray) -> np.ndarray:
            centre = np.where(variables.inside, variables.sums(rates * v[:, :-1]), 0.0)
            spread = np.where(variables.inside, rates, rates * (1 - rates))
            columns = seen * (spread * v[:, :-1] - rates * centre)
            last = total * share * (v[:, -1] - share @ v[:, -1]) + share * v[:, -1]
            return np.hstack([columns, last[:, None]])

        def times_information(v: np.ndarray) -> np.ndarray:
            d = self._along(v)
            return np.asarray(
                complete(v) - self._back(R * (d - (R * d).sum(axis=1, keepdims=True)))
            )

        scale = 1 / np.hstack([seen * rates * (1 - rates), (total * share)[:, None]])
        return np.array([_conjugate(times_information, b, scale) for b in wanted])


def _conjugate(
    product: Callable[[np.ndarray], np.ndarray], b: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Solve product(v) = b by conjugate gradients, with a diagonal that nearly inverts it."""
    v, r = np.zeros_like(b), b.copy()
    z = scale * r
    p, before = z, float((r * z).sum())
    first = before
    for _ in range(STEPS):
        if before <= STILL * first:
            break
        q = product(p)
        curved = float((p * q).sum())
        if curved <= 0:  # along p rows tell nothing
            break
        v, r = v + before / curved * p, r - before / curved * q
        z = scale * r
        now = float((r * z).sum())
        p, before = z + now / before * p, now
    return v


def _used(step: FirstStep, columns: Sequence[Column]) -> np.ndarray:
    """(M,) booleans: rows that have an entry in all columns."""
    used = np.array([np.isfinite(c.values[:, 0]) for c in columns]).all(axis=0)
    return used & (step.often > 0)


def _apart(S: np.ndarray) -> None:
    """Refuse classes that no row tells apart."""
    if np.linalg.eigvalsh(S / np.trace(S))[0] < ALIKE:
        raise DataError("rows with an entry do not tell these archetypes apart: ask for fewer")


def _of_outcome(step: FirstStep, given: Column) -> Relation:
    """Means or rates of an outcome in each class."""
    used = _used(step, [given])
    column, z = given.at(used), given.values
    names, words = (column.name,), column.words
    if words:
        some = np.arange(len(words)) if len(words) > 2 else np.array([1])
        z, names = z[:, some], tuple(words[k] for k in some)
    is_rate = bool(words) or bool(np.isin(column.values, (0, 1)).all())
    z, v, R = np.where(used[:, None], z, 0.0), step.often * used, step.shares
    S = (R * v[:, None]).T @ R
    _apart(S)
    m = np.linalg.solve(S, (R * v[:, None]).T @ z)
    K, C = m.shape
    off = (z - R @ m) * used[:, None]
    slopes = np.zeros((K, C, len(R), K))
    for k in range(K):
        slopes[k, :, :, k] += off.T
        slopes[k] -= (R[:, k] * used)[None, :, None] * m.T[:, None, :]
    each = (R[:, :, None] * off[:, None, :]).reshape(len(R), -1)
    each = each + step.carried(slopes.reshape(K * C, len(R), K))
    bread = np.kron(np.linalg.inv(S), np.eye(C))
    covariance = bread @ step.meat(each) @ bread.T
    free = np.arange(C - 1 if len(words) > 2 else C)  # rates of all words add up to one
    apart = [k * C + c for k in range(1, K) for c in free]
    contrast = np.zeros((len(apart), K * C))
    contrast[np.arange(len(apart)), apart] = 1
    contrast[np.arange(len(apart)), [i % C for i in apart]] = -1
    return Relation(
        kind="rate" if is_rate else "mean",
        names=names,
        estimates=m,
        errors=np.sqrt(np.diag(covariance).clip(0)).reshape(K, C),
        covariance=covariance,
        tests={column.name: wald(contrast @ m.ravel(), contrast @ covariance @ contrast.T)},
        rows=int(used.sum()),
        left_out=int(len(used) - used.sum()),
    )


def wald(values: np.ndarray, covariance: np.ndarray) -> tuple[float, int, float]:
    """Wald's statistic of values that should be 0, its degrees of freedom, and p."""
    statistic = float(values @ np.linalg.pinv(covariance, hermitian=True) @ values)
    degrees = int(np.linalg.matrix_rank(covariance, hermitian=True))
    return statistic, degrees, float(chdtrc(max(degrees, 1), statistic))


def _of_covariates(step: FirstStep, columns: Sequence[Column]) -> Relation:
    """Log odds of each class by covariates."""
    used = _used(step, columns)
    names, parts, tested = ["constant"], [np.ones((len(used), 1))], {}
    for column in columns:
        column.at(used)
        more = column.values[:, 1:] if column.words else column.values
        called = [f"{column.name}={word}" for word in column.words[1:]] or [column.name]
        tested[column.name] = range(len(names), len(names) + len(called))
        names, parts = [*names, *called], [*parts, more]
    q = np.where(used[:, None], np.hstack(parts), 0.0)
    centre, scale = q[used].mean(axis=0), q[used].std(axis=0)
    centre[0], scale[0] = 0.0, 1.0
    if np.linalg.matrix_rank((q[used] - centre) / np.maximum(scale, 1e-300)) < len(names):
        raise DataError(f"covariates: some are sums of others: {', '.join(map(shown, names[1:]))}")
    q = np.where(used[:, None], (q - centre) / scale, 0.0)
    fit = _Logit(step, used, q)
    K, Q = step.shares.shape[1], len(names)
    b, covariance = fit.maximum()
    back = np.diag(1 / scale)  # from units of spread to those that were given
    back[0, 1:] = -centre[1:] / scale[1:]
    turn = np.kron(np.eye(K - 1), back)
    b, covariance = (turn @ b.ravel()).reshape(K - 1, Q), turn @ covariance @ turn.T
    whole = np.zeros((K * Q, K * Q))
    whole[Q:, Q:] = covariance
    tests = {}
    for name, places in tested.items():
        which = np.array([k * Q + j for k in range(K - 1) for j in places])
        tests[name] = wald(b.ravel()[which], covariance[np.ix_(which, which)])
    return Relation(
        kind="log odds",
        names=tuple(names),
        estimates=np.vstack([np.zeros(Q), b]),
        errors=np.sqrt(np.diag(whole).clip(0)).reshape(K, Q),
        covariance=whole,
        tests=tests,
        rows=int(used.sum()),
        left_out=int(len(used) - used.sum()),
    )


@dataclass(frozen=True)
class _Logit:
    """Classes by covariates q (M, Q), where rows are taken for classes by mistake at times."""

    step: FirstStep
    used: np.ndarray
    q: np.ndarray

    @cached_property
    def taken(self) -> np.ndarray:
        """(M, K) of 0 and 1: the likeliest class of each row, none of those that are not used."""
        one = self.step.shares.argmax(axis=1)[:, None] == np.arange(self.step.shares.shape[1])
        return np.asarray(one * self.weights[:, None] > 0, np.float64)

    @cached_property
    def weights(self) -> np.ndarray:
        """(M,) of the rows."""
        return np.asarray(self.step.often * self.used)

    @cached_property
    def mistaken(self) -> np.ndarray:
        """(K, K) probability D_ts that a row of class t is taken for class s."""
        R, v = self.step.shares, self.weights
        return np.asarray((R * v[:, None]).T @ self.taken / (v @ R)[:, None])

    def maximum(self) -> tuple[np.ndarray, np.ndarray]:
        """Most likely log odds (K - 1, Q) and their covariance, by Newton's method."""
        n = self.weights @ self.step.shares
        b = np.zeros((len(n) - 1, self.q.shape[1]))
        b[:, 0] = np.log(n[1:] / n[0])
        height, ahead = self._height(b), np.inf
        for _ in range(STEPS):
            slope, curve = self._sums(b)
            step = np.linalg.solve(curve + 1e-9 * np.trace(curve) * np.eye(len(curve)), slope)
            if slope @ step < 0:  # not yet where the likelihood is a hill
                step = slope / max(float(np.trace(curve)), TINY)
            ahead, size = float(slope @ step), 1.0
            while (now := self._height(b + size * step.reshape(b.shape))) < height and size > STILL:
                size /= 2
            b, height = b + size * step.reshape(b.shape), now
            if ahead < STILL or size <= STILL:
                break
        if ahead > AHEAD or np.abs(b[:, 1:]).max(initial=0) > FAR:
            rule = "a covariate tells archetypes apart for sure, so that log odds have no end"
            raise DataError(f"covariates: {rule}: leave it out")
        bread = np.linalg.inv(self._sums(b)[1])
        return b, bread @ self.step.meat(self._each(b)) @ bread

    def _logs(self, b: np.ndarray) -> np.ndarray:
        """(M, K) log of the probabilities of classes by covariates."""
        logs = np.hstack([np.zeros((len(self.q), 1)), self.q @ b.T])
        return np.asarray(log_softmax(logs, axis=1))

    def _height(self, b: np.ndarray) -> float:
        """Log-likelihood, in nats."""
        each = (np.exp(self._logs(b)) @ self.mistaken * self.taken).sum(axis=1)
        return float(self.weights @ np.log(np.where(self.used, np.maximum(each, TINY), 1.0)))

    def _shares(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(M, K) probabilities of classes by covariates, and once rows are taken for a class."""
        pi = np.exp(self._logs(b))
        joint = pi * (self.taken @ self.mistaken.T)
        return pi, joint / np.maximum(joint.sum(axis=1, keepdims=True), TINY)

    def _sums(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slope (P,) and negative curvature (P, P) of the log-likelihood."""
        (pi, rho), v, q = self._shares(b), self.weights, self.q
        apart = (rho - pi)[:, 1:]
        pairs = rho[:, 1:, None] * rho[:, None, 1:] - pi[:, 1:, None] * pi[:, None, 1:]
        pairs -= apart[:, :, None] * np.eye(len(b))
        curve = np.einsum("itu,ip,iq->tpuq", pairs * v[:, None, None], q, q, optimize=True)
        return ((apart * v[:, None]).T @ q).ravel(), curve.reshape(b.size, b.size)

    def _each(self, b: np.ndarray) -> np.ndarray:
        """(M, P) what each row adds to the slope, itself and by way of the classes."""
        (pi, rho), W, D, v = self._shares(b), self.taken, self.mistaken, self.weights
        own = (rho - pi)[:, 1:, None] * self.q[:, None, :] * self.used[:, None, None]
        n, K = v @ self.step.shares, len(D)
        slopes = np.empty((*b.shape, len(W), K))
        for t in range(1, K):
            by = rho[:, [t]] * ((np.arange(K) == t) - rho)
            for j in range(b.shape[1]):
                G = (by * (v * self.q[:, j])[:, None]).T @ W / np.maximum(D, TINY) / n[:, None]
                slopes[t - 1, j] = (W @ G.T - (G * D).sum(axis=1)) * self.used[:, None]
        return np.asarray(
            own.reshape(len(W), -1) + self.step.carried(slopes.reshape(b.size, len(W), K))
        )
