"""Statistics of summaries: agreement, spread over seeds, where a share crosses a level, words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.rank import RankEstimate, TracyWidom

_REPEATS = 200


def stacked(cells: Sequence[Any]) -> dict[str, np.ndarray]:
    """Arrays of cells, a list of dicts or of such lists, by name: the lists are the first axes."""

    def values(part: Any, name: str) -> Any:
        return part[name] if isinstance(part, Mapping) else [values(p, name) for p in part]

    first: Any = cells
    while not isinstance(first, Mapping):
        first = first[0]
    return {name: np.array(values(cells, name)) for name in first}


def counted_spectrum(operator: Any, M: int) -> tuple[Any, RankEstimate]:
    """Eigenpairs that stand out in an operator of M examples, and their count, as of `recover`."""
    ranks: list[RankEstimate] = []  # keeps the rule's one call, as costly as the spectrum

    def count(values: np.ndarray, complete: bool) -> int:
        ranks.append(TracyWidom()(Sample(values, operator.n_sites, M, complete)))
        return ranks[-1].n_detected

    return eigenpairs(operator, count), ranks[-1]


def by_name(names: Iterable[Any], values: Iterable[Any], form: str = "{} {:.3f}") -> str:
    """Names with what they have, as ``hebb 0.613; dense 0.702``; none for those with a NaN."""
    pairs = zip(names, values, strict=True)
    return "; ".join(form.format(n, v) for n, v in pairs if v == v)


def r_squared(
    measured: np.ndarray, predicted: np.ndarray, axis: int | tuple[int, ...] | None = None
) -> np.ndarray:
    """Share of the variance that `predicted` explains; negative if it adds; NaN without any."""
    total = ((measured - measured.mean(axis=axis, keepdims=True)) ** 2).sum(axis=axis)
    return 1 - ((measured - predicted) ** 2).sum(axis=axis) / np.where(total > 0, total, np.nan)


def with_spread(statistic: Callable[..., Any], *arrays: np.ndarray) -> tuple[float, float | None]:
    """`statistic` of arrays (seeds, ...), and its standard error by resampling of seeds.

    The standard error is half the width of the central 68%, which is robust against a few
    resamplings with almost no variance; None with one seed.
    """
    n = len(arrays[0])
    rng = stream(0, "bootstrap", n)
    draws = [np.arange(n), *(rng.integers(0, n, n) for _ in range(_REPEATS if n > 1 else 0))]
    whole, *others = (float(statistic(*(array[i] for array in arrays))) for i in draws)
    if not others:
        return whole, None
    low, high = np.nanquantile(others, [0.16, 0.84])
    return whole, float(high - low) / 2


def mean_and_sd(values: np.ndarray) -> tuple[float, float | None]:
    """Mean and standard deviation of one value per seed."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def mean_and_error(values: np.ndarray) -> tuple[float, float | None]:
    """Mean and its standard error, of one value per seed."""
    mean, sd = mean_and_sd(values)
    return mean, None if sd is None else sd / len(values) ** 0.5


def wilson(successes: np.ndarray, trials: int, z: float = 1.96) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of a binomial rate, 95% at the default `z`."""
    rate = np.asarray(successes) / trials
    centre = (rate + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z / (1 + z**2 / trials) * np.sqrt(rate * (1 - rate) / trials + z**2 / (4 * trials**2))
    return centre - half, centre + half


def kolmogorov(values: np.ndarray, levels: np.ndarray, zeros: int = 0) -> float:
    """Largest distance of an empirical distribution, `values` and `zeros` 0s, from a law.

    `levels` (n,) is the law's distribution function at the ascending `values` (n,).
    """
    steps = np.arange(zeros, zeros + len(values) + 1) / (zeros + len(values))
    return float(max(np.abs(steps[1:] - levels).max(), np.abs(steps[:-1] - levels).max()))


def crossing(x: np.ndarray, values: np.ndarray, level: float = 0.5) -> float | None:
    """Where falling `values` first cross a level, linear between places; None where they do not."""
    low = np.flatnonzero(values < level)
    if not len(low) or low[0] == 0:
        return None
    k = low[0]
    part = (values[k - 1] - level) / (values[k - 1] - values[k])
    return float(x[k - 1] + part * (x[k] - x[k - 1]))


def first_round(holds: np.ndarray, axis: int = 1) -> np.ndarray:
    """First round in which something holds; the number of rounds where it holds in none."""
    return np.where(holds.any(axis=axis), holds.argmax(axis=axis), holds.shape[axis])


def half_lost(loads: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
    """Load at which half are lost, and its jackknife error, from shares (seeds, loads), or NaN."""
    count = len(shares)
    without = [crossing(loads, np.delete(shares, s, 0).mean(axis=0)) for s in range(count)]
    whole = crossing(loads, shares.mean(axis=0))
    if whole is None or None in without or count < 2:
        return (np.nan if whole is None else whole), np.nan
    return whole, ((count - 1) * float(np.var(np.array(without, float)))) ** 0.5


def limit(sizes: np.ndarray, critical: np.ndarray, error: np.ndarray) -> tuple[float, float] | None:
    """Intercept and its standard error of critical loads that are linear in N^(-1/2).

    Least squares weighed by the errors, of which none counts as smaller than half the median: few
    seeds tell an error badly. Where the line does not fit, the standard error is enlarged by the
    root of chi^2 over its degrees of freedom.
    """
    known = np.isfinite(critical) & np.isfinite(error)
    if known.sum() < 3:
        return None
    x, y = sizes[known] ** -0.5, critical[known]
    w = 1 / np.maximum(error[known], max(float(np.median(error[known])) / 2, 1e-6))
    A = np.stack([w, w * x], axis=1)
    covariance = np.linalg.inv(A.T @ A)
    fitted = covariance @ A.T @ (w * y)
    chi2 = float(((A @ fitted - w * y) ** 2).sum()) / (len(y) - 2)
    return float(fitted[0]), float((covariance[0, 0] * max(1.0, chi2)) ** 0.5)
