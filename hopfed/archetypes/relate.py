"""Relation of archetypes to other variables: an outcome, or covariates.

Means over rows of the same likeliest class mix classes. Two corrections undo that, and leave the
classes, with probabilities R for a row, as they are.

- *Outcomes* (Bolck, Croon and Hagenaars, 2004; Vermunt, 2010): means are ``S^-1 sum_i R_i z_i``, a
  regression of the outcome on R, with S the sum of ``R_i R_i^T``.
- *Covariates* (three-step maximum likelihood; Vermunt, 2010; Bakk, Tekle and Vermunt, 2013): class
  t of a row has the probability ``pi_t(q) = softmax(b_t q)``. A row of class t has s as its
  likeliest class s_i with the probability ``D_ts = sum_i R_it [s_i = s] / n_t``; b maximises
  ``sum_i log sum_t pi_t(q_i) D_t,s_i``.

Standard errors count that the classes were estimated from the rows as well (Bakk, Oberski and
Vermunt, 2014). With g_i and s_i the parts of row i in the equations of the third step and of the
classes, H the information about these and C the derivative of ``sum_i g_i`` by them, row i
contributes ``g_i + C H^-1 s_i`` to the sandwich. A product with H is a pass over the rows, and
conjugate gradients need a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import chdtrc, log_softmax, ndtri

from hopfed import kernels
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
from hopfed.archetypes.display import Tabular
from hopfed.archetypes.row_weights import weights_of
from hopfed.errors import ArgumentError, DataError, safe_line
from hopfed.kernels import Rows
from hopfed.spectral.rows import (
    array_beside,
    seen_times,
    seen_transposed_times,
    times,
    transposed_times,
)
from hopfed.tables.coding import MISSING, Cells, number, token
from hopfed.tables.formats import source_of

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes

LEVELS = 50  # different words of a column, at most
STEPS = 100  # steps of Newton's method, and of conjugate gradients
FAR = 30.0  # log odds from which a covariate separates classes
STILL = 1e-8
AHEAD = 1e-3  # nats still to gain, above which Newton's method has not converged
TINY = 1e-300
MOST = 20_000_000  # entries, times classes squared, at most, that errors of shares come from
SAME = 1e-14  # variance of an outcome, in squares of its mean, of a single value
ALIKE = 1e-9  # smallest eigenvalue of S, for each row, of classes that rows tell apart
SINGLE = "{} holds a single value: nothing can depend on it"
NAMES = {"mean": "mean", "rate": "rate", "log odds": "log_odds"}


@dataclass(frozen=True, eq=False)
class Relation(Tabular):
    """Relation of archetypes to an outcome or covariates: result of `hopfed.Archetypes.relate`.

    Attributes
    ----------
    kind : "mean" of a number in each class, "rate" of each word in each class, or "log odds" of a
        class against the first one, for each covariate.
    names : C words of the outcome, its name, or the covariates, "constant" first.
    estimates, errors : (K, C) numbers and their standard errors, in units of the outcome, as rates,
        or in log odds for one unit more of a covariate.
    covariance : (K C, K C) of the estimates, those of one class together.
    tests : for the name of each tested column: Wald's statistic, its degrees of freedom, and p.
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

    picture = "draw_relation"

    @property
    def columns(self) -> list[tuple[str, np.ndarray]]:
        """Names and entries of the columns of the table: a row for each class and name."""
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
        return list(made.items())

    def sentences(self) -> list[str]:
        """Lines of text: the result of each test, and the number of rows left out."""
        lines = [
            f"{safe_line(name)}: Wald's chi2({degrees}) = {value:.2f}, p = {p:.2g}"
            for name, (value, degrees, p) in self.tests.items()
        ]
        if self.left_out:
            lines.append(f"{self.left_out:,} rows without an entry are left out")
        if self.kind == "log odds":
            lines.append("log odds are against archetype 1, for one unit more of a covariate")
        return lines


