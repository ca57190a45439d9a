"""Classes, what a table says of them in sums, and how well it is explained.

Given class mu an observed entry is +1 with probability ``p_mu,j``, and ``T = 2 p - 1`` is its mean.
The p of a column have a Beta prior around the rate of the column in the whole table; its
concentration c is common to all columns and fitted, so classes that hardly differ are shrunk
towards each other. They are fitted by expectation maximisation: classes down, sums of the rows over
classes up, until neither moves.

How many classes there are is decided by the evidence, the likelihood averaged over that prior, in
the approximation of Cheeseman and Stutz (1996), which is exact where every row is sure of its
class. A row that may be of one class as well as of another does not tell the two apart: where a
part f_j of the rows has column j, the information about its means is ``f_j S``, S the sum over rows
of the products of two responsibilities. Laplace's method adds `Unsure.evidence` for that; without
it classes of rows with few entries are lost, and c runs away. The variance of a mean grows by the
same information (`loss`).

Source: theory/NOTES.md, "Starting the classes", "Resolution".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
from scipy.special import betaln, gammaln, xlogy

from hopfed.archetypes.class_questions import column_sums, sums_and_pairs
from hopfed.archetypes.session import Session, Variables, total
from hopfed.federation.messages import Message

ALIKE = 1.0  # nats for a class that do not count: one that is like another would cost nothing


@dataclass(frozen=True)
class Unsure:
    """What the evidence needs to know of the responsibilities."""

    counts: np.ndarray  # (K,) rows of each class, were they sure
    # (K,) eigenvalues of S: the rows that tell along the directions of class space
    information: np.ndarray
    observed: np.ndarray  # (N,) part of the entries of each column that is observed
    weights: np.ndarray  # (N,) of the columns: one, and less for the levels of a variable

    def at(self, columns: np.ndarray) -> Unsure:
        """The same of some columns (indices)."""
        return replace(self, observed=self.observed[columns], weights=self.weights[columns])

    def evidence(self, c: float, paid: np.ndarray | None = None) -> float:
        """What is added to the evidence of the sums, in nats."""
        added = np.zeros(len(self.observed))
        for sure, known in zip(self.counts, self.information, strict=True):  # no matrix of all
            added += np.log((c + sure * self.observed) / (c + known * self.observed))
        added /= 2
        if paid is not None and not np.isinf(c):
            cost = np.log1p(np.outer(self.counts, self.observed) / c).sum(axis=0) / 2
            added = added * np.clip(paid / np.maximum(cost, 1e-12), 0.0, 1.0)
        return float(added @ self.weights)


def loss(counts: np.ndarray, pairs: np.ndarray, observed: np.ndarray, c: float) -> np.ndarray:
    """(K, N) by which the variance of each mean is above that of sure rows: at least 1."""
    information, directions = np.linalg.eigh(pairs)
    information = np.maximum(information, 0.0)
    found = directions**2 @ (1 / (c + np.outer(information, observed)))
    return np.asarray(np.maximum(found * (c + np.outer(counts, observed)), 1.0))


CONCENTRATIONS = np.geomspace(0.05, 5_000.0, 24)  # of the prior, from +-1 to hardly any spread
COLUMNS = 400  # from which the concentration is read
OWN = 5.0  # rows that the common shares weigh in those of an owner


@dataclass(frozen=True)
class Mixture:
    """Classes of binary columns."""

    means: np.ndarray  # (K, N) in (-1, 1)
    shares: np.ndarray  # (L, K) of the classes at each owner; rows add up to one

    @property
    def size(self) -> int:
        """K."""
        return len(self.means)


@dataclass(frozen=True)
class ClassSums:
    """What all rows say of classes."""

    counts: np.ndarray  # (L, K) responsibilities added up, by owner
    signed: np.ndarray  # (K, N) observed entries added up
    seen: np.ndarray  # (K, N) number of observed entries
    # of all that is observed, for the classes that were asked about
    log_likelihood: float = float("nan")
    # (K, K) products of two responsibilities added up; None where they were not asked for
    pairs: np.ndarray | None = None

    @cached_property
    def plus(self) -> np.ndarray:
        """(K, N) observed +1; sums in single precision may miss none by a little."""
        return np.maximum((self.seen + self.signed) / 2, 0.0)

    @cached_property
    def minus(self) -> np.ndarray:
        """(K, N) observed -1."""
        return np.maximum((self.seen - self.signed) / 2, 0.0)

    @cached_property
    def information(self) -> np.ndarray:
        """(K,) eigenvalues of `pairs`."""
        pairs = np.zeros((0, 0)) if self.pairs is None else self.pairs
        return np.maximum(np.linalg.eigvalsh(pairs), 0.0)

    def merged(self, pair: tuple[int, int]) -> ClassSums:
        """The sums where two of the classes become one."""
        into = np.arange(len(self.seen))
        into[max(pair)] = min(pair)
        into = np.unique(into, return_inverse=True)[1]
        fold = np.eye(into.max() + 1)[into]
        pairs = None if self.pairs is None else fold.T @ self.pairs @ fold
        sums = ClassSums(self.counts @ fold, fold.T @ self.signed, fold.T @ self.seen)
        return replace(sums, pairs=pairs)


def collected(answers: list[Message]) -> ClassSums:
    """Add up the answers of all owners."""
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
    # which columns are levels of one variable, where any are: their rates have a Dirichlet prior
    # then
    variables: Variables | None = None
    # (L, N) part of each column that an owner observes, over that of all owners; None where all
    # have entries of the same columns
    held: np.ndarray | None = field(default=None, repr=False)
    # whether it says nothing: classes are the likeliest ones, of one share for all owners
    flat: bool = False
    # (N,) whether a column holds both values; None where all do, or nobody knows
    varies: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def of(cls, owners: Session) -> Prior:
        """Ask the owners for their column sums."""
        answers, rows = owners.ask(column_sums, {}), owners.sizes.sum()
        sums, each = total(answers, "sums"), np.array([a["seen"] for a in answers])
        seen = each.sum(axis=0, dtype=np.float64)
        parts = each / owners.sizes[:, None] / np.maximum(seen / rows, 1e-300)
        rates = ((seen + sums) / 2 + 0.5) / (seen + 1)
        if owners.variables is not None:
            rates = owners.variables.normalised(rates)
        held = None if ((each > 0) | (seen == 0)).all() else parts
        known = cls(rates, seen / rows, variables=owners.variables, held=held)
        varies = (np.abs(sums) < seen) | (known.part > 0)  # levels count together
        return known if varies.all() else replace(known, varies=varies)

    @property
    def part(self) -> np.ndarray:
        """(N,) what a column is of its variable's columns; 0 where it is one of its own."""
        return np.zeros(len(self.rates)) if self.variables is None else self.variables.part

    def fitted(self, sums: ClassSums) -> Prior:
        """Return the prior with the concentration under which these sums are most likely."""
        if self.flat:
            return self
        if len(sums.seen) == 1:
            return replace(self, concentration=np.inf)
        plus, minus, rates, part = sums.plus, sums.minus, self.rates, self.part
        unsure = self._unsure(sums)
        if self.varies is not None:
            there = np.flatnonzero(self.varies)
            plus, minus, rates, part = plus[:, there], minus[:, there], rates[there], part[there]
            unsure = None if unsure is None else unsure.at(there)
        found = concentration(plus, minus, rates, part, self.concentration, unsure)
        return self if found == self.concentration else replace(self, concentration=found)

    def _unsure(self, sums: ClassSums) -> Unsure | None:
        if sums.pairs is None or len(sums.pairs) == 1:
            return None
        return Unsure(sums.counts.sum(axis=0), sums.information, self.observed, self._free)

    def parameters(self, size: int) -> int:
        """Number of free rates and shares of so many classes."""
        return size * round(float(self._free.sum())) + size - 1

    @property
    def _free(self) -> np.ndarray:
        """(N,) how many rates of its own each column has: 1, less for a level, 0 for a constant."""
        return 1 - self.part if self.varies is None else (1 - self.part) * self.varies

    def mixture(self, sums: ClassSums) -> Mixture:
        """Most plausible classes after the sums: means shrunk towards the columns' own."""
        if self.flat:
            shares = np.broadcast_to(sums.counts.sum(axis=0), sums.counts.shape)
            means = np.where(sums.seen > 0, sums.signed / np.maximum(sums.seen, TINY), 0.0)
            return Mixture(means, shares / shares.sum(axis=1, keepdims=True))
        if len(sums.seen) == 1:
            means = sums.signed / (sums.seen + 1)
        else:
            c = self.concentration
            means = 2 * (c * self.rates + sums.plus) / (c + sums.seen) - 1
        common = sums.counts.sum(axis=0) + 1.0
        common /= common.sum()
        shares = sums.counts + OWN * common
        return Mixture(means, shares / shares.sum(axis=1, keepdims=True))

    def gain(self, sums: ClassSums) -> np.ndarray:
        """(K,) log of the averaged likelihood of the entries of each class, were it alone."""
        return np.asarray(self._gains(sums).sum(axis=1))

    def _gains(self, sums: ClassSums) -> np.ndarray:
        """(K, N) the same of each column."""
        if np.isinf(self.concentration):
            lower = np.where(self.part > 0, 0.0, sums.minus)
            found = xlogy(sums.plus, self.rates) + xlogy(lower, 1 - self.rates)
        else:
            found = _gain(sums.plus, sums.minus, self.rates, self.concentration, self.part)
        return found if self.varies is None else found * self.varies

    def _rates_of(self, classes: Mixture) -> np.ndarray:
        p = np.clip((1 + classes.means) / 2, 1e-9, 1 - 1e-9)
        return p if self.variables is None else self.variables.normalised(p)

    def joint(self, classes: Mixture, sums: ClassSums) -> float:
        """Log-likelihood of rows and their classes; that of the rows is more by their entropy."""
        lower = sums.minus if self.variables is None else np.where(self.part > 0, 0.0, sums.minus)
        named = xlogy(sums.counts, np.maximum(classes.shares, 1e-300)).sum()
        return float(_likelihood(sums.plus, lower, self._rates_of(classes)) + named)

    def evidence(self, classes: Mixture, sums: ClassSums) -> float:
        """Log evidence of so many classes, from the sums that `classes` were asked for."""
        n = sums.counts.sum(axis=0)
        K, p = len(n), self._rates_of(classes)
        value = sums.log_likelihood - self.joint(classes, sums)
        value += self.gain(sums).sum() + label_gain(n)
        # How sharply the entries know the column's rate, over which the whole is averaged too.
        each = np.maximum(sums.seen, 0.5)
        if not np.isinf(self.concentration):
            each = 1 / (1 / (self.concentration + 1) + 1 / each)
        value -= (self._free * np.log(each.sum(axis=0))).sum() / 2
        unsure = self._unsure(sums)
        if unsure is not None and unsure.evidence(self.concentration) > ALIKE * (K - 1):
            lower = np.where(self.part > 0, 0.0, sums.minus)
            spent = xlogy(sums.plus, p) + xlogy(lower, 1 - p)
            paid = (spent - self._gains(sums)).sum(axis=0)
            value += max(0.0, unsure.evidence(self.concentration, paid) - ALIKE * (K - 1))
        return float(value + gammaln(K + 1))  # classes have no order


