"""Measure the evidence against fitted classes: statistics beside replicas, and rival models.

Beside replicas lie the largest eigenvalue of the second moment of standardised residuals, whose
vectors say which columns depend on each other; the gain of points beside the classes; and how often
rows equal each other. In few columns a trait, a gradient and a ring explain nearly as much as
classes, so these are fitted as well (`trait_gain`).

Sources: theory/NOTES.md, "Tests of local independence"; Y. Kim, P. Carbonetto, M. Stephens,
M. Anitescu, J. Comput. Graph. Stat. 29 (2020) 261, for the parts; Birnbaum's model (Lord and
Novick, 1968, chapter 17), fitted as Bock and Aitkin do, Psychometrika 46 (1981), 443-459.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq, nnls
from scipy.special import chdtrc, chdtri, comb, expit

import hopfed.archetypes.class_sums as asks
from hopfed._lib.random import stream
from hopfed.archetypes.channel_and_replicas import Channel, fit_replica
from hopfed.archetypes.class_sums import (
    ClassSums,
    Fit,
    Mixture,
    Prior,
    add_sums,
    e_step,
    lanczos,
    loss,
    remind_owners,
)
from hopfed.archetypes.session import NONE, Owner, Owners, Session, Variables, means_inside, total
from hopfed.archetypes.verdict import DEVIATIONS, ClassMeasures, Residual, judge_size
from hopfed.federation.messages import Message
from hopfed.spectral.rank import white_edge

REPLICAS = 20  # tables drawn from the fitted classes
LEVEL = 1e-3  # false-alarm rate of the edge of noise, the unit of ratios
DIRECTIONS = 6  # leading residual eigenvectors that are looked at
LOADED = 0.15  # times the square of an eigenvector's largest entry, from which others count
# FEW replicas do if a statistic is CLEAR, in standard deviations of all of them, or all are QUIET.
CLEAR, QUIET, FEW = 12.0, 2.0, 6
# Columns, in MANY of which rows hardly agree by chance, and part of entries that may differ.
MANY, SAME = 20, 1e-3

# Row tests: name; finest difference that counts; weight of a deviation above the expected value.
# Chance makes a gain of 3.5 nats of the table in one of 300 replicas; a few rows that were entered
# twice by mistake are no reason to doubt classes.
ROW_TESTS = (("beside", 1.2, 4 / 3), ("repeats", 5e-3, 1.0))


def measure_classes(
    owners: Session, fit: Fit, n_detected: int = 0, names: Sequence[str] | None = None
) -> ClassMeasures:
    """Test fitted classes beside replicas: residuals, row tests, and columns that carry classes."""
    remind_owners(owners, fit)
    first, vectors, squares, own = row_statistics(owners, fit.sums)
    M, asked, lead, rows_of, made = int(owners.sizes.sum()), 0, [first], [own], list[Any]()
    edge, rows = white_edge(M, owners.n_columns, LEVEL) / M, dict[str, float]()
    for number in range(REPLICAS):
        table, sums = fit_replica(owners, fit, number)
        more, _, _, drawn = row_statistics(table, sums)
        lead, rows_of, made = (
            [*lead, more],
            [*rows_of, drawn],
            [*made, (sums.counts, sums.seen.sum(axis=1))],
        )
        asked = max(asked, table.exchanges)  # all replicas could be asked at once
        if len(rows_of) <= FEW:
            continue
        ratios, found = np.array(lead) / edge, {n: np.array([r[n] for r in rows_of]) for n in own}
        expected, error = _usual(ratios[1:, 0], 1e-3)
        clear = ratios[0, 0] - expected > CLEAR * max(error, ratios[1:, 0].std(ddof=1))
        for name, finest, counts in ROW_TESTS:
            ours, others = found[name][0], found[name][1:]
            usual, spread = _usual(others, finest)
            rows[name] = counts * max(0.0, float((ours - usual) / spread))
            clear |= counts * (ours - usual) > CLEAR * max(spread, others.std(ddof=1))
        if clear or max((ratios[0, 0] - expected) / error, *rows.values()) < QUIET:
            break
    owners.exchanges += asked
    loud = vectors[ratios[0] > expected + DEVIATIONS * error]
    numbers = np.arange(owners.n_columns) if owners.columns is None else owners.columns
    residual = Residual(float(ratios[0, 0]), expected, error, numbers[dependent_columns(loud)])
    columns = carrying_columns(fit, squares)
    prior, differ = fit.prior, np.minimum(fit.sums.plus, fit.sums.minus).sum(axis=1)
    varies = slice(None) if prior.varies is None else prior.varies
    whole = float((4 * prior.rates * (1 - prior.rates) * prior.observed).sum())
    equal = (differ <= SAME * fit.sums.seen.sum(axis=1)) & (len(prior.rates[varies]) >= MANY)
    weak, copies = weaker_forms(fit)
    return ClassMeasures(
        size=fit.size,
        residual=residual,
        rows=rows,
        mixed_membership=found["mixed_membership"][0] > 0,
        within=float(squares.sum() / max(whole, 1e-12)),
        repeats=found["repeats"],
        repeated=bool(found["single"][0] == 0),
        carrying=numbers[columns],
        worth=worth_of_columns(columns, prior.part, prior.variables is not NONE),
        needed=2 * int(np.ceil(np.log2(fit.size))) + 1,  # to tell them from dependent columns
        twins=numbers[twin_columns(fit)],
        gaps=gaps_follow_classes(owners, fit.sums, made),
        weak=weak,
        copies=copies,
        equal=int(equal.sum()),
        more_shown=max(fit.size, 1) < n_detected,
        little=judge_size(float(M), prior.observed[varies]),
        names=names,
    )


def row_statistics(
    owners: Session, sums: ClassSums
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, float]]:
    """Class tests of a table or replica: residual eigenvalues, vectors, mean squares, row tests."""
    equal = total(owners.ask(asks.repeated_rows, {}), "equal") / owners.n_rows
    gain, mixed = gain_beside(owners, sums)
    rows = {"repeats": float(equal[0]), "single": float(equal[1])}
    rows |= {"beside": gain, "mixed_membership": mixed}
    return *residual_edge(owners, DIRECTIONS), rows


def differ(owners: Session, told: Fit, fit: Fit, rows: float) -> bool:
    """Whether means or shares of a fit beat those told by more than errors from `rows` explain."""
    common = np.tile(owners.sizes @ fit.classes.shares / owners.n_rows, (len(owners.sizes), 1))
    each = (Mixture(fit.classes.means, shares) for shares in (told.classes.shares, common))
    fits = (told, *(e_step(owners, classes, fit.prior) for classes in each))
    gains = np.diff([each.sums.log_likelihood for each in fits])
    half = np.array([fit.prior.parameters(fit.size) - fit.size + 1, fit.size - 1]) / 2
    usual = (half + DEVIATIONS * np.sqrt(half)) * max(owners.n_rows / rows, 1.0)
    return bool((gains > usual).any())


def _usual(values: np.ndarray, finest: float) -> tuple[float, float]:
    """Centre and standard deviation of a statistic over replicas; a few may lie far off."""
    centre = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - centre)))
    # The median deviation of twenty values is itself uncertain: the larger of two estimates.
    near = np.abs(values - centre) < 5 * max(spread, finest)
    spread = max(spread, float(values[near].std(ddof=1)) if near.sum() > 2 else 0.0, finest)
    return centre, spread * np.sqrt(1 + 1 / len(values))


PRODUCTS = 20  # products for the largest eigenvalue; the rows and their replicas get equally many
RARE = 10.0  # entries of its rarer kind below which a column is not scaled up to unit variance


def residual_edge(owners: Session, wanted: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class test of standardised residuals: leading eigenpairs, and mean squares of columns."""
    M, variables = owners.n_rows, owners.variables
    answers = owners.ask(asks.residual_squares, {})
    squares = total(answers, "squares") / M
    # A few entries that stand out of a column that is otherwise constant are no dependence.
    scale = 1 / np.sqrt(np.maximum(squares, min(4 * RARE / M, 0.5)))

    def product(w: np.ndarray) -> np.ndarray:
        v = w[0] * scale
        asked = owners.ask(asks.residual_product, {"vector": v.astype(np.float32)})
        image = total(asked, "product")
        if variables.groups:  # levels of a variable must depend on each other
            a, b = variables.pairs
            np.subtract.at(image, a, total(answers, "inside") * v[b])
        return (image * scale / M)[None]

    start = stream(owners.seed, "residual").standard_normal((1, owners.n_columns))
    values, vectors = lanczos(product, start, PRODUCTS, wanted)
    owners.forget()
    return values[0], vectors[0], squares


