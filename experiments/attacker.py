"""An attacker sends noise; its plasticity weight falls and the archetypes stay.

The examples of attackers are noise, or nearly so. The federation runs with each rule of plasticity
on the same examples: the entropy rule takes a batch of noise for a novel batch, agreement gives it
no weight, `structure`, proposed here, weighs by the share of a batch that is signal. There are no
votes and no carried evidence; the memory is separate. Source: arXiv:2603.19902, Fig. 6;
theory/NOTES.md, "Plasticity" and "Entropy rule".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Ints, Settings, at_least, within
from hopfed.experiments.shared.federation import play_variants
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.engines import Engine
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.patterns import Patterns
from hopfed.hopfield.plasticity import Smoothing, rule
from hopfed.hopfield.stream import ArchetypeStream

RULE_NAMES = ("entropy", "agreement", "structure")


@dataclass(frozen=True)
class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(50), "sites"] = 1000
    K: Annotated[int, at_least(1), "archetypes"] = 3
    clients: int = 5
    examples: Annotated[int, at_least(1), "of each client in a round"] = 800
    rounds: Annotated[int, at_least(1)] = 10
    quality: Annotated[float, within("(0, 1)"), "r of the good clients"] = 0.9
    attackers: Annotated[Ints, at_least(1), "for each scenario"] = (1, 1, 2)
    noise: Annotated[Floats, within("[0, 1)"), "their r"] = (0.1, 0.0, 0.0)
    ema: Annotated[float, "share of a new value in the moving average of the weight"] = 0.5
    memory: Annotated[str, "separate, common or literal"] = "separate"
    seeds: int = 5

    def validate(self) -> None:
        """Refuse attackers without good clients."""
        self.same_length("attackers", "noise")
        inside = max(self.attackers) < self.clients
        require(inside, "attackers", f"between 1 and {self.clients - 1}", self.attackers)

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Names of the scenarios."""
        pairs = zip(self.attackers, self.noise, strict=True)
        return tuple(f"{n} of r={r:g}" for n, r in pairs)


PRESETS = {
    "quick": {"N": 300, "examples": 300, "rounds": 4, "seeds": 2},
    "default": {},
    "paper": {"seeds": 20},
}
MINUTES = {"quick": 0.2, "default": 1.5, "paper": 5}
COMPARED = {
    f"{key}/{name}": (f"{label}, {name}", paper * (name == "entropy"), aim * (name == "structure"))
    for key, label, paper, aim in (
        ("good", "weight of good clients, last round", ".4-.6", ""),
        ("attacker", "largest weight of an attacker, last round", "0", "< .05 after 10 rounds"),
        ("magnetisation", "lowest m from round 1 on", "mean > .8", "1"),
        ("false", "false discoveries, most", "", "0"),
    )
    for name in RULE_NAMES
}


def measure_round(
    seed: int, config: Config, t: int, state: Arrays | None, engine: Engine
) -> tuple[Arrays, Arrays]:
    """Play one round with every rule in every scenario."""
    xi = rademacher(config.K, config.N, stream(seed, "attacker"))
    variants = {
        f"{scenario}/{name}": _method(config, xi, i, name, seed)
        for i, scenario in enumerate(config.scenarios)
        for name in RULE_NAMES
    }
    return play_variants(variants, xi, (seed, config, t, state, engine))


def _method(
    config: Config, xi: np.ndarray, scenario: int, name: str, seed: int
) -> HopfieldFederation:
    """One federation; the attackers are the last clients."""
    good = config.clients - config.attackers[scenario]
    qualities = np.where(np.arange(config.clients) < good, config.quality, config.noise[scenario])
    mixtures = np.full((config.rounds, config.clients, config.K), 1 / config.K)
    source = ArchetypeStream(xi, mixtures, config.examples, qualities, seed)
    how: dict[str, Any] = {"rule": rule(name), "memory": config.memory}
    how["smoothing"] = Smoothing(ema=config.ema)
    channel = Patterns(Encoding(config.N), discount=0.0, votes=False, **how)
    return HopfieldFederation(source, channel)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Weights in the last round, and the lowest magnetisation, over all scenarios."""
    summary: dict[str, Any] = {}
    for name in RULE_NAMES:
        good, bad, lowest, false = [], [], [], []
        for i, scenario in enumerate(config.scenarios):
            at = f"{scenario}/{name}"
            split = config.clients - config.attackers[i]
            last = arrays[f"{at}/client/weight"][:, -1]
            good.append(last[:, :split].mean(axis=1))
            bad.append(last[:, split:].max(axis=1))
            lowest.append(arrays[f"{at}/magnetisation"][:, 1:].min(axis=(1, 2)))
            false.append(arrays[f"{at}/false"].max(axis=1))
        summary |= {
            f"good/{name}": mean_and_sd(np.mean(good, axis=0)),
            f"attacker/{name}": float(np.max(bad)),
            f"magnetisation/{name}": float(np.min(lowest)),
            f"false/{name}": int(np.max(false)),
        }
    return summary
