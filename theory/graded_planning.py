"""How many rows tell a graded class from the rest, and what that many rows show of it.

A class of a given share stands beside one class that holds the rest of the rows. The means of both
come from one law, column by column: `symmetric`, -r or +r, the archetypes of signs; or Beta(a, b),
the law of the rates `(1 + T) / 2`. A column is not observed with probability `missing`.

For signs a gap is a loss of quality: `p r^2` takes the place of `r^2` in the strength, so
`kappa = N pi p r^2 / (1 - p r^2)`, and without gaps every number is that of
:func:`hopfed.theory.planning.plan`. For Beta rates both classes share a mean, whose eigenvalue
comes first; the class is told from the rest by the second. Expectations over the law are sums
over a typical table of weighted columns. The spike of N columns varies by a part of order
``N^-1/2`` from one table to the next, whatever the number of rows, and power falls faster below
its typical value than it rises above, so power is an average over tables.

Source: derived in theory/NOTES.md, "Planning for graded classes".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check, assignment, graded, planning, spikes, tracy_widom
from ._solve import smallest_count
from .graded import Classes, Prediction, predict_white

__all__ = ["ClassLaw", "GradedPlan", "plan"]

DRAWS = 200  # tables
MANY = 3_000  # columns of which tables hardly differ
_SEED = 7  # of the tables, the same in each call, so that power rises with the rows
_LEVELS = 24  # of the rates of each class in a typical table
_MOST_SAMPLES = 2**40


@dataclass(frozen=True)
class ClassLaw:
    """Law of the means of a class, column by column, and of the gaps.

    Parameters
    ----------
    rates : (a, b) of the Beta law of the rates, both above 0; None for -r or +r alike.
    r : quality, in (0, 1), with `rates` None, and only then.
    missing : probability that an entry is not observed, in [0, 1).

    >>> ClassLaw(rates=(1, 4), missing=0.2)
    ClassLaw(rates=(1, 4), r=None, missing=0.2)
    """

    rates: tuple[float, float] | None = None
    r: float | None = None
    missing: float = 0.0

    def __post_init__(self) -> None:
        if self.rates is None:
            if self.r is None:
                raise ArgumentError("r", "given where rates are symmetric", "none")
            _check.scalar("r", self.r, _check.probability)
        else:
            if self.r is not None:
                raise ArgumentError("r", "left out beside rates, which say how sharp", self.r)
            if _check.positive("rates", self.rates).shape != (2,):
                raise ArgumentError("rates", "two numbers, a and b", self.rates)
        _check.below_one("missing", self.missing)

    def draw(self, rng: np.random.Generator, K: int, N: int) -> np.ndarray:
        """(K, N) means drawn from the law with the generator `rng`.

        >>> ClassLaw(r=0.5).draw(np.random.default_rng(0), 1, 4)
        array([[-0.5, -0.5, -0.5,  0.5]])
        """
        _check.generator(rng)
        if self.rates is None:
            return np.asarray(self.r) * rng.choice([1.0, -1.0], size=(K, N))
        return self._inside(2 * rng.beta(*self.rates, size=(K, N)) - 1)

    def typical(self, share: float, N: int) -> Classes:
        """Two classes of shares (share, 1 - share) in a typical table of N columns.

        Signs agree in half of the columns. Beta rates are the quantiles of the nodes of a Gauss
        rule over the square of both levels, each standing for as many columns as it weighs, so
        sums over columns are their expectations.

        >>> ClassLaw(r=0.5, missing=0.5).typical(0.25, 100).strengths.round(3)
        array([10.714,  3.571])
        """
        share = _check.scalar("share", share, _check.probability)
        sites = int(_check.scalar("N", N, _check.count))
        if self.rates is None:
            means = np.asarray(self.r) * np.array([[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]])
            weight = np.full(4, sites / 4)
        else:
            from scipy.special import betaincinv

            nodes, shares = np.polynomial.legendre.leggauss(_LEVELS)
            levels = np.array(np.meshgrid(nodes, nodes)).reshape(2, -1) / 2 + 0.5
            weight = sites * np.outer(shares, shares).ravel() / 4
            means = self._inside(2 * betaincinv(*self.rates, levels) - 1)
        return Classes(means, np.array([share, 1 - share]), 1 - self.missing, weight)

    def distance(self, N: int) -> float:
        """Distance of two of many equal classes, in coordinates of unit noise.

        `sqrt(2 N p s / (1 - p (m^2 + s)))` with m and s the mean and variance of a class mean and
        p the part that is observed; a class of share pi has the strength `pi distance^2 / 2`.

        >>> round(ClassLaw(rates=(1, 1)).distance(100), 6), round(ClassLaw(r=0.6).distance(32), 6)
        (10.0, 6.0)
        """
        if self.rates is None:
            mean, variance = 0.0, float(self.r or 0) ** 2
        else:
            a, b = self.rates
            mean, variance = (a - b) / (a + b), 4 * a * b / (a + b) ** 2 / (a + b + 1)
        p = 1 - self.missing
        sites = _check.scalar("N", N, _check.count)
        return float(np.sqrt(2 * sites * p * variance / (1 - p * (mean**2 + variance))))

    @staticmethod
    def _inside(means: np.ndarray) -> np.ndarray:
        """Rates that round to 0 or 1 are as far from them as double precision tells."""
        return np.clip(means, -1 + 1e-12, 1 - 1e-12)


@dataclass(frozen=True, eq=False)
class GradedPlan:
    """What rows show of a class; every field has the shape of the exposures.

    Attributes
    ----------
    boundary : number of rows at which the class leaves white noise.
    samples : rows asked about: as given, or the fewest whose power reaches the request; infinite
        beyond 2^40, and then nothing else is said.
    power : probability that its eigenvalue passes the test.
    threshold : eigenvalue the test compares with, in coordinates of unit noise.
    eigenvalue, overlap, margin : predicted eigenvalue, the part of its eigenvector that lies in
        the span of both classes, and the strength over the phase boundary.
    distance : between the class and the rest, in coordinates of unit noise.
    score : part of the class that lies in the span of the counted eigenvectors.
    accuracy : share of the rows of the class that are assigned to it, its means known.
    accuracy_all : the same of all rows.
    mean_error : root mean square over columns of the error of its means, if all labels are known.
    cosine : squared cosine of these and the true means of the class, in those coordinates.

    >>> found = plan(ClassLaw(rates=(1, 1), missing=0.3), [0.5, 0.1], N=100)
    >>> found.samples.tolist(), found.accuracy.round(3).tolist()
    ([12.0, 87.0], [1.0, 1.0])
    """

    boundary: np.ndarray
    samples: np.ndarray
    power: np.ndarray
    threshold: np.ndarray
    eigenvalue: np.ndarray
    overlap: np.ndarray
    margin: np.ndarray
    distance: np.ndarray
    score: np.ndarray
    accuracy: np.ndarray
    accuracy_all: np.ndarray
    mean_error: np.ndarray
    cosine: np.ndarray


def plan(
    law: ClassLaw,
    exposure: ArrayLike,
    N: int,
    power: float = 0.9,
    false_alarm: float = planning.FALSE_ALARM,
    stronger: int = 0,
    samples: int | None = None,
) -> GradedPlan:
    """Fewest rows that tell a class from the rest, and what they show; or what `samples` rows show.

    Parameters
    ----------
    law : of the class means and gaps.
    exposure : share of the class, in (0, 1); any shape.
    N : number of columns.
    power, false_alarm : of the test, in (0, 1).
    stronger : number of further archetypes with larger eigenvalues.
    samples : number of rows at hand; by default the fewest are sought.

    >>> signs = plan(ClassLaw(r=0.3), exposure=0.1, N=200)
    >>> gaps = plan(ClassLaw(r=0.3, missing=0.5), exposure=0.1, N=200)
    >>> float(signs.samples), float(gaps.samples)
    (246.0, 781.0)
    """
    shares = _check.probability("exposure", exposure)
    target = _check.scalar("power", power, _check.probability)
    rows = [
        _row(_Case(law, float(share), N, false_alarm, stronger), target, samples)
        for share in shares.ravel()
    ]
    names = GradedPlan.__dataclass_fields__
    return GradedPlan(
        **{n: np.array([r[n] for r in rows]).reshape(shares.shape)[()] for n in names}
    )


class _Case:
    """One share; the parts of the prediction that do not depend on the number of rows."""

    def __init__(self, law: ClassLaw, share: float, N: int, false_alarm: float, stronger: int):
        self.law, self.share, self.false_alarm = law, share, false_alarm
        self.N = int(_check.scalar("N", N, _check.count))
        self.classes = law.typical(share, self.N)
        self._shown: dict[float, Classes] = {}
        # Beside Beta rates the mean of all rows is a spike of its own, and comes first.
        signs = law.rates is None
        above = int(_check.scalar("stronger", stronger, _check.nonnegative))
        self.stronger = above + (not signs)
        if self.stronger >= self.N:
            rule = f"above {self.stronger}, the number of stronger eigenvalues"
            raise ArgumentError("N", rule, self.N)
        self.place = 1 if share <= 0.5 or not signs else 0
        # Columns of any rate are divided by the standard deviation that they show, and then have
        # the edge of +-1 entries (theory/NOTES.md, "Counting in whitened coordinates").
        self.kurtosis = graded.excess_kurtosis(self.classes) if signs else -2.0
        self.spread = np.ones(1) if signs else self._spread()

    def _spread(self) -> np.ndarray:
        """Spikes (T,) of tables of so many columns, over that of a typical one."""
        rows = min(max(self.boundary(), 4.0), float(_MOST_SAMPLES))
        shares, observed = np.array([self.share, 1 - self.share]), 1 - self.law.missing

        def table(rng: np.random.Generator) -> Classes:
            return shown(Classes(self.law.draw(rng, 2, self.N), shares, observed), rows)

        return _relative_spikes(table, self.shown(rows), self.place)

    def boundary(self) -> float:
        """Number of rows at which the strength that they show is that of the phase boundary."""
        from scipy.optimize import brentq

        def above(log2: float) -> float:
            strength = self.shown(2.0**log2).strengths[self.place]
            return float(2.0**log2 * strength**2 - self.N)

        most = np.log2(_MOST_SAMPLES)
        if self.law.rates is None or above(most) <= 0:  # every rate is shown
            return float(self.N / self.classes.strengths[self.place] ** 2)
        return float(2.0 ** brentq(above, 0.0, most))

    def shown(self, samples: float) -> Classes:
        """The classes as far as so many rows can show them: no rate is nearer to 0 or 1."""
        if self.law.rates is None:
            return self.classes
        if samples not in self._shown:
            self._shown[samples] = shown(self.classes, samples)
        return self._shown[samples]

    def predict(self, samples: float) -> Prediction:
        if self.law.rates is None:  # equal noise
            return predict_white(self.classes, samples)
        return graded.predict(self.shown(samples), samples)

    def threshold(self, samples: float) -> float:
        """Eigenvalue that white noise exceeds at the level, as the count takes it."""
        centre, scale = tracy_widom.wishart_scaling(samples, self.N)
        level = tracy_widom.isf(_check.probability("false_alarm", self.false_alarm))
        shift = spikes.small_table_shift(self.kurtosis, samples, self.N)
        found, most = float(shift * (centre + scale * level) / samples), self.most(samples)
        return most if samples == 1 or self.N == 1 else min(found, most)

    def most(self, samples: float) -> float:
        """Largest eigenvalue that a table can have: that of rows with every entry, all alike."""
        classes = self.shown(samples)
        return float((1 / classes.noise) @ classes.weights)

    def power(self, samples: float) -> float:
        """Probability of passing the test, over the rows that the class gets, and over tables."""
        from scipy.special import ndtr

        got, weights = planning.binomial_shares(np.array([self.share]), np.array([float(samples)]))
        rows, sites = samples - self.stronger, self.N - self.stronger
        q = sites / rows
        size = (samples / rows) * (sites / self.N)
        root = float(spikes.threshold(q))
        kappa = np.outer(self._strengths(got, samples) * size, self.spread).clip(1e-12 * root)
        scale = rows / samples
        lift, raised = self._class_noise(samples)
        eigenvalue = spikes.outlier(kappa, q) * scale * lift
        sd = spikes.outlier_sd(kappa, q, rows, exposure=1.0) * scale * lift
        edge = spikes.outlier(root, q) * scale
        limit = max(self.threshold(samples), float(edge)) * raised
        outside = kappa > root
        passes = outside * ndtr((eigenvalue - limit) / np.where(outside, sd, 1.0))
        missed = float(np.clip(weights @ (1 - passes).mean(axis=1), 0.0, 1.0))
        possible = self.threshold(samples) < self.most(samples)
        return 1 - (1 - self.false_alarm) * missed if possible else 0.0

    def _strengths(self, got: np.ndarray, samples: float) -> np.ndarray:
        """Spike of the class if it gets this share of the rows, the noise as it is on average."""
        gram = self.shown(samples).gram
        if self.law.rates is None:
            return np.asarray(got * gram[0, 0])
        first, second = got * gram[0, 0], (1 - got) * gram[1, 1]
        determinant = got * (1 - got) * (gram[0, 0] * gram[1, 1] - gram[0, 1] ** 2)
        half = (first + second) / 2
        return np.asarray(determinant / (half + np.sqrt(np.maximum(half**2 - determinant, 0))))

    def _class_noise(self, samples: float) -> tuple[float, float]:
        """Factors by which unequal noise moves the eigenvalue and the edge."""
        if self.law.rates is None:
            return 1.0, 1.0
        white, found = predict_white(self.shown(samples), samples), self.predict(samples)
        lift = found.outliers[self.place] / white.outliers[self.place]
        return float(lift), found.edge / white.edge


def shown(classes: Classes, samples: float) -> Classes:
    """Classes whose rates are no nearer to 0 or 1 than half a row of `samples`."""
    # What is rarer is in none of so many rows, more often than not, and lends no column the
    # precision that its small variance would.
    most = 1 - 1 / samples
    means = np.clip(classes.means, -most, most)
    return Classes(means, classes.shares, classes.observed, classes.weights)


def _row(case: _Case, target: float, samples: int | None) -> dict[str, float]:
    """All numbers of one share."""
    boundary = case.boundary()
    least = max(case.stronger + 1, int(np.ceil(planning.SMALLEST_TABLE / case.N)))
    if samples is None:
        enough = lambda M: np.array(case.power(int(M)) >= target)  # noqa: E731
        samples = int(smallest_count(enough, np.array(least), _MOST_SAMPLES))
        if samples >= _MOST_SAMPLES:
            names = GradedPlan.__dataclass_fields__
            return dict.fromkeys(names, np.nan) | {"boundary": boundary, "samples": np.inf}
    M = _check.scalar("M", samples, _check.count)
    if least > M:
        raise ArgumentError("M", f"at least {least} for a test with {case.N} columns", int(M))
    found, rows = case.predict(M), assignment.assign(case.classes)
    errors = assignment.mean_errors(case.classes, M)
    noisy = found.edge / (1 + np.sqrt(found.q)) ** 2
    return {
        "boundary": boundary,
        "samples": M,
        "power": case.power(M),
        "threshold": case.threshold(M) * noisy,
        "eigenvalue": float(found.outliers[case.place]),
        "overlap": float(found.alignments[case.place]),
        "margin": float(found.margins[case.place]),
        "distance": float(case.classes.distances[0, 1]),
        "score": float(found.scores[0]),
        "accuracy": float(rows.accuracy[0]),
        "accuracy_all": rows.total,
        "mean_error": float(np.sqrt(errors[0] ** 2 @ case.classes.weights / case.N)),
        "cosine": float(assignment.cosines(case.classes, errors)[0]),
    }


def _relative_spikes(
    draw: Callable[[np.random.Generator], Classes], typical: Classes, place: int
) -> np.ndarray:
    """Spikes (T,) of drawn tables over that of a typical one, at a place in falling order."""
    if typical.N > MANY:
        return np.ones(1)
    rngs = np.random.default_rng(_SEED).spawn(DRAWS)
    drawn = np.array([draw(rng).strengths[place] for rng in rngs])
    return drawn / max(float(typical.strengths[place]), 1e-300)
