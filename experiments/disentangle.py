"""Taking mixtures apart: where layers that repel each other help, and what it takes.

A cue is the majority of some patterns, and counts when each of these is the state of a layer. Cells
of the map (couplings: arXiv:2603.19902, eqs. (6), (8)) are chosen on the first third of the seeds.
"""

from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import derive, stream
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Ints, Rule, Settings, above, at_least, within
from hopfed.experiments.shared.statistics import by_name
from hopfed.figures.kinds import Panel, matrix, paired
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.layered import LayeredMemory
from hopfed.memory.rules import Layered

MIXED = 3  # patterns in the mixture of map and annealing
COUPLINGS = ("linear", "quadratic")
TIMES = {"Hebb": 0.0, "projector": float("inf")}
LEVEL = 0.95
COLON = "{}: {:.2f}"
LARGEST = 0.9  # of the repulsion of the authors' programs
PARTS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.98)  # of the largest repulsion, by number of layers
# The authors' programs, synchronous at beta = 2.5 with repulsion .2, and changed step by step.
PAPER = {"field": 0.1, "self_field": True, "noise": (0.3, 0.02), "noise_over_beta": True}
BARE = PAPER | {"field": 0.0, "self_field": False}
HEATED = BARE | {"noise": (1.0, 0.02), "noise_over_beta": False}
AUTHORS: dict[str, dict[str, Any]] = {
    "authors": PAPER,
    "no clamped field": PAPER | {"field": 0.0},
    "nor self-field": BARE,
    "full noise": HEATED,
    "larger repulsion": HEATED | {"repulsion": 0.45},
}

WITH_0 = Rule(lambda v: 0 in v, "in [0, 0.5), 0 among them", whole=True)


class Config(Settings):
    N: Annotated[int, at_least(2), "sites"]
    starts: Annotated[int, at_least(1), "of each cell"]
    updates: Annotated[int, at_least(1), "sweeps"]
    K: Annotated[Ints, at_least(MIXED), "numbers of stored patterns"]
    repulsions: Annotated[Floats, within("[0, 0.5)"), WITH_0, "of the map"]
    temperatures: Annotated[Floats, above(0), "noise cools from"]
    layers: Annotated[Ints, at_least(1), "values of L"]


def measure(seed: int, config: Config) -> Arrays:
    """Shares of starts taken apart, and of patterns found."""
    times, rs, Ts = tuple(TIMES.values()), config.repulsions, config.temperatures
    cells = np.zeros((2, 2, len(config.K), len(rs), len(Ts)))
    for c, t, k, r, T in np.ndindex(*cells.shape):
        rule = Layered(MIXED, rs[r], COUPLINGS[c], times[t])
        cells[c, t, k, r, T] = _cooled(config, seed, rule, config.K[k], Ts[T])[0]
    layers = np.zeros((2, len(config.layers), len(PARTS), len(Ts)))
    for j, i, k in np.ndindex(*layers.shape[1:]):
        L = config.layers[j]
        rule = Layered(L, PARTS[i] / (L - 1) if L > 1 else 0.0)
        layers[:, j, i, k] = _cooled(config, seed, rule, max(10, L), Ts[k])
    annealing = [[_annealed(config, seed, name, K) for K in config.K] for name in AUTHORS]
    return {
        "map/apart": cells,
        "layers/apart": layers[0],
        "layers/part": layers[1],
        "annealing/apart": np.array(annealing),
    }


def mixture(config: Config, seed: int, K: int, mixed: int) -> tuple[np.ndarray, np.ndarray]:
    """Patterns (K, N), and cues (starts, N): the majority of the first, ties at random."""
    rng = stream(seed, "disentangle", K, mixed)
    xi = rng.choice(np.array([-1, 1], np.int8), (K, config.N))
    total = xi[:mixed].sum(axis=0, dtype=np.int64)
    ties = rng.choice(np.array([-1, 1]), (config.starts, config.N))
    return xi, np.where(total == 0, ties, np.sign(total)).astype(np.int8)