def relate(
    found: Archetypes, X: Any, outcome: Any = None, *, covariates: Any = None, weights: Any = None
) -> Relation:
    """Relate the archetypes to an outcome or to covariates of the rows, with standard errors.

    A correction counts that rows are not sure of their archetype (`hopfed.archetypes.relate`).

    Parameters
    ----------
    X : the M rows that the archetypes come from; see `assign`. Or a list of the rows of several
        owners; outcome, covariates and weights are lists as long then.
    outcome : (M,) numbers, whose mean in each archetype is the result, or words (at most 50),
        whose rates are; None, NaN and "" are missing, and rows with them are left out.
    covariates : numbers or words in place of an outcome, as a dict of (M,) lists or an array
        (M, Q); the result is log odds against the first archetype, of words against the first.
    weights : (M,) of the rows: how often each occurs, or weights of a survey.

    Raises
    ------
    DataError : fewer than two archetypes, or archetypes that no row tells apart; a column of a
        single value, or of too many words; a covariate that tells archetypes apart for sure.
    ArgumentError : a column of another length than the rows, or weights below 0.

    >>> from hopfed import recover
    >>> from hopfed.hopfield.channel import small_sample
    >>> x = small_sample()[1]
    >>> found = recover(x)
    >>> print(found.relate(x, found.assign(x).archetype > 0))  # doctest: +ELLIPSIS
    archetype, of, rate, error, low, high, odds, odds_error
    1, true, ...
    """
    require((outcome is None) != (covariates is None), "outcome", "given, or covariates", "both")
    first = X[0] if isinstance(X, list | tuple) and len(X) else None
    several = first is not None and not isinstance(first, list | tuple) and np.ndim(first) != 1
    owners = [rows_of(found, x) for x in (X if several else [X])]

    def of_each(name: str, given: Any) -> list[Any]:
        given = list(given) if several and isinstance(given, list | tuple) else [given]
        got = len(given)
        require(got == len(owners), name, f"a list of those of {len(owners)} owners", got)
        return given

    def named(given: Any) -> dict[str, Any]:
        if outcome is not None or isinstance(given, dict):
            return given if outcome is None else {"outcome": given}
        columns = np.atleast_2d(np.asarray(given).T)
        return {f"covariate {j + 1}": column for j, column in enumerate(columns)}

    kind = "outcome" if covariates is None else "covariates"
    values = of_each(kind, outcome if covariates is None else covariates)
    each = [_columns(named(x), len(rows)) for x, rows in zip(values, owners, strict=True)]
    names = [[c.name for c in own] for own in each]
    same = all(own == names[0] for own in names)
    require(same, kind, f"{', '.join(names[0])} at every owner", "others")
    often = None
    if weights is not None:
        pairs = zip(of_each("weights", weights), owners, strict=True)
        often = np.concatenate([weights_of(own, len(rows)) for own, rows in pairs])
    columns = list(map(pooled, zip(*each, strict=True)))
    return relate_columns(found, kernels.concatenate(owners), columns, outcome is not None, often)


def relate_columns(
    found: Archetypes, rows: Rows, columns: Sequence[Column], is_outcome: bool, weights: Any = None
) -> Relation:
    """Relate archetypes to an outcome, the one column beside rows, or to columns of covariates."""
    if len(found) < 2:
        raise DataError(f"{len(found)} archetype(s): at least two are needed to tell them apart")
    often = np.ones(len(rows)) if weights is None else weights_of(weights, len(rows))
    member = Member.of(found, without_copies(found, rows), often, columns)
    for column in columns:
        held = column.values[member.used]
        if not len(held) or np.ptp(held, axis=0).max() == 0:
            raise DataError(SINGLE.format(safe_line(column.name)))
    step = FirstStep(found, [member])
    return of_outcome(step, columns[0]) if is_outcome else _of_covariates(step, member)


@dataclass(frozen=True)
class Column:
    """An outcome or a covariate: numbers (M, 1), or (M, C) of 0 and 1 for words; NaN is missing."""

    name: str
    values: np.ndarray
    words: tuple[str, ...] = ()


def pooled(each: Sequence[Column]) -> Column:
    """Join an outcome or covariate of owners to one column to relate, with all their words."""
    words, found = tuple(sorted({word for c in each for word in c.words})), []
    for c in each:
        if words and not c.words and np.isfinite(c.values).any():
            raise DataError(f"{safe_line(c.name)} holds numbers at one owner, and words at another")
        values = np.where(np.isfinite(c.values[:, :1]), np.zeros(len(words) or 1), np.nan)
        if c.words or not words:
            values[:, [words.index(w) for w in c.words] or [0]] = c.values
        found.append(values)
    return Column(each[0].name, np.vstack(found), words)


