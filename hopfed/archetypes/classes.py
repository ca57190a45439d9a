"""`Classes`: search for latent classes with a mean in every column, in rows with or without gaps.

The search and the tests take a part of a large table, with few columns rather than few rows, which
each class needs; then a fit to all rows and columns gives the classes.

Starts are k-means in the whitened signal basis of the count (`Starts`). A class is split along the
leading eigenvector of its residuals, or into the rows that it explains well and the others. It
rests on fewer rows than it counts where a few make it what it is (`effective_rows`).

Source: theory/NOTES.md, "Starting the classes".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.special import gammaln

import hopfed.archetypes.class_sums as asks
from hopfed._lib.arrays import to_host
from hopfed._lib.random import stream
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.channel_and_replicas import choose_channel, inflation, nearness, widen_errors
from hopfed.archetypes.class_sums import (
    TINY,
    ClassSums,
    Fit,
    Mixture,
    Prior,
    add_sums,
    class_messages,
    clusters,
    e_step,
    fit_sums,
    improve,
    label_gain,
    lanczos,
    remind_owners,
)
from hopfed.archetypes.class_tests import measure_classes, order_dependence, trait_gain
from hopfed.archetypes.patterns import mean_of, pooled
from hopfed.archetypes.relate import share_errors
from hopfed.archetypes.row_weights import is_survey
from hopfed.archetypes.session import Owners, Recovery, Session, Variables, by_blocks, total
from hopfed.archetypes.verdict import FOUND, judge_classes
from hopfed.errors import ArgumentError, DataError
from hopfed.federation.messages import Message
from hopfed.spectral.rank import RankRule, TracyWidom
from hopfed.spectral.rows import thin_rows
from hopfed.spectral.whitening import count_whitened_classes

QUALITY = 0.5  # quality of classes that start from patterns of +-1
MISSES = 2  # starts with more classes, in a row, that gain nothing: none is tried after them
PAIRS = 3  # pairs of classes, the best, whose merge is tried
STEP = 8  # such a start has one class in so many more than the last one, at least one more
FEW = 5  # times the rows that a class must have, from which it surely rests on enough of them
FINE = 1e-3  # nats still to gain, below which the classes that are found are settled
NUMBERS = 100_000  # entries of merged rows, up to which every merge is settled before it is judged


@dataclass(frozen=True)
class Search:
    """Settings of the search for classes."""

    starts: int = 2  # starts with a class for each direction of the spectrum; others have more
    # look, short, long: exchanges after which a trial is looked at, of one that may be kept, and of
    # the fit that is kept
    look: int = 2
    short: int = 6
    long: int = 300
    exchanges: int = 3000  # after which no further merge or split is tried
    most: int = 200  # classes at most
    support: int = 5  # rows that a class must have
    hope: float = 10.0  # times the gain that its last steps promise, which a trial may still make


def find_classes(
    owners: Owners,
    U: np.ndarray,
    variances: np.ndarray,
    search: Search,
    patterns: np.ndarray | None = None,
) -> Fit:
    """Search for classes from eigenvectors U (N, K), whitened: starts, merges, splits."""
    prior = Prior.of(owners)
    fit = start_fit(owners, U, variances, prior, search)
    if patterns is not None and len(patterns) > 1:  # at a quality that hardly matters
        each = np.full((len(owners.sizes), len(patterns)), 1 / len(patterns))
        start = e_step(owners, Mixture(QUALITY * patterns, each), prior)
        other = improve(owners, start, search.long)
        fit = other if _better(other, fit) else fit
    fit = join_small_classes(owners, fit, search)
    # Where an exchange takes no time, every merge is fitted until it is settled.
    patient, tables = search, [owner.rows for owner in owners.members]
    numbers = sum(len(rows) * rows.n for rows in tables)
    if all(rows.counts is not None for rows in tables) and numbers <= NUMBERS:
        patient = replace(search, hope=1e9, long=5 * search.long, exchanges=5 * search.exchanges)
    for draw in range(search.most):
        if owners.exchanges >= patient.exchanges:
            break
        fit = merge_classes(owners, fit, patient)
        larger = split_classes(owners, fit, search, draw)
        if larger is None:
            break
        fit = larger
    fit = join_small_classes(owners, improve(owners, fit, patient.long), search)
    return improve(owners, replace(fit, settled=False), patient.long, FINE)


STARTS = 6  # starts of each kind, where the number of classes is given
EXCHANGES = 3  # tries for each class to split one class and to join two
RESTARTS, BETTERED = 40, 8  # starts of the likeliest classes, and the best of them, fitted further
SHORT, LONG = 20, 1_000  # exchanges of a start or of fewer classes, and of a start fitted further


def fit_number(owners: Session, free: Fit, U: np.ndarray, variances: np.ndarray, size: int) -> Fit:
    """Search for exactly `size` classes: the most plausible from a free search and other starts."""
    search, prior = Search(), free.prior
    if size == 1:
        return improve(owners, fit_one_class(owners, prior), search.long)
    starts = Starts(owners, U, variances, prior)
    fits = [reach_number(owners, free, size, search)]
    for draw in range(STARTS):
        if U.shape[1]:
            fits.append(fit_sums(owners, starts.sums(size, draw, draw), prior, search.short))
        fits.append(improve(owners, _at_random(owners, prior, size, draw), search.short - 1))
    fits.sort(key=lambda fit: (abs(fit.size - size), -fit.evidence))
    best = [improve(owners, fit, search.long) for fit in fits[:PAIRS]]
    fit = min(best, key=lambda fit: (abs(fit.size - size), -fit.evidence))
    for draw in range(EXCHANGES * size):
        other = reach_number(owners, _split_best(owners, fit, search, draw), size, search)
        if other.size == size and other.evidence > fit.evidence + 0.1:
            fit = other
        elif draw >= EXCHANGES:
            break
    return fit


def reach_number(owners: Session, fit: Fit, size: int, search: Search) -> Fit:
    """Split or join classes in a search until a fit has `size` of them, or their number stays."""
    for draw in range(abs(fit.size - size)):
        before = fit.size
        more = before < size
        fit = _split_best(owners, fit, search, draw) if more else _join_best(owners, fit, search)
        if fit.size == before:
            break
    return improve(owners, fit, search.long)


def _split_best(owners: Session, fit: Fit, search: Search, draw: int) -> Fit:
    """Split the class of a fit whose split adds most evidence, or by `draw` one of the next."""
    parts = halves(owners, fit, draw)
    order = np.argsort(-parts.gains)
    chosen = order[draw % min(PAIRS, len(order)) :][:1]
    return fit_sums(owners, parts.sums(chosen), fit.prior, search.short)


def fit_likeliest(owners: Session, fit: Fit) -> dict[str, float]:
    """Search for as many classes by maximum likelihood, without a prior: its numbers, by name."""
    flat, size = replace(fit.prior, flat=True), fit.size
    fits = [improve(owners, e_step(owners, flat.mixture(fit.sums), flat), LONG)]
    if size > 1:
        drawn = (_at_random(owners, flat, size, RESTARTS + i) for i in range(RESTARTS))
        starts = [improve(owners, each, SHORT) for each in drawn]
        starts.sort(key=lambda each: -each.sums.log_likelihood)
        fits += [improve(owners, each, LONG) for each in starts[:BETTERED]]
    found = max(fits, key=lambda each: each.sums.log_likelihood)
    found = improve(owners, replace(found, settled=False), LONG, still=1e-3)
    counts, height = found.sums.counts.sum(axis=0), found.sums.log_likelihood
    entropy = max(height - fit.prior.joint(found.classes, found.sums), 0.0)
    known = 1 - entropy / (counts.sum() * np.log(size)) if size > 1 else 1.0
    made = {"log_likelihood": height, "parameters": fit.prior.parameters(size)}
    return made | {"rows": counts.sum(), "entropy": known, "smallest": counts.min()}


def _at_random(owners: Session, prior: Prior, size: int, draw: int) -> Fit:
    """Fit `size` classes drawn at random about the columns' own means: one exchange."""
    rng = stream(owners.seed, "classes at random", draw)
    means = 2 * prior.rates - 1 + rng.normal(0.0, QUALITY, (size, len(prior.rates)))
    each = np.full((len(owners.sizes), size), 1 / size)
    return e_step(owners, Mixture(np.clip(means, -0.95, 0.95), each), prior)


