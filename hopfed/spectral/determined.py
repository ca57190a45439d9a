"""Columns that determine each other, found in sums over pairs of columns.

A copy of a column, its opposite, and the levels of one variable depend on each other whatever the
classes are, and would be taken for classes. A column of one value, or of hardly any entry, says
nothing. So all of these are left out before a count and a fit, and filled in after it:

- a copy or an opposite counts once, a few typing errors included. Columns of clear classes agree as
  often; but what a copy agrees in remains when the other columns are taken into account, which know
  the classes (the correlations, of low rank, are completed over the entries within each cluster of
  candidates, as in principal axis factoring);
- of the levels of a variable, neighbouring columns, one is +1 in every row.

Sums over pairs add up over blocks of rows and over owners. Of wide tables they are taken of a few
columns: those that are alike in some rows of an owner, and some others.

Sources: Ledermann, "On the rank of the reduced correlational matrix in multiple-factor analysis",
Psychometrika 2 (1937), 85-93, for how many directions a number of columns can tell; the rest is
proposed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import xlogy

from hopfed import kernels
from hopfed._lib.arrays import Array, blas_threads, namespace, to_host
from hopfed._lib.random import stream
from hopfed.kernels import MaskedBits
from hopfed.spectral.equal_rows import row_marks
from hopfed.spectral.rank import white_edge
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import Bits, column_moments, columns_of, total

ERRORS = 0.0, 0.005, 0.01, 0.02  # of the entries of a copy, from typing: the surest copies first
MISTYPED = 4  # copies of one column, at most
ALIKE = 0.8  # correlation of a copy with its column, at least
REMAINS = 0.5  # of the agreement of a copy, within classes
NATS = 10.0  # by which no chance among all pairs makes two columns alike
SHOWN = 3.0  # rows of the rarer value, within classes, that show a copy
LEAST = 20.0  # rows in which two levels would both be +1 by chance, before none says anything
SCARCE = 20, 0.1  # entries of a column that says nothing: at most, and of the median column's
WIDE = 1_000  # columns whose pairs are all looked at
OTHERS = 100  # columns that are looked at beside those that are candidates
SAMPLE = 1_024  # rows in which wide tables are looked through
WORK = 1 << 33  # entries times columns of held rows that are summed up in pairs
NAMED = 6  # columns of a kind that are called by name
CROWD = 8  # columns that agree in 64 rows, from which that says nothing
FEW_ROWS = 30  # of which many may agree in a column that says something
STEPS, STILL, RIDGE = 100, 1e-5, 1e-6  # of the completion of correlations


@dataclass(frozen=True, eq=False)
class Determined:
    """Which columns say something of their own, and what the others follow from.

    Attributes
    ----------
    leader : (N,) the column that says what each one holds: itself where it is one of its own; -1
        where it holds one value, or hardly any.
    slope, centre : (N,) the mean of a column is expected to be the centre plus the slope times the
        mean of its leader.
    level : (N,) number of the variable of which a column is a level; -1 where it is of none.
    single : (N,) whether a column holds one value, or none.
    """

    leader: np.ndarray
    slope: np.ndarray
    centre: np.ndarray
    level: np.ndarray
    single: np.ndarray

    @property
    def kept(self) -> np.ndarray:
        """Numbers of the columns that say something of their own."""
        return np.flatnonzero(self.leader == np.arange(len(self.leader)))

    @property
    def silent(self) -> np.ndarray:
        """Numbers of the columns of one value, or of hardly any."""
        return np.flatnonzero(self.leader < 0)

    @property
    def copies(self) -> np.ndarray:
        """Numbers of the columns that follow from another one."""
        return np.flatnonzero((self.leader >= 0) & (self.leader != np.arange(len(self.leader))))

    @property
    def whole(self) -> bool:
        """Whether the rows are fitted as they are."""
        return len(self.kept) == len(self.leader)

    @property
    def signed(self) -> np.ndarray:
        """(N,) number of the leader of each column, from 1, of its sign; 0 where it has none."""
        return (self.leader + 1) * np.where(self.slope < 0, -1, 1)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the columns that are levels of each variable."""
        return _groups(self.level)

    @property
    def kept_groups(self) -> tuple[tuple[int, ...], ...]:
        """The same by their place among the columns that are kept."""
        return _groups(self.level[self.kept])

    def of(self, rows: Bits | Reread) -> Bits | Reread:
        """Rows as they are fitted: of the columns that are kept."""
        return rows if self.whole else columns_of(rows, self.kept)

    def filled(self, means: np.ndarray) -> np.ndarray:
        """(K, N) means of all columns, from those (K, N') that were fitted."""
        table = np.zeros((len(means), len(self.leader)))
        table[:, self.kept] = means
        follows = np.where(self.leader < 0, 0.0, table[:, np.maximum(self.leader, 0)])
        found: np.ndarray = np.clip(self.centre + self.slope * follows, -1.0, 1.0)
        found[:, self.kept] = means
        return found

    def filled_errors(self, own: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """(K, N) standard errors: of a copy as of its leader, of a silent column as of all rows."""
        errors = np.empty((len(own), len(self.leader)))
        errors[:, self.kept] = own
        copies, silent = self.copies, self.silent
        errors[:, copies] = np.abs(self.slope[copies]) * errors[:, self.leader[copies]]
        errors[:, silent] = np.sqrt((1 - self.centre[silent] ** 2) / (seen[silent] + 1))
        return errors

    @property
    def left_single(self) -> np.ndarray:
        """(N,) whether a column was left out that holds one value, or none."""
        return self.single & ~self.whole

    def said(self, names: Sequence[str] | None, known: Sequence[Sequence[int]] = ()) -> str:
        """Sentences about the columns that were left out, and levels nobody knew of; or nothing."""

        def listed(which: Sequence[int]) -> str:
            called = [f"'{names[j]}'" if names is not None else str(j + 1) for j in which[:NAMED]]
            more = f" and {len(which) - NAMED} more" if len(which) > NAMED else ""
            return f"Column{'s' * (len(which) != 1)} {', '.join(called)}{more}"

        parts, told = [], {tuple(group) for group in known}
        for what, which in (
            ("copies or opposites of other columns", self.copies),
            ("of one value, or of hardly any entry", self.silent),
        ):
            if len(which):
                parts.append(f"{listed(which)}: {what}, left out of count and fit, and filled in.")  # type: ignore[arg-type]
        found = [group for group in self.groups if group not in told]
        parts += [f"{listed(group)}: levels of one variable." for group in found[:NAMED]]
        return " ".join(parts)


def _few(errors: float, rows: Any) -> Any:
    """Rows in which a column and its copy may differ, of so many that have both."""
    return errors * rows + 3 * np.sqrt(errors * rows)


def _groups(level: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Numbers of the columns of each label, where they are more than one."""
    order = np.argsort(level, kind="stable")
    order = order[level[order] >= 0]
    parts = np.split(order, np.flatnonzero(np.diff(level[order])) + 1) if len(order) else []
    return tuple(sorted(tuple(part.tolist()) for part in parts if len(part) > 1))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sums over the rows of pairs of columns.

    Attributes
    ----------
    sums, seen : (n,) of the entries of each column, and their number.
    products, both, plus : (n, n) products added up, rows that have both, and in which both are +1.
    """

    sums: np.ndarray
    seen: np.ndarray
    products: np.ndarray
    both: np.ndarray
    plus: np.ndarray

    def __add__(self, other: Pairs) -> Pairs:
        return Pairs(*(getattr(self, name) + getattr(other, name) for name in _SUMS))

    @cached_property
    def means(self) -> np.ndarray:
        """(n,) mean of each column."""
        return np.asarray(self.sums / np.maximum(self.seen, 1))

    @cached_property
    def correlations(self) -> np.ndarray:
        """(n, n) of rows that have both."""
        spread = np.sqrt(np.maximum(1 - self.means**2, 1e-12))
        both = self.products / np.maximum(self.both, 1) - np.outer(self.means, self.means)
        return np.asarray(np.clip(both / np.outer(spread, spread), -1, 1) * (self.both > 0))


_SUMS = ("sums", "seen", "products", "both", "plus")


def pairs(rows: Bits, columns: np.ndarray | None = None) -> Pairs:
    """Sums over pairs of columns of a block of rows: what an owner is asked for."""
    rows = rows if columns is None else columns_of(rows, columns)  # type: ignore[assignment]
    sums, seen, products = _here(*column_moments(rows), kernels.second_moment(rows))
    if isinstance(rows, MaskedBits):
        both, plus = (
            to_host(kernels.second_moment(MaskedBits(plane, plane))).astype(np.float64)
            for plane in (rows.seen, rows.signs)
        )
        return Pairs(sums, seen, products, both, plus)
    return _complete(sums, float(len(rows)), products)


def _here(*sums: Array) -> list[np.ndarray]:
    """Sums over columns as float64 on the host, where they come in one copy."""
    xp = namespace(*sums)
    found = np.asarray(
        to_host(xp.concat([xp.astype(xp.reshape(a, (-1,)), xp.float64) for a in sums]))
    )
    parts = np.split(found, np.cumsum([a.size for a in sums])[:-1])
    return [part.reshape(a.shape) for part, a in zip(parts, sums, strict=True)]


def _complete(sums: np.ndarray, rows: float, products: np.ndarray) -> Pairs:
    """The sums of rows without gaps."""
    plus = (rows + sums[:, None] + sums + products) / 4
    return Pairs(sums, np.full(len(sums), rows), products, np.full(products.shape, rows), plus)


def determined(
    owners: Sequence[Bits | Reread], known: Sequence[Sequence[int]] = (), seed: int = 0
) -> Determined:
    """Find the columns that determine each other."""
    moments = [_here(*column_moments(rows)) for rows in owners]
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
        # Most columns of a few rows of one pattern hold one value, and are not silent.
        return Determined(np.where(there, np.arange(N), -1), slope, centre, level, single)
    if varies.sum() < 2 or _are_exact(owners, int(varies.sum())):
        return Determined(np.arange(N), slope, centre, level, single)
    columns = np.flatnonzero(varies)
    if len(columns) > WIDE:
        columns = _candidates(owners, columns, seed)
    if len(columns) < 2:
        return Determined(leader, slope, centre, level, single)
    asked = _asked(owners, columns)
    with blas_threads(1):  # matrices are small
        told = _Search(asked, level[columns]).run()
    own = int((told.leader == np.arange(len(columns))).sum() + varies.sum() - len(columns))
    if own < 2:
        return Determined(leader, slope, centre, level, single)
    leader[columns] = columns[told.leader]
    for j in np.flatnonzero(told.leader != np.arange(len(columns))):
        i = told.leader[j]
        at, m = columns[j], asked.means
        slope[at] = asked.correlations[i, j] * np.sqrt((1 - m[j] ** 2) / (1 - m[i] ** 2))
        centre[at] = m[j] - slope[at] * m[i]
    level[columns] = told.level
    for k, group in enumerate(known):  # a level stays one, unless all of them follow from others
        live = [j for j in group if leader[j] >= 0]
        own = [j for j in live if leader[j] != j]
        if own and (len(own) < len(live) or set(leader[own].tolist()) & set(group)):
            leader[own], slope[own], centre[own] = own, 0.0, (sums / (seen + 1))[own]
            level[live] = len(told.level) + k
    level[leader != np.arange(N)] = -1
    numbers = np.unique(level[level >= 0])
    level = np.where(level >= 0, np.searchsorted(numbers, level), -1)
    return Determined(leader, slope, centre, level, single)


def _are_exact(owners: Sequence[Bits | Reread], varies: int) -> bool:
    """Whether rows are a few patterns without noise, of which any columns determine others.

    Fewer different rows than columns, each twice in the mean, tell of patterns, not of columns.
    """
    held = [rows for rows in owners if not isinstance(rows, Reread)]
    if len(held) < len(owners):
        return False
    few = [to_host(row_marks(rows[: 2 * varies])) for rows in held]  # seldom fewer than all are
    if len(np.unique(np.concatenate(few))) >= varies:
        return False
    whole = all(len(rows) <= 2 * varies for rows in held)
    marks = np.concatenate(few if whole else [to_host(row_marks(rows)) for rows in held])
    different = len(np.unique(marks))
    return different < varies and 2 * different <= len(marks)


def _asked(owners: Sequence[Bits | Reread], columns: np.ndarray) -> Pairs:
    """Sums of all owners; of many rows that are held, some, evenly from all."""
    answers = []
    for rows in owners:
        if isinstance(rows, Reread):
            products = rows.totals.products
            if products is not None and not rows.gaps:
                own = products[np.ix_(columns, columns)]
                answers.append(
                    _complete(rows.totals.sums[columns].astype(float), float(len(rows)), own)
                )
                continue
            answers.append(total(rows, partial(pairs, columns=columns)))
            continue
        step = max(1, len(rows) * len(columns) ** 2 // WORK)
        part = rows[::step] if step > 1 else rows
        answers.append(pairs(part, None if len(columns) == rows.shape[1] else columns))
    return sum(answers[1:], start=answers[0])


@dataclass
class _Search:
    """The search in sums over pairs of columns, all of which vary."""

    pairs: Pairs
    level: np.ndarray

    def __post_init__(self) -> None:
        self.leader = np.arange(len(self.pairs.sums))

    def run(self) -> _Search:
        """Clusters that may be copies, then levels among their leaders, then the tests of both."""
        for errors in ERRORS if self.clusters(ERRORS[-1]) else ():
            clusters = self.clusters(errors)
            if errors:  # many columns that nearly agree are no copies, but of clear classes
                most = min(MISTYPED, len(self.leader) // 2)
                clusters = [c for c in clusters if len(c) - 1 <= most]
            if clusters:
                copied = np.concatenate([cluster[1:] for cluster in clusters])
                between = self.between(clusters, self.variables(copied))
                for cluster in clusters:
                    self.merge(cluster, between)
        first = self.level.max(initial=-1) + 1
        for k, group in enumerate(self.variables()):
            self.level[group] = first + k
        return self

    def known(self) -> list[np.ndarray]:
        """Levels of each variable that was known beforehand."""
        return [np.flatnonzero(self.level == k) for k in np.unique(self.level[self.level >= 0])]

    def clusters(self, errors: float) -> list[np.ndarray]:
        """Columns that are alike or opposite; the first of each stands for them."""
        p, R = self.pairs, self.pairs.correlations
        apart = (p.both - np.abs(p.products)) / 2
        alike = (np.abs(R) >= ALIKE) & (apart <= _few(errors, p.both))
        left = self.leader == np.arange(len(R))
        alike &= left & left[:, None]
        np.fill_diagonal(alike, False)
        i, j = np.nonzero(np.triu(alike))
        if not len(i):
            return []
        sure = self.told(i, j) > 2 * np.log(len(R)) + NATS
        alike[i[~sure], j[~sure]] = alike[j[~sure], i[~sure]] = False
        left, found = alike.any(axis=1), []
        links = alike.sum(axis=1) + (self.level >= 0) * len(R)  # levels stay together
        for a in np.argsort(-links, kind="stable"):
            if left[a]:
                others = np.flatnonzero(alike[a] & left)
                left[a] = left[others] = False
                if len(others):
                    found.append(np.concatenate([[a], others]))
        return found

    def told(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Nats that pairs of columns say of each other."""
        p = self.pairs
        n = np.maximum(p.both[i, j], 1)
        a, b = (1 + p.means[i]) / 2, (1 + p.means[j]) / 2
        both = np.clip(p.plus[i, j] / n, np.maximum(a + b - 1, 0), np.minimum(a, b))
        cells = np.stack([both, a - both, b - both, 1 - a - b + both])
        own = np.stack([a * b, a * (1 - b), (1 - a) * b, (1 - a) * (1 - b)])
        cells = np.maximum(cells, 0)
        return np.asarray(
            n * (xlogy(cells, cells) - xlogy(cells, np.maximum(own, 1e-12))).sum(axis=0)
        )

    def variables(self, without: Sequence[int] = ()) -> list[np.ndarray]:
        """Neighbouring columns, three or more, of which one is +1 in every row."""
        p, found = self.pairs, []
        alone = (self.leader == np.arange(len(self.leader))) & (self.level < 0)
        alone[list(without)] = False
        among = np.flatnonzero(alone)
        plus, both = p.plus[np.ix_(among, among)], p.both[np.ix_(among, among)]
        often, rows, a = np.diag(plus), np.diag(both), 0
        while a < len(among):
            b = a + 1
            while (
                b < len(among)
                and often[a:b].sum() < rows[a]
                and not plus[a:b, b].any()
                and both[a, b] == rows[a] == rows[b]
            ):
                b += 1
            chance = (often[a:b].sum() ** 2 - (often[a:b] ** 2).sum()) / (2 * rows[a])
            if b - a > 2 and often[a:b].sum() == rows[a] and chance >= LEAST:
                found.append(among[a:b])
                a = b
            else:
                a += 1
        return found

    def between(self, clusters: list[np.ndarray], groups: list[np.ndarray]) -> np.ndarray | None:
        """(n, n) part of the correlations that other columns explain: those of the classes.

        The entries within a cluster of copies, and within a variable, are taken for unknown, and
        completed by few directions; None where columns are too few to tell them.
        """
        groups = [*groups, *self.known()]
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
        known = self.explained(self.pairs.correlations[at], hidden, self.pairs.both[at])
        if known is None:
            return None
        whole = np.zeros((len(unit), len(unit)))
        whole[at] = known
        return whole

    @staticmethod
    def explained(R: np.ndarray, hidden: np.ndarray, both: np.ndarray) -> np.ndarray | None:
        """What `between` says of correlations R (n, n) of rows that have `both`."""
        n, B, k = len(R), np.zeros_like(R), 0
        if hidden.all():
            return None
        units = len(np.unique(hidden, axis=0))
        rows = max(int(np.median(both[~hidden])), 2)
        edge = white_edge(rows, n, 1e-3) / rows - 1
        while more := int((np.linalg.eigvalsh(np.where(hidden, 0.0, R - B)) > edge).sum()):
            k += more
            if k >= units or (units - k) ** 2 < units + k:
                return None
            B = _completed(R, hidden, k)
        return B

    def merge(self, cluster: np.ndarray, between: np.ndarray | None) -> None:
        """Let those columns follow the first of a cluster whose agreement others do not explain."""
        if between is None:
            return
        R, p, a = self.pairs.correlations, self.pairs, cluster[0]
        own = np.clip(1 - np.diag(between), 1e-9, 1)
        for b in cluster[1:]:
            rest = np.sign(R[a, b]) * (R[a, b] - between[a, b])
            shown = p.both[a, b] * min(own[x] * (1 - p.means[x] ** 2) for x in (a, b)) / 4
            if rest > REMAINS * np.sqrt(own[a] * own[b]) and shown >= SHOWN:
                self.leader[b] = a


def _completed(R: np.ndarray, hidden: np.ndarray, k: int) -> np.ndarray:
    """Part of R (n, n) of rank k that fits the entries that are not hidden, by least squares."""
    values, vectors = np.linalg.eigh(np.where(hidden, 0.0, R))
    right = vectors[:, -k:] * np.sqrt(np.maximum(values[-k:], 1e-6))
    seen = (~hidden).astype(np.float64)
    held, ridge, B = R * seen, RIDGE * np.eye(k), np.zeros_like(R)
    for _ in range(STEPS):
        moments = seen @ (right[:, :, None] * right[:, None, :]).reshape(len(R), -1)
        left = np.linalg.solve(moments.reshape(-1, k, k) + ridge, (held @ right)[:, :, None])[
            ..., 0
        ]
        new = (left @ right.T + right @ left.T) / 2
        moved = np.abs(new - B)[hidden].max()
        B, right = new, left
        if moved < STILL:
            break
    return B


def _candidates(owners: Sequence[Bits | Reread], columns: np.ndarray, seed: int) -> np.ndarray:
    """Columns of a wide table that an owner finds alike or levels, and some others."""
    found = np.zeros(0, int)
    for rows in owners:
        step = 1 if isinstance(rows, Reread) else max(1, rows.shape[0] // SAMPLE)
        found = np.union1d(found, _look(rows[: SAMPLE * step : step]))
    found = np.intersect1d(found, columns)[:WIDE]
    if not len(found):
        return found
    others = stream(seed, "other columns").permutation(np.setdiff1d(columns, found))
    return np.union1d(found, others[:OTHERS])


def _look(rows: Bits) -> np.ndarray:
    """Columns of some rows that others equal, or oppose, in an eighth of their words or more."""
    signs, seen = (rows.signs, rows.seen) if isinstance(rows, MaskedBits) else (rows, None)
    plus = np.asarray(to_host(kernels.transpose(signs).words))[:, : len(rows) // 64]
    there = np.full_like(plus, 2**64 - 1)
    if seen is not None:
        there = np.asarray(to_host(kernels.transpose(seen).words))[:, : len(rows) // 64]
    either = np.minimum(plus, there & ~plus)  # the same of a column and its opposite, in a word
    found = [np.zeros(0, int)]
    for word in either.T:  # typing errors spare most words
        _, kind, size = np.unique(word, return_inverse=True, return_counts=True)
        found.append(np.flatnonzero((size[kind] > 1) & (size[kind] <= CROWD)))
    often = np.bincount(np.concatenate(found), minlength=len(plus))
    return np.flatnonzero(8 * often >= either.shape[1])
