"""Mixture of classes: questions for owners' sums, prior and evidence, and the steps of EM.

Given class mu an observed entry is +1 with probability ``p_mu,j``, and ``T = 2 p - 1`` is its mean.
The p of a column have a Beta prior around its rate in the whole table, of one fitted concentration
c. The evidence is that of Cheeseman and Stutz (1996), less what is unknown of rows that may be of
several classes (`Prior.unsure`, `loss`). Each question is about the K classes that the owner last
learned, costs one pass over the rows, and reveals the sums that its docstring names, never a row.

Source: theory/NOTES.md, "Starting the classes", "Resolution".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln, xlogy

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed._lib.random import stream
from hopfed.archetypes.row_weights import is_survey
from hopfed.archetypes.session import (
    NONE,
    Owner,
    Session,
    Variables,
    by_blocks,
    log_odds,
    means_inside,
    total,
)
from hopfed.federation.messages import Message
from hopfed.kernels.dispatch import on_device
from hopfed.spectral.rows import (
    count_equal_rows,
    hide_other_columns,
    host_moments,
    neighbour_deviation,
    times,
)

TINY = 1e-300


def column_sums(owner: Owner, _: Message) -> Message:
    """Question: sums and numbers of observed entries of each column, before any class sums."""
    sums, seen = host_moments(owner.rows)
    return {"sums": sums.astype(np.int32), "seen": seen.astype(np.int32)}


@by_blocks
def class_sums(owner: Owner, sent: Message) -> Message:
    """Question: class sums, by classes that owners learn; one step of EM asks for nothing else."""
    owner.learn(sent["means"], sent["shares"])
    likelihood = owner.added(owner.log_densities)
    return {**weighted_sums(owner, owner.weights), "log_likelihood": likelihood}


@by_blocks
def sums_and_pairs(owner: Owner, sent: Message) -> Message:
    """Question: class sums, and sums (K, K) of products of two responsibilities of a row."""
    sums, weights = class_sums(owner, sent), owner.weights
    once = weights if owner.rows.counts is None else owner.posterior
    return {**sums, "pairs": once.T @ weights}


def score_sums(owner: Owner, _: Message) -> Message:
    """Question: class sums of squared scores of means (K, N), by weights and their squares."""
    T, R, often = owner.means, to_host(owner.posterior), to_host(owner.often)[:, None]
    found = {}
    for name, weights in (("once", often * R**2), ("twice", (often * R) ** 2)):
        sums = weighted_sums(owner, like(weights, owner.posterior))
        signed, seen = to_host(sums["signed"]), to_host(sums["seen"])
        found[name] = (1 + T**2) * seen - 2 * T * signed  # of (x - T)^2
    return found


def weighted_sums(owner: Owner, weights: np.ndarray) -> Message:
    """Class sums of an owner by weights (M, K) of rows: counts (K,), signed, and seen (K, N)."""
    counts, signed, seen = owner.sums(weights)
    seen = namespace(seen).maximum(seen, abs(signed))  # only rounding makes it smaller
    return {"counts": counts, "signed": signed, "seen": seen}


def sums_in_columns(variables: Variables, owner: Owner, sent: Message) -> Message:
    """Question: class sums (K, N) in all columns, of classes that are known in some columns."""
    some = owner.rows.columns(sent["columns"])
    seen = Owner(some, owner.index, variables)
    seen.learn(sent["means"], sent["shares"])
    return weighted_sums(owner, seen.weights)


CROWD = 5  # rows that a centre of an owner's sketch sums up, at least
SKETCHED = 20_000  # rows from which an owner makes its sketch, at most
ROUGH = 5  # steps of k-means for a sketch, which only sums up rows
TRIED = 4  # points that may be the next first centre of k-means


def sketch(seed: int, draw: int, owner: Owner, sent: Message) -> Message:
    """Question: k-means centres (k, K) of at least CROWD rows, and counts, to start class sums."""
    rng = stream(seed, "sketch", owner.index, draw)
    Z, often = _projections(owner, sent["basis"]), to_host(owner.often)
    if len(Z) > SKETCHED:
        chosen = rng.choice(len(Z), SKETCHED, replace=False)
        Z, often = Z[chosen], often[chosen]
    most = max(1, min(int(sent["centres"]), int(rows := often.sum()) // (2 * CROWD)))
    centres, labels = clusters(Z, often, most, rng, 1, ROUGH)
    counts = np.bincount(labels, often, minlength=len(centres))
    kept = counts >= CROWD
    if not kept.any():
        centres, counts, kept = (often @ Z / rows)[None], np.array([rows]), np.array([True])
    return {"centres": centres[kept].astype(np.float32), "counts": counts[kept].astype(np.int32)}


def nearest_sums(owner: Owner, sent: Message) -> Message:
    """Question: class sums over the k-means centres nearest to the projections of rows."""
    Z, centres = _projections(owner, sent["basis"]), sent["centres"]
    labels = (Z @ centres.T - (centres**2).sum(axis=1) / 2).argmax(axis=1)
    weights = np.eye(len(centres), dtype=owner.precision)[labels]
    if owner.rows.counts is not None:
        weights *= owner.rows.counts[:, None]
    return weighted_sums(owner, like(weights, owner.rows.home))


def _projections(owner: Owner, basis: np.ndarray) -> np.ndarray:
    """An owner's rows projected on a basis (N, K): (M, K), on the host, for k-means."""
    return to_host(times(owner.rows, like(basis, owner.rows.home)))


