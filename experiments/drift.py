"""Archetypes that come and go: acquisition and forgetting under different plasticity rules.

Four federations blend operators on a common scale, as in the paper; in the fifth, proposed here,
archetypes are remembered apart from the evidence. An archetype is detectable if in some round so
far its exposure was above the threshold of theory.
"""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import derive, stream
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Settings, at_least, within
from hopfed.experiments.shared.federation import hopfield, play
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import Engine
from hopfed.figures.kinds import UNIT, Panel, by, by_round
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.plasticity import Entropy, Fixed, Rule, Structure
from hopfed.hopfield.stream import ArchetypeStream, cyclic, sequential
from hopfed.theory import planning

# Name -> (rule, kind of memory).
VARIANTS: dict[str, tuple[Rule, str]] = {
    "w = 0": (Fixed(0.0), "common"),
    "w = 1": (Fixed(1.0), "common"),
    "entropy": (Entropy(), "common"),
    "structure": (Structure(), "common"),
    "kept apart": (Structure(), "separate"),
}
SCHEDULES = ("sequential", "cyclic")
LEVEL = 0.99  # magnetisation from which an archetype counts as kept


class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(50), "sites"] = 300
    K: Annotated[int, at_least(1), "archetypes"] = 3
    clients: Annotated[int, at_least(1)] = 3
    examples: Annotated[int, at_least(1), "of each client in a round"] = 100
    rounds: Annotated[int, lambda s: at_least(s.K)] = 24
    qualities: Annotated[Floats, within("(0, 1)"), "values of r"] = (0.6, 0.8)
    overlap: Annotated[float, within("[0, 1]"), "part of a stage in which two are there"] = 0.5
    period: Annotated[int, lambda s: at_least(s.K), "rounds of a cycle"] = 12
    ema: Annotated[float, within("(0, 1]"), "share of a new value in an adaptive weight"] = 0.5
    seeds: int = 5

    def mixture(self, schedule: str) -> np.ndarray:
        """(rounds, K) exposures of a schedule."""
        if schedule == "sequential":
            return sequential(self.K, self.rounds, self.overlap)
        return cyclic(self.K, self.rounds, self.period, self.overlap)

    @property
    def places(self) -> dict[str, tuple[str, float]]:
        """Name of a schedule at a quality -> both."""
        pairs = product(SCHEDULES, self.qualities)
        return {f"{schedule}/r={r:g}": (schedule, r) for schedule, r in pairs}


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    """Play every variant, schedule and quality."""
    xi = rademacher(config.K, config.N, stream(seed, "drift"))
    variants, truth = {}, {}
    for at, (schedule, r) in config.places.items():
        mixtures = np.repeat(config.mixture(schedule)[:, None], config.clients, axis=1)
        own = derive(seed, "drift", schedule)
        source = ArchetypeStream(xi, mixtures, config.examples, r, own)
        exposures = np.array([source.pooled_exposures(t) for t in range(config.rounds)])
        M = config.clients * config.examples
        truth[f"{at}/exposures"] = exposures
        truth[f"{at}/margin"] = planning.margin(r, np.maximum(exposures, 1e-12), config.N, M)
        for name, (rule, memory) in VARIANTS.items():
            apart = memory == "separate"
            ema = 1.0 if isinstance(rule, Fixed) else config.ema
            how: dict[str, Any] = {"rule": rule, "memory": memory, "ema": ema}
            how |= {"discount": 0.5 if apart else 0.0, "votes": apart}
            variants[f"{at}/{name}"] = hopfield(source, config.N, **how)
    return play(variants, xi, (seed, config, engine)) | truth


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Detectable archetypes in each variant at the end."""
    summary: dict[str, Any] = {}
    for name in VARIANTS:
        kept, lowest, false = [], [], []
        for at in config.places:
            ever = (arrays[f"{at}/margin"] > 1).any(axis=1)
            m = np.where(ever, arrays[f"{at}/{name}/magnetisation"][:, -1], np.nan)
            kept.append(np.nansum(m >= LEVEL, axis=1) / np.maximum(ever.sum(axis=1), 1))
            lowest.append(np.nanmin(m))
            false.append(arrays[f"{at}/{name}/false"].max())
        summary |= {
            f"kept/{name}": mean_and_sd(np.mean(kept, axis=0)),
            f"lowest/{name}": float(np.min(lowest)),
            f"false/{name}": int(np.max(false)),
        }
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    """Exposures and m under each variant, where the variants end most differently (Fig. 7)."""

    def apart(at: str) -> float:
        return float(np.ptp([arrays[f"{at}/{n}/magnetisation"][:, -1].mean() for n in VARIANTS]))

    labels, made = [f"archetype {k + 1}" for k in range(config.K)], []
    for at in sorted(config.places, key=apart, reverse=True):
        held = {"exposure": arrays[f"{at}/exposures"]}
        held |= {f"m: {n}": arrays[f"{at}/{n}/magnetisation"] for n in VARIANTS}
        for title, values in held.items():
            lines = by(labels, values, -1)
            made.append(by_round(f"{title}, {at.replace('/', ', ')}", lines, **UNIT))
    return made
