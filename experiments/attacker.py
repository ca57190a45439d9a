"""Plasticity weights of attackers that send noise, by rule, and the archetypes that stay.

`structure`, proposed here, weighs by the share of a batch that is signal; see theory/NOTES.md,
"Plasticity" and "Entropy rule".
"""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Ints, Settings, at_least, like, within
from hopfed.experiments.shared.federation import hopfield, play
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import Engine
from hopfed.figures.kinds import UNIT, Panel, by_round
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.plasticity import Agreement, Entropy, Structure
from hopfed.hopfield.stream import ArchetypeStream

RULES = {"entropy": Entropy(), "agreement": Agreement(), "structure": Structure()}


class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(50), "sites"] = 1000
    K: Annotated[int, at_least(1), "archetypes"] = 3
    clients: int = 5
    examples: Annotated[int, at_least(1), "of each client in a round"] = 800
    rounds: Annotated[int, at_least(1)] = 10
    quality: Annotated[float, within("(0, 1)"), "r of the good clients"] = 0.9
    attackers: Annotated[Ints, lambda s: within(f"[1, {s.clients})"), "by scenario"] = (1, 1, 2)
    noise: Annotated[Floats, within("[0, 1)"), like("attackers"), "their r"] = (0.1, 0.0, 0.0)
    ema: Annotated[float, "share of a new value in the moving average of the weight"] = 0.5
    memory: Annotated[str, "separate, common or literal"] = "separate"
    seeds: int = 5

    @property
    def scenarios(self) -> dict[str, tuple[int, float]]:
        """Name of a scenario -> good clients, and r of the others."""
        pairs = zip(self.attackers, self.noise, strict=True)
        return {f"{n} of r={r:g}": (self.clients - n, r) for n, r in pairs}


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    """Play every rule in every scenario; the attackers are the last clients."""
    xi = rademacher(config.K, config.N, stream(seed, "attacker"))
    mixtures = np.full((config.rounds, config.clients, config.K), 1 / config.K)
    how: dict[str, Any] = {"memory": config.memory, "ema": config.ema}
    how |= {"discount": 0.0, "votes": False}
    variants = {}
    for (scenario, (good, r)), name in product(config.scenarios.items(), RULES):
        qualities = np.where(np.arange(config.clients) < good, config.quality, r)
        source = ArchetypeStream(xi, mixtures, config.examples, qualities, seed)
        variants[f"{scenario}/{name}"] = hopfield(source, config.N, rule=RULES[name], **how)
    return play(variants, xi, (seed, config, engine))


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Weights in the last round, and the lowest magnetisation, over all scenarios."""
    summary: dict[str, Any] = {}
    for name in RULES:
        good, lies, m, false = [], [], [], []
        for scenario, (n, _) in config.scenarios.items():
            at = f"{scenario}/{name}"
            last = arrays[f"{at}/client/weight"][:, -1]
            good.append(last[:, :n].mean(axis=1))
            lies.append(last[:, n:].max())
            m.append(arrays[f"{at}/magnetisation"][:, 1:].min())
            false.append(arrays[f"{at}/false"].max())
        summary |= {
            f"good/{name}": mean_and_sd(np.mean(good, axis=0)),
            f"attacker/{name}": float(max(lies)),
            f"magnetisation/{name}": float(min(m)),
            f"false/{name}": int(max(false)),
        }
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    """Weights over rounds by rule, and the lowest m (Fig. 6), with the most attackers."""
    name = min(config.scenarios, key=lambda s: config.scenarios[s])
    good, made, lowest = config.scenarios[name][0], [], {}
    for each in RULES:
        w = np.moveaxis(arrays[f"{name}/{each}/client/weight"], 1, 2)  # seeds, clients, rounds
        parts = {"good": w[:, :good], "attacker": w[:, good:]}
        lines = {label: part.reshape(-1, config.rounds) for label, part in parts.items()}
        made.append(by_round(f"{each} rule, {name}", lines, ylabel="weight w", **UNIT))
        lowest[each] = arrays[f"{name}/{each}/magnetisation"].min(axis=2)
    return [*made, by_round(f"remembered, {name}", lowest, ylabel="lowest m", **UNIT)]
