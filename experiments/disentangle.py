"""Layers that repel each other take mixtures apart: where this helps, and with which settings."""

from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import derive, stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import (
    Floats,
    Ints,
    Rule,
    Settings,
    above,
    at_least,
    within,
)
from hopfed.experiments.shared.statistics import format_by_name
from hopfed.figures.kinds import UNIT, Panel, heat_map, line_plot
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.layered_memory import LayeredMemory
from hopfed.memory.rules import Layered

MIXED = 3  # patterns in the mixtures of "map" and "annealing"
COUPLINGS = ("linear", "quadratic")  # arXiv:2603.19902, eqs. (6), (8)
TIMES = (0.0, float("inf"))  # dreaming times: Hebb's rule, and the projector
LEVEL = 0.95
COLON = "{}: {:.2f}"
PARTS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.98)  # shares of the largest repulsion, 1 / (L - 1)
# Settings of the authors' programs: synchronous, at beta = 2.5 with repulsion .2.
PAPER: dict[str, Any] = {"field": 0.1, "self_field": True, "noise": (0.3, 0.02), "repulsion": 0.2}
WITH_0 = Rule(lambda v: 0 in v, "in [0, 0.5), 0 among them", whole=True)


class Config(Settings):
    N: Annotated[int, at_least(2), "sites"]
    starts: Annotated[int, at_least(1), "starts of each cell"]
    updates: Annotated[int, at_least(1), "sweeps"]
    K: Annotated[Ints, at_least(MIXED), "numbers of stored patterns"]
    repulsions: Annotated[Floats, within("[0, 0.5)"), WITH_0, "repulsions of the map"]
    temperatures: Annotated[Floats, above(0), "temperatures from which noise cools"]
    layers: Annotated[Ints, at_least(1), "numbers of layers"]


def measure(seed: int, config: Config) -> Arrays:
    rs, Ts = config.repulsions, config.temperatures
    cells = np.zeros((2, 2, len(config.K), len(rs), len(Ts)))
    for c, t, k, r, T in np.ndindex(*cells.shape):
        rule = Layered(MIXED, rs[r], COUPLINGS[c], TIMES[t])
        cells[c, t, k, r, T] = _cooled(config, seed, rule, config.K[k], Ts[T])[0]
    layers = np.zeros((2, len(config.layers), len(PARTS), len(Ts)))
    for j, i, k in np.ndindex(*layers.shape[1:]):
        L = config.layers[j]
        rule = Layered(L, PARTS[i] / (L - 1) if L > 1 else 0.0)
        layers[:, j, i, k] = _cooled(config, seed, rule, max(10, L), Ts[k])
    annealing = []  # share of starts taken apart with the authors' noise, by the projector
    memory = LayeredMemory(layers=MIXED, noise_over_beta=True, **PAPER)
    for K in config.K:
        xi, cues = draw_mixture(config, seed, K, MIXED)
        W = np.linalg.qr(xi.T.astype(np.float64))[0]
        found = memory.relax(cues, W, beta=2.5, updates=config.updates, seed=seed)
        annealing.append(score_starts(found.state, xi[:MIXED])[0])
    return {
        "map/apart": cells,
        "layers/apart": layers[0],
        "layers/part": layers[1],
        "annealing/apart": np.array(annealing),
    }


def draw_mixture(config: Config, seed: int, K: int, mixed: int) -> tuple[np.ndarray, np.ndarray]:
    """Patterns (K, N) to disentangle; cues (starts, N): majority of `mixed`, ties at random."""
    rng = stream(seed, "disentangle", K, mixed)
    xi = rng.choice(np.array([-1, 1], np.int8), (K, config.N))
    total = xi[:mixed].sum(axis=0, dtype=np.int64)
    ties = rng.choice(np.array([-1, 1]), (config.starts, config.N))
    return xi, np.where(total == 0, ties, np.sign(total)).astype(np.int8)


def score_starts(states: np.ndarray, parts: np.ndarray) -> tuple[float, float]:
    """Share of starts disentangled: each part is the state of a layer; and share of parts found."""
    overlaps = np.abs(states.astype(np.float32) @ parts.T.astype(np.float32)) / parts.shape[1]
    found = (overlaps >= LEVEL).any(axis=1)
    return float(found.all(axis=1).mean()), float(found.mean())


def _cooled(config: Config, seed: int, rule: Layered, K: int, T: float) -> tuple[float, float]:
    """`score_starts` of mixtures of the first patterns, cooled from T to 0 over nine tenths."""
    xi, cues = draw_mixture(config, seed, K, rule.layers)
    rest = np.minimum(np.arange(config.updates) / max(1.0, 0.9 * config.updates), 1)
    drawn = repr(rule).replace(")", ", g=())")  # rules had couplings g once: the same draws
    noise = derive(seed, "disentangle", drawn, K, f"{T:g}")
    memory = AssociativeMemory.store(xi, rule)
    found = memory.recall(cues, temperature=T - T * rest, updates=config.updates, seed=noise)
    return score_starts(found.states, xi[: rule.layers])


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    zero, parts = config.repulsions.index(0), arrays["layers/part"]
    apart = np.moveaxis(arrays["map/apart"], 3, 1)  # (seeds, K, couplings, times, repulsions, T)
    first, last = max(1, len(apart) // 3), len(apart) - 1

    def chosen(names: Any, shares: np.ndarray) -> str:
        """Result in other seeds of the cell that is best in the first third of them, by name."""
        tuned, fresh = shares[:first].mean(axis=0), shares[min(first, last) :].mean(axis=0)
        best = [float(b.flat[a.argmax()]) for a, b in zip(tuned, fresh, strict=True)]
        return format_by_name(names, best, COLON)

    names = [f"K = {K}" for K in config.K]
    return {
        "best": chosen(names, apart),
        "alone": chosen(names, apart[..., zero, :]),
        "linear": chosen(names, apart[:, :, 0]),
        "hebb": chosen(names, apart[:, :, :, 0]),
        "layers": chosen(config.layers, parts),
        "layers_alone": chosen(config.layers, parts[:, :, 0]),
        "authors": format_by_name(names, arrays["annealing/apart"].mean(axis=0), COLON),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    apart, second = arrays["map/apart"].mean(axis=0)[:, 1], min(1, len(config.K) - 1)
    layers = arrays["layers/apart"].mean(axis=0).max(axis=-1), config.layers, PARTS
    by_heat = apart[1, second].T, config.temperatures, config.repulsions
    loads: dict[str, Any] = {"xlabel": "stored patterns K"}
    words: dict[str, Any] = {"ylabel": r"repulsion $\lambda$"}
    more: dict[str, Any] = {
        "xlabel": "layers, parts of the mixture",
        "ylabel": "part of the largest",
    }
    maps = [
        heat_map(
            f"{n}, projector", cells.max(axis=-1), config.K, config.repulsions, **words | loads
        )
        for n, cells in zip(COUPLINGS, apart, strict=True)
    ]
    heat = f"quadratic, K = {config.K[second]}"
    authors = arrays["annealing/apart"].reshape(len(arrays["map/apart"]), -1, len(config.K))[:, 0]
    curves = {"cooled, best cell": apart[1].max(axis=(1, 2)), "authors": authors}
    return [
        *maps[::-1],
        heat_map(heat, *by_heat, xlabel="noise cools from T", **words),
        heat_map("quadratic, K = 10", *layers, **more),
        line_plot("share taken apart", config.K, curves, **loads | UNIT),
    ]