def dependent_columns(vectors: np.ndarray) -> np.ndarray:
    """Columns that a class test finds dependent: those that carry residual eigenvectors (k, N)."""
    squares = vectors**2
    loaded = squares >= LOADED * squares.max(axis=1, keepdims=True)
    strength = np.where(loaded, squares, 0.0).max(axis=0, initial=0.0)
    order = np.argsort(-strength, kind="stable")
    return order[strength[order] > 0]


AXES = 3  # on which classes differ most
WIDTH = 1.5  # of the steps off a class, in standard deviations of the place that a row shows
FAINT = 0.02  # variance of an entry below which it counts as one of this variance
QUALITIES = (0.15, 0.35, 0.7)  # of weaker rows, towards coins
NEARER = (0.45,)  # the same, towards the mean of all rows
GONE = -200.0  # change of its log share that takes a class away
EXCHANGES = 6  # at most: four reach the top within a few hundredths of a nat, as a rule
ENOUGH = 0.03  # nats that a step must promise
RIDGE = 1e-6  # of a row, added to the curvature of every part: points may be alike
SHORTER = 0.4  # part that is kept of a step that led down
ROUNDING = 1e-10  # added to unit curvatures that rounding has made indefinite


def gain_beside(owners: Session, sums: ClassSums) -> tuple[float, float]:
    """Class test: gain in nats of points beside the classes; and above 0 where rows lie between."""
    points = points_beside(owners.means, sums, owners.variables)
    gain, parts = fit_points(owners, points)
    weak = len(QUALITIES) + len(NEARER)
    weak += (weak + 1) * (points["points"].shape[1] > 1)
    return gain, float(parts[1:-weak].sum() - parts[-weak:].sum())


