"""Number of examples that a study of several archetypes needs, for three promises.

`planning` treats one archetype at a time, with a normal eigenvalue. The archetypes of a study
disturb each other: their numbers of examples differ by chance, their directions overlap by
``1 / sqrt N``, and nearly equal eigenvalues repel, so that the smallest of K lies well below the
prediction for a single archetype. Here the matrix that decides how many eigenvalues pass the test
of `hopfed.recover` is drawn many times (theory/NOTES.md, "Power of a study").

The promises are: "seen", an archetype's eigenvalue passes the test; "all", the eigenvalues of all
archetypes pass; "resolved", all pass and every pattern is accurate enough for status "ok".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check, marchenko_pastur, resolution, spikes, tracy_widom
from ._solve import smallest_count
from .planning import FALSE_ALARM, SMALLEST_TABLE, START_LEVEL

PROMISES = ("seen", "all", "resolved")
SUPPORT = 5  # examples that status "ok" requires of every archetype
MOST = 2.0**40  # largest number of examples in the search
_FINENESS = 0.005  # relative step at which the search for M ends
_ENTRIES = 4_000_000  # at most, in all drawn matrices together
_DRAWS = (200, 2000)  # smallest and largest number of draws
_READ_LOW = 0.15  # bias of estimated squared cosines of patterns, times -K / N
_ROWS_READ, _ROWS_SPREAD = 0.97, 0.025  # mean and deviation of estimated over true example counts
_LEAST_BULK = 8  # smallest number of noise eigenvalues for which the test uses their median


@dataclass(frozen=True, eq=False)
class Study:
    """A study: archetypes with their shares of the examples.

    Attributes
    ----------
    r : quality, in (0, 1).
    exposures : (K,) shares, descending, that sum to at most 1; the rest of the examples belongs
        to archetypes too rare to be seen.
    N : number of sites, above K.
    false_alarm : rate of the test, in (0, 1).
    seed : seed of the draws, which are the same for every M, so that power hardly ever falls in M.

    >>> study = Study(0.4, np.full(10, 0.1), 256)
    >>> study.powers(240)["all"] > 0.95
    True
    """

    r: float
    exposures: np.ndarray
    N: int
    false_alarm: float = FALSE_ALARM
    seed: int = 0
    _counts: dict[float, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check.scalar("r", self.r, _check.probability)
        _check.scalar("N", self.N, _check.count)
        _check.scalar("false_alarm", self.false_alarm, _check.probability)
        shares = np.atleast_1d(_check.fraction("exposures", self.exposures))
        if shares.ndim != 1 or shares.sum() > 1 + 1e-9:
            raise ArgumentError("exposures", "shares that sum to at most 1", shares.sum())
        if len(shares) >= self.N:
            raise ArgumentError("exposures", f"fewer than N = {self.N}", len(shares))
        object.__setattr__(self, "exposures", np.sort(shares)[::-1])

    @property
    def size(self) -> int:
        """Number of archetypes."""
        return len(self.exposures)

    @property
    def variance(self) -> float:
        """Bulk variance: the variance that the archetypes do not explain."""
        return float(1 - self.r**2 * min(self.exposures.sum(), 1.0))

    @cached_property
    def _draws(self) -> _Draws:
        return _Draws.of(self.size, self.N, self.seed)

    def signals(self, M: float) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of examples (D, K) by archetype, and the signal (D, K, K) in units of the noise.

        The signal of a draw is ``r diag(sqrt n) L`` with ``L L^T`` the archetypes' products.
        """
        rows = _multinomial(self._draws.uniform, self.exposures, M)
        signal = self.r / np.sqrt(self.variance) * np.sqrt(rows)[:, :, None] * self._draws.root
        return rows, signal

    def counts(self, M: float) -> np.ndarray:
        """(D,) number of archetypes that the test counts with M examples, in every draw."""
        if _check.scalar("M", M, _check.count) <= self.size:
            raise ArgumentError("M", f"more than the {self.size} archetypes", M)
        if M not in self._counts:
            self._counts[M] = self._count(M)
        return self._counts[M]

    def _count(self, M: float) -> np.ndarray:
        _, signal = self.signals(M)
        strength = np.linalg.svd(signal, compute_uv=False) ** 2
        left = strength.sum(axis=1, keepdims=True) - np.cumsum(strength, axis=1)
        # Factor by which archetypes not yet counted inflate the noise variance from the trace.
        overrated = 1 + np.column_stack([strength.sum(axis=1), left]) / (M * self.N)
        counted = np.zeros(len(signal), dtype=int)
        while True:  # the first count, with the median of the bulk
            level = self._edges(M, counted, min(START_LEVEL, self.false_alarm))
            level *= self._start_variance(M, counted, overrated)
            passed = self._passed(signal, M, level, slice(None))
            if (passed <= counted).all():
                break
            counted = np.maximum(counted, passed)
        going = np.flatnonzero(counted < self.size)
        while len(going):  # the count at the requested level
            k = counted[going]
            level = self._edges(M, k, self.false_alarm) * overrated[going, k]
            passed = self._passed(signal[going], M, level, going)
            counted[going] = np.maximum(k, passed)
            going = going[(passed > k) & (passed < self.size)]
        return counted

    def _edges(self, M: float, counted: np.ndarray, level: float) -> np.ndarray:
        """Threshold of the test after `counted` archetypes, in units of the noise."""
        kinds, where = np.unique(counted, return_inverse=True)
        centre, scale = tracy_widom.wishart_scaling(
            np.maximum(M - kinds, 1), np.maximum(self.N - kinds, 1)
        )
        shift = 1 + self._kurtosis / np.sqrt(M * self.N)
        edges: np.ndarray = (centre + scale * tracy_widom.critical_value(level)) * shift
        return edges[where]

    def _start_variance(self, M: float, counted: np.ndarray, overrated: np.ndarray) -> np.ndarray:
        """Noise variance in the first count, over the true noise variance."""
        size = min(M, self.N)
        by_trace = overrated[np.arange(len(counted)), counted]
        by_median = np.ones(len(counted))
        for k in np.unique(counted):  # archetypes not yet counted push the median up
            place = (size - k) / 2 / max(size - self.size, 1)
            if k < self.size and place < 1:
                by_median[counted == k] = _median_ratio(place, (self.N - k) / (M - k))
        return np.where(size - counted >= _LEAST_BULK, by_median, by_trace)

    @property
    def _kurtosis(self) -> float:
        return float(spikes.excess_kurtosis(np.sqrt(1 - self.variance)))

    def _passed(
        self, signal: np.ndarray, M: float, level: np.ndarray, chosen: np.ndarray | slice
    ) -> np.ndarray:
        """Number of squared singular values of signal plus noise above `level`, in every draw."""
        sizes, root = (M - self.size, self.N - self.size), np.sqrt(level)[:, None, None]
        corner = _Corner.at(level[:, None, None], *sizes, self._kurtosis)
        draws, one = self._draws, np.eye(self.size)
        own = (1 - self.r**2) / self.variance  # noise of rows of archetypes, over that of all rows
        rows = (root - own * (root - corner.left)) * one - own * corner.left_sd * draws.left[chosen]
        sites = corner.right * one - corner.right_sd * draws.right[chosen]
        middle = signal + np.sqrt(own) * corner.middle_sd * draws.middle[chosen]
        whole = np.block([[-rows, middle], [middle.transpose(0, 2, 1), -sites]])
        return (np.linalg.eigvalsh(whole) > 0).sum(axis=1)

    def resolved(self, M: float) -> np.ndarray:
        """(D,) whether all archetypes are counted and every pattern is accurate enough for "ok"."""
        rows, signal = self.signals(M)
        _, strength, directions = np.linalg.svd(signal)
        kappa = np.maximum(strength**2 / M, 1e-12)
        q = self.N / M
        kappa, turned = _estimate_spikes(kappa, q, M, self._draws.left)
        aligned = self._draws.root @ directions.transpose(0, 2, 1) @ turned / np.sqrt(self.N)
        gamma = (aligned**2 * spikes.overlap(kappa, q)[:, None, :]).sum(axis=2)
        gamma -= _READ_LOW * self.size / self.N
        quality = np.sqrt(kappa.sum(axis=1) / (self.N + kappa.sum(axis=1)))
        quality *= self.r / np.sqrt(1 - self.variance)  # some rows may belong to no archetype
        # Columns of one value, in which the rows agree most, are left out of what is judged.
        sides = (1 + np.array([1, -1]) * np.sqrt(1 - self.variance)) / 2
        alone = (sides**M).sum() * 2.0 ** (1 - self.size)
        quality = np.sqrt(np.maximum(quality**2 - alone, 0) / (1 - alone))
        counted = self._rows_as_read(rows, M)
        majority = resolution.majority_overlap(np.maximum(counted, 1), quality[:, None])
        least = np.minimum(resolution.expected_overlap(gamma), majority).min(axis=1)
        accurate = (least >= resolution.sure_level(self.N)) & (rows.min(axis=1) >= SUPPORT)
        return accurate & (self.counts(M) == self.size)

    def _rows_as_read(self, rows: np.ndarray, M: float) -> np.ndarray:
        """Numbers of examples (D, K) as estimated by the fit of the exposures."""
        q = self.N / M
        own = np.maximum(self.N * self.r**2 * rows / M / self.variance, 1e-12)
        slope = np.maximum(1 - q / own**2, 0.1) * own  # d eigenvalue / d log strength
        error = spikes.outlier_sd(own, q, M, exposure=1.0) / slope
        # An error common to all archetypes goes into the quality.
        spread = np.sqrt(_ROWS_SPREAD**2 + (1 - 1 / self.size) * error**2)
        normal = np.diagonal(self._draws.right, axis1=1, axis2=2) / np.sqrt(2)
        return np.round(_ROWS_READ * rows * (1 + spread * normal))

    def seen(self, M: float) -> np.ndarray:
        """(K,) probability that each archetype's eigenvalue passes the test with M examples.

        Archetypes of equal exposure are exchangeable: each gets the mean of its group.
        """
        passed = (self.counts(M)[:, None] > np.arange(self.size)).mean(axis=0)
        _, group = np.unique(self.exposures, return_inverse=True)
        means = np.bincount(group, weights=passed) / np.bincount(group)
        return np.minimum(means[group], 1 - 1 / len(self._draws.uniform))

    def powers(self, M: float) -> dict[str, float]:
        """Probability of each promise, "seen" of the weakest: right to .05 from .8 on, .1 below."""
        most = 1 - 1 / len(self._draws.uniform)  # D draws show no more
        return {
            "seen": float(self.seen(M).min()),
            "all": min(float((self.counts(M) == self.size).mean()), most),
            "resolved": min(float(self.resolved(M).mean()), most),
        }