def concentration(
    plus: np.ndarray, minus: np.ndarray, rates: np.ndarray, part: np.ndarray, near: float = 2.0,
    unsure: Unsure | None = None,
) -> float:  # fmt: skip
    """Concentration of the Beta prior around `rates` (N,) by which entries (K, N) are likeliest."""
    if len(rates) > COLUMNS:
        columns = np.linspace(0, len(rates) - 1, COLUMNS).astype(int)
        part = part[columns]
        plus, minus, rates = plus[:, columns], minus[:, columns], rates[columns]
        unsure = None if unsure is None else unsure.at(columns)

    @cache
    def value(i: int) -> float:
        if not 0 <= i < len(CONCENTRATIONS):
            return -np.inf
        c = float(CONCENTRATIONS[i])
        unsaid = 0.0 if unsure is None else unsure.evidence(c)
        return float(_gain(plus, minus, rates, c, part).sum()) + unsaid

    i = int(np.abs(np.log(CONCENTRATIONS) - np.log(min(near, CONCENTRATIONS[-1]))).argmin())
    while (best := max((i - 1, i, i + 1), key=value)) != i:
        i = best
    return float(CONCENTRATIONS[i])


def _likelihood(plus: np.ndarray, minus: np.ndarray, rates: np.ndarray) -> float:
    """Log-likelihood of so many +1 and -1 (K, N) at these rates."""
    return float((plus * np.log(rates) + minus * np.log1p(-rates)).sum())


