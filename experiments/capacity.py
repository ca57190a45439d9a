"""Capacity of associative memories by rule, and damage of cues from which they recall."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import RISING, Floats, Ints, Settings, at_least, within
from hopfed.experiments.shared.silhouettes import load_silhouettes
from hopfed.experiments.shared.statistics import format_by_name, level_crossing
from hopfed.figures.kinds import UNIT, Panel, heat_map, line_plot, split_axis
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dense, Dreamed, Exponential, Hebb, Projector, Rule
from hopfed.theory import storage

PATTERNS = ("random", "pictures")
RULES: tuple[Rule, ...] = (Hebb(), Dreamed(1.0), Projector(), Dense(3), Exponential(1.0))
NAMES = tuple(rule.name for rule in RULES)
TIMES = {"hebb": 0.0, "dreamed": 1.0}  # dreaming times
FLIPS = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.4])  # shares of flipped sites in cues
RATIOS = np.array([0.95, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4])  # loads over capacity
BETA = 0.5  # parameter of the exponential rule
RETURNED = 0.9  # overlap from which a cue counts as returned
SIGNS = np.array([-1, 1], np.int8)


class Config(Settings):
    N: Annotated[int, at_least(10), "sites of random patterns"]
    loads: Annotated[Floats, lambda s: within(f"[{1 / s.N}, 1)"), RISING, "values of K / N"]
    cues: Annotated[int, at_least(1), "patterns to recall at each point"]
    data: Annotated[str, "file of silhouettes; empty for letters"]
    dense_sites: Annotated[int, at_least(10), "sites for the dense rule, n = 3"]
    dense_loads: Annotated[Floats, within("[0, 9)"), RISING, "3 K / N^2 for the dense rule"]
    exp_sites: Annotated[int, at_least(10), "sites for the exponential rule"]
    exp_rates: Annotated[Floats, within("[0, 0.6)"), RISING, "log(K) / N at exp_sites"]
    sizes: Annotated[Ints, at_least(100), RISING, "numbers of sites for finite-size scaling"]


def measure(seed: int, config: Config) -> Arrays:
    """Experiment `capacity`: overlaps, returned shares (rules, loads, flips) by data, and laws."""
    size, arrays = (round(max(config.loads) * config.N), config.N), dict[str, Any]()
    pools = (
        stream(seed, "capacity", "random").choice(SIGNS, size),
        load_silhouettes(config.data, ()),
    )
    for name, pool in zip(PATTERNS, pools, strict=True):
        K = np.maximum(1, np.round(np.array(config.loads) * pool.shape[1])).astype(int)
        found = np.full((2, len(RULES), len(K), len(FLIPS)), np.nan)
        for (i, rule), (j, count) in product(enumerate(RULES), enumerate(K)):
            if count <= len(pool):
                found[:, i, j] = _measured(config, pool[:count], rule, seed)
        arrays[f"{name}/overlap"], arrays[f"{name}/returned"] = found
    N, exponential = config.dense_sites, Exponential(BETA)
    sizes = np.array(config.dense_loads) * N**2 / storage.pairings(3)
    arrays["dense/overlap"], arrays["dense/returned"] = _law(config, seed, N, sizes, Dense(3))
    sizes = np.exp(np.array(config.exp_rates) * config.exp_sites)
    _, returned = _law(config, seed, config.exp_sites, sizes, exponential)
    shares = [[_by_size(config, seed, name, N) for N in config.sizes] for name in TIMES]
    return arrays | {"exponential/returned": returned, "sizes/returned": np.array(shares)}


def _recalled(patterns: np.ndarray, rule: Rule, xi: np.ndarray, cues: Any) -> np.ndarray:
    """Overlaps (..., n) of `xi` (n, N) with the states recalled from cues (..., n, N)."""
    asked = np.reshape(cues, (-1, xi.shape[1]))
    states = AssociativeMemory.store(patterns, rule).recall(asked).states
    return np.asarray((states.reshape(np.shape(cues)) * xi.astype(int)).mean(axis=-1))


def _measured(config: Config, patterns: np.ndarray, rule: Rule, seed: int) -> np.ndarray:
    """Mean overlap, and share of cues returned, from each share of flips: (2, flips)."""
    rng = stream(seed, "capacity", "cues", rule.name, *patterns.shape)
    xi = patterns[rng.choice(len(patterns), min(config.cues, len(patterns)), replace=False)]
    cues = [np.where(rng.random(xi.shape) < share, -xi, xi) for share in FLIPS]
    m = _recalled(patterns, rule, xi, cues)
    return np.array([m.mean(axis=1), (m >= RETURNED).mean(axis=1)])


def _law(config: Config, seed: int, N: int, sizes: np.ndarray, rule: Rule) -> np.ndarray:
    """Overlap and share returned (2, sizes, flips) of random patterns, by number stored."""
    counts = [max(1, round(K)) for K in sizes.tolist()]
    pools = (stream(seed, "capacity", rule.name, K).choice(SIGNS, (K, N)) for K in counts)
    return np.stack([_measured(config, pool, rule, seed) for pool in pools], axis=1)


def _by_size(config: Config, seed: int, name: str, N: int) -> np.ndarray:
    """Returned share of undamaged cues, at each ratio of load and capacity."""
    K = np.round(float(storage.capacity(TIMES[name])) * RATIOS * N).astype(int)
    rule, draws, out = RULES[NAMES.index(name)], max(config.sizes) // N, np.zeros(len(K))
    for draw in range(draws):
        rng = stream(seed, "capacity", "sizes", name, N, draw)
        xi = rng.choice(SIGNS, (K[-1], N))
        for k, count in enumerate(K):
            asked = xi[rng.choice(count, min(2 * config.cues, count), replace=False)]
            out[k] += (_recalled(xi[:count], rule, asked, asked) >= RETURNED).mean() / draws
    return out


def _critical_load(loads: np.ndarray, shares: np.ndarray) -> tuple[float, float]:
    """Load at which half of the cues are lost, and its jackknife error; NaN where unknown."""
    count, whole = len(shares), level_crossing(loads, shares.mean(axis=0))
    without = [level_crossing(loads, np.delete(shares, s, 0).mean(axis=0)) for s in range(count)]
    if whole is None or None in without or count < 2:
        return (np.nan if whole is None else whole), np.nan
    return whole, ((count - 1) * float(np.var(np.array(without, float)))) ** 0.5


def _limit(sizes: np.ndarray, critical: np.ndarray, error: np.ndarray) -> Any:
    """Limit of critical loads that are linear in N^(-1/2), and its error; "none" below three."""
    known = np.isfinite(critical) & np.isfinite(error)
    if known.sum() < 3:
        return "none"
    x, y = sizes[known] ** -0.5, critical[known]
    # Errors from few seeds are inexact: each counts as at least half the median.
    w = 1 / np.maximum(error[known], max(float(np.median(error[known])) / 2, 1e-6))
    line, covariance = np.polyfit(x, y, 1, w=w, cov="unscaled")
    chi2 = float(((w * (np.polyval(line, x) - y)) ** 2).sum()) / (len(y) - 2)
    return float(line[1]), float((covariance[1, 1] * max(1.0, chi2)) ** 0.5)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    loads = np.array(config.loads)
    returned = arrays["random/returned"]
    summary: dict[str, Any] = {"by_size": {}}
    for i, (name, t) in enumerate(TIMES.items()):
        shares = np.moveaxis(arrays["sizes/returned"][:, i], 1, 0)
        summary["by_size"][name] = found = [_critical_load(RATIOS, s) for s in shares]
        summary[f"critical_{name}"] = level_crossing(loads, returned[:, i, :, 0].mean(axis=0))
        ends = (float(storage.capacity(t)) * np.array(found)).T
        summary[f"limit_{name}"] = _limit(np.array(config.sizes), *ends)
    whole = np.logical_and.accumulate((returned[:, 2, :, 0] == 1).all(axis=0))
    dense = arrays["dense/returned"][:, :, 0].mean(axis=0)
    at = int(np.abs(loads - 0.1).argmin())
    basins = [basin_width(row) for row in arrays["random/overlap"][:, :, at].mean(axis=0)]
    return summary | {
        "held_projector": float(loads[whole].max(initial=0)),
        "critical_dense": level_crossing(np.array(config.dense_loads), dense),
        "basin": format_by_name(NAMES, basins, "{} {:.2f}"),
    }


def basin_width(overlap: np.ndarray) -> float:
    """Experiment `capacity`: largest share of flips with overlap .95, interpolated linearly."""
    found = level_crossing(FLIPS, overlap, 0.95)
    return found if found is not None else float(FLIPS[-1] if overlap[0] >= 0.95 else 0)


def _curve(last: float, law: Callable[[np.ndarray], Any]) -> tuple[list[float], list[float]]:
    """Points (x, y) of a law up to the load where it falls to 0."""
    x = np.linspace(0, last, 200)
    return [*x, last], [*law(x), 0]


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    load: dict[str, Any] = {"xlabel": "load K / N"}
    dots, rates, words = {"points": True} | UNIT, config.exp_rates, dict[str, Any]()
    laws = {
        name: _curve(float(storage.capacity(t)), partial(storage.magnetisation, t=t))
        for name, t in TIMES.items()
    }
    lines = split_axis(NAMES[:3], arrays["random/overlap"][..., 0], 1)
    made = [line_plot(f"overlap, N = {config.N:,}", config.loads, lines, laws, **load | dots)]
    law = {"law": _curve(storage.dense_capacity(3), lambda x: storage.dense_magnetisation(x, 3))}
    lines, words = {"dense": arrays["dense/overlap"][..., 0]}, {"xlabel": "load $3 K / N^2$"}
    title = f"overlap, dense, N = {config.dense_sites:,}"
    made.append(line_plot(title, config.dense_loads, lines, law, **words | dots))
    last = float(storage.exponential_capacity(BETA))
    x = np.linspace(rates[0], min(rates[-1], last), 100)
    line = {"": (x, (1 - storage.exponential_reach(x, BETA)) / 2)}
    words = {"half": False, "lines": line, "xlabel": "log(K) / N", "ylabel": "flips"}
    title = rf"returned, exponential, $\beta$ = {BETA:g}"
    shares = arrays["exponential/returned"].mean(axis=0)
    made.append(heat_map(title, shares, rates, FLIPS.tolist(), **words))
    sizes = {n: tuple(np.array(found, float).T) for n, found in summary["by_size"].items()}
    words = {"xlabel": "sites N", "log": "x", "points": True}
    theory = {"theory": [1.0] * len(config.sizes)}
    made.append(line_plot("capacity over that of theory", config.sizes, sizes, theory, **words))
    for name in PATTERNS:
        means = arrays[f"{name}/overlap"].mean(axis=0)
        held = [[np.nan if np.isnan(row[0]) else basin_width(row) for row in m] for m in means]
        title = f"flips that are repaired, {name}"
        if not np.isnan(means).all():  # too few pictures for any load
            made.append(
                line_plot(title, config.loads, split_axis(NAMES, np.array(held), 0), **load)
            )
    return made