def join_small_classes(owners: Session, fit: Fit, search: Search) -> Fit:
    """Join classes in a search, those with fewer rows than `search.support`, the smallest first."""
    while fit.size > 1:
        counts = fit.sums.counts.sum(axis=0)
        if search.support <= counts.min() < FEW * search.support:
            counts = effective_rows(owners, fit)
        if counts.min() >= search.support:
            break
        fit = _join_best(owners, fit, search, int(counts.argmin()))
    return fit


def without_absent(owners: Session, fit: Fit) -> Fit:
    """Leave out the class with the fewest rows as long as the evidence does not fall."""
    while fit.size > 1:
        fewer = without(owners, fit, int(fit.sums.counts.sum(axis=0).argmin()))
        if fewer.evidence < fit.evidence:
            break
        fit = fewer
    return fit


def without(owners: Session, fit: Fit, k: int) -> Fit:
    """Leave class k out of a fit."""
    kept = np.arange(fit.size) != k
    shares = fit.classes.shares[:, kept]
    left = Mixture(fit.classes.means[kept], shares / shares.sum(axis=1, keepdims=True))
    return improve(owners, e_step(owners, left, fit.prior), SHORT)


def _join_best(owners: Session, fit: Fit, search: Search, one: int | None = None) -> Fit:
    """Join the two classes of a fit whose merge adds most evidence; `one` is among them."""
    sums = fit.sums.merged(merge_gains(fit, one)[0][1])
    return fit_sums(owners, sums, fit.prior, search.short)