def label_gain(n: np.ndarray) -> float:
    """Log-likelihood of which row is of which class, averaged over all shares."""
    return float(gammaln(len(n)) + gammaln(n + 1).sum() - gammaln(n.sum() + len(n)))


def _gain(
    plus: np.ndarray, minus: np.ndarray, rates: np.ndarray, c: float, part: np.ndarray
) -> np.ndarray:
    """(K, N) averaged likelihood of columns: Beta, or Dirichlet in shares of its columns."""
    a, b = c * rates, c * (1 - rates)
    found: np.ndarray = betaln(a + plus, b + minus) - betaln(a, b)
    if part.any():
        level = gammaln(a + plus) - gammaln(a) - part * (gammaln(c + plus + minus) - gammaln(c))
        found = np.where(part > 0, level, found)
    return found


STILL = 0.02  # nats that are still to be gained, below which nothing moves any more
TINY = 1e-300
EMPTY = 0.5  # rows below which a class is dropped


@dataclass(frozen=True)
class Fit:
    """Classes with the sums that were asked for them."""

    classes: Mixture  # as the owners last heard of them
    sums: ClassSums  # their answers
    prior: Prior  # under which the classes were made
    evidence: float  # of so many classes
    settled: bool = False  # whether another exchange would change nothing
    # nats that more exchanges would gain, about; infinite where nothing is known of it, or steps
    # grow
    ahead: float = np.inf

    @property
    def size(self) -> int:
        """Number of classes K."""
        return self.classes.size


