"""New archetypes that enter a running federation, timed from when theory can see them."""

from itertools import product
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import derive, stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import (
    Federated,
    Floats,
    Ints,
    Rule,
    above,
    at_least,
    like,
    within,
)
from hopfed.experiments.participation import make_predictor, reached_archetypes
from hopfed.experiments.shared.hopfield_variants import make_federation, play_variants
from hopfed.experiments.shared.statistics import first_round, mean_and_sd, share_of_hits
from hopfed.federation.contract import Engine
from hopfed.figures.kinds import UNIT, Panel, round_plot
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.plasticity import Entropy, Structure

SCENARIOS = ("equal", "rare", "scarce")  # final shares; scarce: about two examples a round
LATENCIES = {"on_time": 0, "within_one": 1}  # rounds after the predicted one
FOUND = 0.95  # magnetisation from which an archetype is found
VARIANTS = (
    "equal/carried", "equal/paper", "rare/fresh", "rare/carried", "rare/paper", "scarce/fresh",
    "scarce/carried",
)  # fmt: skip
EACH = Rule(lambda v: len(v) == len(SCENARIOS), "one for each of 3 scenarios", whole=True)
LESS = Rule(lambda v: sum(v) < 1, "a sum below 1", whole=True)
OLD = 3  # archetypes from the start
DISCOUNT = (0.5, 0.5, 0.9)  # share of evidence kept after a round, by scenario
HOW: dict[str, Any] = {"rule": Structure(), "alpha": 1e-3, "quality": 0.8}


class Config(Federated):
    at: Annotated[int, lambda s: within(f"[1, {s.rounds})"), "first round of new archetypes"]
    ramp: Annotated[int, at_least(1), "rounds until their shares are final"]
    examples: Annotated[Ints, at_least(1), EACH, "per client and round"]  # type: ignore[assignment]
    rare: Annotated[Floats, above(0), LESS, "final shares of new archetypes"]
    scarce: Annotated[Floats, above(0), LESS, like("rare"), "their final shares, if scarce"]

    def mixture(self, scenario: str) -> np.ndarray:
        """Exposures (rounds, K): old archetypes in equal shares, new ones on their ramp (5.2)."""
        K = OLD + len(self.rare)
        gone = np.clip((np.arange(self.rounds)[:, None] - self.at + 1) / self.ramp, 0, 1)
        equal = (1 - gone) * ((np.arange(K) < OLD) / OLD) + gone / K
        if scenario == "equal":
            return equal
        new = equal[:, OLD:] * K * np.array(getattr(self, scenario))
        rest = (1 - new.sum(axis=1, keepdims=True)) / OLD
        return np.hstack([np.repeat(rest, OLD, axis=1), new])


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    xi, variants = rademacher(OLD + len(config.rare), config.N, stream(seed, "novelty")), {}
    for name in VARIANTS:
        scenario, mechanism = name.split("/")
        i, own = SCENARIOS.index(scenario), derive(seed, "novelty", scenario)
        how = HOW | {"discount": DISCOUNT[i] if mechanism == "carried" else 0.0}
        if mechanism == "paper":
            how |= {"rule": Entropy(), "memory": "common", "ema": 0.5}
        mixture, M = config.mixture(scenario), config.examples[i]
        variants[name] = make_federation(config, xi, own, mixture, examples=M, **how)
    return play_variants(variants, xi, (seed, config, engine), make_predictor())


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    T, new = config.rounds, slice(OLD, None)
    apart = [i for i, name in enumerate(VARIANTS) if not name.endswith("paper")]
    distance, m, counts = (
        np.stack([arrays[f"{name}/{key}"] for name in VARIANTS], axis=1)
        for key in ("foreseen/distance", "magnetisation", "n_detected")
    )
    seen = np.stack([reached_archetypes(arrays, name) for name in VARIANTS], axis=1)
    # First rounds of each new archetype: (seeds, variants, new).
    due, counted, remembered = (
        first_round(holds[..., new], axis=2) for holds in (distance > 0, seen, m >= FOUND)
    )
    early = counts[:, apart, : config.at] > OLD
    summary: dict[str, Any] = {
        "counted": share_of_hits((counted <= due)[:, apart], due[:, apart] < T),
        "early": share_of_hits(early, np.ones_like(early)),
    }
    for (key, slack), (i, name) in product(LATENCIES.items(), enumerate(VARIANTS)):
        last = due[:, i] + slack
        summary[f"{key}/{name}"] = share_of_hits(remembered[:, i] <= last, last < T)
    values = arrays["equal/carried/eigenvalues"]
    gap = 1 - values[..., OLD] / values[..., OLD - 1]
    ends = {"gap_before": gap[:, config.at - 1], "gap_after": gap[:, -1]}
    return summary | {name: mean_and_sd(held) for name, held in ends.items()}


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    counts, sharp = [], []
    for scenario in SCENARIOS:
        names = [n for n in VARIANTS if n.startswith(scenario)]
        lines = {n.split("/")[1]: arrays[f"{n}/n_detected"] for n in names}
        new = arrays[f"{scenario}/carried/foreseen/distance"][:, :, OLD:] > 0
        theory = {"carried": OLD + new.sum(axis=2).mean(axis=0)}
        counts.append(round_plot(f"counted: {scenario} new ones", lines, theory))
        m = arrays[f"{scenario}/carried/magnetisation"]
        parts = {"old": m[:, :, :OLD], "new": m[:, :, OLD:]}
        lines = {label: part.mean(axis=2) for label, part in parts.items()}
        sharp.append(round_plot(f"m, carried: {scenario} new ones", lines, **UNIT))
    return [*counts, *sharp]