def score(states: np.ndarray, parts: np.ndarray) -> tuple[float, float]:
    """Share of starts in which every part is the state of a layer, and share of parts found."""
    overlaps = np.abs(states.astype(np.float32) @ parts.T.astype(np.float32)) / parts.shape[1]
    found = (overlaps >= LEVEL).any(axis=1)
    return float(found.all(axis=1).mean()), float(found.mean())


def _cooled(config: Config, seed: int, rule: Layered, K: int, T: float) -> tuple[float, float]:
    """`score` of mixtures of the first of K patterns, cooled from T to 0 over nine tenths."""
    xi, cues = mixture(config, seed, K, rule.layers)
    rest = np.minimum(np.arange(config.updates) / max(1.0, 0.9 * config.updates), 1)
    drawn = repr(rule).replace(")", ", g=())")  # as when a rule had its own couplings g
    noise = derive(seed, "disentangle", drawn, K, f"{T:g}")
    memory = AssociativeMemory.store(xi, rule)
    found = memory.recall(cues, temperature=T - T * rest, updates=config.updates, seed=noise)
    return score(found.states, xi[: rule.layers])


def _annealed(config: Config, seed: int, name: str, K: int) -> float:
    """Share of starts taken apart under a schedule of noise, in the projector."""
    xi, cues = mixture(config, seed, K, MIXED)
    settings = {"repulsion": 0.2} | AUTHORS[name]
    settings["repulsion"] = min(settings["repulsion"], LARGEST / (MIXED - 1))
    memory = LayeredMemory(layers=MIXED, **settings)
    W = np.linalg.qr(xi.T.astype(np.float64))[0]
    states = memory.relax(cues, W, beta=2.5, updates=config.updates, seed=seed).state
    return score(states, xi[:MIXED])[0]


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    zero = config.repulsions.index(0)
    apart = np.moveaxis(arrays["map/apart"], 3, 1)  # (seeds, K, couplings, times, repulsions, T)
    names = [f"K = {K}" for K in config.K]
    shares = arrays["annealing/apart"].mean(axis=0)[:, min(1, len(config.K) - 1)]
    return {
        "best": by_name(names, _chosen(apart), COLON),
        "alone": by_name(names, _chosen(apart[..., zero, :]), COLON),
        "linear": by_name(names, _chosen(apart[:, :, 0]), COLON),
        "hebb": by_name(names, _chosen(apart[:, :, :, 0]), COLON),
        "layers": by_name(config.layers, _chosen(arrays["layers/part"]), COLON),
        "layers_alone": by_name(config.layers, _chosen(arrays["layers/part"][:, :, 0]), COLON),
        "authors": by_name(AUTHORS, shares, COLON),
    }


def _chosen(shares: np.ndarray) -> list[float]:
    """For each place of axis 1 the cell that is best in the first third of the seeds, in others."""
    first, last = max(1, len(shares) // 3), len(shares) - 1
    tuned, fresh = shares[:first].mean(axis=0), shares[min(first, last) :].mean(axis=0)
    return [float(b.flat[a.argmax()]) for a, b in zip(tuned, fresh, strict=True)]


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    apart, second = arrays["map/apart"].mean(axis=0)[:, 1], min(1, len(config.K) - 1)
    layers = arrays["layers/apart"].mean(axis=0).max(axis=-1), config.layers, PARTS
    by_heat = apart[1, second].T, config.temperatures, config.repulsions
    words: dict[str, Any] = {"ylabel": r"repulsion $\lambda$"}
    more = {"xlabel": "layers, parts of the mixture", "ylabel": "part of the largest"}
    title, made = f"quadratic, K = {config.K[second]}", []
    for i in (1, 0):
        by_load = apart[i].max(axis=-1), config.K, config.repulsions
        name = f"{COUPLINGS[i]}, projector"
        made.append(matrix(name, *by_load, xlabel="stored patterns K", **words))
    bars = {"share": arrays["annealing/apart"][:, :, second]}
    noise = f"taken apart by noise, K = {config.K[second]}"
    return [
        *made,
        matrix(title, *by_heat, xlabel="noise cools from T", **words),
        matrix("quadratic, K = 10", *layers, **words | more),
        paired(noise, tuple(AUTHORS), bars, xlabel="share"),
    ]
