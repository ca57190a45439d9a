"""Columns that determine each other, found from sums over pairs of columns.

Copies of a column, its opposite, and the levels of one variable depend on each other whatever the
classes are; a column with a single value, or with very few entries, carries no information. Such
columns are left out before a count and a fit, and filled in afterwards:

- a copy or an opposite counts once, also with a few typing errors. Columns of clear classes agree
  as often, but the agreement of a copy remains after accounting for the other columns, which carry
  the classes (the correlations, of low rank, are completed over the entries within each cluster of
  candidates, as in principal axis factoring);
- exactly one level of a variable is +1 in every row. A row with no level, or with two, has a gap
  there. If there are many such rows, the levels must be apart beyond what other columns explain.

In wide tables sums over pairs are computed for a few columns: columns that an owner finds alike in
some of its rows (by hashes), and some others.

Source: Ledermann, Psychometrika 2 (1937), 85-93, for the number of factors that a number of columns
can identify; the rest is proposed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from hopfed import kernels
from hopfed._lib.arrays import Array, all_to_host, blas_threads, like, namespace, to_host
from hopfed._lib.random import stream
from hopfed.kernels import Rows
from hopfed.spectral.rank import white_edge
from hopfed.spectral.reread_rows import earlier_totals
from hopfed.spectral.rows import column_moments, hash_rows, host_moments

ERRORS = 0.0, 0.005, 0.01, 0.02  # shares of typing errors in a copy, tried in this order
MISTYPED = 4  # most copies of one column with errors
ALIKE = 0.8  # least correlation of a copy with its column
REMAINS = 0.5  # least share of a copy's agreement that remains within classes
APART = 0.15  # least share of rows with levels apart that classes do not explain
NATS = 10.0  # margin of evidence, over the number of pairs, that two columns are alike
SHOWN = 3.0  # least number of rows with the rarer value, within classes, for a copy
LEAST = 20.0  # least number of rows in which two levels would both be +1 by chance
OVERLAP = 0.2  # largest share of these rows in which both are +1, by typing errors
TOGETHER = 0.95  # least share of a level's entries in rows that also have the other levels
FILLED = 0.5  # least share of rows with exactly one level of a variable
SCARCE = 20, 0.1  # few entries of a column: a number, and a part of the median column's
WIDE = 1_000  # largest number of columns for which all pairs are compared
OTHERS = 100  # columns compared in addition to the candidates
SAMPLE = 1_024  # rows in which candidates of wide tables are sought
LEVELS = 100  # most levels of a variable in a wide table
WORK = 1 << 33  # most entries times columns of held rows in sums over pairs
NAMED = 6  # most columns of a kind that a message names
CROWD = 8  # a hash shared by more columns is not used
FEW_ROWS = 30  # with fewer rows a column may have a single value by chance
STEPS, STILL, RIDGE = 100, 1e-5, 1e-6  # settings of the completion of correlations


@dataclass(frozen=True, eq=False)
class Determined:
    """Columns with information of their own, and columns from which the others follow."""

    # (N,) the column that determines each column: itself if it is kept; -1 for a column with a
    # single value or very few entries
    leader: np.ndarray
    # slope, centre: (N,) the expected mean of a column is the centre plus the slope times the
    # mean of its leader
    slope: np.ndarray
    centre: np.ndarray
    # (N,) number of the variable of which a column is a level, or -1
    level: np.ndarray
    single: np.ndarray  # (N,) whether a column has a single value, or no entry
    gapped: tuple[int, ...] = ()  # variables for which some rows have no level, or two

    @property
    def kept(self) -> np.ndarray:
        """Indices of the columns that are kept for the fit."""
        return np.flatnonzero(self.leader == np.arange(len(self.leader)))

    @property
    def silent(self) -> np.ndarray:
        """Indices of the columns with a single value or very few entries."""
        return np.flatnonzero(self.leader < 0)

    @property
    def copies(self) -> np.ndarray:
        """Indices of the columns that are determined by another column."""
        return np.flatnonzero((self.leader >= 0) & (self.leader != np.arange(len(self.leader))))

    @property
    def whole(self) -> bool:
        """Whether the rows are fitted unchanged."""
        return len(self.kept) == len(self.leader) and not self.gapped

    @property
    def signed(self) -> np.ndarray:
        """(N,) leader of each column, counted from 1, with the sign of its slope; 0 for none."""
        return (self.leader + 1) * np.where(self.slope < 0, -1, 1)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the kept columns that are levels of each variable."""
        return _groups(self.level)

    @property
    def kept_groups(self) -> tuple[tuple[int, ...], ...]:
        """The same as positions among the kept columns."""
        return _groups(self.level[self.kept])

    def of(self, rows: Rows) -> Rows:
        """Rows for the fit: the kept columns, with gaps where a variable has not one level."""
        if not self.gapped:
            return rows if self.whole else rows.columns(self.kept)
        gapped = [np.flatnonzero(self.level == variable) for variable in self.gapped]

        def with_gaps(rows: Rows) -> Rows:
            done, step = [], max(1, (1 << 24) // max(rows.shape[1], 1))
            for a in range(0, len(rows), step):
                x = to_host(kernels.unpack(rows[a : a + step]))
                for group in gapped:
                    x[np.ix_((x[:, group] > 0).sum(axis=1) != 1, group)] = 0
                x = x[:, self.kept]
                done.append(kernels.with_gaps(kernels.pack_masked(x > 0, x == 0)))
            return kernels.concatenate(done)

        return rows.mapped(with_gaps, len(self.kept))

    def filled(self, means: np.ndarray) -> np.ndarray:
        """(K, N) means of all columns, from the fitted means (K, N')."""
        table = np.zeros((len(means), len(self.leader)))
        table[:, self.kept] = means
        follows = np.where(self.leader < 0, 0.0, table[:, np.maximum(self.leader, 0)])
        found: np.ndarray = np.clip(self.centre + self.slope * follows, -1.0, 1.0)
        found[:, self.kept] = means
        return found

    def filled_errors(self, own: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """(K, N) standard errors: a copy's from its leader, a silent column's from all rows."""
        errors = np.empty((len(own), len(self.leader)))
        errors[:, self.kept] = own
        copies, silent = self.copies, self.silent
        errors[:, copies] = np.abs(self.slope[copies]) * errors[:, self.leader[copies]]
        errors[:, silent] = np.sqrt((1 - self.centre[silent] ** 2) / (seen[silent] + 1))
        return errors

    def advice(self, names: Sequence[str] | None, known: Sequence[Sequence[int]] = ()) -> str:
        """Sentences about columns that were left out, and levels that were not `known`."""

        def listed(which: Sequence[int]) -> str:
            called = [f"'{names[j]}'" if names is not None else str(j + 1) for j in which[:NAMED]]
            more = f" and {len(which) - NAMED} more" if len(which) > NAMED else ""
            return f"Column{'s' * (len(which) != 1)} {', '.join(called)}{more}"

        parts, named = [], {tuple(group) for group in known}
        for words, which in (
            ("copies or opposites of other columns", self.copies),
            ("with a single value, or very few entries", self.silent),
        ):
            if len(which):
                parts.append(f"{listed(which)}: {words}, left out of count and fit, and filled in.")  # type: ignore[arg-type]
        found = [group for group in self.groups if group not in named]
        parts += [f"{listed(group)}: levels of one variable." for group in found[:NAMED]]
        return " ".join(parts)


def _few(errors: float, rows: Any) -> Any:
    """Number of rows in which a column and its copy may differ, of `rows` that have both."""
    return errors * rows + 3 * (errors * rows) ** 0.5


def _groups(level: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Indices of the columns of each label that has more than one column."""
    each = (np.flatnonzero(level == k).tolist() for k in np.unique(level[level >= 0]))
    return tuple(sorted(tuple(group) for group in each if len(group) > 1))


@dataclass(frozen=True, eq=False)
class ColumnPairs:
    """Sums over the rows of pairs of columns."""

    # sums, seen: (n,) of the entries of each column, and their number
    sums: Array
    seen: Array
    products: Array  # (n, n) sums of products
    rows: float = 0.0  # number of rows, where none has gaps
    gapped: tuple[Array, ...] = ()  # `both` and `plus`, where some have

    def __add__(self, other: ColumnPairs) -> ColumnPairs:
        own = self.sums + other.sums, self.seen + other.seen, self.products + other.products
        two = (
            (self.both + other.both, self.plus + other.plus) if self.gapped or other.gapped else ()
        )
        return ColumnPairs(own[0], own[1], own[2], self.rows + other.rows, two)

    @cached_property
    def both(self) -> Array:
        """(n, n) number of rows that have both columns."""
        return self.gapped[0] if self.gapped else 0 * self.products + self.rows

    @cached_property
    def plus(self) -> Array:
        """(n, n) number of rows in which both columns are +1."""
        if self.gapped:
            return self.gapped[1]
        return (self.rows + self.sums[:, None] + self.sums + self.products) / 4

    @cached_property
    def means(self) -> Array:
        """(n,) mean of each column."""
        return self.sums / namespace(self.seen).maximum(self.seen, 1)

    @cached_property
    def correlations(self) -> Array:
        """(n, n) correlations over the rows that have both columns."""
        xp, m = namespace(self.sums), self.means
        spread = xp.sqrt(xp.maximum(1 - m**2, 1e-12))
        both = self.products / xp.maximum(self.both, 1) - m[:, None] * m
        return xp.clip(both / (spread[:, None] * spread), -1, 1) * (self.both > 0)

    @cached_property
    def expected(self) -> Array:
        """(n, n) expected number of rows in which both are +1 by chance."""
        xp = namespace(self.plus)
        rate = xp.linalg.diagonal(self.plus) / xp.linalg.diagonal(self.both)
        return rate[:, None] * rate * self.both

    @cached_property
    def exclusive(self) -> Array:
        """(n, n) whether two columns are hardly ever +1 in one row."""
        xp = namespace(self.plus)
        return self.plus <= OVERLAP * xp.where(self.expected >= 5, self.expected, 0.0)

    def alike(self, errors: float) -> Array:
        """(n, n) whether columns agree or disagree up to `errors`; true for a column and itself."""
        xp = namespace(self.products)
        apart = (self.both - xp.abs(self.products)) / 2
        return (xp.abs(self.correlations) >= ALIKE) & (apart <= _few(errors, self.both))

    def related(self) -> bool:
        """Whether any two columns are alike, or exclusive."""
        xp, P, M = namespace(self.products), self.products, self.rows
        if not self.gapped:  # bounds on P = 4 plus - M - sums, which take a third of the steps
            plus, c, least = (M + self.sums) / 2, 4 * OVERLAP / M, M - 2 * _few(ERRORS[-1], M)
            most = (c * plus - 2)[:, None] * (plus - 2 / c) + ((1 + 1e-6) * M - 4 / c)
            if bool(xp.sum((most >= P) | (xp.abs(P) > least - 1)) <= P.shape[0]):  # the diagonal
                return False
        return bool(xp.any(xp.triu(self.alike(ERRORS[-1]) | self.exclusive, k=1)))


def sum_column_pairs(rows: Rows, columns: np.ndarray | None = None) -> ColumnPairs:
    """Return an owner's sums over column pairs of rows, from which determined columns are found."""
    rows = rows if columns is None else rows.columns(columns)
    xp = namespace(rows.home)

    def squares(block: Rows) -> Array:
        return xp.astype(kernels.second_moment(block), xp.float64)

    sums, seen = (xp.astype(like(x, rows.home), xp.float64) for x in column_moments(rows))
    if not rows.gaps:
        return ColumnPairs(sums, seen, squares(rows), float(len(rows)))
    both, plus = (squares(Rows(plane, rows.n, plane)) for plane in (rows.seen, rows.signs))
    return ColumnPairs(sums, seen, squares(rows), gapped=(both, plus))


def find_determined_columns(
    owners: Sequence[Rows],
    known: Sequence[Sequence[int]] = (),
    seed: int = 0,
    steps: Sequence[Sequence[int]] = (),
) -> Determined:
    """Find determined columns, those that determine each other.

    `known` are groups of columns that are levels of one variable, `steps` groups that are
    thresholds of one answer, not copies; `seed` draws the further columns of a wide table.
    """
    moments = [host_moments(rows) for rows in owners]
    sums, seen = (np.sum(each, axis=0).astype(np.int64) for each in zip(*moments, strict=True))
    N = len(sums)
    few = min(SCARCE[0], SCARCE[1] * float(np.median(seen[seen > 0]))) if seen.any() else 0
    varies = (np.abs(sums) < seen) & (seen >= few)
    level = np.full(N, -1)
    for k, group in enumerate(known):
        level[list(group)] = k
    leader, slope = np.where(varies, np.arange(N), -1), np.zeros(N)
    centre, single = sums / (seen + 1), np.abs(sums) == seen
    there = (seen >= few) & (seen > 0)
    if seen.max(initial=0) < FEW_ROWS and 2 * varies.sum() < there.sum():
        # In a few rows of one pattern most columns have a single value and still count.
        return Determined(np.where(there, np.arange(N), -1), slope, centre, level, single)
    if varies.sum() < 2 or _are_exact(owners, int(varies.sum())):
        return Determined(np.arange(N), slope, centre, level, single)
    columns = np.flatnonzero(varies)
    if len(columns) > WIDE:
        columns = _candidates(owners, columns, seed)
    asked = _ask_owners(owners, columns) if len(columns) > 1 else None
    if asked is None or not (known or steps or asked.related()):
        return Determined(leader, slope, centre, level, single)
    if not isinstance(asked.products, np.ndarray):
        held = all_to_host(asked.sums, asked.seen, asked.products, *asked.gapped)
        asked = ColumnPairs(held[0], held[1], held[2], asked.rows, held[3:])
    for group in steps:
        at = np.flatnonzero(np.isin(columns, group))
        within, diagonal, _ = np.ix_(at, at), asked.products[at, at], asked.plus
        asked.products[within] = asked.both[within] * np.outer(asked.means[at], asked.means[at])
        asked.products[at, at] = diagonal
    with blas_threads(1):  # the matrices are small
        search = _Search(asked, level[columns]).run()
    own = int((search.leader == np.arange(len(columns))).sum() + varies.sum() - len(columns))
    if own < 2:
        return Determined(leader, slope, centre, level, single)
    leader[columns] = columns[search.leader]
    j = np.flatnonzero(search.leader != np.arange(len(columns)))
    i, at, m = search.leader[j], columns[j], asked.means
    slope[at] = asked.correlations[i, j] * np.sqrt((1 - m[j] ** 2) / (1 - m[i] ** 2))
    centre[at] = m[j] - slope[at] * m[i]
    level[columns] = search.level
    for k, group in enumerate(known):  # opposite levels of a known variable both stay levels
        own = [j for j in group if leader[j] != j and leader[j] in group]  # type: ignore[assignment]
        if own:
            leader[own], slope[own], centre[own] = own, 0.0, (sums / (seen + 1))[own]
            level[[j for j in group if leader[j] == j]] = len(search.level) + k
    copied = leader != np.arange(N)
    level[copied] = -1
    gone, gapped = copied & (leader >= 0), set(search.gapped)
    for k, group in enumerate(map(list, known)):  # variables that lost copied levels have gaps
        if gone[group].any() and (level[group] == k).any():
            gapped.add(k)
    numbers = np.unique(level[level >= 0]).tolist()
    level = np.array([numbers.index(k) if k >= 0 else -1 for k in level.tolist()], int)
    torn = tuple(numbers.index(k) for k in sorted(gapped) if k in numbers)
    return Determined(leader, slope, centre, level, single, torn)


def _are_exact(owners: Sequence[Rows], varies: int) -> bool:
    """Whether rows are a few patterns without noise, in which columns always determine others."""
    if not all(rows.held for rows in owners):
        return False
    every = max(map(len, owners))
    for most in sorted({min(2 * varies, every), every}):  # first a sample, which usually decides
        marks = [hash_rows(rows[:most]) for rows in owners]
        xp = namespace(*marks)
        held = xp.sort(xp.concat(marks), stable=False)
        different = 1 + xp.sum(held[1:] != held[:-1])
        if different >= varies:
            return False
    return bool(2 * different <= len(held))


def _ask_owners(owners: Sequence[Rows], columns: np.ndarray) -> ColumnPairs:
    """Sum of all owners' answers, over evenly spaced rows if many rows are held."""
    answers = []
    for rows in owners:
        read, M = earlier_totals(rows), float(len(rows))
        if read is not None and read.products is not None and not rows.gaps:
            sums, own = read.sums[columns].astype(float), read.products[np.ix_(columns, columns)]
            answers.append(ColumnPairs(sums, 0 * sums + M, own, M))
        elif read is not None:
            answers.append(rows.total(partial(sum_column_pairs, columns=columns)))
        else:
            step = max(1, len(rows) * len(columns) ** 2 // WORK)
            some = None if len(columns) == rows.shape[1] else columns
            answers.append(sum_column_pairs(rows[::step] if step > 1 else rows, some))
    return sum(answers[1:], start=answers[0])


class Variable(NamedTuple):
    """Levels of a variable, and whether some rows have no level, or two."""

    levels: np.ndarray
    gaps: bool

    @property
    def sure(self) -> bool:
        """Whether the levels are neighbouring columns, and each row has exactly one."""
        return not self.gaps and bool((np.diff(self.levels) == 1).all())


class _Search:
    """Search for copies and levels in sums over pairs of varying columns."""

    def __init__(self, pairs: ColumnPairs, level: np.ndarray):
        self.pairs, self.level = pairs, level
        self.leader, self.gapped = np.arange(len(level)), list[int]()

    def run(self) -> _Search:
        """Find and test clusters of copies, then variables among the remaining columns."""
        for errors in ERRORS if self.clusters(ERRORS[-1]) else ():
            clusters = self.clusters(errors)
            if errors:  # many columns that nearly agree are due to clear classes, not copies
                most = min(MISTYPED, len(self.leader) // 2)
                clusters = [c for c in clusters if len(c) - 1 <= most]
            if clusters:
                copied = np.concatenate([cluster[1:] for cluster in clusters])
                between = self.between(clusters, [v.levels for v in self.variables(copied)])  # type: ignore[arg-type]
                for cluster in clusters:
                    self.merge(cluster, between)
        groups = self.variables()
        if not all(variable.sure for variable in groups):
            between = self.between([], [v.levels for v in groups])
            groups = [v for v in groups if v.sure or self.remains(v.levels, between)]
        first = self.level.max(initial=-1) + 1
        for k, variable in enumerate(groups):
            self.level[variable.levels] = first + k
            if variable.gaps:
                self.gapped.append(int(first + k))
        return self

    def clusters(self, errors: float) -> list[np.ndarray]:
        """Clusters of columns that are alike or opposite, the leader first."""
        left = self.leader == np.arange(len(self.leader))
        alike = self.pairs.alike(errors) & left & left[:, None]
        np.fill_diagonal(alike, False)
        i, j = np.nonzero(np.triu(alike))
        if not len(i):
            return []
        sure = self.information(i, j) > 2 * np.log(len(left)) + NATS
        alike[i[~sure], j[~sure]] = alike[j[~sure], i[~sure]] = False
        left, found = alike.any(axis=1), []
        links = alike.sum(axis=1) + (self.level >= 0) * len(left)  # known levels lead first
        for a in np.argsort(-links, kind="stable"):
            if left[a]:
                others = np.flatnonzero(alike[a] & left)
                left[a] = left[others] = False
                if len(others):
                    found.append(np.concatenate([[a], others]))
        return found

    def information(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Mutual information of pairs of columns, times their rows, in nats."""
        p = self.pairs
        n = np.maximum(p.both[i, j], 1)
        a, b = (1 + p.means[i]) / 2, (1 + p.means[j]) / 2
        both = np.clip(p.plus[i, j] / n, np.maximum(a + b - 1, 0), np.minimum(a, b))
        cells = np.stack([both, a - both, b - both, 1 - a - b + both])
        own = np.stack([a * b, a * (1 - b), (1 - a) * b, (1 - a) * (1 - b)])
        cells = np.maximum(cells, 0)
        each = xlogy(cells, cells) - xlogy(cells, np.maximum(own, 1e-12))
        return np.asarray(n * each.sum(axis=0))

    def variables(self, without: Sequence[int] = ()) -> list[Variable]:
        """Groups of columns with one +1 per row, in every row or in most; neighbours first."""
        p, found = self.pairs, []
        alone = (self.leader == np.arange(len(self.leader))) & (self.level < 0)
        alone[list(without)] = False
        among = np.flatnonzero(alone)
        at = np.ix_(among, among)
        n, both = p.both[at], p.plus[at]
        often, rows = np.diag(both), np.diag(n)
        apart = p.exclusive[at] & (n >= LEAST)
        apart &= (n >= TOGETHER * rows) & (n >= TOGETHER * rows[:, None])
        evidence = p.expected[at] - both
        left, most = np.ones(len(among), bool), often + apart.astype(float) @ often
        # Levels with gaps are sought anywhere, since neighbours may be only a part of them.
        for sure, grow in ((True, self._beside), (True, self._anywhere), (False, self._anywhere)):
            for a in np.flatnonzero(most >= (1 if sure else FILLED) * rows).tolist():
                if not left[a]:
                    continue
                group = grow(a, apart & left, evidence, often, rows)
                upper = np.triu_indices(len(group), 1)
                if len(group) < 2 + sure or evidence[np.ix_(group, group)][upper].sum() < LEAST:
                    continue
                held = often[group].sum()
                twice = (both[np.ix_(group, group)].sum() - held) / 2
                one = held - 2 * twice  # rows with exactly one level, if none has three
                if one == rows[group[0]] if sure else one >= FILLED * rows[group[0]]:
                    left[group] = False
                    found.append(Variable(among[group], not sure))
        return found

    @staticmethod
    def _beside(
        a: int, apart: np.ndarray, _: np.ndarray, often: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Column a and the columns after it, as long as no two are +1 in the same row."""
        for b in range(a + 1, len(often)):
            few = often[a : b + 1].sum() <= (1 + ERRORS[-1] * (b - a)) * rows[a]
            if not (few and apart[a:b, b].all()):
                return np.arange(a, b)
        return np.arange(a, len(often))

    @staticmethod
    def _anywhere(
        a: int, apart: np.ndarray, evidence: np.ndarray, often: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Column a and others by falling evidence, as long as no two are +1 in the same row."""
        group, may, gained = [a], apart[a].copy(), evidence[a].copy()
        while may.any():
            b = int(np.argmax(np.where(may, gained, -np.inf)))
            may[b] = False
            if often[[*group, b]].sum() <= (1 + ERRORS[-1] * len(group)) * rows[a]:
                group.append(b)
                may &= apart[b]
                gained += evidence[b]
        return np.array(sorted(group))

    def between(self, clusters: list[np.ndarray], groups: list[np.ndarray]) -> np.ndarray | None:
        """(n, n) correlations explained by other columns; None if there are too few of them."""
        known = np.unique(self.level[self.level >= 0])
        groups = [*groups, *(np.flatnonzero(self.level == k) for k in known)]
        unit = self.leader.copy()
        for cluster in clusters:
            unit[np.isin(unit, cluster)] = cluster[0]
        for group in groups:
            unit[np.isin(unit, unit[group])] = unit[group[0]]
        asked = np.concatenate([*clusters, *groups]) if clusters or groups else np.zeros(0, int)
        beside = np.setdiff1d(np.arange(len(unit)), asked)
        some = np.union1d(asked, beside[:: -(-len(beside) // OTHERS)] if len(beside) else beside)
        at = np.ix_(some, some)
        hidden = unit[some, None] == unit[some]
        R = self.pairs.correlations[at]
        n, B, k, units = len(R), np.zeros_like(R), 0, len(np.unique(hidden, axis=0))
        if hidden.all():
            return None
        rows = max(int(np.median(self.pairs.both[at][~hidden])), 2)
        edge = white_edge(rows, n, 1e-3) / rows - 1
        while more := int((np.linalg.eigvalsh(np.where(hidden, 0.0, R - B)) > edge).sum()):
            k += more
            if k >= units or (units - k) ** 2 < units + k:
                return None
            B = _completed(R, hidden, k)
        whole = np.zeros((len(unit), len(unit)))
        whole[at] = B
        return whole

    def merge(self, cluster: np.ndarray, between: np.ndarray | None) -> None:
        """Make columns of a cluster follow its first if others do not explain their agreement."""
        if between is None:
            return
        R, p, a = self.pairs.correlations, self.pairs, cluster[0]
        own = np.clip(1 - np.diag(between), 1e-9, 1)
        for b in cluster[1:]:
            rest = np.sign(R[a, b]) * (R[a, b] - between[a, b])
            shown = p.both[a, b] * min(own[x] * (1 - p.means[x] ** 2) for x in (a, b)) / 4
            if rest > REMAINS * np.sqrt(own[a] * own[b]) and shown >= SHOWN:
                self.leader[b] = a

    def remains(self, group: np.ndarray, between: np.ndarray | None) -> bool:
        """Whether levels are apart in more rows than the other columns explain by classes."""
        if between is None:
            return False
        a, b = group[np.array(np.triu_indices(len(group), 1))]
        spread = np.sqrt(1 - self.pairs.means**2)
        scale = self.pairs.both[a, b] * spread[a] * spread[b] / 4
        whole, known = self.pairs.correlations[a, b], between[a, b]
        rows = (scale * (known - whole)).sum()  # expected with both +1, if independent in classes
        return bool(rows >= max(LEAST, APART * -(scale * whole).sum()))


def _completed(R: np.ndarray, hidden: np.ndarray, k: int) -> np.ndarray:
    """Matrix (n, n) of rank k that fits the entries of R that are not hidden by least squares."""
    values, vectors = np.linalg.eigh(np.where(hidden, 0.0, R))
    right = vectors[:, -k:] * np.sqrt(np.maximum(values[-k:], 1e-6))
    seen = (~hidden).astype(np.float64)
    held, ridge, B = R * seen, RIDGE * np.eye(k), np.zeros_like(R)
    for _ in range(STEPS):
        moments = seen @ (right[:, :, None] * right[:, None, :]).reshape(len(R), -1)
        left = np.linalg.solve(moments.reshape(-1, k, k) + ridge, (held @ right)[:, :, None])
        left = left[..., 0]
        new = (left @ right.T + right @ left.T) / 2
        moved = np.abs(new - B)[hidden].max()
        B, right = new, left
        if moved < STILL:
            break
    return B


def _candidates(owners: Sequence[Rows], columns: np.ndarray, seed: int) -> np.ndarray:
    """Columns of a wide table that an owner finds to be alike or levels, and some others."""
    found = np.zeros(0, int)
    for rows in owners:
        step = max(1, len(rows) // SAMPLE) if rows.held else 1
        found = np.union1d(found, _compare_columns(rows[: SAMPLE * step : step]))
    found = np.intersect1d(found, columns)[:WIDE] if len(found) else found
    if not len(found):
        return found
    others = stream(seed, "other columns").permutation(np.setdiff1d(columns, found))
    return np.union1d(found, others[:OTHERS])


def _compare_columns(rows: Rows) -> np.ndarray:
    """Columns that are alike or opposite in these rows, and neighbours with one +1 per row."""
    nothing, few = np.zeros(0, int), _few(ERRORS[-1], len(rows))
    rows = rows[: len(rows) // 64 * 64]
    if not len(rows):
        return nothing
    columns = kernels.transpose(rows)
    plus, xp = columns.signs, namespace(columns.signs)
    there = columns.seen if rows.gaps else plus | ~plus
    minus = there & ~plus
    words = xp.sort(xp.where(plus < minus, plus, minus).T.copy(), axis=1, stable=False)
    same, crowd = words[:, 1:] == words[:, :-1], words[:, CROWD:] == words[:, :-CROWD]
    begins = same & ~xp.concat([same[:, :1] & ~same[:, :1], same[:, :-1]], axis=1)
    n = crowd.shape[1]
    shared = xp.any(begins[:, :n] & ~crowd, axis=1) | xp.any(begins[:, n:], axis=1)
    seen = kernels.seen_counts(rows) if rows.gaps else len(rows)
    fits, last = _spans((kernels.column_sums(rows) + seen) // 2, seen)
    if not (xp.any(shared) | xp.any(fits)):
        return nothing
    plus, there, minus, shared, fits, last = all_to_host(plus, there, minus, shared, fits, last)
    found = [nothing]
    for k in np.flatnonzero(fits):  # check that exactly one neighbour is +1 in every row
        if (np.bitwise_or.reduce(plus[k : last[k]], axis=0) == there[k]).all():
            found.append(np.arange(k, last[k]))
    for word in np.ascontiguousarray(np.minimum(plus, minus)[:, shared].T):
        _, first, group, sizes = np.unique(
            word, return_index=True, return_inverse=True, return_counts=True
        )
        j = np.flatnonzero(((sizes > 1) & (sizes <= CROWD))[group])
        i = first[group[j]]
        apart = [
            np.bitwise_count(plus[i] ^ a[j]).sum(axis=1)
            + np.bitwise_count(minus[i] ^ b[j]).sum(axis=1)
            for a, b in ((plus, minus), (minus, plus))
        ]
        fits = (i != j) & (np.minimum(*apart) <= 2 * few)
        found += [i[fits], j[fits]]
    return np.unique(np.concatenate(found))


def _spans(often: Array, seen: Array | int) -> tuple[Array, Array]:
    """Which columns start a run with as many +1 in all as rows have entries, and its end."""
    xp, N = namespace(often), often.shape[0]
    ends = xp.cumulative_sum(often, include_initial=True)
    wanted = ends[:-1] + seen
    last = xp.searchsorted(ends, wanted)
    length = last - xp.arange(N)
    fits = (last <= N) & (length >= 3) & (length <= LEVELS) & (often > 0)
    return fits & (ends[xp.minimum(last, N + 0 * last)] == wanted), last