@dataclass(frozen=True, eq=False)
class Promises:
    """Result of :func:`promises`.

    Attributes
    ----------
    exposures : (E,) distinct shares, descending.
    each : (E,) number of examples from which an archetype of each share is seen.
    each_power : (E,) probability that it is seen with that number.
    samples : number of examples from which each of `PROMISES` holds; infinite beyond `MOST`.
    powers : probability of each promise with that number.

    >>> promises(0.4, [0.5, 0.5], 100).exposures.tolist()
    [0.5]
    """

    exposures: np.ndarray
    each: np.ndarray
    each_power: np.ndarray
    samples: dict[str, float]
    powers: dict[str, float]


def promises(
    r: float,
    exposures: ArrayLike,
    N: int,
    power: float = 0.9,
    false_alarm: float = FALSE_ALARM,
    seed: int = 0,
) -> Promises:
    """Return how many examples a study needs: to see, to count and to resolve archetypes.

    Parameters
    ----------
    r, exposures, N, false_alarm, seed : as in `Study`.
    power : probability of each promise, above 0; at most .999, and less for more than 7 archetypes,
        of which fewer draws are made: .99 for 16 or more.

    >>> found = promises(0.4, [0.5, 0.5], 100)
    >>> found.samples["seen"] <= found.samples["all"] <= found.samples["resolved"]
    True
    """
    study = Study(r, np.asarray(exposures, dtype=np.float64), N, false_alarm, seed)
    target = _check.scalar("power", power, _check.probability)
    most = 1 - 2 / len(study._draws.uniform)
    if target > most:
        raise ArgumentError("power", f"at most {most:g}, for draws do not show more", f"{target:g}")
    shares, last = np.unique(study.exposures[::-1], return_index=True)
    ends = (study.size - 1 - last)[::-1]
    each = [_smallest(study, target, partial(lambda k, M: study.seen(M).item(k), k)) for k in ends]
    power_of = [
        study.seen(M)[k] if np.isfinite(M) else 0.0 for M, k in zip(each, ends, strict=True)
    ]
    samples = {"seen": float(max(each))}
    for name in PROMISES[1:]:
        samples[name] = _smallest(study, target, partial(lambda n, M: study.powers(M)[n], name))
    powers = {n: study.powers(M)[n] if np.isfinite(M) else 0.0 for n, M in samples.items()}
    return Promises(shares[::-1], np.array(each), np.array(power_of), samples, powers)


