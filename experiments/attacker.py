"""Plasticity weights of attackers that send noise, by rule, and the archetypes that stay."""

from itertools import product
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Federated, at_least
from hopfed.experiments.shared.hopfield_variants import make_federation, play_variants
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import Engine
from hopfed.figures.kinds import UNIT, Panel, line_plot, round_plot
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.plasticity import Agreement, Entropy, Structure

RULES = {"entropy": Entropy(), "agreement": Agreement(), "structure": Structure()}
K, QUALITY = 3, 0.9  # archetypes, and r of the good clients
SCENARIOS = {"1 of r=0.1": (1, 0.1), "1 of r=0": (1, 0.0), "2 of r=0": (2, 0.0)}  # attackers
SHOWN, CALLED = "2 of r=0", "2 attackers"
HOW: dict[str, Any] = {"ema": 0.5, "discount": 0.0, "votes": False}


class Config(Federated):
    clients: Annotated[int, at_least(3)]


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    xi, variants = rademacher(K, config.N, stream(seed, "attacker")), {}
    for (scenario, (bad, r)), (name, rule) in product(SCENARIOS.items(), RULES.items()):
        how = HOW | {"quality": np.repeat([QUALITY, r], [config.clients - bad, bad]), "rule": rule}
        variants[f"{scenario}/{name}"] = make_federation(config, xi, seed, **how)
    return play_variants(variants, xi, (seed, config, engine))


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:  # noqa: ARG001
    summary: dict[str, Any] = {}
    for name in RULES:
        good, bad, lowest, false = [], [], [], []
        for scenario, (n, _) in SCENARIOS.items():
            at = f"{scenario}/{name}"
            last = arrays[f"{at}/client/weight"][:, -1]
            good.append(last[:, :-n].mean(axis=1))
            bad.append(last[:, -n:].max())
            lowest.append(arrays[f"{at}/magnetisation"][:, 1:].min())
            false.append(arrays[f"{at}/false"].max())
        summary |= {
            f"good/{name}": mean_and_sd(np.mean(good, axis=0)),
            f"attacker/{name}": float(max(bad)),
            f"magnetisation/{name}": float(min(lowest)),
            f"false/{name}": int(max(false)),
        }
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    made, lowest = [], {}
    for each in RULES:
        w = np.moveaxis(arrays[f"{SHOWN}/{each}/client/weight"], 1, 2)  # seeds, clients, rounds
        lines = {"good client": np.concatenate(w[:, :-2]), "attacker": np.concatenate(w[:, -2:])}
        made.append(round_plot(f"{each} rule, {CALLED}", lines, ylabel="weight w", **UNIT))
        lowest[f"{each} rule"] = arrays[f"{SHOWN}/{each}/magnetisation"].min(axis=2)
    how: dict[str, Any] = UNIT | {"xlabel": "round", "ylabel": "lowest overlap", "points": True}
    rounds = [str(t + 1) for t in range(config.rounds)]  # words: marks lie side by side
    return [*made, line_plot(f"remembered, {CALLED}", rounds, lowest, **how)]
