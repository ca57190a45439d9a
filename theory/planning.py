"""Exposures that can be detected, and the number of examples that this takes.

There are two criteria. The phase boundary `kappa = sqrt q` is where an archetype becomes visible as
N and M grow; `margin` and `minimal_*` use it. At finite size a test with a false-alarm rate needs
more; `detection_power`, `plan` and `exposure_needed` use the probability that the archetype's
eigenvalue passes the Tracy-Widom threshold.

All functions broadcast over their arguments.

Parameters
----------
r : quality of the examples, in (0, 1).
exposure : share pi of the examples that come from the archetype, in (0, 1].
N, M : sites, examples; whole numbers above 0.
power, false_alarm : probabilities of the test, in (0, 1).
stronger : number of archetypes with larger eigenvalues, below N and M.

Raises
------
ArgumentError : an argument outside its range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import _check, spikes, tracy_widom
from ._solve import smallest_count

FALSE_ALARM = 1e-3  # default false-alarm rate of the count
START_LEVEL = 1e-6  # false-alarm rate of the robust first pass of the count
_MAX_SAMPLES = 2.0**50
# Below this M N the first-order kurtosis shift is invalid, and eigenvalues take few values.
SMALLEST_TABLE = 36.0

# Points of the sum over the binomial number of an archetype's examples: the counts 0 to 240 where
# the expected number is small, else quantiles at a grid of standard normals.
_COUNTS = np.arange(241.0)
_FEW = 100.0
_NORMALS = np.linspace(-6, 6, _COUNTS.size)
_NORMAL_WEIGHTS = np.exp(-(_NORMALS**2) / 2) / np.exp(-(_NORMALS**2) / 2).sum()


def margin(r: ArrayLike, exposure: ArrayLike, N: ArrayLike, M: ArrayLike) -> np.ndarray:
    """Plan: strength over the threshold, `r^2 pi sqrt(N M) / (1 - r^2)`; visible above 1.

    >>> round(float(margin(0.5, 0.03, 400, 400)), 12)
    4.0
    """
    exposure = _check.fraction("exposure", exposure)
    sites, samples = _check.count("N", N), _check.count("M", M)
    return (spikes.spike_strength(r, exposure, sites) / np.sqrt(sites / samples))[()]


def minimal_exposure(r: ArrayLike, N: ArrayLike, M: ArrayLike) -> np.ndarray:
    """Plan: smallest exposure that is visible, `(1 - r^2) / (r^2 sqrt(N M))`.

    A value above 1 means that no exposure suffices.

    >>> round(float(minimal_exposure(0.5, 400, 400)), 12)
    0.0075
    """
    return 1 / margin(r, 1.0, N, M)


def minimal_samples(r: ArrayLike, exposure: ArrayLike, N: ArrayLike) -> np.ndarray:
    """Plan: fewest examples that show an archetype, `(1 - r^2)^2 / (r^4 pi^2 N)`; a real number.

    >>> round(float(minimal_samples(0.5, 0.0075, 400)), 9)
    400.0
    """
    return margin(r, exposure, N, 1) ** -2.0


def noise_threshold(
    r: ArrayLike, N: ArrayLike, M: ArrayLike, false_alarm: ArrayLike = FALSE_ALARM
) -> np.ndarray:
    """Eigenvalue of `(1/M) eta^T eta` that pure noise exceeds with probability `false_alarm`.

    Tracy-Widom quantile in Ma's scaling, with bulk variance `1 - r^2` and the kurtosis shift of
    +-1 noise. It is at most N, the largest eigenvalue of any table, and equals N for one row or
    one column, so that no eigenvalue passes. Below ten rows or columns the false-alarm rate is
    right within a factor of two up to r = .6; above, tests are stricter.

    >>> round(float(noise_threshold(0.5, 400, 400, 0.05)), 6)
    3.025286
    """
    centre, scale = tracy_widom.wishart_scaling(M, N)
    level = tracy_widom.isf(_check.probability("false_alarm", false_alarm))
    shift = spikes.small_table_shift(spikes.excess_kurtosis(r), M, N)
    found = (1 - np.asarray(r) ** 2) * shift * (centre + scale * level) / np.asarray(M)
    single = (np.asarray(M) == 1) | (np.asarray(N) == 1)
    return np.where(single, N, np.minimum(found, N)).astype(np.float64)[()]


def detection_power(
    r: ArrayLike,
    exposure: ArrayLike,
    N: ArrayLike,
    M: ArrayLike,
    false_alarm: ArrayLike = FALSE_ALARM,
    stronger: ArrayLike = 0,
) -> np.ndarray:
    """Power of a planned study: chance that an archetype's eigenvalue passes the threshold.

    The archetype's number of examples is binomial; given that number its eigenvalue is normal
    around the spike law; an archetype in the bulk passes as often as noise does. Each of the
    `stronger` archetypes lowers it as if one example and one site were removed. Against simulation
    the probability is right to about 0.06 where it is above 0.7, and up to 0.1 too high near the
    boundary. For detecting all of several archetypes, see :mod:`hopfed.theory.study`.

    >>> round(float(detection_power(0.3, 0.1, 200, 300)), 3)
    0.965
    """
    exposure = _check.fraction("exposure", exposure)
    quality = _check.probability("r", r)
    arguments = (quality, exposure, _check.count("N", N), _check.count("M", M), false_alarm)
    stronger = _check_stronger(stronger, np.minimum(*np.broadcast_arrays(*arguments[2:4])))
    r, exposure, N, M, false_alarm, stronger = (
        np.asarray(a, dtype=np.float64)[..., None]
        for a in np.broadcast_arrays(*arguments, stronger)
    )
    return _power(r, exposure, N, M, false_alarm, stronger)[()]


@dataclass(frozen=True, eq=False)
class Plan:
    """Number of examples that detects an archetype; fields have the arguments' broadcast shape.

    Attributes
    ----------
    samples : smallest M whose power reaches the request; infinite beyond 2^50.
    power : probability of detection with `samples` examples.
    threshold : eigenvalue threshold of the test.
    eigenvalue : predicted eigenvalue of the archetype.
    overlap : predicted squared cosine of its eigenvector.
    margin : spike strength over the phase boundary.

    >>> found = plan(r=0.3, exposure=[0.2, 0.1], N=200)
    >>> found.samples.tolist(), found.margin.round(2).tolist()
    ([83.0, 246.0], [2.55, 2.19])
    """

    samples: np.ndarray
    power: np.ndarray
    threshold: np.ndarray
    eigenvalue: np.ndarray
    overlap: np.ndarray
    margin: np.ndarray


def plan(
    r: ArrayLike,
    exposure: ArrayLike,
    N: ArrayLike,
    power: ArrayLike = 0.9,
    false_alarm: ArrayLike = FALSE_ALARM,
    stronger: ArrayLike = 0,
) -> Plan:
    """Plan a study: smallest number of examples that detects an exposure with the given power.

    One example less has less power than requested. When an archetype has only a few examples, the
    power is not monotone in M, as in every test on counts, and a smaller M may also suffice.

    >>> p = plan(r=0.3, exposure=0.1, N=200, power=0.9)
    >>> int(p.samples), round(float(p.power), 3), round(float(p.overlap), 2)
    (246, 0.901, 0.56)
    """
    exposure, target = _check.fraction("exposure", exposure), _check.probability("power", power)
    shape = np.broadcast(*map(np.asarray, (r, exposure, N, target, false_alarm, stronger)))
    stronger = _check_stronger(stronger, np.asarray(N))
    low = np.broadcast_to(
        np.maximum(stronger + 1, np.ceil(SMALLEST_TABLE / _check.count("N", N))), shape.shape
    ).astype(np.float64)

    def reached(samples: np.ndarray) -> np.ndarray:
        return detection_power(r, exposure, N, samples, false_alarm, stronger) >= target

    samples = smallest_count(reached, low, _MAX_SAMPLES)
    ratio = np.asarray(N) / samples
    strength = spikes.spike_strength(r, exposure, N)
    return Plan(
        samples=np.where(samples < _MAX_SAMPLES, samples, np.inf)[()],
        power=detection_power(r, exposure, N, samples, false_alarm, stronger),
        threshold=noise_threshold(r, N, samples, false_alarm),
        eigenvalue=spikes.outlier(strength, ratio, 1 - np.asarray(r) ** 2),
        overlap=spikes.overlap(strength, ratio),
        margin=margin(r, exposure, N, samples),
    )


def exposure_needed(
    r: ArrayLike,
    N: ArrayLike,
    M: ArrayLike,
    power: ArrayLike = 0.9,
    false_alarm: ArrayLike = FALSE_ALARM,
    stronger: ArrayLike = 0,
) -> np.ndarray:
    """Smallest exposure detected with given power and false-alarm rate; NaN if 1 is too small.

    >>> round(float(exposure_needed(0.3, 200, 187)), 3)
    0.118
    """
    target = _check.probability("power", power)
    enough = detection_power(r, 1.0, N, M, false_alarm, stronger) >= target
    # Bisection in the logarithm, between the exposures 0.1 / M and 1.
    low = np.broadcast_to(np.log(0.1 / _check.count("M", M)), np.shape(enough))
    high = np.zeros(np.shape(enough))
    for _ in range(50):
        middle = (low + high) / 2
        good = detection_power(r, np.exp(middle), N, M, false_alarm, stronger) >= target
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return np.where(enough, np.exp(high), np.nan)[()]


def _check_stronger(stronger: ArrayLike, limit: np.ndarray) -> np.ndarray:
    rule = "a whole number of at least 0, below N and M"
    return _check.real(
        "stronger", stronger, rule, lambda a: (a >= 0) & (a == np.floor(a)) & np.all(a < limit)
    )


def _power(
    r: np.ndarray,
    exposure: np.ndarray,
    N: np.ndarray,
    M: np.ndarray,
    false_alarm: np.ndarray,
    stronger: np.ndarray,
) -> np.ndarray:
    """Power for arrays with a last axis of length 1, used for the sum over binomial counts."""
    from scipy.special import ndtr

    variance = 1 - r**2
    share, weights = binomial_shares(exposure, M)
    samples, sites = M - stronger, N - stronger
    q = sites / samples
    kappa = N * r**2 * share / variance * (M / samples) * (sites / N)
    kappa = np.maximum(kappa, 1e-12 * np.sqrt(q))  # without examples: in the bulk

    scale = samples / M
    eigenvalue = spikes.outlier(kappa, q, variance) * scale
    sd = spikes.outlier_sd(kappa, q, samples, variance, exposure=1.0) * scale
    # A high false-alarm rate puts the threshold inside the bulk, where spikes and noise are
    # indistinguishable: an outlier counts only above the edge.
    edge = spikes.outlier(spikes.threshold(q), q, variance) * scale
    noise = noise_threshold(r, N, M, false_alarm)
    threshold = np.maximum(noise, edge)
    outside = kappa > spikes.threshold(q)
    passes = outside * ndtr((eigenvalue - threshold) / np.where(outside, sd, 1.0))
    missed = np.sum(weights * (1 - passes), axis=-1)
    found = 1 - (1 - false_alarm[..., 0]) * np.clip(missed, 0.0, 1.0)
    return np.asarray(np.where((noise < N)[..., 0], found, 0.0))  # no table has one above N


def binomial_shares(exposure: np.ndarray, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and probabilities of the binomial share of M examples, along the last axis.

    >>> share, weight = binomial_shares(np.array([0.1]), np.array([50.0]))
    >>> round(float(weight @ share), 12), round(float(weight[5]), 6)
    (0.1, 0.184925)
    """
    # Many examples: the 2/3 power is nearly normal; the term in spread^2 restores the mean.
    spread = np.sqrt((1 - exposure) / (M * exposure))
    power = np.maximum(1 + 2 / 3 * spread * _NORMALS, 0.0) ** 1.5
    many = np.clip(exposure * (power - spread**2 / 6), 0.0, 1.0)
    # Few examples: the binomial probabilities, by the ratio of neighbours.
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(np.maximum(M - _COUNTS[:-1], 0) / _COUNTS[1:] * exposure / (1 - exposure))
        start = M * np.log1p(-exposure)
        log_weight = np.concatenate([start, start + np.cumsum(odds, axis=-1)], axis=-1)
    is_few = M * exposure < _FEW
    # At exposure 1 the odds are infinite and the count is M.
    certain = np.where(_COUNTS == M, 1.0, 0.0)
    few_weights = np.where(exposure < 1, np.exp(log_weight), certain)
    share = np.where(is_few, np.minimum(_COUNTS / M, 1.0), many)
    return share, np.where(is_few, few_weights, _NORMAL_WEIGHTS)


_check.guard(__name__)