def _smallest(study: Study, target: float, power: Callable[[float], float]) -> float:
    """Smallest number of examples whose power reaches the target, to half a percent."""
    least = np.array(max(study.size + 2.0, np.ceil(SMALLEST_TABLE / study.N)))
    found = float(
        smallest_count(lambda M: np.array(power(float(M)) >= target), least, MOST, _FINENESS)
    )
    return found if found < MOST else np.inf


@dataclass(frozen=True)
class _Draws:
    """D draws of standard variables, which do not change with M."""

    root: np.ndarray  # (D, K, K) lower factor of the archetypes' products
    left: np.ndarray  # (D, K, K) symmetric, for the noise on the side of the examples
    right: np.ndarray  # (D, K, K) symmetric, for the noise on the side of the sites
    middle: np.ndarray  # (D, K, K) for the block between both sides
    uniform: np.ndarray  # (D, K) for the numbers of examples

    @classmethod
    def of(cls, K: int, N: int, seed: int) -> _Draws:
        size = int(np.clip(_ENTRIES / (4 * K * K * 20), *_DRAWS))
        rng = np.random.default_rng([seed, K, N])
        root = np.tril(rng.standard_normal((size, K, K)), -1)
        along = np.arange(K)
        root[:, along, along] = np.sqrt(rng.chisquare(N - along, (size, K)))
        root *= np.sqrt(N) / np.linalg.norm(root, axis=2, keepdims=True)
        left, right = rng.standard_normal((2, size, K, K))
        left, right = ((a + a.transpose(0, 2, 1)) / np.sqrt(2) for a in (left, right))
        middle = rng.standard_normal((size, K, K))
        return cls(root, left, right, middle, rng.random((size, K)))