def _columns(given: Any, rows: int) -> list[Column]:
    """Outcome or covariates of a dict of lists, each with a number or word for each row."""
    found = []
    for name, values in given.items():
        if isinstance(values, np.ma.MaskedArray):
            values = values.tolist()  # None where it is masked
        if np.ndim(values) != 1 or len(values) != rows:
            got = " x ".join(map(str, np.shape(values)))
            raise ArgumentError(name, f"{rows:,} values, one for each row", got)
        cells = source_of({name: values}, name)
        found.append(of_cells(name, [Cells(block[0]) for block in cells.blocks()]))
    return found


def of_cells(name: str, blocks: Sequence[Cells]) -> Column:
    """Outcome or covariate to relate, from blocks of cells: numbers if all are, else words."""
    words = sorted({word for block in blocks for word in block.words})
    kept = [word for word in words if token(word) not in MISSING]
    numbers = {word: number(word) for word in kept}

    def of_words(code: Callable[[str], Any]) -> np.ndarray:
        each = [np.array([*map(code, b.words), np.nan], float)[b.places] for b in blocks]
        return np.concatenate(each)[:, None]

    if all(value is not None and np.isfinite(value) for value in numbers.values()):
        return Column(name, of_words(lambda word: numbers.get(word, np.nan)))
    levels = sorted({word.strip() for word in kept})
    if len(levels) > LEVELS:
        few = ", ".join(safe_line(word, 20) for word in levels[:3])
        raise DataError(
            f"{safe_line(name)} holds {len(levels):,} words ({few}, ...): at most {LEVELS}"
        )
    place = {word: k for k, word in enumerate(levels)}
    codes = of_words(lambda word: place.get(word.strip(), np.nan))
    values = np.where(np.isnan(codes), np.nan, codes == np.arange(len(levels)))
    return Column(name, values, tuple(levels))


@dataclass(frozen=True)
class Member:
    """An owner in a relation: rows (M, N), their classes (M, K), weights, used rows, columns."""

    found: Archetypes
    rows: Rows
    shares: np.ndarray
    often: np.ndarray
    used: np.ndarray
    columns: Sequence[Column]

    @classmethod
    def of(
        cls, found: Archetypes, rows: Rows, often: np.ndarray, columns: Sequence[Column]
    ) -> Member:
        """Take an owner's rows; rows with an entry in each outcome or covariate are used."""
        there = np.array([np.isfinite(c.values[:, 0]) for c in columns]).all(axis=0)
        used = there & (often > 0)
        return cls(found, rows, probabilities(found, rows), often, used, columns)

    @cached_property
    def outcome(self) -> np.ndarray:
        """(M, C) numbers of the first column, or whether it holds each of its words; else 0."""
        first = self.columns[0]
        return np.where(self.used[:, None], first.values[:, rated_words(first.words)], 0.0)

    @cached_property
    def weights(self) -> np.ndarray:
        """(M,) of the rows that are used; 0 of others."""
        return np.asarray(self.often * self.used)

    @cached_property
    def taken(self) -> np.ndarray:
        """(M, K) of 0 and 1: the likeliest class of each used row, no class of others."""
        one = self.shares.argmax(axis=1)[:, None] == np.arange(self.shares.shape[1])
        return np.asarray(one * self.weights[:, None] > 0, np.float64)

    def along(self, v: np.ndarray) -> np.ndarray:
        """(M, K) slopes of the log-likelihood of each row in each class along v (K, N + 1)."""
        T, share = expected_means(self.found), expected_shares(self.found)
        home = array_beside(self.rows)
        inner = times(self.rows, like(v[:, :-1].T / 2, home))
        inner = inner - seen_times(self.rows, like((v[:, :-1] * T).T / 2, home))
        return np.asarray(to_host(inner) + v[:, -1] - share @ v[:, -1])

    def back(self, a: np.ndarray) -> np.ndarray:
        """(K, N + 1) sums of slopes of rows with parts a (M, K): the transpose of `along`."""
        T, share = expected_means(self.found), expected_shares(self.found)
        R = self.shares  # from derivatives by probabilities to those by log odds
        a = R * (a - (R * a).sum(axis=1, keepdims=True))
        a = like(a * self.often[:, None], array_beside(self.rows))
        columns = to_host(transposed_times(self.rows, a)).T / 2
        columns -= T * to_host(seen_transposed_times(self.rows, a)).T / 2
        each = to_host(a).sum(axis=0)
        return np.hstack([columns, (each - share * each.sum())[:, None]])

    def carried(self, solved: np.ndarray) -> np.ndarray:
        """(M, P) contributions of each row to P equations through the fitted classes."""
        return np.array([(self.shares * self.along(v)).sum(axis=1) for v in solved]).T

    def meat(self, each: np.ndarray, survey: bool) -> np.ndarray:
        """(P, P) covariance of a sum of parts (M, P) of rows."""
        return np.asarray((each * (self.often**2 if survey else self.often)[:, None]).T @ each)