def points_beside(means: np.ndarray, sums: ClassSums, variables: Variables) -> Message:
    """Points for a class test, between or weaker: means (S, K, N), change of log shares."""
    inside, rates = variables.inside, variables.normalised((1 + means) / 2)
    natural = np.where(inside, np.log(rates), np.arctanh(means))
    noise = np.maximum(np.where(inside, rates, 1 - means**2), FAINT)
    unit, counts = np.sqrt(noise.mean(axis=0)), np.maximum(sums.counts.sum(axis=0), 1e-9)
    _, sizes, V = np.linalg.svd((natural - natural.mean(axis=0)) * unit, full_matrices=False)
    axes = (V / unit)[: min(AXES, len(means) - 1)]
    axes = axes[sizes[: len(axes)] > 1e-6]
    observed = sums.seen.sum(axis=0) / counts.sum()
    lengths = WIDTH / np.sqrt(axes**2 @ (noise * observed).T + 1e-12)  # (D, K)
    off = np.where(inside, 0.5, 1) * axes @ (sums.signed - sums.seen * means).T / counts
    points, more = [], []
    for steps in (-lengths, lengths):
        for axis, step, shift in zip(axes, steps, off, strict=True):
            moved = natural + step[:, None] * axis
            level = variables.normalised(np.exp(np.where(inside, moved, 0.0)))
            points.append(np.where(inside, 2 * level - 1, np.tanh(moved)))
            more.append(-shift * step)
    usual = sums.signed.sum(axis=0) / np.maximum(sums.seen.sum(axis=0), 1.0)
    weak = [q * means for q in QUALITIES] + [usual + q * (means - usual) for q in NEARER]
    points, more = points + weak, more + [np.zeros(len(means))] * len(weak)
    if len(means) > 1:  # the weakest class may be such rows: all points again, without it
        without = np.where(np.arange(len(means)) == (means**2).sum(axis=1).argmin(), GONE, 0.0)
        without -= np.log(counts[without == 0].sum() / counts.sum())
        points, more = [*points, *weak, means], more + [without] * (len(weak) + 1)
    return {"points": np.array(points, np.float32), "more": np.array(more)}


