"""Statistics of summaries: cells as arrays, spread over seeds, crossings of a level."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.rank import CountingRule, RankEstimate, Sample, TracyWidom

_REPEATS = 200

Spread = tuple[float, float | None]  # a value, and its spread over seeds, None for one seed


def stack_cells(cells: Sequence[Any]) -> dict[str, np.ndarray]:
    """For statistics, arrays of cells by name: lists of dicts, or of such lists, are first axes."""
    if isinstance(cells[0], Mapping):
        return {name: np.array([cell[name] for cell in cells]) for name in cells[0]}
    return stack_cells([stack_cells(part) for part in cells])


def counted_spectrum(operator: Any, M: int) -> tuple[Any, RankEstimate]:
    """Statistics of an operator of M examples: eigenpairs that stand out, and their count."""
    count = CountingRule(TracyWidom(), lambda v, whole: Sample(v, operator.n_sites, M, whole))
    return eigenpairs(operator, count), count.estimate


def format_by_name(names: Iterable[Any], values: Iterable[Any], form: str = "{} {:.3f}") -> str:
    """Statistics as text: names with values, ``hebb 0.613; dense 0.702``; NaN is left out."""
    pairs = zip(names, values, strict=True)
    return "; ".join(form.format(n, v) for n, v in pairs if v == v)


def bootstrap_seeds(statistic: Callable[..., Any], *arrays: np.ndarray) -> Spread:
    """`statistic` of arrays (seeds, ...), and its standard error by resampling of seeds.

    The standard error is half the width of the central 68%, which is robust against a few
    resamplings with almost no variance.
    """
    n = len(arrays[0])
    rng = stream(0, "bootstrap", n)
    draws = [np.arange(n), *(rng.integers(0, n, n) for _ in range(_REPEATS if n > 1 else 0))]
    whole, *others = (float(statistic(*(array[i] for array in arrays))) for i in draws)
    if not others:
        return whole, None
    low, high = np.nanquantile(others, [0.16, 0.84])
    return whole, float(high - low) / 2


def mean_and_sd(values: np.ndarray) -> Spread:
    """Statistics over seeds: mean and standard deviation of one value per seed."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def mean_and_error(values: np.ndarray) -> Spread:
    """Statistics over seeds: mean and its standard error, of one value per seed."""
    mean, sd = mean_and_sd(values)
    return mean, None if sd is None else sd / len(values) ** 0.5


def share_of_hits(hits: np.ndarray, asked: np.ndarray) -> Spread:
    """Statistics over seeds: share of `hits` among `asked` (seeds, ...), and its standard error."""
    num, den = (v.reshape(len(v), -1).sum(axis=1) for v in (hits & asked, asked))
    if not den.any():
        return np.nan, None
    return bootstrap_seeds(lambda hit, of: hit.sum() / max(of.sum(), 1), num, den)


def first_round(holds: np.ndarray, axis: int = 1) -> np.ndarray:
    """Statistics of rounds: the first in which a condition holds, or else the number of rounds."""
    return np.where(holds.any(axis=axis), holds.argmax(axis=axis), holds.shape[axis])


def level_crossing(x: np.ndarray, values: np.ndarray, level: float = 0.5) -> float | None:
    """Statistics: place where falling `values` first cross a level, interpolated; None without."""
    low = np.flatnonzero(values < level)
    if not len(low) or low[0] == 0:
        return None
    at = slice(low[0] - 1, low[0] + 1)
    return float(np.interp(-level, -values[at], x[at]))
