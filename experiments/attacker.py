"""Plasticity weights of attackers that send noise, by rule, and the archetypes that stay.

`structure`, proposed here, weighs by the share of a batch that is signal; see theory/NOTES.md,
"Plasticity" and "Entropy rule".
"""

from itertools import product
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Federated, Floats, Ints, at_least, like, within
from hopfed.experiments.shared.federation import hopfield, play
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.engines import Engine
from hopfed.figures.kinds import UNIT, Panel, by_round
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.plasticity import Agreement, Entropy, Structure

RULES = {"entropy": Entropy(), "agreement": Agreement(), "structure": Structure()}


class Config(Federated):
    K: Annotated[int, at_least(1), "archetypes"]
    quality: Annotated[float, within("(0, 1)"), "r of the good clients"]
    attackers: Annotated[Ints, lambda s: within(f"[1, {s.clients})"), "by scenario"]
    noise: Annotated[Floats, within("[0, 1)"), like("attackers"), "their r"]
    ema: Annotated[float, "share of a new value in the moving average of the weight"]

    @property
    def scenarios(self) -> dict[str, tuple[int, float]]:
        """Name of a scenario -> good clients, and r of the others."""
        pairs = zip(self.attackers, self.noise, strict=True)
        return {f"{n} of r={r:g}": (self.clients - n, r) for n, r in pairs}


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    """Play every rule in every scenario; the attackers are the last clients."""
    xi = rademacher(config.K, config.N, stream(seed, "attacker"))
    how: dict[str, Any] = {"ema": config.ema, "discount": 0.0, "votes": False}
    variants = {}
    for (scenario, (good, r)), name in product(config.scenarios.items(), RULES):
        quality = np.where(np.arange(config.clients) < good, config.quality, r)
        method = hopfield(config, xi, seed, quality=quality, rule=RULES[name], **how)
        variants[f"{scenario}/{name}"] = method
    return play(variants, xi, (seed, config, engine))


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for name in RULES:
        places = {f"{s}/{name}": good for s, (good, _) in config.scenarios.items()}
        last = {at: arrays[f"{at}/client/weight"][:, -1] for at in places}
        good = np.mean([last[at][:, :n].mean(axis=1) for at, n in places.items()], axis=0)
        summary |= {
            f"good/{name}": mean_and_sd(good),
            f"attacker/{name}": float(max(last[at][:, n:].max() for at, n in places.items())),
            f"magnetisation/{name}": float(
                min(arrays[f"{at}/magnetisation"][:, 1:].min() for at in places)
            ),
            f"false/{name}": int(max(arrays[f"{at}/false"].max() for at in places)),
        }
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    name = min(config.scenarios, key=lambda s: config.scenarios[s])
    good, made, lowest = config.scenarios[name][0], [], {}
    for each in RULES:
        w = np.moveaxis(arrays[f"{name}/{each}/client/weight"], 1, 2)  # seeds, clients, rounds
        parts = {"good": w[:, :good], "attacker": w[:, good:]}
        lines = {label: part.reshape(-1, config.rounds) for label, part in parts.items()}
        made.append(by_round(f"{each} rule, {name}", lines, ylabel="weight w", **UNIT))
        lowest[each] = arrays[f"{name}/{each}/magnetisation"].min(axis=2)
    return [*made, by_round(f"remembered, {name}", lowest, ylabel="lowest m", **UNIT)]