Asked = Mapping[str, np.ndarray]


def rated_words(words: Sequence[str]) -> list[int]:
    """Numbers of the words of a related outcome that get a rate: of two words only the second."""
    return [1] if len(words) == 2 else list(range(max(len(words), 1)))


def first_sums(m: Member, _: Asked) -> dict[str, np.ndarray]:
    """Question for `relate`: entries by class and column; rows: used, left out, weight, survey."""
    survey, used = float((m.often != np.rint(m.often)).any()), float(m.used.sum())
    rows = [used, len(m.used) - used, m.often.sum(), survey]
    weighed = like(m.shares * m.often[:, None], array_beside(m.rows))
    seen = np.asarray(to_host(seen_transposed_times(m.rows, weighed)).T)
    return {"seen": seen, "rows": np.array(rows)}


def outcome_sums(m: Member, _: Asked) -> dict[str, np.ndarray]:
    """Question for `relate`: an outcome's sums and products by class, and rows not of 0 and 1."""
    weighed = (m.shares * m.weights[:, None]).T
    other = ~np.isin(m.outcome, (0, 1)).all(axis=1)
    spread = np.array([m.weights @ m.outcome**k for k in (1, 2)])
    found = {"products": weighed @ m.shares, "sums": weighed @ m.outcome, "spread": spread}
    return found | {"other": np.array(float(other.sum()))}


def outcome_slopes(m: Member, asked: Asked) -> dict[str, np.ndarray]:
    """Question for `relate`: slopes (K C, K, N + 1) of outcome means' equations by classes."""
    means, R = asked["outcome_means"], m.shares
    (K, C), off = means.shape, (m.outcome - R @ means) * m.used[:, None]
    slope = np.zeros((K, C, len(R), K))
    for k in range(K):
        slope[k, :, :, k] += off.T
        slope[k] -= (R[:, k] * m.used)[None, :, None] * means.T[:, None, :]
    return {"wanted": np.array([m.back(L) for L in slope.reshape(K * C, len(R), K)])}


def lost_information(m: Member, asked: Asked) -> dict[str, np.ndarray]:
    """Question for `relate`: information lost along v (P, K, N + 1) by rows unsure of classes."""
    return {"product": np.array([m.back(m.along(v)) for v in asked["along"]])}


def outcome_meat(m: Member, asked: Asked) -> dict[str, np.ndarray]:
    """Question for `relate`: covariance (K C, K C) of outcome equations, with errors of classes."""
    off = (m.outcome - m.shares @ asked["outcome_means"]) * m.used[:, None]
    own = (m.shares[:, :, None] * off[:, None, :]).reshape(len(off), -1)
    return {"meat": m.meat(own + m.carried(asked["solved"]), bool(asked["survey"]))}