def fit_points(owners: Session, points: Message) -> tuple[float, np.ndarray]:
    """Class test: gain in nats of the best mixture of points and classes; its parts (S + 1,)."""
    answers, rows, reached = owners.ask(asks.offer_points, points), owners.n_rows, -np.inf
    asked = asks.first_parts(len(answers[0]["slopes"]) - 1)
    at, step = asked, np.zeros_like(asked)
    for left in reversed(range(EXCHANGES)):
        value, slopes, bends = (total(answers, name) for name in ("value", "slopes", "bends"))
        now = float(value) - rows * (asked.sum() - 1)
        if now < reached:
            step = SHORTER * step
        else:
            at, reached, uphill = asked, now, slopes - rows
            bends = bends + RIDGE * rows * np.eye(len(bends))
            try:
                root = np.linalg.cholesky(bends)
            except np.linalg.LinAlgError:  # one point drowns the others: scale each by itself
                unit = np.sqrt(np.diag(bends))
                scaled = bends / unit / unit[:, None] + ROUNDING * np.eye(len(bends))
                if not np.isfinite(scaled).all() or np.linalg.eigvalsh(scaled)[0] <= 0:
                    break  # no rows give that: an owner lies
                root = unit[:, None] * np.linalg.cholesky(scaled)
            goal = np.linalg.solve(root, uphill + bends @ at)
            step = nnls(root.T, goal, maxiter=100 * len(goal))[0] - at
            if float(uphill @ step - step @ bends @ step / 2) < ENOUGH:
                break
        asked = at + step
        if left:
            answers = owners.ask(asks.mixture_sums, {"parts": asked})
    more = float(at.sum())
    return max(0.0, float(reached + rows * (more - 1 - np.log(more)))), at


ALIKE = 1e-3  # level of the test that a class's means are multiples of those of others
WEAKER = 0.9  # quality below which a class counts as a weaker copy of another one
CERTAIN = 50.0  # gain in squared deviations from which a likeness is not by chance
COLUMNS = 10  # columns that are needed at least
CHANCE = 2e-3  # probability that other classes seem to have a part in a class of coins


def weaker_forms(fit: Fit) -> np.ndarray:
    """Class test: (2, K) qualities ``sum_k b_k`` of classes with means ``sum_k b_k T_k``; else NaN.

    The first row is for several other classes together, the second for one; there 0 means coins.
    """
    plain = fit.prior.part == 0
    weak, copies = found = np.full((2, fit.size), np.nan)
    if fit.size < 2 or plain.sum() < COLUMNS:
        return found
    means, variances = (x[:, plain] for x in known_means(fit))
    limit, numbers = chdtri(plain.sum(), ALIKE), np.arange(1, fit.size)
    parts_of = comb(fit.size - 1, numbers) / 2.0 ** (fit.size - 1)  # of others in a class of coins
    most = 40.0 + 8.0 * (fit.size - 1)
    by_chance = float(brentq(lambda x: parts_of @ chdtrc(numbers, x) - CHANCE, 0.0, most))
    usual = (means**2).sum(axis=0) / fit.size  # of a class of usual strength
    for j in range(fit.size):
        others, errors = np.arange(fit.size) != j, variances[j]
        for _ in range(2):  # errors of the others count as much as their parts do
            root = np.sqrt(errors)
            parts = nnls((means[others] / root).T, means[j] / root)[0]
            errors = variances[j] + parts**2 @ variances[others]
        alone = (means[j] ** 2 / errors).sum()
        gained = alone - ((means[j] - parts @ means[others]) ** 2 / errors).sum()
        if alone - gained >= limit or parts.sum() >= WEAKER:
            continue
        if gained <= by_chance:  # coins, if another class in as few rows would not look like them
            copies[j] = 0.0 if (usual / variances[j]).sum() > limit + CERTAIN else np.nan
            continue
        along = (means[others] * means[j] / errors).sum(axis=1).clip(0)
        own = (means[others] ** 2 / errors).sum(axis=1).clip(1e-12)
        best = int((along**2 / own).argmax())
        one = float(along[best] ** 2 / own[best])
        if one > CERTAIN and gained - one < by_chance:  # one other kind explains it as well
            copies[j] = along[best] / own[best]
        elif fit.size > 2:
            weak[j] = parts.sum()
    return found


