"""New archetypes that enter a running federation, counted from when theory can see them.

"equal": all end with equal shares, as in the paper; "rare": new ones end at 1% and below; "scarce":
a round holds about two examples of each. Evidence is "fresh" in every round, "carried" on with
falling weight, or of the "paper" mechanism. Latency starts where `participation.foresee` says.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import derive, stream
from hopfed.experiments import Arrays
from hopfed.experiments.participation import detected, follow, share
from hopfed.experiments.settings import Floats, Ints, Rule, Settings, above, at_least, within
from hopfed.experiments.shared.federation import hopfield, play
from hopfed.experiments.shared.statistics import first_round, mean_and_sd
from hopfed.federation.contract import Engine
from hopfed.figures.kinds import UNIT, Panel, by_round
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.plasticity import Entropy, Structure
from hopfed.hopfield.stream import ArchetypeStream, novelty_ramp

SCENARIOS = ("equal", "rare", "scarce")
FOUND = 0.95  # magnetisation from which an archetype is found
VARIANTS = (
    "equal/carried", "equal/paper", "rare/fresh", "rare/carried", "rare/paper", "scarce/fresh",
    "scarce/carried",
)  # fmt: skip


EACH = Rule(lambda v: len(v) == len(SCENARIOS), "one for each of 3 scenarios", whole=True)


def entering(config: Any) -> Rule:
    """Shares of the new ones."""
    rule = f"{config.new} shares above 0 that sum to less than 1"
    return Rule(lambda v: len(v) == config.new and sum(v) < 1, rule, whole=True)


class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(64), "sites"] = 400
    clients: Annotated[int, at_least(1)] = 3
    rounds: Annotated[int, lambda s: at_least(s.at + 1)] = 24
    old: Annotated[int, at_least(1), "archetypes from the start"] = 3
    new: Annotated[int, at_least(1), "those that enter"] = 3
    at: Annotated[int, at_least(1), "first round of the new ones"] = 12
    ramp: Annotated[int, at_least(1), "rounds until their shares are final"] = 4
    quality: Annotated[float, within("(0, 1)"), "r of the examples"] = 0.8
    examples: Annotated[Ints, at_least(1), EACH, "of a client in a round"] = (400, 1200, 2000)
    rare: Annotated[Floats, above(0), entering, "their final shares"] = (0.01, 0.005, 0.0025)
    scarce: Annotated[Floats, above(0), entering, "the same"] = (0.00035, 0.0003, 0.00025)
    discount: Annotated[Floats, within("(0, 1]"), EACH, "evidence carried on, by scenario"] = (
        0.5, 0.5, 0.9,
    )  # fmt: skip
    alpha: Annotated[float, within("(0, 1)"), "false-alarm rate of the count"] = 1e-3
    seeds: int = 5

    def mixture(self, scenario: str) -> np.ndarray:
        """(rounds, K) exposures: old archetypes in equal shares, new ones on their ramp."""
        K = self.old + self.new
        equal = novelty_ramp(self.old, K, self.rounds, self.at, self.ramp)
        if scenario == "equal":
            return equal
        progress = equal[:, self.old :] * K  # of each new archetype, 0 to 1
        new = progress * np.array(getattr(self, scenario))
        rest = (1 - new.sum(axis=1, keepdims=True)) / self.old
        return np.hstack([np.repeat(rest, self.old, axis=1), new])


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    """Play every mechanism in every scenario."""
    xi = rademacher(config.old + config.new, config.N, stream(seed, "novelty"))
    variants = {}
    for name in VARIANTS:
        scenario, mechanism = name.split("/")
        i = SCENARIOS.index(scenario)
        mixtures = np.repeat(config.mixture(scenario)[:, None], config.clients, axis=1)
        own = derive(seed, "novelty", scenario)
        source = ArchetypeStream(xi, mixtures, config.examples[i], config.quality, own)
        how: dict[str, Any] = {"rule": Structure(), "memory": "separate", "alpha": config.alpha}
        if mechanism == "paper":
            how |= {"rule": Entropy(), "memory": "common", "ema": 0.5}
        how |= {"discount": config.discount[i] if mechanism == "carried" else 0.0}
        variants[name] = hopfield(source, config.N, **how)
    return play(variants, xi, (seed, config, engine), follow(variants))


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Latencies of the new archetypes, and false counts before they enter."""
    T, events = config.rounds, dict[str, dict[str, np.ndarray]]()
    for name in VARIANTS:
        held = {
            "foreseen": arrays[f"{name}/foreseen/distance"] > 0,
            "counted": detected(arrays, name),
            "remembered": arrays[f"{name}/magnetisation"] >= FOUND,
        }
        # First round of each event of a new archetype.
        events[name] = {key: first_round(e[:, :, config.old :]) for key, e in held.items()}
    apart = [name for name in VARIANTS if not name.endswith("paper")]
    before = (arrays[f"{n}/n_detected"][:, : config.at] > config.old for n in apart)
    early = np.stack([*before], axis=1)
    first = [events[n] for n in apart]
    summary: dict[str, Any] = {
        "counted": share(
            [f["counted"] <= f["foreseen"] for f in first], [f["foreseen"] < T for f in first]
        ),
        "early": share([early], [np.ones_like(early)]),
    }
    for key, slack in (("on_time", 0), ("within_one", 1)):
        for name, f in events.items():
            last = f["foreseen"] + slack
            summary[f"{key}/{name}"] = share([f["remembered"] <= last], [last < T])
    values = arrays["equal/carried/eigenvalues"]
    gap = 1 - values[..., config.old] / values[..., config.old - 1]
    return summary | {
        "gap_before": mean_and_sd(gap[:, config.at - 1]),
        "gap_after": mean_and_sd(gap[:, -1]),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    """Counts beside theory, and m of old and new archetypes, by scenario."""
    counts, sharp = [], []
    for scenario in SCENARIOS:
        names = [n for n in VARIANTS if n.startswith(scenario)]
        lines = {n.split("/")[1]: arrays[f"{n}/n_detected"] for n in names}
        new = arrays[f"{scenario}/carried/foreseen/distance"][:, :, config.old :] > 0
        theory = {"carried": config.old + new.sum(axis=2).mean(axis=0)}
        title = f"{scenario} new ones"
        counts.append(by_round(f"counted: {title}", lines, theory))
        m = arrays[f"{scenario}/carried/magnetisation"]
        parts = {"old": m[:, :, : config.old], "new": m[:, :, config.old :]}
        lines = {label: part.mean(axis=2) for label, part in parts.items()}
        sharp.append(by_round(f"m, carried: {title}", lines, **UNIT))
    return [*counts, *sharp]