@dataclass(frozen=True)
class FirstStep:
    """Classes estimated from owners' rows, and how their errors carry over to a relation."""

    found: Archetypes
    members: Sequence[Member]

    def ask(self, question: Callable[[Member, Asked], Asked], **asked: np.ndarray) -> Asked:
        """Sums over owners of their answers to a question."""
        answers = [question(m, asked) for m in self.members]
        return {name: np.asarray(sum(a[name] for a in answers)) for name in answers[0]}

    @cached_property
    def sums(self) -> Asked:
        """Answers to the first question, added up."""
        return self.ask(first_sums)

    @property
    def used(self) -> tuple[int, int]:
        """Numbers of rows that are used, and that are left out."""
        return int(self.sums["rows"][0]), int(self.sums["rows"][1])

    @property
    def survey(self) -> np.ndarray:
        """Whether weights are of a survey; whole weights say how often rows occur."""
        return np.array(float(self.sums["rows"][3] > 0))

    def meat(self, each: Sequence[np.ndarray]) -> np.ndarray:
        """Covariance of a sum of parts (M, P) of the rows of each owner."""
        pairs = zip(self.members, each, strict=True)
        return np.asarray(sum(m.meat(x, bool(self.survey)) for m, x in pairs))

    def solved(self, wanted: np.ndarray) -> np.ndarray:
        """(P, K, N + 1) solutions of H v = wanted."""
        T, share = expected_means(self.found), expected_shares(self.found)
        variables = variables_of(self.found)
        rates = variables.normalised((1 + T) / 2)
        seen, total = self.sums["seen"] + 1.0, float(self.sums["rows"][2])  # a row of the prior

        def product(v: np.ndarray) -> np.ndarray:
            centre = np.where(variables.inside, variables.sums(rates * v[..., :-1]), 0.0)
            spread = np.where(variables.inside, rates, rates * (1 - rates))
            columns = seen * (spread * v[..., :-1] - rates * centre)
            last = v[..., -1]
            last = total * share * (last - (last @ share)[:, None]) + share * last
            complete = np.concatenate([columns, last[..., None]], axis=-1)
            return np.asarray(complete - self.ask(lost_information, along=v)["product"])

        scale = 1 / np.hstack([seen * rates * (1 - rates), (total * share)[:, None]])
        return _conjugate(product, wanted, scale)