def clusters(
    points: np.ndarray, weights: np.ndarray, size: int, rng: Any, starts: int, steps: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """K-means to start class sums: centres (k, K) and labels of weighted points, the best found."""
    size, squares, least = min(size, len(points)), (points**2).sum(axis=1), np.inf
    weights = weights.astype(points.dtype)
    for _ in range(starts):
        centres, before = points[_far_apart(points, weights, squares, size, rng)], np.inf
        for _ in range(steps):
            near = centres @ points.T - (centres**2).sum(axis=1)[:, None] / 2
            best = near.max(axis=0)
            error = float(weights @ (squares - 2 * best))
            if error >= before:
                break
            before, belong = error, (near == best) * weights
            rows = np.maximum(belong.sum(axis=1, keepdims=True), TINY)
            centres = np.where(rows > TINY, belong @ points / rows, centres)
        if error < least:
            least, found = error, (centres, near.argmax(axis=0))
    return found


def _far_apart(
    points: np.ndarray, weights: np.ndarray, squares: np.ndarray, size: int, rng: Any
) -> list[int]:
    """First centres of k-means++ to start class sums, each the best of a few points far away."""
    away, chosen = np.ones(len(points)), []
    for i in range(size):
        reach = np.cumsum(away * weights)
        tried = np.searchsorted(reach, rng.random(TRIED if i else 1) * reach[-1])
        apart = squares - 2 * (points[tried] @ points.T) + squares[tried, None]
        apart = np.minimum(apart.clip(0), away if i else np.inf)
        best = int((apart @ weights).argmin())
        away = apart[best]
        chosen.append(int(tried[best]))
    return chosen


def effective_row_sums(owner: Owner, _: Message) -> Message:
    """Question: class sums (K,) of rows' cubed agreement with their class, and of its squares."""
    R = owner.weights
    A = times(owner.rows, like(np.arctanh(owner.means).T.astype(np.float32), R))
    A = A.clip(0.0, None) ** 3  # a row against its class does not shape it
    xp = namespace(R)
    return {"once": xp.sum(R * A, axis=0), "twice": xp.sum(R * A * A, axis=0)}


def well_explained_sums(owner: Owner, sent: Message) -> Message:
    """Question: class sums over the rows whose likelihood in a class is `above` a deviation."""
    R, T, odds = owner.weights, owner.means, np.arctanh(owner.means)
    variance = owner.along(np.zeros_like(T), (1 - T**2) * odds**2)
    fits = owner.along(odds, -T * odds) / namespace(variance).sqrt(variance.clip(1e-6, None))
    return weighted_sums(owner, R * namespace(R).astype(fits > float(sent["above"]), R.dtype))


def residual_products(owner: Owner, sent: Message) -> Message:
    """Question: class sums (K, N), products of each class's residual moment with a direction."""
    w = sent["directions"]
    along = owner.along(w, -owner.means * w)  # (x - T_k) . w_k over the entries of each row
    G = owner.weights * namespace(along).astype(along, owner.weights.dtype)
    _, signed, seen = owner.sums(G)
    return {"products": signed - like(owner.means.astype(np.float32), G) * seen}


def upper_sums(owner: Owner, sent: Message) -> Message:
    """Question: class sums over the rows of each class on the upper side of a direction."""
    w = sent["directions"]
    side = owner.along(w, -owner.means * w) > 0
    return weighted_sums(owner, owner.weights * namespace(side).astype(side, owner.weights.dtype))


def repeated_rows(owner: Owner, _: Message) -> Message:
    """Question: beside class sums, numbers (2,) of rows equal to an earlier row, or to none."""
    shown = owner.rows if owner.free.all() else hide_other_columns(owner.rows, owner.free)
    if is_survey(shown):  # scaled to the number of rows that they are worth
        worth = shown.size / len(shown)
        return {"equal": count_equal_rows(replace(shown, counts=None)) * worth}
    return {"equal": count_equal_rows(shown)}


BLOCK = 1 << 19  # entries of a block of residuals, which stays in the cache
KEPT = 1 << 25  # entries of a table up to which residuals are kept, and of a block on a device


def residuals(owner: Owner) -> Iterable[tuple[Array, Array]]:
    """Blocks of residuals ``x - E[x | row]`` and rows' counts, for questions beside class sums."""
    M, N = owner.rows.shape
    step = max(1, (KEPT if on_device(owner.rows) else BLOCK) // N)

    def blocks() -> Iterator[tuple[Array, Array]]:
        for part in (slice(first, first + step) for first in range(0, M, step)):
            x = kernels.unpack(owner.rows[part], np.float32)
            xp = namespace(x)
            expected = like(owner.means.astype(np.float32), x)
            left = xp.astype(-owner.posterior[part], xp.float32) @ expected
            left += x
            if owner.rows.gaps:
                x *= x
                left *= x
            yield left, xp.astype(owner.often[part], xp.float32)

    if owner.residuals is None and M * N <= KEPT:
        owner.residuals = list(blocks())
    return owner.residuals or blocks()


def residual_squares(owner: Owner, _: Message) -> Message:
    """Question: beside class sums, squared residuals (N,), and products of a variable's levels."""
    found = {"squares": sum(often @ E**2 for E, often in residuals(owner))}
    if owner.variables.groups:
        a, b = owner.variables.pairs
        found["inside"] = sum(often @ (E[:, a] * E[:, b]) for E, often in residuals(owner))
    return found


def residual_product(owner: Owner, sent: Message) -> Message:
    """Question: beside class sums, product (N,) of residual moment and vector, ``E^T (E w)``."""
    w = like(sent["vector"], owner.rows.home)
    return {"product": sum(((E @ w) * often) @ E for E, often in residuals(owner))}


BEGIN = 0.1  # part of the rows that the points get together at the beginning
HIGHEST = 45.0  # log-likelihood ratio beyond which a row has said enough
NIL = 1e-24  # responsibility that counts for nothing even then


def offer_points(owner: Owner, sent: Message) -> Message:
    """Question: beside class sums, mixture sums at the first parts; the owner keeps points."""
    owner.ratios = ratios(owner, sent["points"], sent["more"])
    return mixture_sums(owner, {"parts": first_parts(owner.ratios.shape[1])})


def first_parts(points: int) -> np.ndarray:
    """First parts of classes (together) and of each point, for mixture sums beside class sums."""
    return np.concatenate([[1 - BEGIN], np.full(points, BEGIN / points)])


def mixture_sums(owner: Owner, sent: Message) -> Message:
    """Question: beside class sums, log-likelihood ratio of a mixture with points; its slopes."""
    r = owner.ratios
    xp, parts = namespace(r), sent["parts"]
    mixed = r @ like(parts[1:], r) + float(parts[0])
    slopes = xp.concat([xp.ones((r.shape[0], 1), dtype=r.dtype), r], axis=1) / mixed[:, None]
    often = slopes if owner.rows.counts is None else slopes * owner.often[:, None]
    return {
        "value": owner.added(xp.log(mixed)),
        "slopes": often.sum(axis=0),
        "bends": often.T @ slopes,
    }


def ratios(owner: Owner, points: np.ndarray, more: np.ndarray) -> Array:
    """(M, S) ``sum_k R_k e^more_k p(row | points_k) / p(row | T_k)``, ratios beside class sums."""
    R, rows, S, variables = owner.posterior, owner.rows, len(points), owner.variables
    at = log_odds(owner.means, variables)
    there = [log_odds(means_inside(means), variables) for means in points]
    by_sign, by_seen = (np.array([t[i] - at[i] for t in there]) for i in (0, 1))
    xp = namespace(R)
    found = xp.zeros((rows.shape[0], S), dtype=xp.float64)
    for k in range(R.shape[1]):
        which = np.flatnonzero(to_host(R[:, k]) > NIL)
        if not len(which):
            continue
        index = like(which, R)
        logs = owner.along(by_sign[:, k], by_seen[:, k], index) + like(more[:, k], R)
        found[index] += R[index, k][:, None] * xp.exp(logs.clip(None, HIGHEST))
    return found


LOOKED_AT = 20_000  # first rows of an owner whose order is looked at


def neighbour_sums(owner: Owner, sent: Message) -> Message:
    """Question: beside class sums, standard errors by which neighbouring rows depend in classes."""
    few = Owner(owner.rows[:LOOKED_AT])
    few.learn(sent["means"], sent["shares"])
    own = to_host(few.posterior).argmax(axis=1)
    x = to_host(kernels.unpack(few.rows, np.float32))
    left = (x - sent["means"].astype(np.float32)[own]) * x**2
    return {"follow": np.array(neighbour_deviation(left))}


ALIKE = 1.0  # nats for a class that do not count: else a copy of a class would cost nothing


def loss(counts: np.ndarray, pairs: np.ndarray, observed: np.ndarray, c: float) -> np.ndarray:
    """(K, N) factors by which unsure rows raise variances of means from class sums, by column."""
    information, directions = np.linalg.eigh(pairs)
    information = np.maximum(information, 0.0)
    found = directions**2 @ (1 / (c + np.outer(information, observed)))
    return np.asarray(np.maximum(found * (c + np.outer(counts, observed)), 1.0))


LARGEST = 5_000.0
CONCENTRATIONS = np.geomspace(0.05, LARGEST, 24)  # of the prior, from +-1 to hardly any spread
COLUMNS = 128  # columns from which the concentration is fitted, at most
OWN = 5.0  # rows that the common shares weigh in the shares of an owner


@dataclass(frozen=True)
class Mixture:
    """A mixture of classes of binary columns: their means, and their shares at each owner."""

    means: np.ndarray  # (K, N) in (-1, 1)
    shares: np.ndarray  # (L, K) of the classes at each owner; rows add up to one


@dataclass(frozen=True)
class ClassSums:
    """Sums over classes of all owners' rows: what a step of EM needs."""

    counts: np.ndarray  # (L, K) responsibilities added up, by owner
    signed: np.ndarray  # (K, N) observed entries added up
    seen: np.ndarray  # (K, N) number of observed entries
    log_likelihood: float = float("nan")  # of all that is observed
    pairs: np.ndarray | None = None  # (K, K) products of two responsibilities, where asked for

    @cached_property
    def plus(self) -> np.ndarray:
        """(K, N) number of observed +1; single precision may put 0 a little below."""
        return np.maximum((self.seen + self.signed) / 2, 0.0)

    @cached_property
    def minus(self) -> np.ndarray:
        """(K, N) number of observed -1."""
        return np.maximum((self.seen - self.signed) / 2, 0.0)

    @cached_property
    def information(self) -> np.ndarray:
        """(K,) eigenvalues of `pairs`."""
        pairs = np.zeros((0, 0)) if self.pairs is None else self.pairs
        return np.maximum(np.linalg.eigvalsh(pairs), 0.0)

    def merged(self, pair: tuple[int, int]) -> ClassSums:
        """The sums where two of the classes become one."""
        fold = np.delete(np.eye(len(self.seen)), max(pair), axis=1)
        fold[max(pair), min(pair)] = 1
        pairs = None if self.pairs is None else fold.T @ self.pairs @ fold
        return ClassSums(self.counts @ fold, fold.T @ self.signed, fold.T @ self.seen, pairs=pairs)


def add_sums(answers: list[Message]) -> ClassSums:
    """Add up the class sums of all owners, from their answers."""
    likelihood = total(answers, "log_likelihood") if "log_likelihood" in answers[0] else np.nan
    return ClassSums(
        np.array([a["counts"] for a in answers], np.float64),
        total(answers, "signed"),
        total(answers, "seen"),
        float(likelihood),
        total(answers, "pairs") if "pairs" in answers[0] else None,
    )


@dataclass(frozen=True)
class Prior:
    """Beta prior of the rates of classes, column by column."""

    rates: np.ndarray  # (N,) share of +1 among the observed entries of each column
    observed: np.ndarray  # (N,) part of the entries of each column that is observed
    concentration: float = 2.0  # rows that the prior weighs; infinite for a single class
    variables: Variables = NONE  # of whose levels the rates have a Dirichlet prior
    # (L, N) part of each column that an owner observes, over that of all, where these differ
    held: np.ndarray | None = field(default=None, repr=False)
    flat: bool = False  # whether it says nothing: classes are the likeliest, with common shares
    known: bool = False  # whether its concentration stays, whatever the sums are
    # (N,) whether a column holds both values; None where all do, or where it is unknown
    varies: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def of(cls, owners: Session) -> Prior:
        """Prior from the owners' column sums: one exchange."""
        answers, rows = owners.ask(column_sums, {}), owners.sizes.sum()
        sums, each = total(answers, "sums"), np.array([a["seen"] for a in answers])
        seen = each.sum(axis=0, dtype=np.float64)
        parts = each / owners.sizes[:, None] / np.maximum(seen / rows, 1e-300)
        rates = owners.variables.normalised(((seen + sums) / 2 + 0.5) / (seen + 1))
        held = None if ((each > 0) | (seen == 0)).all() else parts
        known = cls(rates, seen / rows, variables=owners.variables, held=held)
        varies = (np.abs(sums) < seen) | (known.part > 0)  # levels count together
        return known if varies.all() else replace(known, varies=varies)

    @cached_property
    def part(self) -> np.ndarray:
        """(N,) 1 / L for a level of a variable of L levels; 0 for a column of its own."""
        return np.broadcast_to(self.variables.part, self.rates.shape)

    def fitted(self, sums: ClassSums) -> Prior:
        """Return the prior with the concentration under which these sums are most likely."""
        if self.flat or self.known:
            return self
        if len(sums.seen) == 1:
            return replace(self, concentration=np.inf)
        varies = np.ones(len(self.rates), bool) if self.varies is None else self.varies
        found = self.likeliest(sums, np.flatnonzero(varies), min(self.concentration, LARGEST))
        return self if found == self.concentration else replace(self, concentration=found)

    def likeliest(self, sums: ClassSums, columns: np.ndarray, near: float = 2.0) -> float:
        """Likeliest concentration by class sums in some columns (indices), the nearest to one."""
        if len(columns) > COLUMNS:
            columns = columns[np.linspace(0, len(columns) - 1, COLUMNS).astype(int)]
        entries = sums.plus[:, columns], sums.minus[:, columns], self.rates[columns]

        @cache
        def value(i: int) -> float:
            if not 0 <= i < len(CONCENTRATIONS):
                return -np.inf
            c = float(CONCENTRATIONS[i])
            return float(_gain(*entries, c, self.part[columns]).sum()) + self.unsure(
                sums, c, columns
            )

        i = int(np.abs(np.log(CONCENTRATIONS) - np.log(near)).argmin())
        while (best := max((i - 1, i, i + 1), key=value)) != i:
            i = best
        return float(CONCENTRATIONS[i])

    def unsure(
        self, sums: ClassSums, c: float, columns: Any = slice(None), paid: np.ndarray | None = None
    ) -> float:
        """Nats that rows unsure of their class add to the evidence of class sums."""
        if sums.pairs is None or len(sums.pairs) == 1:
            return 0.0
        n, observed = sums.counts.sum(axis=0), self.observed[columns]
        added = np.zeros(len(observed))
        for sure, known in zip(n, sums.information, strict=True):  # no (K, N) array
            added += np.log((c + sure * observed) / (c + known * observed))
        added /= 2
        if paid is not None and not np.isinf(c):
            cost = np.log1p(np.outer(n, observed) / c).sum(axis=0) / 2
            added = added * np.clip(paid / np.maximum(cost, 1e-12), 0.0, 1.0)
        return float(added @ self._free[columns])

    def parameters(self, size: int) -> int:
        """Number of free rates and shares of `size` classes."""
        return size * round(float(self._free.sum())) + size - 1

    @cached_property
    def _free(self) -> np.ndarray:
        """(N,) number of free rates of each column: 1, less for a level, 0 for a constant."""
        return 1 - self.part if self.varies is None else (1 - self.part) * self.varies

    def mixture(self, sums: ClassSums) -> Mixture:
        """Most plausible classes given their sums: means shrunk towards the columns' own."""
        common, c = sums.counts.sum(axis=0), self.concentration
        if self.flat:
            shares = np.broadcast_to(common, sums.counts.shape)
            means = np.where(sums.seen > 0, sums.signed / np.maximum(sums.seen, TINY), 0.0)
        else:
            shares = sums.counts + OWN * ((common + 1.0) / (common + 1.0).sum())
            means = sums.signed / (sums.seen + 1)
            if len(sums.seen) > 1:
                means = 2 * (c * self.rates + sums.plus) / (c + sums.seen) - 1
        return Mixture(means, shares / shares.sum(axis=1, keepdims=True))

    def gain(self, sums: ClassSums) -> np.ndarray:
        """(K,) log of the averaged likelihood of the entries of each class by itself."""
        return np.asarray(self._gains(sums).sum(axis=1))

    def _gains(self, sums: ClassSums) -> np.ndarray:
        """(K, N) log of the averaged likelihood of each class's entries in each column."""
        if np.isinf(self.concentration):
            lower = np.where(self.part > 0, 0.0, sums.minus)
            found = xlogy(sums.plus, self.rates) + xlogy(lower, 1 - self.rates)
        else:
            found = _gain(sums.plus, sums.minus, self.rates, self.concentration, self.part)
        return found if self.varies is None else found * self.varies

    def _rates_of(self, classes: Mixture) -> np.ndarray:
        return self.variables.normalised(np.clip((1 + classes.means) / 2, 1e-9, 1 - 1e-9))

    def joint(self, classes: Mixture, sums: ClassSums) -> float:
        """Log-likelihood of rows and their classes; that of rows alone adds the entropy."""
        lower = np.where(self.part > 0, 0.0, sums.minus)
        named = xlogy(sums.counts, np.maximum(classes.shares, 1e-300)).sum()
        return float(_likelihood(sums.plus, lower, self._rates_of(classes)) + named)

    def evidence(self, classes: Mixture, sums: ClassSums) -> float:
        """Log evidence of classes, from the sums that owners answered about them."""
        n = sums.counts.sum(axis=0)
        K, p = len(n), self._rates_of(classes)
        value = sums.log_likelihood - self.joint(classes, sums)
        value += self.gain(sums).sum() + label_gain(n)
        # The evidence is averaged over the columns' rates as well, which entries know this sharply.
        each = np.maximum(sums.seen, 0.5)
        if not np.isinf(self.concentration):
            each = 1 / (1 / (self.concentration + 1) + 1 / each)
        value -= (self._free * np.log(each.sum(axis=0))).sum() / 2
        if self.unsure(sums, self.concentration) > ALIKE * (K - 1):
            lower = np.where(self.part > 0, 0.0, sums.minus)
            spent = xlogy(sums.plus, p) + xlogy(lower, 1 - p)
            paid = (spent - self._gains(sums)).sum(axis=0)
            value += max(0.0, self.unsure(sums, self.concentration, paid=paid) - ALIKE * (K - 1))
        return float(value + gammaln(K + 1))  # classes have no order


def _likelihood(plus: np.ndarray, minus: np.ndarray, rates: np.ndarray) -> float:
    """Log-likelihood of numbers of +1 and -1 (K, N) at rates of classes."""
    return float((plus * np.log(rates) + minus * np.log1p(-rates)).sum())


def label_gain(n: np.ndarray) -> float:
    """Log-likelihood of the rows' classes by class sums n (K,), averaged over all shares."""
    return float(gammaln(len(n)) + gammaln(n + 1).sum() - gammaln(n.sum() + len(n)))


def _gain(
    plus: np.ndarray, minus: np.ndarray, rates: np.ndarray, c: float, part: np.ndarray
) -> np.ndarray:
    """(K, N) log likelihood of classes' entries averaged over Beta, or for levels Dirichlet."""
    a, b = c * rates, c * (1 - rates)
    found = gammaln(a + plus) + gammaln(b + minus) - gammaln(c + plus + minus) - betaln(a, b)
    if part.any():
        level = gammaln(a + plus) - gammaln(a) - part * (gammaln(c + plus + minus) - gammaln(c))
        found = np.where(part > 0, level, found)
    return found


STILL = 0.02  # nats still to gain, below which a fit is settled
EMPTY = 0.5  # rows below which a class is dropped


@dataclass(frozen=True)
class Fit:
    """A fit: classes, the owners' sums over them, and the prior; `settled` when EM is done."""

    classes: Mixture  # as they were sent to the owners
    sums: ClassSums  # the owners' answers
    prior: Prior  # under which the classes were made
    settled: bool = False  # whether another exchange would change nothing
    ahead: float = np.inf  # nats that more exchanges would gain, about; infinite if not known

    @property
    def size(self) -> int:
        """Number of classes K."""
        return len(self.classes.means)

    @cached_property
    def evidence(self) -> float:
        """Log evidence of the classes."""
        return self.prior.evidence(self.classes, self.sums)


def class_messages(classes: Mixture) -> tuple[Message, Message]:
    """Messages that ask owners for class sums: means to all, and shares to each its own."""
    means, shares = (x.astype(np.float32) for x in (classes.means, classes.shares))
    return {"means": means}, {"shares": shares}


def e_step(owners: Session, classes: Mixture, prior: Prior) -> Fit:
    """E step of EM: ask the owners for class sums by given classes, in one exchange."""
    sums = add_sums(owners.ask(sums_and_pairs, *class_messages(classes)))
    owners.heard = classes
    return Fit(classes, sums, prior.fitted(sums))


def remind_owners(owners: Session, fit: Fit) -> None:
    """Ask owners for class sums by `fit` again, if they were asked about other classes since."""
    if owners.heard is not fit.classes:
        e_step(owners, fit.classes, fit.prior)


def m_step(fit: Fit) -> Mixture:
    """M step of EM: most plausible classes given the class sums of a fit; drops empty classes."""
    sums = fit.sums
    kept = sums.counts.sum(axis=0) >= EMPTY
    if not kept.all() and kept.any():
        pairs = None if sums.pairs is None else sums.pairs[np.ix_(kept, kept)]
        sums = ClassSums(sums.counts[:, kept], sums.signed[kept], sums.seen[kept], pairs=pairs)
    return fit.prior.mixture(sums)


def fit_sums(owners: Session, sums: ClassSums, prior: Prior, steps: int) -> Fit:
    """Fit classes by EM from given class sums, by `steps` exchanges at most."""
    prior = prior.fitted(sums)
    return improve(owners, e_step(owners, prior.mixture(sums), prior), steps - 1)


def improve(owners: Session, fit: Fit, steps: int, still: float = STILL) -> Fit:
    """Improve a fit by class sums, in at most `steps` exchanges of EM, extrapolating two steps."""
    while steps > 0 and not fit.settled:
        steps -= 1
        first = e_step(owners, m_step(fit), fit.prior)
        second = m_step(first)
        if len(second.means) < fit.size:
            fit = first
            continue
        at = [_place(classes, first) for classes in (fit.classes, first.classes, second)]
        step, next_step = at[1] - at[0], at[2] - at[1]
        long, short = np.linalg.norm(step), np.linalg.norm(next_step)
        gain = _height(first, fit.prior) - _height(fit, fit.prior)
        ratio = float(short) / max(float(long), TINY)  # gains shrink by its square at every step
        ahead = abs(gain) / (1 - ratio**2) if ratio < 1 else np.inf
        if ahead < still:
            return replace(first, ahead=ahead, settled=True)
        fit = replace(first, ahead=ahead)
        if steps > 0:
            times = long / max(float(np.linalg.norm(next_step - step)), TINY)
            there = at[0] + 2 * times * step + times**2 * (next_step - step)
            steps -= 1
            cut, shape = first.classes.means.size, first.classes.means.shape
            unit = np.maximum(np.sqrt(first.sums.seen).ravel(), TINY)
            angles, near = there[:cut] / unit, np.abs(at[2][:cut] / unit)
            most = np.pi / 2 - (np.pi / 2 - near) / 2  # half of the way to rates of 0 and 1
            shares = np.maximum(there[cut:], at[2][cut:] / 2) ** 2
            shares = np.maximum(shares.reshape(first.classes.shares.shape), TINY)
            shares /= shares.sum(axis=1, keepdims=True)
            classes = Mixture(np.sin(np.clip(angles, -most, most)).reshape(shape), shares)
            jump = e_step(owners, classes, first.prior)
            if _height(jump, first.prior) >= _height(first, first.prior):
                fit = replace(jump, ahead=ahead)
    return fit


def _height(fit: Fit, prior: Prior) -> float:
    """Log-likelihood of the rows, and of a fit's means under a prior, which steps of EM raise."""
    if prior.flat or np.isinf(prior.concentration):
        return fit.sums.log_likelihood
    weighed = prior.concentration * np.broadcast_to(prior.rates, fit.classes.means.shape)
    rates = np.clip((1 + fit.classes.means) / 2, 1e-9, 1 - 1e-9)
    return fit.sums.log_likelihood + _likelihood(weighed, prior.concentration - weighed, rates)


def _place(classes: Mixture, fit: Fit) -> np.ndarray:
    """Classes as a point for EM's steps: squared lengths are about nats, at the sums of `fit`."""
    means = np.arcsin(np.clip(classes.means, -1, 1)) * np.sqrt(fit.sums.seen)
    rows = fit.sums.counts.sum(axis=1, keepdims=True)
    return np.concatenate([means.ravel(), (2 * np.sqrt(classes.shares * rows)).ravel()])


def lanczos(
    product: Callable[[np.ndarray], np.ndarray], start: np.ndarray, steps: int, wanted: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Lanczos on products that are class sums: largest eigenvalues (B, wanted), and vectors."""
    B, N = start.shape
    steps = min(steps, N)
    basis, images = np.zeros((2, B, steps, N))
    q = start
    for i in range(steps):
        norms = np.linalg.norm(q, axis=1, keepdims=True)
        basis[:, i] = np.where(norms > 1e-9, q / np.maximum(norms, TINY), 0.0)
        images[:, i] = product(basis[:, i])
        q, known = images[:, i, None], basis[:, : i + 1]
        for _ in range(2):  # once is not enough where eigenvalues are close
            q = q - q @ known.transpose(0, 2, 1) @ known
        q = q[:, 0]
    small = basis @ images.transpose(0, 2, 1)
    values, E = np.linalg.eigh((small + small.transpose(0, 2, 1)) / 2)
    E = E[:, :, ::-1][:, :, :wanted]
    return values[:, ::-1][:, :wanted], E.transpose(0, 2, 1) @ basis