def known_means(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Means (K, N) of tested classes by their rows alone, and variances with `loss`."""
    n = np.maximum(fit.sums.seen, 1e-9)
    means = fit.sums.signed / n
    variances = (1 - means**2 + 1 / (n + 1)) / n  # not 0 for one entry or two
    if fit.sums.pairs is not None:
        counts, c = fit.sums.counts.sum(axis=0), fit.prior.concentration
        variances = variances * loss(counts, fit.sums.pairs, fit.prior.observed, c)
    return means, variances


# Of squares of differences in errors: least of two variables together, most of a third one; and
# deviations of the sum of all others.
TWO, THIRD, OTHERS = 25.0, 16.0, 3.0


def twin_columns(fit: Fit) -> np.ndarray:
    """Class test: columns of the two variables in which alone a class differs from its nearest."""
    unit, none = variable_of(fit.prior), np.empty(0, int)
    if fit.size < 2 or unit.max() < 2:
        return none
    means, variances = known_means(fit)
    varies = np.ones(len(unit)) if fit.prior.varies is None else fit.prior.varies
    for k in range(fit.size):
        apart = varies * (means - means[k]) ** 2 / (variances + variances[k])
        near = np.minimum(apart, THIRD).sum(axis=1)
        near[k] = np.inf
        apart = apart[near.argmin()]
        order = np.argsort(-(whole := np.bincount(unit, apart)), kind="stable")
        there = np.isin(unit, order[:2])
        n, rest = (varies * ~there).sum(), apart[~there].sum()
        few = whole[order[2]] < THIRD and rest < n + OTHERS * np.sqrt(2 * n)
        if few and apart[there].sum() > TWO:
            return np.flatnonzero(there)
    return none


BY_CHANCE = 3.0  # times the most of replicas, up to which gaps may differ between classes
PLAIN = 0.08  # part of the entries of a row, up to which they may


def gaps_follow_classes(owners: Session, sums: ClassSums, made: Sequence[Any]) -> bool:
    """Class test: whether rows unsure of their class have its gaps, beside sums of replicas."""
    n, seen = sums.counts.sum(axis=0), sums.seen.sum(axis=1)
    unsure = sums.pairs is None or (n - np.diag(sums.pairs) > np.sqrt(n)).any()
    if not unsure or seen.sum() > 0.999 * n.sum() * owners.n_columns:
        return False
    each = [answer["seen"].sum() for answer in owners.ask(asks.column_sums, {})]
    entries, apart = np.array(each, np.float64) / owners.sizes, []  # of a row, by owner
    for counts, found in [(sums.counts, seen), *made]:
        n, more = np.maximum(counts.sum(axis=0), 1e-9), found - entries @ counts
        apart.append(float(np.sqrt((more**2 / n).sum() / n.sum())))
    return apart[0] > max(BY_CHANCE * max(apart[1:]), PLAIN * float(entries.mean()))


CARRIED = 0.95  # part of the differences between classes that the carrying columns make up
MOST = 20.0  # strength, as 1 / variance left, beyond which a column tells classes apart no better


def carrying_columns(fit: Fit, variances: np.ndarray) -> np.ndarray:
    """Columns that carry nearly all differences between tested classes, strongest first."""
    n = fit.sums.counts.sum(axis=0)
    means, shares = fit.classes.means * fit.prior.observed, n / n.sum()
    apart = shares @ (means - shares @ means) ** 2 / np.maximum(variances, 1e-3)
    # A column that hardly ever errs would hide all others that tell the classes apart as well.
    strength = np.maximum(np.minimum(apart, MOST) - (fit.size - 1) / n.sum(), 0.0)
    unit = variable_of(fit.prior)
    whole = np.bincount(unit, strength)
    order = np.argsort(-whole, kind="stable")
    reached = np.cumsum(whole[order])
    kept = order[: 1 + np.searchsorted(reached, CARRIED * reached[-1])]
    return np.concatenate([np.flatnonzero(unit == k) for k in kept])


def variable_of(prior: Prior) -> np.ndarray:
    """(N,) number of the variable of each column in a class test."""
    own, variables = np.arange(len(prior.rates)), prior.variables
    label = np.where(variables.inside, len(own) + variables.label, own)
    return np.unique(label, return_inverse=True)[1]


def worth_of_columns(columns: np.ndarray, part: np.ndarray, mixed: bool) -> float:
    """Binary columns that columns in a class test are worth: log2(L) for L levels."""
    parts = part[columns]
    alone = int((parts == 0).sum())
    sizes = 1 / parts[parts > 0]
    several = float((1 / sizes).sum())  # each level is a share of its variable
    if mixed and round(alone + several) < 3:
        return 0.0
    return alone + float((np.log2(sizes) / sizes).sum())


WIDEST = 100  # columns; in more of them the residuals of classes show a trait or a gradient
ROWS = 5_000  # rows for rivals, evenly from all, where rows do not repeat each other
NODES = 15  # places, the nodes of a Gauss quadrature
STEPS, LAST = 200, 1e-3  # steps of the fit, and nats that each must gain
CURVED = 60, 0.02, 12.0  # the same of a gradient and a ring, and nats taken off their evidence
RIDGES = np.array([0.05, 0.01])  # on slopes and intercepts, endless in columns of one value
NEWTON = 3  # steps for the columns in each step of the fit
CLOSE = 2e-4  # distance of a mean from -1 and 1, at least


def trait_gain(
    owners: Session, channel: Channel, shares: np.ndarray, prior: Prior
) -> tuple[float, int] | None:
    """Class test by rivals: nats by which classes explain a narrow table better; its columns."""
    K, N = channel.means.shape
    if not owners.held or N > WIDEST or min(K, N) < 2:
        return None
    step = -(-int(owners.n_rows) // ROWS)
    some = owners.made_of(lambda _, owner: thin_owner(owner, step), {"step": np.array(step)})
    M, n = some.n_rows, N if prior.varies is None else int(prior.varies.sum())
    means = np.clip(channel.means, CLOSE - 1, 1 - CLOSE)
    classes = {"means": means, "shares": shares}
    likelihood = add_sums(some.ask(asks.class_sums, classes)).log_likelihood
    rates_of = {"symmetric": 1, "by column": n}.get(channel.name, K * n)
    signs = 0.0 if channel.name == "graded" else K * n * np.log(2)
    evidence = likelihood - (rates_of + K - 1) * np.log(M) / 2 - signs
    rivals = [trait_evidence(some, each, n, evidence) for each in rivals_of(prior.rates, classes)]
    return float(evidence - max(rivals)), n


def thin_owner(o: Owner, step: int) -> Owner:
    """An owner with every `step`-th row, for class tests by rivals; all if rows are merged."""
    few = o.rows[::step]
    return Owner(replace(few, counts=few.weights), o.index) if few.counts is None else o


@dataclass(frozen=True, eq=False)
class Rival:
    """A rival of classes: places that rows may have instead, and first coefficients of columns."""

    values: np.ndarray  # (T, d) values of d functions at T places
    weights: np.ndarray  # (T,) weights of the places
    start: np.ndarray  # (d, N) coefficients of the columns' log-odds
    steps: int = CURVED[0]  # steps of the fit, at most
    least: float = CURVED[1]  # nats that each step must gain
    doubt: float = CURVED[2]  # nats that are taken off its evidence


def rivals_of(rates: np.ndarray, classes: Message) -> list[Rival]:
    """Rivals for class tests: a trait of normal degrees, an even gradient, an even ring."""

    def on_line(law: Callable[[int], Any], start: Sequence[np.ndarray], **how: Any) -> Rival:
        places, weights = law(NODES)  # polynomials there, in units of the deviation
        weights = weights / weights.sum()
        unit = np.sqrt([math.factorial(k) for k in range(len(start))])
        places = places / np.sqrt(weights @ places**2)
        values = np.polynomial.hermite_e.hermevander(places, len(start) - 1) / unit
        return Rival(values, weights, np.stack(start), **how)

    rates = np.clip(rates, 0.01, 0.99)
    level, none = np.log(rates / (1 - rates)), np.zeros(len(rates))
    means, shares = classes["means"], classes["shares"]
    apart = (means - shares @ means) * np.sqrt(shares)[:, None]
    found = np.linalg.svd(apart, full_matrices=False)[2]
    first, second = (1.5 * v / v[np.abs(v).argmax()] + 1e-3 for v in found[:2])
    normal, even = np.polynomial.hermite_e.hermegauss, np.polynomial.legendre.leggauss
    turns = 2 * np.pi * np.arange(NODES) / NODES
    round_ = np.stack([np.ones(NODES), *(2**0.5 * f(turns) for f in (np.cos, np.sin))], axis=1)
    bends = [on_line(even, [level, first, x, none]) for x in (second / 2, -second / 2)]
    ring = Rival(round_, np.full(NODES, 1 / NODES), np.stack([level, first, second]))
    line = on_line(normal, [level, first], steps=STEPS, least=LAST, doubt=0.0)
    return [line, *bends, ring]


def trait_evidence(owners: Session, rival: Rival, columns: int, enough: float = -np.inf) -> float:
    """Evidence of a class test's rival: log-likelihood, less doubt and cost of parameters."""
    T, B, last = rival.values, rival.start, -np.inf
    cost = columns * len(B) * np.log(owners.n_rows) / 2 + rival.doubt
    ridge = np.where(np.arange(len(B)) > 0, *RIDGES)
    for step in range(rival.steps):
        means = means_inside(np.tanh(T @ B / 2))
        sums = add_sums(owners.ask(asks.class_sums, {"means": means, "shares": rival.weights}))
        gained, last = sums.log_likelihood - last, max(sums.log_likelihood, last)
        if gained < rival.least or last + (rival.steps - step) * gained - cost < enough:
            break
        for _ in range(NEWTON):  # in steps of bounded length, for all columns at once
            rates = expit(T @ B)
            rest, spread = sums.plus - sums.seen * rates, sums.seen * rates * (1 - rates)
            bends = np.einsum("td,te,tn->nde", T, T, spread) + np.diag(ridge)
            uphill = T.T @ rest - ridge[:, None] * B
            B = B + np.clip(np.linalg.solve(bends, uphill.T[..., None])[..., 0].T, -1, 1)
    return float(last - cost)


def order_dependence(session: Owners, means: np.ndarray, shares: np.ndarray) -> float:
    """Class test of order: standard errors by which neighbouring rows depend within classes."""
    if not session.ordered or not session.held:
        return 0.0
    answers = session.ask(asks.neighbour_sums, {"means": means, "shares": shares})
    return float(total(answers, "follow")) / len(answers) ** 0.5
