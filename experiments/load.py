"""Largest number of archetypes that can be recovered completely from N sites, and its limits."""

import time
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.patterns import Patterns
from hopfed.archetypes.subspace import Subspace
from hopfed.archetypes.votes import FEW
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import (
    RISING,
    Floats,
    Ints,
    Settings,
    above,
    at_least,
    within,
)
from hopfed.experiments.shared.statistics import counted_spectrum
from hopfed.figures.kinds import UNIT, Panel, line_plot, split_axis
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import recover
from hopfed.spectral.operators import FactorOperator

# Mode -> (method of recovery, owners, Dirichlet concentration of the mixtures or None).
MODES = {
    "one operator": ("layered", 1, None),
    "one operator, unequal": ("layered", 1, 5.0),
    "ten groups": ("joint", 1, None),
    "ten groups, unequal": ("joint", 1, 5.0),
    "ten owners": ("joint", 10, 0.3),
    "ten groups in layers": ("auto", 1, None),
}
STOPS = ("complete", "threshold", "subspace", "search", "examples")  # limits, by number
QUALITY = 0.8  # r of the examples
LEVEL = 0.95  # magnetisation from which an archetype counts as found
HOPELESS = 0.5  # if a smaller part is found, larger loads of the same mode are not tried


class Config(Settings):
    N: Annotated[Ints, at_least(50), "numbers of sites"]
    loads: Annotated[Floats, within("(0, 1)"), RISING, "values of K / N"]
    examples: Annotated[float, above(0), "M / N"]


def measure(seed: int, config: Config, device: str = "cpu") -> Arrays:
    """Experiment `load`: recover at every (mode, N, load): such arrays, NaN for loads not tried."""
    shape = (len(MODES), len(config.N), len(config.loads))
    arrays = {name: np.full(shape, np.nan) for name in ("found", "false", "seconds", "stop")}
    for i, mode in enumerate(MODES):
        _recover(config, mode, 50, 0.04, seed, device)  # compile before the first timing
        for j, N in enumerate(config.N):
            for k, load in enumerate(config.loads):
                point = _recover(config, mode, N, load, seed, device)
                for name, value in zip(arrays, point, strict=True):
                    arrays[name][i, j, k] = value
                if point[0] < HOPELESS:
                    break
    return arrays


def _recover(
    config: Config, mode: str, N: int, load: float, seed: int, device: str
) -> tuple[float, ...]:
    """Share of archetypes found, false discoveries, seconds of processor time, and the limit."""
    method, owners, concentration = MODES[mode]
    K, M = max(1, round(load * N)), round(config.examples * N)
    rng = stream(seed, "load", mode, N, K)
    xi, clients, counts = rademacher(K, N, rng), [], np.zeros(K)
    for _ in range(owners):
        e = None if concentration is None else rng.dirichlet(np.full(K, concentration))
        rows, labels = draw_examples(xi, M // owners, QUALITY, rng, exposures=e)
        clients.append(rows)
        counts += np.bincount(labels, minlength=K)
    start = time.process_time()
    options: dict[str, Any] = {"channel": "symmetric", "device": device}
    patterns = recover(clients, seed=seed, patterns=Patterns(method=method), **options).patterns
    seconds, score, stop = time.process_time() - start, retrieval(patterns, xi), "complete"
    if score.found(LEVEL) < K or score.false_discoveries:
        scarce = method == "auto" and (counts[score.magnetisation < LEVEL] < FEW).all()
        stop = "examples" if scarce else find_limit(np.concatenate(clients), xi)
    return score.found(LEVEL) / K, score.false_discoveries, seconds, STOPS.index(stop)


def find_limit(examples: np.ndarray, xi: np.ndarray) -> str:
    """Experiment `load`: the limit that prevents a complete recovery of `xi`, one of `STOPS`."""
    spectrum, rank = counted_spectrum(FactorOperator.from_examples(examples), len(examples))
    if rank.n_detected < len(xi):
        return "threshold"
    overlaps = (Subspace.of(spectrum, rank).polish(xi) * xi.astype(int)).mean(axis=1)
    return "subspace" if overlaps.min() < LEVEL else "search"


def largest_recovered(config: Config, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Experiment `load`: largest K (modes, N) with all recoveries complete, 0 for none; every K."""
    complete = ((arrays["found"] == 1) & (arrays["false"] == 0)).all(axis=0)
    K = np.round(np.multiply.outer(np.array(config.N), np.array(config.loads)))
    return np.where(np.logical_and.accumulate(complete, axis=-1), K, 0).max(axis=-1), K


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    most, K = largest_recovered(config, arrays)
    at = config.N.index(1000) if 1000 in config.N else len(config.N) - 1
    counts = most[..., None] >= K
    summary: dict[str, Any] = {"false_discoveries": int(arrays["false"][:, counts].sum())}
    for i, name in enumerate(MODES):
        if "," in name:
            continue
        key = name.replace("ten groups in layers", "in layers").replace(" ", "_")
        summary |= {f"most_{key}": int(most[i, at]), f"stop_{key}": "none"}
        stops = arrays["stop"][:, i, at]
        short = np.flatnonzero((stops > 0).any(axis=0))
        if len(short):  # first load at which a seed is not complete, and the commonest reason
            why = stops[stops[:, short[0]] > 0, short[0]].astype(int)
            words = f"{STOPS[np.bincount(why).argmax()]}, {len(why)} of {len(stops)} seeds"
            summary[f"stop_{key}"] = f"K = {K[at, short[0]]:.0f}: {words}"
    if 400 in config.N:
        summary["most_at_400"] = int(most[:, config.N.index(400)].max())
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    made = []
    for j in np.argsort(config.N)[::-1]:
        for name, words in (
            ("found", {"ylabel": "part of archetypes found"} | UNIT),
            ("seconds", {"ylabel": "seconds of processor time", "log": "y"}),
        ):
            lines, title = split_axis(list(MODES), arrays[name][:, :, j], 1), f"N = {config.N[j]:,}"
            made.append(line_plot(title, config.loads, lines, xlabel="load K / N", **words))
    return made