def fit_one_class(owners: Session, prior: Prior) -> Fit:
    """Fit one class, with which a search for classes begins: every column at its own rate."""
    n = owners.sizes[:, None].astype(np.float64)
    seen = prior.observed[None] * n.sum()
    return fit_sums(owners, ClassSums(n, (2 * prior.rates - 1) * seen, seen), prior, 1)


def start_fit(
    owners: Session, U: np.ndarray, variances: np.ndarray, prior: Prior, search: Search
) -> Fit:
    """Start a search for classes by k-means: the best fit by evidence; drop hopeless ones."""
    best = fit_one_class(owners, prior)
    starts = Starts(owners, U, variances, prior)
    size = min(U.shape[1], search.most)

    def of_means(size: int, draw: int) -> Fit:
        return fit_sums(owners, starts.sums(size, draw, draw % search.starts), prior, search.look)

    if size > 1:
        fits = [of_means(size, draw) for draw in range(search.starts)]
        for fit in sorted(fits, key=lambda f: -f.evidence):
            best = _hopeful(owners, fit, best, search)
    misses = 0
    while 1 < size < search.most and misses < MISSES:  # classes that the spectrum does not show
        size = min(size + max(1, size // STEP), search.most)
        before = best
        best = _hopeful(owners, of_means(size, search.starts + misses), best, search)
        misses = misses + 1 if best is before else 0
    return improve(owners, best, search.long) if best.size > 1 else best


def merge_classes(owners: Session, fit: Fit, search: Search) -> Fit:
    """Join pairs of classes in a search while fewer classes have the higher evidence."""
    while fit.size > 1:
        better = fit
        # Nats by which the sums misjudge a merge: rows that are unsure of their class gain by it.
        doubt = 0.5 * float(fit.sums.counts.sum()) * 0.1 + 5.0
        for gains, pair in merge_gains(fit)[:PAIRS]:
            if gains < -doubt or owners.exchanges >= search.exchanges or better is not fit:
                break
            trial = fit_sums(owners, fit.sums.merged(pair), fit.prior, search.look)
            better = _hopeful(owners, trial, fit, search)
        if better is fit:
            break
        fit = better
    return fit


def merge_gains(fit: Fit, one: int | None = None) -> list[tuple[float, tuple[int, int]]]:
    """Evidence that merges of two classes add in a search, if rows are sure; pairs, best first."""
    prior, sums = fit.prior, fit.sums
    n = sums.counts.sum(axis=0)
    alone, K = prior.gain(sums), fit.size
    single = gammaln(n + 1)
    # What `label_gain` has more of K - 1 classes than of K, apart from the two themselves.
    fewer = gammaln(K - 1) - gammaln(n.sum() + K - 1) - gammaln(K) + gammaln(n.sum() + K)
    found = []
    for k in range(K - 1):
        rest = slice(k + 1, None)
        signed, seen = sums.signed[k] + sums.signed[rest], sums.seen[k] + sums.seen[rest]
        both = ClassSums(sums.counts, signed, seen)
        gains = prior.gain(both) - alone[k] - alone[rest]
        named = gammaln(n[k] + n[rest] + 1) - single[k] - single[rest]
        gains += named + fewer - np.log(K)
        if one is not None and one != k:
            gains[np.arange(k + 1, K) != one] = -np.inf
        j = int(gains.argmax())
        found.append((float(gains[j]), (k, k + 1 + j)))
    return sorted(found, key=lambda each: -each[0])


def split_classes(owners: Session, fit: Fit, search: Search, draw: int) -> Fit | None:
    """Split classes in a search for classes, or add one, where the evidence rises; else None."""
    if fit.size >= search.most:
        return None

    def trials() -> Iterator[ClassSums]:
        for parted, most in (partial(halves, draw=draw), 2), (set_tails_apart, 1):
            parts = parted(owners, fit)
            order = np.argsort(-parts.gains)
            sure = order[parts.gains[order] > 0][: search.most - fit.size]
            alone = [order[i : i + 1] for i in range(min(most, len(order)))]
            yield from map(parts.sums, [sure] * (len(sure) > 1) + alone)
        if fit.size > 1:
            yield add_class(owners, fit)

    for sums in trials():
        if owners.exchanges >= search.exchanges:
            break
        trial = fit_sums(owners, sums, fit.prior, search.look)
        trial = _hopeful(owners, trial, fit, search, by=1.0)
        if trial is not fit and trial.sums.counts.sum(axis=0).min() >= search.support:
            return trial
    return None


def _better(fit: Fit, other: Fit, by: float = 0.0) -> bool:
    """Whether a fit has more evidence than another; more classes must also be likelier."""
    fewer, more = sorted((fit, other), key=lambda f: f.size)
    if fewer.size < more.size and more.sums.log_likelihood <= fewer.sums.log_likelihood:
        return fit is fewer
    return fit.evidence > other.evidence + by


def _hopeful(owners: Session, fit: Fit, goal: Fit, search: Search, by: float = 0.0) -> Fit:
    """Improve a fit while it may still pass the evidence of `goal`; the better of the two."""
    for _ in range(search.long // search.look):
        if fit.settled or fit.evidence + search.hope * fit.ahead < goal.evidence:
            break
        fit = improve(owners, fit, search.look)
    return fit if _better(fit, goal, by) else goal


LOST = 0.1  # part of a direction that an owner's columns are taken to hold, at least


class Starts:
    """Starts of a search for classes by k-means, over centres that sum up owners' rows."""

    def __init__(self, owners: Session, U: np.ndarray, variances: np.ndarray, prior: Prior):
        """Take eigenvectors U (N, K) of the table whitened by `variances` (N,)."""
        root = np.sqrt(variances)[:, None]
        V, unwhiten, held = U / root, U * root, prior.held
        self.owners, self.own = owners, {}
        self.shared: Message = {"basis": V.astype(np.float32)}
        self.crowds = cache(self._crowds)
        if held is not None:  # each owner's basis is of the columns that it holds
            bases = np.zeros((len(held), *V.shape), np.float32)
            for basis, part in zip(bases, held, strict=True):
                values, E = np.linalg.eigh((V * part[:, None]).T @ unwhiten)
                basis[part > 0] = V[part > 0] @ (E / np.maximum(values, LOST)) @ E.T
            self.shared, self.own = {}, {"basis": bases}

    def _crowds(self, centres: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
        """Centres of all owners and the rows of each, by sketches of this number."""
        wanted = {"centres": np.array(centres, np.int32)}
        question = partial(asks.sketch, self.owners.seed, draw)
        answers = self.owners.ask(question, {**self.shared, **wanted}, self.own)
        points, rows = ([a[name] for a in answers] for name in ("centres", "counts"))
        return np.concatenate(points).astype(np.float64), np.concatenate(rows).astype(np.float64)

    def sums(self, size: int, draw: int, crowds: int) -> ClassSums:
        """Class sums of `size` clusters, of this draw, over crowds of this number."""
        points, rows = self.crowds(1 << (4 * size + 3).bit_length(), crowds)
        rng = stream(self.owners.seed, "graded k-means", draw)
        centres = clusters(points, rows, size, rng, starts=4)[0]
        down = {**self.shared, "centres": centres.astype(np.float32)}
        return add_sums(self.owners.ask(asks.nearest_sums, down, self.own))


EVEN = 0.9  # part of its rows that a class rests on, at least, if rows differ by chance


def effective_rows(owners: Session, fit: Fit) -> np.ndarray:
    """Number of rows (K,) that make each class of a search what it is: one exchange."""
    remind_owners(owners, fit)
    answers = owners.ask(asks.effective_row_sums, {})
    once, twice = total(answers, "once"), total(answers, "twice")
    return np.minimum(once**2 / np.maximum(twice, TINY) / EVEN, fit.sums.counts.sum(axis=0))


STEPS = 6  # products; the direction need not be exact
DEEP = -2.0  # standard deviations of a row's likelihood, below which its class explains it badly
POOR = -1.0  # the same where the rows of all classes are taken together
QUIET = 0.05  # variance below which a column of a class is not scaled up further


@dataclass(frozen=True)
class Halves:
    """Every class of a fit in two halves: class sums of both, and the evidence of each split."""

    # upper, lower: sums over the two halves of each class
    upper: ClassSums
    lower: ClassSums
    gains: np.ndarray  # (K,) evidence that each split adds, if rows are sure of their half

    def sums(self, split: np.ndarray) -> ClassSums:
        """Class sums in which halves replace the classes in `split_classes` (indices)."""
        stay = np.setdiff1d(np.arange(len(self.gains)), split)
        u, w = self.upper, self.lower
        return ClassSums(
            np.hstack([(u.counts + w.counts)[:, stay], u.counts[:, split], w.counts[:, split]]),
            np.vstack([(u.signed + w.signed)[stay], u.signed[split], w.signed[split]]),
            np.vstack([(u.seen + w.seen)[stay], u.seen[split], w.seen[split]]),
        )


def halves(owners: Session, fit: Fit, draw: int = 0) -> Halves:
    """Halve classes in a search, each along its leading residual direction: STEPS + 1 exchanges."""
    remind_owners(owners, fit)
    # The scale that gives the residuals of each class variance 1.
    spread = np.maximum(1 - fit.classes.means**2, QUIET)
    scale = 1 / np.sqrt(spread * np.maximum(fit.prior.observed, 1e-3))
    variables = fit.prior.variables

    def product(w: np.ndarray) -> np.ndarray:
        down = {"directions": (w * scale).astype(np.float32)}
        found = total(owners.ask(asks.residual_products, down), "products")
        return (found + variables.within(fit.classes.means, fit.sums.seen, w * scale)) * scale

    start = stream(owners.seed, "halves", draw).standard_normal(scale.shape)
    w = lanczos(product, start, STEPS)[1][:, 0] * scale
    down = {"directions": w.astype(np.float32)}
    return both_halves(fit, add_sums(owners.ask(asks.upper_sums, down)))


def set_tails_apart(owners: Session, fit: Fit, above: float = DEEP) -> Halves:
    """Halve classes in a search into rows of likelihood `above` a deviation, and other rows."""
    remind_owners(owners, fit)
    down = {"above": np.array(above, np.float32)}
    return both_halves(fit, add_sums(owners.ask(asks.well_explained_sums, down)))


def add_class(owners: Session, fit: Fit) -> ClassSums:
    """Add a class in a search, of the rows that all classes explain worst: one exchange."""
    parts = set_tails_apart(owners, fit, POOR)
    well, badly = parts.upper, parts.lower
    return ClassSums(
        np.hstack([well.counts, badly.counts.sum(axis=1, keepdims=True)]),
        np.vstack([well.signed, badly.signed.sum(axis=0)]),
        np.vstack([well.seen, badly.seen.sum(axis=0)]),
    )


def both_halves(fit: Fit, upper: ClassSums) -> Halves:
    """Halves of every class in a search for classes, from the class sums of the upper halves."""
    whole = fit.sums
    lower = ClassSums(
        np.maximum(whole.counts - upper.counts, 0.0),
        whole.signed - upper.signed,
        np.maximum(whole.seen - upper.seen, 0.0),
    )
    prior = fit.prior
    if np.isinf(prior.concentration):  # a single class has no fitted spread
        both = Halves(upper, lower, np.zeros(1)).sums(np.array([0]))
        prior = prior.fitted(both)
    entries = prior.gain(upper) + prior.gain(lower) - fit.prior.gain(whole)
    n, a, b = (s.counts.sum(axis=0) for s in (whole, upper, lower))
    K = len(n)
    now = label_gain(n)
    named = [label_gain(np.concatenate([np.delete(n, k), [a[k], b[k]]])) - now for k in range(K)]
    return Halves(upper, lower, entries + np.array(named) + np.log(K + 1))


SEARCHED = 10_000_000  # observed entries; in a table of more, the search takes a part
SPARSEST = 0.25  # share of observed entries below which a part grows no further
FEWEST, EACH = 2_000, 100  # rows of that part: at least, and for each direction of the spectrum
LAST = 10  # exchanges over the whole table, after a search in a part


@dataclass(frozen=True)
class Classes:
    """Estimator of the graded channel: `fit` finds classes of rows, tests them, and judges."""

    rule: RankRule = field(default_factory=TracyWidom)  # counts the spectrum
    search: Search = field(default_factory=Search)  # settings of the search for classes
    groups: Sequence[Sequence[int]] = ()  # columns that are levels of one variable
    steps: Sequence[Sequence[int]] = ()  # columns that are thresholds of one ordered answer
    names: Sequence[str] | None = None  # names of the columns, for the verdict
    number: int | None = None  # number of classes, where it is given
    graded: bool = False  # whether the caller asked for the graded channel by name

    def fit(self, session: Owners, state: Archetypes | None = None) -> Recovery:
        """Recover classes from owners of rows of -1, 0 (missing) and +1, or packed bits."""
        seed = session.seed
        try:
            mean = mean_of(session)
            white = count_whitened_classes(
                pooled(session), self.rule, mean=mean, seed=seed, groups=self.groups
            )
        except ArgumentError:
            raise DataError("fewer than two columns hold both values") from None
        U, variances = to_host(white.spectrum.vectors), np.asarray(white.variances)
        owners = Owners.of([own.rows for own in session.members], seed, self.groups, self.steps)
        part, prior = draw_part(owners, U.shape[1], self.groups)
        there = slice(None) if part.columns is None else part.columns
        known = state.patterns[:, there] if state is not None and len(state) else None
        fit = find_classes(part, U[there], variances[there], self.search, known)
        free = fit.size
        if self.number is not None:
            fit = fit_number(part, fit, U[there], variances[there], self.number)
            if fit.size != self.number:
                few = f"{self.number} archetypes: these rows have no more than {fit.size} apart"
                raise DataError(few)
        tests = measure_classes(part, fit, U.shape[1], self.names)
        fit = fit_whole_table(owners, part, prior, fit)
        asked = None if self.number is None else fit_likeliest(owners, fit)
        fit = ease_prior(owners, fit, EASING if prior is None else LAST)
        order = np.argsort(-fit.sums.counts.sum(axis=0), kind="stable")
        channel = choose_channel(fit, inflation(fit, seed), self.graded)
        if any(is_survey(owner.rows) for owner in owners.members):  # rows of unequal weight
            remind_owners(owners, fit)
            answers = owners.ask(asks.score_sums, {})
            once, twice = (np.maximum(total(answers, n), TINY) for n in ("once", "twice"))
            channel = replace(channel, errors=channel.errors * np.sqrt(twice / once))
        channel = replace(channel, means=channel.means[order], errors=channel.errors[order])
        each = fit.classes.shares[:, order]
        shares = owners.sizes @ each / owners.n_rows
        near = nearness(channel, shares, owners.n_rows, fit.prior.observed)
        follow = order_dependence(session, channel.means, shares)
        more: dict[str, Any] = {"near": near, "follow": follow, "free": free}
        if not self.groups:  # levels depend on each other in either model
            more["trait"] = trait_gain(owners, channel, shares, fit.prior)
        verdict = judge_classes(replace(tests, **more))
        explained = verdict.status in (*FOUND, "one class")
        errors = widen_errors(channel, shares, owners.n_rows * fit.prior.observed)
        unknown, K = np.full(fit.size, np.nan), fit.size
        found = Archetypes(
            patterns=np.where(channel.means < 0, -1, 1).astype(np.int8),
            scores=unknown,
            predicted_scores=unknown,
            exposures=shares,
            quality=float(np.sqrt((channel.means**2).mean())),
            n_detected=min(U.shape[1], K) if explained else U.shape[1],
            explained=np.nan,
            status=verdict.status,
            advice=verdict.advice,
            channel=channel.name,
            residual=tests.residual.ratio,
            graded_means=channel.means,
            own_errors=errors,
            quality_error=channel.quality_error,
            spread=channel.spread,
            client_shares=each,
        )
        if owners.held:
            labelled = replace(found, levels=owners.variables.label)
            errors = share_errors(labelled, [owner.rows for owner in owners.members])
            found = replace(found, exposure_errors=errors)
        session.traffic.add(owners.traffic)
        session.exchanges += owners.exchanges
        return Recovery(
            archetypes=found,
            eigenvalues=white.spectrum.values,
            threshold=white.rank.threshold,
            rule=white.rank.rule,
            constant_columns=white.dropped,
            residual=tests.residual,
            log_likelihood=fit.sums.log_likelihood / max(float(fit.sums.seen.sum()), 1.0),
            likeliest=asked,
        )


def draw_part(
    table: Owners, directions: int, groups: Sequence[Sequence[int]] = ()
) -> tuple[Owners, Prior | None]:
    """Draw rows and columns of a large table to search for classes, and the whole table's prior."""
    M, N = sum(place.rows.shape[0] for place in table.members), table.n_columns
    prior = Prior.of(table) if M * N > SEARCHED else None
    most = M * N if prior is None else int(SEARCHED / max(prior.observed.mean(), SPARSEST))
    if most >= M * N:
        for place in table.members:  # few enough to be held whatever the limit of memory is
            place.rows = place.rows if place.rows.held else place.rows[:]
        return table, None
    rows = min(M, max(most // N, FEWEST, EACH * directions))
    steps, wide, columns, parts = table.variables.steps, max(2, most // rows), None, []
    if wide < N:  # draw columns, all levels of a variable or none of them
        label = Variables.of([*groups, *steps], N).label
        unit = np.where(label < 0, np.arange(N), N + label)
        drawn = stream(table.seed, "searched columns").permutation(np.unique(unit))
        sizes = np.bincount(unit)[drawn]
        kept = drawn[: max(1, int((np.cumsum(sizes) <= wide).sum()))]
        columns = np.flatnonzero(np.isin(unit, kept))
    for place in table.members:
        part, size = place.rows, len(place.rows)
        few = min(size, max(2, int(size * rows / M)))
        rng = stream(table.seed, "searched rows", place.index)
        if few < size and part.counts is not None:
            part = thin_rows(part, few / size, rng)
        elif few < size:
            part = part[np.sort(rng.permutation(size)[:few])]
        part = part if columns is None else part.columns(columns)
        parts.append(part if part.held else part[:])
    within: list[Sequence[Sequence[int]]] = [groups, steps]
    if columns is not None:  # by their places in the part
        at = {int(c): i for i, c in enumerate(columns)}
        within = [[[at[c] for c in g] for g in each if all(c in at for c in g)] for each in within]
    owners = Owners.of(parts, table.seed, *within)
    owners.traffic, owners.columns = table.traffic, columns
    return owners, prior


def fit_whole_table(table: Owners, part: Owners, prior: Prior | None, fit: Fit) -> Fit:
    """Fit classes that a search found in a part of a table to all its rows and columns."""
    if prior is None:
        return fit
    table.exchanges += part.exchanges
    if part.columns is None:
        return improve(table, e_step(table, fit.classes, prior), LAST)
    shared, own = class_messages(fit.classes)
    shared["columns"] = part.columns.astype(np.int32)
    question = by_blocks(partial(asks.sums_in_columns, part.variables))
    return fit_sums(table, add_sums(table.ask(question, shared, own)), prior, LAST)


EASED = 1.0  # rows that the prior weighs at most, where shares are fitted
EASING = 60  # exchanges for that


def ease_prior(table: Owners, fit: Fit, steps: int) -> Fit:
    """Fit classes on under a weaker prior: a table's unequal shares would be pulled together."""
    if fit.size == 1:
        return fit
    weak = replace(fit.prior, concentration=min(EASED, fit.prior.concentration), known=True)
    eased = improve(table, e_step(table, fit.classes, weak), steps)
    found = e_step(table, fit.prior.mixture(eased.sums), fit.prior)
    return found if found.size == fit.size else fit