@dataclass(frozen=True)
class _Corner:
    """Mean and spread of the 2K x 2K matrix whose positive eigenvalues are counted; (D, 1, 1)."""

    left: np.ndarray
    right: np.ndarray
    left_sd: np.ndarray
    right_sd: np.ndarray
    middle_sd: np.ndarray

    @classmethod
    def at(cls, level: np.ndarray, m: float, n: float, kurtosis: float) -> _Corner:
        """For an (m, n) table of unit noise with excess `kurtosis`, at squared singular values."""
        excess, square = level - m - n, m * n + kurtosis * level
        # A level inside the bulk, which the test does not reach, is moved to the edge.
        root = np.sqrt(np.maximum(excess**2 - 4 * square, 1e-12 * m * n))
        p = (excess - root) / (2 * square)
        slope = (p - kurtosis * p * p) / (2 * square * p - excess)
        by_sites, by_rows = n * (1 + m * p) / level, m * (1 + n * p) / level
        left = by_sites - n * m * slope  # sums of squares of the resolvent of the noise
        right = left + (m - n) / level
        s = np.sqrt(level)
        return cls(
            left=s * (1 - by_sites),
            right=s * (1 - by_rows),
            left_sd=np.sqrt(np.maximum(left, 0)),
            right_sd=np.sqrt(np.maximum(right, 0)),
            middle_sd=np.sqrt(np.maximum(1 + left - by_sites, 0)),
        )


def _estimate_spikes(
    kappa: np.ndarray, q: float, M: float, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Strengths (D, K), ascending, and directions (D, K, K) in columns, estimated from noisy
    eigenvalues, which fluctuate and repel each other, and rotated eigenvectors.
    """
    spread = np.sqrt(spikes.outlier_sd(kappa, q, M, exposure=1.0) / np.sqrt(2))
    matrix = spikes.outlier(kappa, q)[:, :, None] * np.eye(kappa.shape[1])
    matrix = matrix + spread[:, :, None] * noise * spread[:, None, :]
    values, turned = np.linalg.eigh(matrix)
    root = float(np.sqrt(q))
    return spikes.strength_at(values - (1 + root) ** 2, root), turned


def _multinomial(uniform: np.ndarray, exposures: np.ndarray, M: float) -> np.ndarray:
    """Numbers of examples (D, K), by binomial quantiles, one archetype after the other."""
    from scipy.stats import binom

    rows = np.zeros(uniform.shape)
    left, rest = np.full(len(uniform), float(M)), 1.0
    for k, share in enumerate(exposures):
        part = share / rest if rest > share + 1e-12 else 1.0
        rows[:, k] = binom.ppf(uniform[:, k], left, part) if part < 1 else left
        left, rest = left - rows[:, k], rest - share
    return rows


@lru_cache(maxsize=4096)
def _median_ratio(place: float, q: float) -> float:
    """Quantile of the nonzero eigenvalues of noise at `place`, over their median."""
    ahead = 1 - place if q <= 1 else (1 - place) / q
    quantile = float(marchenko_pastur.quantile(1 - ahead, q))
    return quantile / float(marchenko_pastur.median_nonzero(q))