def class_messages(classes: Mixture) -> tuple[Message, Message]:
    """What the owners are told of classes: (all of them, each its own)."""
    return (
        {"means": classes.means.astype(np.float32)},
        {"shares": classes.shares.astype(np.float32)},
    )


def expect(owners: Session, classes: Mixture, prior: Prior) -> Fit:
    """Ask for the sums over given classes: one exchange."""
    sums = collected(owners.ask(sums_and_pairs, *class_messages(classes)))
    owners.heard = classes
    prior = prior.fitted(sums)
    return Fit(classes, sums, prior, prior.evidence(classes, sums))


def remind(owners: Session, fit: Fit) -> None:
    """Send the classes of `fit` to the owners again, if they were asked about others since."""
    if owners.heard is not fit.classes:
        expect(owners, fit.classes, fit.prior)


def maximise(fit: Fit) -> Mixture:
    """Return the most plausible classes after the last exchange; empty ones are dropped."""
    sums = fit.sums
    kept = sums.counts.sum(axis=0) >= EMPTY
    if not kept.all() and kept.any():
        pairs = None if sums.pairs is None else sums.pairs[np.ix_(kept, kept)]
        sums = ClassSums(sums.counts[:, kept], sums.signed[kept], sums.seen[kept], pairs=pairs)
    return fit.prior.mixture(sums)


def iterate(owners: Session, sums: ClassSums, prior: Prior, steps: int) -> Fit:
    """Start at the classes of given sums and improve them."""
    prior = prior.fitted(sums)
    return improve(owners, expect(owners, prior.mixture(sums), prior), steps - 1)


def improve(owners: Session, fit: Fit, steps: int, still: float = STILL) -> Fit:
    """Improve a fit by at most `steps` exchanges, and ask on along the way that two steps lead."""
    while steps > 0 and not fit.settled:
        steps -= 1
        first = expect(owners, maximise(fit), fit.prior)
        if first.size < fit.size:
            fit = first
            continue
        second = maximise(first)
        if second.size < first.size:
            fit = first
            continue
        at = [_place(classes, first) for classes in (fit.classes, first.classes, second)]
        step, next_step = at[1] - at[0], at[2] - at[1]
        long, short = np.linalg.norm(step), np.linalg.norm(next_step)
        gain = _height(first, fit.prior) - _height(fit, fit.prior)
        ratio = float(short) / max(float(long), TINY)  # every step gains its square of the last one
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
            most = np.pi / 2 - (np.pi / 2 - near) / 2  # half of the way to where rates end
            shares = np.maximum(there[cut:], at[2][cut:] / 2) ** 2
            shares = np.maximum(shares.reshape(first.classes.shares.shape), TINY)
            shares /= shares.sum(axis=1, keepdims=True)
            classes = Mixture(np.sin(np.clip(angles, -most, most)).reshape(shape), shares)
            jump = expect(owners, classes, first.prior)
            if _height(jump, first.prior) >= _height(first, first.prior):
                fit = replace(jump, ahead=ahead)
    return fit


def _height(fit: Fit, prior: Prior) -> float:
    """Log-likelihood of the rows, and of the means under a prior: what steps raise."""
    if prior.flat or np.isinf(prior.concentration):
        return fit.sums.log_likelihood
    weighed = prior.concentration * np.broadcast_to(prior.rates, fit.classes.means.shape)
    rates = np.clip((1 + fit.classes.means) / 2, 1e-9, 1 - 1e-9)
    return fit.sums.log_likelihood + _likelihood(weighed, prior.concentration - weighed, rates)


def _place(classes: Mixture, fit: Fit) -> np.ndarray:
    """Classes as a point of a space whose lengths squared are about nats, at the sums of `fit`."""
    means = np.arcsin(np.clip(classes.means, -1, 1)) * np.sqrt(fit.sums.seen)
    rows = fit.sums.counts.sum(axis=1, keepdims=True)
    return np.concatenate([means.ravel(), (2 * np.sqrt(classes.shares * rows)).ravel()])
