"""How much an associative memory holds, by rule, and from how damaged a cue it recalls.

Recall is serial and without noise; the dense and the exponential rule are measured at small N. See
theory/NOTES.md, Capacity of Hebb's rule, of a dreaming memory, of dense memories.
"""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.settings import RISING, Floats, Ints, Settings, at_least, within
from hopfed.experiments.shared.silhouettes import load_silhouettes
from hopfed.experiments.shared.statistics import by_name, crossing, half_lost, limit
from hopfed.figures.kinds import UNIT, Panel, by, matrix, over
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dense, Dreamed, Exponential, Hebb, Projector, Rule
from hopfed.theory import storage

PATTERNS = ("random", "pictures")
RULES: tuple[Rule, ...] = (Hebb(), Dreamed(1.0), Projector(), Dense(3), Exponential(1.0))
NAMES = tuple(rule.name for rule in RULES)
TIMES = {"hebb": 0.0, "dreamed": 1.0}  # of dreaming
RETURNED = 0.9  # overlap from which a cue counts as returned
SIGNS = np.array([-1, 1], np.int8)


class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(10), "sites of random patterns"] = 2000
    loads: Annotated[Floats, lambda s: within(f"[{1 / s.N}, 1)"), RISING, "values of K / N"] = (
        0.02, 0.05, 0.1, 0.12, 0.13, 0.14, 0.15, 0.16, 0.17, 0.2, 0.3, 0.36, 0.4, 0.43, 0.46,
        0.5, 0.9,
    )  # fmt: skip
    flips: Annotated[Floats, within("[0, 0.5)"), RISING, "shares of the sites, in cues"] = (
        0.0, 0.05, 0.1, 0.2, 0.3, 0.4,
    )  # fmt: skip
    cues: Annotated[int, at_least(1), "patterns that are asked for at each point"] = 20
    data: Annotated[str, "file of silhouettes; empty for letters"] = ""
    dense_sites: Annotated[int, at_least(10), "of the law of n = 3"] = 200
    dense_loads: Annotated[Floats, within("[0, 9)"), RISING, "3 K / N^2 of it"] = (
        0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4,
    )  # fmt: skip
    exp_sites: Annotated[int, at_least(10), "of the law of the exponential rule"] = 32
    exp_beta: Annotated[float, "of it"] = 0.5
    exp_rates: Annotated[Floats, within("[0, 0.6)"), RISING, "log(K) / N of it"] = (
        0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.38,
    )  # fmt: skip
    sizes: Annotated[Ints, at_least(100), RISING, "sites of finite memories"] = (
        500, 1000, 2000, 4000,
    )  # fmt: skip
    ratios: Annotated[Floats, within("[0, 2)"), RISING, "loads over capacity, of these"] = (
        0.95, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4,
    )  # fmt: skip
    seeds: int = 4


def measure(seed: int, config: Config) -> Arrays:
    """Overlaps and shares returned: (rules, loads, flips) by kind of data, and the two laws."""
    arrays: Arrays = {}
    for name in PATTERNS:
        if name == "random":
            size = round(max(config.loads) * config.N), config.N
            pool = stream(seed, "capacity", name).choice(SIGNS, size)
        else:
            pool = load_silhouettes(config.data, ())
        K = np.maximum(1, np.round(np.array(config.loads) * pool.shape[1])).astype(int)
        found = np.full((2, len(RULES), len(K), len(config.flips)), np.nan)
        for (i, rule), (j, count) in product(enumerate(RULES), enumerate(K)):
            if count <= len(pool):
                found[:, i, j] = _measured(config, pool[:count], rule, seed)
        arrays[f"{name}/overlap"], arrays[f"{name}/returned"] = found
    N, pairs = config.dense_sites, storage.pairings(3)
    sizes = [max(1, round(load * N**2 / pairs)) for load in config.dense_loads]
    dense = _law(config, seed, N, sizes, Dense(3))
    arrays["dense/overlap"], arrays["dense/returned"] = dense.swapaxes(0, 1)
    sizes = [max(1, round(np.exp(rate * config.exp_sites))) for rate in config.exp_rates]
    rule = Exponential(config.exp_beta)
    arrays["exponential/returned"] = _law(config, seed, config.exp_sites, sizes, rule)[:, 1]
    return arrays | {"sizes/returned": _by_size(config, seed)}


def _measured(config: Config, patterns: np.ndarray, rule: Rule, seed: int) -> np.ndarray:
    """Mean overlap, and share of cues returned, from each share of flips: (2, flips)."""
    rng = stream(seed, "capacity", "cues", rule.name, *patterns.shape)
    chosen = rng.choice(len(patterns), min(config.cues, len(patterns)), replace=False)
    xi = patterns[chosen]
    cues = [np.where(rng.random(xi.shape) < share, -xi, xi) for share in config.flips]
    states = AssociativeMemory.store(patterns, rule).recall(np.concatenate(cues)).states
    overlaps = (states.reshape(len(cues), *xi.shape) * xi.astype(int)).mean(axis=2)
    return np.array([overlaps.mean(axis=1), (overlaps >= RETURNED).mean(axis=1)])


def _law(config: Config, seed: int, N: int, sizes: list[int], rule: Rule) -> np.ndarray:
    """Overlap and share returned (sizes, 2, flips) of random patterns, by how many are stored."""
    pools = (stream(seed, "capacity", rule.name, K).choice(SIGNS, (K, N)) for K in sizes)
    return np.array([_measured(config, pool, rule, seed) for pool in pools])


