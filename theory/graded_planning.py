"""Number of rows that detects a graded class, and predictions at that number of rows.

The model has two classes: the class of interest with a given share, and a class with the rest of
the rows. The means of both come from one law, column by column: `symmetric`, -r or +r, the
archetypes of signs; or Beta(a, b), the law of the rates `(1 + T) / 2`. An entry is missing with
probability `missing`.

For signs, missing entries reduce the quality: `p r^2` replaces `r^2` in the strength, so
`kappa = N pi p r^2 / (1 - p r^2)`, and without missing entries every number equals that of
:func:`hopfed.theory.planning.plan`. For Beta rates the first eigenvalue belongs to the mean of all
rows; the second separates the class from the rest. Expectations over the law are sums over a
typical table of weighted columns. Spikes vary between tables by a relative ``N^-1/2``, and power
falls faster below the typical spike than it rises above, so power is an average over tables.

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

DRAWS = 200  # number of drawn tables
MANY = 3_000  # columns; larger tables hardly differ from the typical one
_SEED = 7  # seed of the tables, the same in each call, so that power rises with the rows
_LEVELS = 24  # number of rates of each class in a typical table
_MOST_SAMPLES = 2**40


@dataclass(frozen=True)
class ClassLaw:
    """Law of the means of a class, column by column, and of missing entries.

    Parameters
    ----------
    rates : (a, b) of the Beta law of the rates, both above 0; None for -r or +r, equally likely.
    r : quality, in (0, 1); given if and only if `rates` is None.
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
                raise ArgumentError("r", "left out when rates are given", self.r)
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

        Signs agree in half of the columns. Beta rates are the quantiles at the nodes of a Gauss
        rule over the square of both levels; each node counts as many columns as its weight, so
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
        """Distance between two of many equal classes, in coordinates of unit noise.

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
        """Clip means to the inside of (-1, 1), since Beta rates can round to 0 or 1."""
        return np.clip(means, -1 + 1e-12, 1 - 1e-12)


@dataclass(frozen=True, eq=False)
class GradedPlan:
    """Prediction for a class from rows; every field has the shape of the exposures.

    Attributes
    ----------
    boundary : number of rows at the phase boundary of white noise.
    samples : number of rows: as given, or the smallest whose power reaches the request; infinite
        beyond 2^40, and then all other fields but `boundary` are NaN.
    power : probability that its eigenvalue passes the test.
    threshold : eigenvalue threshold of the test, in coordinates of unit noise.
    eigenvalue, overlap, margin : predicted eigenvalue, the part of its eigenvector that lies in
        the span of both classes, and the strength over the phase boundary.
    distance : between the class and the rest, in coordinates of unit noise.
    score : part of the class that lies in the span of the counted eigenvectors.
    accuracy : share of the rows of the class that are assigned to it, its means known.
    accuracy_all : the same for all rows.
    mean_error : root mean square over columns of the error of its means, if all labels are known.
    cosine : squared cosine of estimated and true means of the class, in those coordinates.

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
    """Plan a study of graded classes: smallest number of rows that detects a class.

    Parameters
    ----------
    law : law of the class means and missing entries.
    exposure : share of the class, in (0, 1); any shape.
    N : number of columns.
    power, false_alarm : of the test, in (0, 1).
    stronger : number of further archetypes with larger eigenvalues.
    samples : number of rows to predict for; by default the smallest is sought.

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
    """A share; the parts of the prediction that do not depend on the number of rows."""

    def __init__(self, law: ClassLaw, share: float, N: int, false_alarm: float, stronger: int):
        self.law, self.share, self.false_alarm = law, share, false_alarm
        self.N = int(_check.scalar("N", N, _check.count))
        self.classes = law.typical(share, self.N)
        self._shown: dict[float, Classes] = {}
        # With Beta rates the mean of all rows is a further spike, the largest.
        signs = law.rates is None
        above = int(_check.scalar("stronger", stronger, _check.nonnegative))
        self.stronger = above + (not signs)
        if self.stronger >= self.N:
            rule = f"above {self.stronger}, the number of stronger eigenvalues"
            raise ArgumentError("N", rule, self.N)
        self.place = 1 if share <= 0.5 or not signs else 0
        # Columns with Beta rates are divided by their sample standard deviation, and then have
        # the edge of +-1 entries (theory/NOTES.md, "Counting in whitened coordinates").
        self.kurtosis = graded.excess_kurtosis(self.classes) if signs else -2.0
        self.spread = np.ones(1) if signs else self._spread()

    def _spread(self) -> np.ndarray:
        """Spikes (T,) of drawn tables of N columns, over the spike of the typical table."""
        rows = min(max(self.boundary(), 4.0), float(_MOST_SAMPLES))
        shares, observed = np.array([self.share, 1 - self.share]), 1 - self.law.missing

        def table(rng: np.random.Generator) -> Classes:
            return clip_rates(Classes(self.law.draw(rng, 2, self.N), shares, observed), rows)

        return _relative_spikes(table, self.shown(rows), self.place)

    def boundary(self) -> float:
        """Number of rows at which the spike of `clip_rates` of classes is at the phase boundary."""
        from scipy.optimize import brentq

        def above(log2: float) -> float:
            strength = self.shown(2.0**log2).strengths[self.place]
            return float(2.0**log2 * strength**2 - self.N)

        most = np.log2(_MOST_SAMPLES)
        if self.law.rates is None or above(most) <= 0:  # no rate is clipped
            return float(self.N / self.classes.strengths[self.place] ** 2)
        return float(2.0 ** brentq(above, 0.0, most))

    def shown(self, samples: float) -> Classes:
        """Classes with rates clipped to the range that this number of rows can show."""
        if self.law.rates is None:
            return self.classes
        if samples not in self._shown:
            self._shown[samples] = clip_rates(self.classes, samples)
        return self._shown[samples]

    def predict(self, samples: float) -> Prediction:
        if self.law.rates is None:  # equal noise
            return predict_white(self.classes, samples)
        return graded.predict(self.shown(samples), samples)

    def threshold(self, samples: float) -> float:
        """Eigenvalue that white noise exceeds at the false-alarm rate, as in `hopfed.spectral`."""
        centre, scale = tracy_widom.wishart_scaling(samples, self.N)
        level = tracy_widom.isf(_check.probability("false_alarm", self.false_alarm))
        shift = spikes.small_table_shift(self.kurtosis, samples, self.N)
        found, most = float(shift * (centre + scale * level) / samples), self.most(samples)
        return most if samples == 1 or self.N == 1 else min(found, most)

    def most(self, samples: float) -> float:
        """Largest eigenvalue that a table can have, that of identical rows without gaps."""
        classes = self.shown(samples)
        return float((1 / classes.noise) @ classes.weights)

    def power(self, samples: float) -> float:
        """Probability of passing the test, averaged over the class's number of rows and tables."""
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
        """Spikes of the class when it has the shares `got` of the rows, with average noise."""
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


def clip_rates(classes: Classes, samples: float) -> Classes:
    """Classes whose rates are no nearer to 0 or 1 than half a row of `samples`."""
    # A rarer value is usually absent from the sample, so the column's variance cannot be
    # estimated as small as it is.
    most = 1 - 1 / samples
    means = np.clip(classes.means, -most, most)
    return Classes(means, classes.shares, classes.observed, classes.weights)


def _row(case: _Case, target: float, samples: int | None) -> dict[str, float]:
    """Fields of the plan for one share."""
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
    """Spikes (T,) of drawn tables over that of the typical one, at `place` in descending order."""
    if typical.N > MANY:
        return np.ones(1)
    rngs = np.random.default_rng(_SEED).spawn(DRAWS)
    drawn = np.array([draw(rng).strengths[place] for rng in rngs])
    return drawn / max(float(typical.strengths[place]), 1e-300)
