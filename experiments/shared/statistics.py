"""Statistics of the summaries: agreement, and its spread over seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hopfed._lib.random import stream

_REPEATS = 200


def r_squared(
    measured: np.ndarray, predicted: np.ndarray, axis: int | tuple[int, ...] | None = None
) -> np.ndarray:
    """Share of the variance of `measured` that `predicted` explains; negative if it adds variance.

    NaN if `measured` does not vary.

    Examples
    --------
    >>> float(r_squared(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])))
    1.0
    """
    total = ((measured - measured.mean(axis=axis, keepdims=True)) ** 2).sum(axis=axis)
    return 1 - ((measured - predicted) ** 2).sum(axis=axis) / np.where(total > 0, total, np.nan)


def with_spread(
    statistic: Callable[[np.ndarray], float], n_seeds: int
) -> tuple[float, float | None]:
    """Return `statistic` of all seeds and its standard error, by resampling of the seeds.

    The standard error is half the width of the central 68%, which is robust against a few
    resamplings with almost no variance.

    Parameters
    ----------
    statistic : function from an array of seed indices to a number.
    n_seeds : number of seeds; with one seed the spread is None.

    Examples
    --------
    >>> x = np.arange(100.0)
    >>> value, spread = with_spread(lambda i: x[i].mean(), 100)
    >>> value, 2 < spread < 4
    (49.5, True)
    """
    everything = np.arange(n_seeds)
    if n_seeds < 2:
        return float(statistic(everything)), None
    rng = stream(0, "bootstrap", n_seeds)
    draws = [statistic(rng.integers(0, n_seeds, n_seeds)) for _ in range(_REPEATS)]
    low, high = np.nanquantile(draws, [0.16, 0.84])
    return float(statistic(everything)), float(high - low) / 2


def mean_and_sd(values: np.ndarray) -> tuple[float, float | None]:
    """Mean and standard deviation of one value per seed."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def mean_and_error(values: np.ndarray) -> tuple[float, float | None]:
    """Mean and its standard error, of one value per seed."""
    mean, sd = mean_and_sd(values)
    return mean, None if sd is None else sd / len(values) ** 0.5


def wilson(successes: np.ndarray, trials: int, z: float = 1.96) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of a binomial rate, 95% at the default `z`.

    Examples
    --------
    >>> low, high = wilson(np.array(5), 100)
    >>> round(float(low), 4), round(float(high), 4)
    (0.0215, 0.1118)
    """
    rate = np.asarray(successes) / trials
    centre = (rate + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z / (1 + z**2 / trials) * np.sqrt(rate * (1 - rate) / trials + z**2 / (4 * trials**2))
    return centre - half, centre + half


def kolmogorov(values: np.ndarray, levels: np.ndarray, zeros: int = 0) -> float:
    """Largest distance of the empirical distribution of `values` from a law.

    Parameters
    ----------
    values : (n,) ascending, above 0.
    levels : (n,) distribution function of the law at `values`.
    zeros : number of further values that are exactly 0, where the law may have an atom.

    Examples
    --------
    >>> kolmogorov(np.array([0.25, 0.75]), np.array([0.25, 0.75]))
    0.25
    """
    steps = np.arange(zeros, zeros + len(values) + 1) / (zeros + len(values))
    return float(max(np.abs(steps[1:] - levels).max(), np.abs(steps[:-1] - levels).max()))
