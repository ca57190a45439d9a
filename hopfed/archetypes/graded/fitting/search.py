"""How many classes, and which: starts, then merging and splitting while the evidence rises."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import gammaln

from hopfed._lib.settings import check_types, require
from hopfed.archetypes.graded.fitting.expectation_maximization import Fit, expect, improve, iterate
from hopfed.archetypes.graded.fitting.mixture import ClassSums, Mixture, Prior
from hopfed.archetypes.graded.fitting.splitting import Halves, halves, one_more, without_tails
from hopfed.archetypes.graded.fitting.starts import joint_start, kmeans_start
from hopfed.archetypes.graded.fitting.support import resting
from hopfed.archetypes.graded.owners.asking import Owners

QUALITY = 0.5  # at which patterns of +-1 enter
MISSES = 2  # starts with more classes that gain nothing, in a row, before they end
PAIRS = 3  # of classes that may be merged, of which merges are tried
STEP = 8  # part of the classes that are more from one such start to the next, at least one
FEW = 5  # times as many rows as a class must have, from which it rests on enough of them
HOPE = 20.0  # a trial may still gain so many times what its steps promise


@dataclass(frozen=True)
class Search:
    """Settings of the search for classes.

    Attributes
    ----------
    starts : k-means starts with a class for each direction of the spectrum, beside the one from
        joint diagonalisation and those with more classes.
    short, long : exchanges of a trial, and of the fit that is kept.
    exchanges : after which no further merge or split is tried.
    most : classes at most.
    influence : part of all rows that one owner may stand for.
    support : rows that a class must have; a class of fewer says more of them than of a kind.
    """

    starts: int = 2
    short: int = 6
    long: int = 300
    exchanges: int = 3000
    most: int = 200
    influence: float = 1.0
    support: int = 5

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("starts", "short", "long", "exchanges", "most", "support"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        require(0 < self.influence <= 1, "influence", "in (0, 1]", self.influence)


def find_classes(
    owners: Owners,
    U: np.ndarray,
    variances: np.ndarray,
    search: Search,
    patterns: np.ndarray | None = None,
) -> Fit:
    """Find the classes behind all rows.

    Parameters
    ----------
    U : (N, K) leading eigenvectors of the whitened second moment; their number is where the search
        begins, not where it must end.
    variances : (N,) by which the columns were whitened.
    patterns : (C, N) of +-1 that another route found, as one more start.
    """
    prior = Prior.of(owners, search.influence)
    fit = begin(owners, U, variances, prior, search)
    if patterns is not None and len(patterns) > 1:
        fit = _best(fit, _of_patterns(owners, patterns, prior, search))
    fit = supported(owners, fit, search)
    for draw in range(search.most):
        if owners.exchanges >= search.exchanges:
            break
        fit = merged(owners, fit, search)
        larger = split(owners, fit, search, draw)
        if larger is None:
            break
        fit = larger
    fit = supported(owners, improve(owners, fit, search.long), search)
    return improve(owners, fit, search.long)


def supported(owners: Owners, fit: Fit, search: Search) -> Fit:
    """Join classes of too few rows to others, the smallest first."""
    while fit.size > 1:
        counts, least = fit.sums.counts.sum(axis=0), search.support * fit.prior.influence.min()
        if least <= counts.min() < FEW * least:
            counts = resting(owners, fit)
        if counts.min() >= least:
            break
        pair = merge_gains(fit, int(counts.argmin()))[0][1]
        fit = iterate(owners, fit.sums.joined(joining(fit.size, pair)), fit.prior, search.short)
    return fit


def has_support(fit: Fit, search: Search) -> bool:
    """Whether every class has as many rows as it must."""
    least = search.support * fit.prior.influence.min()
    return bool(fit.sums.counts.sum(axis=0).min() >= least)


def joining(size: int, pair: tuple[int, int]) -> np.ndarray:
    """Number that each of so many classes gets when two of them become one.

    Parameters
    ----------
    size : number of classes.
    pair : the two.

    Examples
    --------
    >>> joining(4, (0, 2)).tolist()
    [0, 1, 0, 2]
    """
    into = np.arange(size)
    into[max(pair)] = min(pair)
    return np.unique(into, return_inverse=True)[1]


def single(owners: Owners, prior: Prior) -> Fit:
    """Return the fit of one class: every column at its own rate."""
    n = (owners.sizes * prior.influence)[:, None]
    seen = prior.observed[None] * n.sum()
    return iterate(owners, ClassSums(n, (2 * prior.rates - 1) * seen, seen), prior, 1)


def begin(
    owners: Owners, U: np.ndarray, variances: np.ndarray, prior: Prior, search: Search
) -> Fit:
    """Best of all starts, by evidence, each fitted as long as it may still be the best."""
    best = single(owners, prior)
    root = np.sqrt(variances)[:, None]
    V, unwhiten = U / root, U * root
    size = min(U.shape[1], search.most)

    def of_means(size: int, draw: int) -> Fit:
        sums = kmeans_start(owners, V, unwhiten, size, prior, draw)
        return iterate(owners, sums, prior, search.short)

    if size > 1:
        fits = [of_means(size, draw) for draw in range(search.starts)]
        start = joint_start(owners, V, unwhiten, prior)
        if start is not None:
            fits.append(improve(owners, expect(owners, start, prior), search.short - 1))
        for fit in sorted(fits, key=lambda f: -f.evidence):
            best = _best(best, _hopeful(owners, fit, best, search))
    misses = 0
    while 1 < size < search.most and misses < MISSES:  # classes that the spectrum does not show
        size = min(size + max(1, size // STEP), search.most)
        larger = _hopeful(owners, of_means(size, search.starts + misses), best, search)
        misses = 0 if _better(larger, best) else misses + 1
        best = _best(best, larger)
    return improve(owners, best, search.long) if best.size > 1 else best


def _of_patterns(owners: Owners, patterns: np.ndarray, prior: Prior, search: Search) -> Fit:
    """Fit classes that start as patterns of +-1, at a quality that does not matter much."""
    each = np.full((len(owners.members), len(patterns)), 1 / len(patterns))
    start = expect(owners, Mixture(QUALITY * patterns, each), prior)
    return improve(owners, start, search.long)


def merged(owners: Owners, fit: Fit, search: Search) -> Fit:
    """Join classes while fewer of them have the higher evidence."""
    while fit.size > 1:
        better = None
        for gains, pair in merge_gains(fit)[:PAIRS]:
            if gains < -_doubt(fit) or owners.exchanges >= search.exchanges:
                break
            trial = _persistent(owners, fit.sums.joined(joining(fit.size, pair)), fit, search)
            if _better(trial, fit):
                better = trial
                break
        if better is None:
            break
        fit = better
    return fit


def _doubt(fit: Fit) -> float:
    """Nats by which the sums misjudge a merge: rows that are unsure of their class gain by it."""
    return 0.5 * float(fit.sums.counts.sum()) * 0.1 + 5.0


def merge_gains(fit: Fit, one: int | None = None) -> list[tuple[float, tuple[int, int]]]:
    """Evidence that merges of two classes add, were rows sure of theirs, and the pairs: best first.

    Of all classes the best of the pairs with later ones is among them. `one`, if given, is a class
    that must be in a pair.
    """
    prior, sums = fit.prior, fit.sums
    n = sums.counts.sum(axis=0)
    alone, K = prior.gain(sums), fit.size
    single = gammaln(n + 1)
    # What `label_gain` has more of K - 1 classes than of K, where the rows of two become those of
    # one, apart from these two themselves.
    fewer = gammaln(K - 1) - gammaln(n.sum() + K - 1) - gammaln(K) + gammaln(n.sum() + K)
    found = []
    for k in range(K - 1):
        rest = slice(k + 1, None)
        both = ClassSums(
            sums.counts, sums.signed[k] + sums.signed[rest], sums.seen[k] + sums.seen[rest]
        )
        gains = prior.gain(both) - alone[k] - alone[rest]
        named = gammaln(n[k] + n[rest] + 1) - single[k] - single[rest]
        gains += named + fewer - np.log(K)
        if one is not None and one != k:
            gains[np.arange(k + 1, K) != one] = -np.inf
        j = int(gains.argmax())
        found.append((float(gains[j]), (k, k + 1 + j)))
    return sorted(found, key=lambda each: -each[0])


def split(owners: Owners, fit: Fit, search: Search, draw: int) -> Fit | None:
    """Split classes where that raises the evidence; None where it does not.

    All that promise a gain are split at once; failing that, the most promising ones alone; failing
    that, the rows that fit badly anywhere become one more class.
    """
    if fit.size >= search.most:
        return None
    for parted, most in (partial(halves, draw=draw), 2), (without_tails, 1):
        parts = parted(owners, fit)
        for chosen in _promising(parts, search.most - fit.size, most):
            if owners.exchanges >= search.exchanges:
                return None
            trial = _persistent(owners, parts.sums(chosen), fit, search)
            if _is_better(trial, fit, search):
                return trial
    if fit.size == 1 or owners.exchanges >= search.exchanges:
        return None
    trial = _persistent(owners, one_more(owners, fit), fit, search)
    return trial if _is_better(trial, fit, search) else None


def _is_better(trial: Fit, fit: Fit, search: Search) -> bool:
    return _better(trial, fit, 1.0) and has_support(trial, search)


def _better(fit: Fit, other: Fit, by: float = 0.0) -> bool:
    """Whether one fit is to be taken for another; more classes must also explain the rows better.

    The evidence of two classes that lie on each other is overrated by what their rows leave open.
    """
    fewer, more = sorted((fit, other), key=lambda f: f.size)
    if fewer.size < more.size and more.sums.log_likelihood <= fewer.sums.log_likelihood:
        return fit is fewer
    return fit.evidence > other.evidence + by


def _best(fit: Fit, other: Fit) -> Fit:
    return other if _better(other, fit) else fit


def _promising(parts: Halves, room: int, alone: int) -> list[np.ndarray]:
    """Which classes to split together, in the order in which that is tried.

    Parameters
    ----------
    room : classes that may be split at once.
    alone : classes that are tried one by one.
    """
    order = np.argsort(-parts.gains)
    sure = order[parts.gains[order] > 0][:room]
    return [sure] * (len(sure) > 1) + [order[i : i + 1] for i in range(min(alone, len(order)))]


def _persistent(owners: Owners, sums: ClassSums, goal: Fit, search: Search) -> Fit:
    """Fit a trial as long as it may still pass the evidence of `goal`."""
    return _hopeful(owners, iterate(owners, sums, goal.prior, search.short), goal, search)


def _hopeful(owners: Owners, fit: Fit, goal: Fit, search: Search) -> Fit:
    """Improve a fit as long as it may still pass the evidence of `goal`."""
    for _ in range(search.long // search.short):
        if fit.settled or fit.evidence + HOPE * fit.ahead < goal.evidence:
            break
        fit = improve(owners, fit, search.short)
    return fit