def _by_size(config: Config, seed: int) -> np.ndarray:
    """Share returned from undamaged cues: (hebb and dreamed, sizes, ratios)."""
    out = np.zeros((len(TIMES), len(config.sizes), len(config.ratios)))
    for (i, rule), (j, N) in product(enumerate(RULES[: len(TIMES)]), enumerate(config.sizes)):
        draws = max(config.sizes) // N
        K = np.round(
            float(storage.capacity(TIMES[rule.name])) * np.array(config.ratios) * N
        ).astype(int)
        for draw in range(draws):
            rng = stream(seed, "capacity", "sizes", rule.name, N, draw)
            xi = rng.choice(SIGNS, (K[-1], N))
            for k, count in enumerate(K):
                asked = xi[rng.choice(count, min(2 * config.cues, count), replace=False)]
                states = AssociativeMemory.store(xi[:count], rule).recall(asked).states
                m = (states * asked.astype(int)).mean(axis=1)
                out[i, j, k] += (m >= RETURNED).mean() / draws
    return out


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Critical loads, and basins."""
    loads, flips, ratios = (np.array(x) for x in (config.loads, config.flips, config.ratios))
    overlap, returned = arrays["random/overlap"], arrays["random/returned"]
    by_size: dict[str, Any] = {}
    summary: dict[str, Any] = {"by_size": by_size}
    for i, (name, t) in enumerate(TIMES.items()):
        capacity = float(storage.capacity(t))
        summary[f"critical_{name}"] = crossing(loads, returned[:, i, :, 0].mean(axis=0))
        shares = arrays["sizes/returned"][:, i]
        found = np.array([half_lost(ratios, shares[:, j]) for j in range(len(config.sizes))])
        by_size[name] = found.tolist()
        pairs = [f"{x:.4f} +- {e:.4f}".replace(" +- nan", "") for x, e in capacity * found]
        summary[f"sizes_{name}"] = by_name(config.sizes, pairs, "{:,}: {}")
        end = limit(np.array(config.sizes), *(capacity * found).T)
        summary[f"limit_{name}"] = "none" if end is None else end
    whole = (returned[:, 2, :, 0] == 1).all(axis=0)
    summary["held_projector"] = float(loads[np.logical_and.accumulate(whole)].max(initial=0))
    dense = arrays["dense/returned"][:, :, 0].mean(axis=0)
    summary["critical_dense"] = crossing(np.array(config.dense_loads), dense)
    near = int(np.abs(np.array(config.exp_rates) - 0.2).argmin())
    half = crossing(flips, arrays["exponential/returned"][:, near].mean(axis=0))
    least = float(storage.exponential_reach(config.exp_rates[near], config.exp_beta))
    reach = "none" if half is None else f"{half:.3f}"
    at = int(np.abs(loads - 0.1).argmin())
    basins = [basin(flips, overlap[:, i, at].mean(axis=0)) for i in range(len(NAMES))]
    return summary | {
        "reach_exponential": f"{reach}, by law {(1 - least) / 2:.3f}",
        "basin": by_name(NAMES, basins, "{} {:.2f}"),
    }


def basin(flips: np.ndarray, overlap: np.ndarray) -> float:
    """Largest share of flips from which .95 is reached, linear between those tried."""
    found = crossing(flips, overlap, 0.95)
    return found if found is not None else float(flips[-1] if overlap[0] >= 0.95 else 0)


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    """Laws of the rules by load, capacities by size, and basins by kind of data."""
    laws = {}
    for name, t in TIMES.items():
        last = float(storage.capacity(t))
        x = np.linspace(0, last, 200)
        laws[name] = [*x, last], [*storage.magnetisation(x, t), 0]
    dots: dict[str, Any] = {"points": True, "band": "error"} | UNIT
    lines = by(NAMES[:3], arrays["random/overlap"][..., 0], 1)
    title = f"overlap, N = {config.N:,}"
    made = [over(title, config.loads, lines, laws, xlabel="load K / N", **dots)]
    last = storage.dense_capacity(3)
    x = np.linspace(0, last, 200)
    law = {"law": ([*x, last], [*storage.dense_magnetisation(x, 3), 0])}
    lines = {"dense": arrays["dense/overlap"][..., 0]}
    title, label = f"overlap, dense, N = {config.dense_sites:,}", "load $3 K / N^2$"
    made.append(over(title, config.dense_loads, lines, law, xlabel=label, **dots))
    rates, beta = config.exp_rates, config.exp_beta
    x = np.linspace(rates[0], min(rates[-1], float(storage.exponential_capacity(beta))), 100)
    line = x, (1 - storage.exponential_reach(x, beta)) / 2
    shares = arrays["exponential/returned"].mean(axis=0)
    words: dict[str, Any] = {"xlabel": "log(K) / N", "ylabel": "flips"}
    title = rf"returned, exponential, $\beta$ = {beta:g}"
    made.append(matrix(title, shares, rates, config.flips, lines={"": line}, half=False, **words))
    for name in PATTERNS:
        means = arrays[f"{name}/overlap"].mean(axis=0)
        held = [[basin(np.array(config.flips), row) for row in rows] for rows in means]
        lines = by(NAMES, np.where(np.isnan(means[..., 0]), np.nan, held), 0)
        words = {"xlabel": "load K / N", "ylim": (-0.02, 0.5)}
        made.append(over(f"flips that are repaired, {name}", config.loads, lines, **words))
    sizes = {n: tuple(np.array(summary["by_size"][n], float).T) for n in NAMES[:2]}
    words = {"xlabel": "sites N", "levels": {"theory": 1.0}, "log": "x", "points": True}
    title = "load at which half are lost over theory's"
    return [*made, over(title, config.sizes, sizes, **words)]