def share_errors(found: Archetypes, owners: Sequence[Rows]) -> np.ndarray:
    """(K,) standard errors of classes' shares, as in a relation, from owners' rows or some."""
    (K, N), share = found.means.shape, expected_shares(found)
    each = -(-sum(map(len, owners)) * N * K**2 // MOST)
    parts = [(part, Column("", np.zeros((len(part), 1)))) for part in (o[::each] for o in owners)]
    members = [Member.of(found, part, part.weights, [none]) for part, none in parts]
    step, wanted = FirstStep(found, members), np.zeros((K, K, N + 1))
    wanted[..., -1] = share[:, None] * (np.eye(K) - share)
    solved = step.solved(wanted)
    covariance = step.meat([m.carried(solved) for m in members])
    part = step.sums["rows"][2] / sum(rows.weights.sum() for rows in owners)
    return np.asarray(np.sqrt(np.diag(covariance) * part))


def _conjugate(
    product: Callable[[np.ndarray], np.ndarray], b: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Solve product(v) = b for several b at once by conjugate gradients; `scale` preconditions."""

    def dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray((x * y).sum(axis=(1, 2)))

    v, r = np.zeros_like(b), b.copy()
    p = scale * r
    before = dot(r, p)
    first, going = before, before > 0
    for _ in range(STEPS):
        going &= before > STILL * first
        if not going.any():
            break
        q = product(p)
        curved = dot(p, q)
        going &= curved > 0  # else rows say nothing along p
        step = np.where(going, before / np.where(going, curved, 1.0), 0.0)[:, None, None]
        v, r = v + step * p, r - step * q
        z = scale * r
        now = dot(r, z)
        more = np.where(going, now / np.where(going, before, 1.0), 0.0)[:, None, None]
        p, before = z + more * p, np.where(going, now, before)
    return v


def of_outcome(step: FirstStep, outcome: Column) -> Relation:
    """Relate classes to an outcome: its mean or rates in each, from sums that owners answer."""
    words, sums = outcome.words, step.ask(outcome_sums)
    apart = rated_words(words)
    names = tuple(words[k] for k in apart) if words else (outcome.name,)
    S, n = sums["products"], step.used[0]
    once, twice = sums["spread"] / max(float(S.sum()), TINY)
    if n == 0 or (twice - once**2 <= SAME * twice).all():
        raise DataError(SINGLE.format(safe_line(outcome.name)))
    if np.linalg.eigvalsh(S / np.trace(S))[0] < ALIKE:
        raise DataError("rows with an entry do not tell these archetypes apart: ask for fewer")
    m = np.linalg.solve(S, sums["sums"])
    K, C = m.shape
    solved = step.solved(step.ask(outcome_slopes, outcome_means=m)["wanted"])
    about = {"outcome_means": m, "solved": solved, "survey": step.survey}
    bread = np.kron(np.linalg.inv(S), np.eye(C))
    covariance = bread @ step.ask(outcome_meat, **about)["meat"] @ bread.T
    free = np.eye(C)[: C - 1 if len(words) > 2 else C]  # rates of all words add up to one
    contrast = np.kron(np.eye(K)[1:] - np.eye(K)[0], free)
    tested = wald(contrast @ m.ravel(), contrast @ covariance @ contrast.T)
    kind = "rate" if words or not sums["other"] else "mean"
    errors = np.sqrt(np.diag(covariance).clip(0)).reshape(K, C)
    return Relation(kind, names, m, errors, covariance, {outcome.name: tested}, *step.used)


def wald(values: np.ndarray, covariance: np.ndarray) -> tuple[float, int, float]:
    """Wald's test that estimates of a relation are 0: statistic, degrees of freedom, and p."""
    statistic = float(values @ np.linalg.pinv(covariance, hermitian=True) @ values)
    degrees = int(np.linalg.matrix_rank(covariance, hermitian=True))
    return statistic, degrees, float(chdtrc(max(degrees, 1), statistic))


def _of_covariates(step: FirstStep, m: Member) -> Relation:
    """Relation to covariates: log odds of each class against the first, with Wald's tests."""
    names, tested, parts = ["constant"], {}, [np.ones((len(m.used), 1))]
    for column in m.columns:
        called = [f"{column.name}={word}" for word in column.words[1:]] or [column.name]
        tested[column.name] = range(len(names), len(names) + len(called))
        names += called
        parts.append(column.values[:, 1:] if column.words else column.values)
    q, n, used = np.where(m.used[:, None], np.hstack(parts), 0.0), step.used[0], m.used[:, None]
    centre = q.sum(axis=0) / n
    centre[0] = 0.0
    off = (q - centre) * used
    products = off.T @ off / n
    scale = np.sqrt(np.diag(products))
    if not scale.all() or np.linalg.eigvalsh(products / np.outer(scale, scale))[0] < ALIKE:
        raise DataError(
            f"covariates: some are sums of others: {', '.join(map(safe_line, names[1:]))}"
        )
    K, Q = m.shares.shape[1], len(names)
    b, covariance = _Logit(step, m, off / scale).maximum()
    back = np.diag(1 / scale)  # from units of spread to those of the covariates
    back[0, 1:] = -centre[1:] / scale[1:]
    turn = np.kron(np.eye(K - 1), back)
    b, covariance = (turn @ b.ravel()).reshape(K - 1, Q), turn @ covariance @ turn.T
    whole = np.zeros((K * Q, K * Q))
    whole[Q:, Q:] = covariance
    tests = {}
    for name, places in tested.items():
        which = np.array([k * Q + j for k in range(K - 1) for j in places])
        tests[name] = wald(b.ravel()[which], covariance[np.ix_(which, which)])
    odds, errors = np.vstack([np.zeros(Q), b]), np.sqrt(np.diag(whole).clip(0)).reshape(K, Q)
    return Relation("log odds", tuple(names), odds, errors, whole, tests, *step.used)


@dataclass(frozen=True)
class _Logit:
    """Logit of the classes of rows m by covariates q (M, Q), corrected for wrong classes."""

    step: FirstStep
    m: Member
    q: np.ndarray

    @cached_property
    def counts(self) -> np.ndarray:
        """(K,) rows of each class."""
        return np.asarray(self.m.weights @ self.m.shares)

    @cached_property
    def mistaken(self) -> np.ndarray:
        """(K, K) probability D_ts that a row of class t has s as its likeliest class."""
        both = (self.m.shares * self.m.weights[:, None]).T @ self.m.taken
        return np.asarray(both / self.counts[:, None])

    def maximum(self) -> tuple[np.ndarray, np.ndarray]:
        """Most likely log odds (K - 1, Q) and their covariance, by Newton's method."""
        n = self.counts
        b = np.zeros((len(n) - 1, self.q.shape[1]))
        b[:, 0] = np.log(n[1:] / n[0])
        height, ahead = self._height(b), np.inf
        for _ in range(STEPS):
            slope, curve = self._sums(b)
            step = np.linalg.solve(curve + 1e-9 * np.trace(curve) * np.eye(len(curve)), slope)
            if slope @ step < 0:  # the likelihood is not yet concave here
                step = slope / max(float(np.trace(curve)), TINY)
            ahead, size = float(slope @ step), 1.0
            while (now := self._height(b + size * step.reshape(b.shape))) < height and size > STILL:
                size /= 2
            b, height = b + size * step.reshape(b.shape), now
            if ahead < STILL or size <= STILL:
                break
        if ahead > AHEAD or np.abs(b[:, 1:]).max(initial=0) > FAR:
            rule = "a covariate tells archetypes apart for sure, so that log odds are infinite"
            raise DataError(f"covariates: {rule}: leave it out")
        bread = np.linalg.inv(self._sums(b)[1])
        return b, bread @ self.step.meat([self._each(b)]) @ bread

    def _by(self, b: np.ndarray) -> np.ndarray:
        """(M, K) probabilities of classes given covariates."""
        logs = np.hstack([np.zeros((len(self.q), 1)), self.q @ b.T])
        return np.asarray(np.exp(log_softmax(logs, axis=1)))

    def _height(self, b: np.ndarray) -> float:
        """Log-likelihood, in nats."""
        each = (self._by(b) @ self.mistaken * self.m.taken).sum(axis=1)
        logs = np.log(np.where(self.m.used, np.maximum(each, TINY), 1.0))
        return float(self.m.weights @ logs)

    def _shares(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(M, K) probabilities of classes given covariates; given the likeliest class as well."""
        pi = self._by(b)
        joint = pi * (self.m.taken @ self.mistaken.T)
        return pi, joint / np.maximum(joint.sum(axis=1, keepdims=True), TINY)

    def _sums(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slope (P,) and negative curvature (P, P) of the log-likelihood."""
        (pi, rho), v, q = self._shares(b), self.m.weights, self.q
        apart = (rho - pi)[:, 1:]
        pairs = rho[:, 1:, None] * rho[:, None, 1:] - pi[:, 1:, None] * pi[:, None, 1:]
        pairs -= apart[:, :, None] * np.eye(len(b))
        curve = np.einsum("itu,ip,iq->tpuq", pairs * v[:, None, None], q, q, optimize=True)
        return ((apart * v[:, None]).T @ q).ravel(), curve.reshape(b.size, b.size)

    def _each(self, b: np.ndarray) -> np.ndarray:
        """(M, P) contributions of each row to the slope, itself and through the classes."""
        D, K, m, q = self.mistaken, len(self.mistaken), self.m, self.q
        (pi, rho), by = self._shares(b), np.empty((*b.shape, K, K))  # derivatives by D
        for t in range(1, K):
            slope = rho[:, [t]] * ((np.arange(K) == t) - rho)
            for j in range(b.shape[1]):
                by[t - 1, j] = (slope * (m.weights * q[:, j])[:, None]).T @ m.taken
        G = by / np.maximum(D, TINY) / self.counts[:, None]
        own = (rho - pi)[:, 1:, None] * q[:, None, :] * m.used[:, None, None]
        slopes = np.einsum("is,tjks->tjik", m.taken, G) - (G * D).sum(axis=-1)[:, :, None, :]
        slopes = (slopes * m.used[:, None]).reshape(b.size, len(q), K)
        solved = self.step.solved(np.array([m.back(L) for L in slopes]))
        return np.asarray(own.reshape(len(q), -1) + m.carried(solved))
