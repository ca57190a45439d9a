"""New archetypes enter a running federation and are found once theory can see them.

From some round on new archetypes enter over a ramp. "equal": all end with equal shares, as in the
paper; "rare": the new ones end at 1% and below, and cross the level of the test during the ramp;
"scarce": a round holds about two examples of each, so that only evidence carried from round to
round shows them. Three federations see the same examples: with "fresh" evidence in every round,
with evidence "carried" on with falling weight, and with the "paper" mechanism. Latency is counted
from the round that theory foresees (`participation.foresee`) until a pattern has m >= .95. Source:
arXiv:2603.19902, Section 5.2 and Fig. 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, cast

import numpy as np

from hopfed._lib.random import derive, stream
from hopfed._lib.settings import require
from hopfed.experiments import Arrays
from hopfed.experiments.participation import (
    FOUND,
    Labelled,
    agreement,
    detected,
    foresee,
    heard,
    share,
)
from hopfed.experiments.settings import Floats, Ints, Settings, above, at_least, within
from hopfed.experiments.shared.federation import play_variants
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.engines import Engine
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.patterns import Patterns
from hopfed.hopfield.plasticity import Entropy, Smoothing, Structure
from hopfed.hopfield.schedules import NoveltyRamp
from hopfed.hopfield.stream import ArchetypeStream

SCENARIOS = ("equal", "rare", "scarce")
VARIANTS = (
    "equal/carried", "equal/paper", "rare/fresh", "rare/carried", "rare/paper", "scarce/fresh",
    "scarce/carried",
)  # fmt: skip


@dataclass(frozen=True)
class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(64), "sites"] = 400
    clients: Annotated[int, at_least(1)] = 3
    rounds: int = 24
    old: Annotated[int, at_least(1), "archetypes from the start"] = 3
    new: Annotated[int, at_least(1), "those that enter"] = 3
    at: Annotated[int, at_least(1), "first round of the new ones"] = 12
    ramp: Annotated[int, at_least(1), "rounds until their shares are final"] = 4
    quality: Annotated[float, within("(0, 1)"), "r of the examples"] = 0.8
    examples: Annotated[Ints, at_least(1), "per client and round, by scenario"] = (400, 1200, 2000)
    rare: Annotated[Floats, above(0), "final shares of the new ones"] = (0.01, 0.005, 0.0025)
    scarce: Annotated[Floats, above(0), "the same"] = (0.00035, 0.0003, 0.00025)
    discount: Annotated[Floats, within("(0, 1]"), "evidence carried on, by scenario"] = (
        0.5, 0.5, 0.9,
    )  # fmt: skip
    alpha: Annotated[float, within("(0, 1)"), "false-alarm rate of the count"] = 1e-3
    seeds: int = 5

    def validate(self) -> None:
        """Refuse rounds without new ones, and shares that do not fit."""
        require(self.rounds > self.at, "rounds", f"above at = {self.at}", self.rounds)
        for name in ("examples", "discount"):
            got = getattr(self, name)
            require(len(got) == len(SCENARIOS), name, "one for each of 3 scenarios", got)
        for name in ("rare", "scarce"):
            got = getattr(self, name)
            fits = len(got) == self.new and sum(got) < 1
            require(fits, name, f"{self.new} shares above 0 that sum to less than 1", got)

    def mixture(self, scenario: str) -> np.ndarray:
        """(rounds, K) exposures: old archetypes in equal shares, new ones on their ramp."""
        K = self.old + self.new
        equal = NoveltyRamp(self.old, self.at, self.ramp).mixture(K, self.rounds, 0)
        if scenario == "equal":
            return equal
        progress = equal[:, self.old :] * K  # of each new archetype, 0 to 1
        new = progress * np.array(getattr(self, scenario))
        rest = (1 - new.sum(axis=1, keepdims=True)) / self.old
        return np.hstack([np.repeat(rest, self.old, axis=1), new])


PRESETS = {
    "quick": {
        "N": 120, "rounds": 7, "at": 2, "ramp": 3, "examples": (100, 300, 300),
        "rare": (0.03, 0.015, 0.008), "scarce": (0.0015, 0.001, 0.0008), "seeds": 2,
    },
    "default": {},
    "paper": {"seeds": 30},
}  # fmt: skip
MINUTES = {"quick": 0.2, "default": 1.2, "paper": 5}
COMPARED = {
    "counted": ("new ones counted in the first round foreseen, or before", "", "1"),
    "agree": ("rounds counted as foreseen, beyond 2 sd of the level", "", "1"),
    **{
        f"{key}/{name}": (f"{label}, {name}", "a few rounds" * (name == "equal/paper"), aim)
        for key, label, aim in (
            ("on_time", "remembered in that round or before", ""),
            ("within_one", "remembered one round later at most", "1"),
        )
        for name in VARIANTS
    },
    "legible": "equal and rare: remembered in that round, given 5 examples",
    "scarce_fresh": "scarce ones remembered at the end, fresh",
    "scarce_carried": "scarce ones remembered at the end, carried",
    "early": ("counts above K_old before the new ones", "", "alpha"),
    "old": ("lowest m of an old one after the new ones", "transient decrease", "1"),
    "gap_before": "gap at K_old before, equal/carried",
    "gap_after": ("gap at K_old at the end, equal/carried", "shrinks"),
    "blurred": ("patterns at the end with no m >= .9, worst variant", "", "0"),
}


def measure_round(
    seed: int, config: Config, t: int, state: Arrays | None, engine: Engine
) -> tuple[Arrays, Arrays]:
    """Play one round with every mechanism in every scenario."""
    K = config.old + config.new
    xi = rademacher(K, config.N, stream(seed, "novelty"))
    variants = {name: _method(config, xi, name, seed) for name in VARIANTS}
    arrays, after = play_variants(variants, xi, (seed, config, t, state, engine))
    for name, method in variants.items():
        source = cast(ArchetypeStream, method.source)
        new = heard(arrays, state, name, source, t, method.channel.discount)
        seen = Labelled.before(state, name, K).faded(method.channel.discount).add(*new)
        foreseen = foresee(xi, seen, config.quality, config.alpha)
        arrays |= {f"{name}/{key}": value for key, value in foreseen.items()}
        arrays[f"{name}/labels"] = new[0].sum(axis=0)
        after |= seen.state(name)
    return arrays, after


def _method(config: Config, xi: np.ndarray, name: str, seed: int) -> HopfieldFederation:
    scenario, mechanism = name.split("/")
    i = SCENARIOS.index(scenario)
    mixtures = np.repeat(config.mixture(scenario)[:, None], config.clients, axis=1)
    source = ArchetypeStream(
        xi, mixtures, config.examples[i], config.quality, derive(seed, "novelty", scenario)
    )
    how: dict[str, Any] = {"rule": Structure(), "memory": "separate"}
    if mechanism == "paper":
        how = {"rule": Entropy(), "memory": "common", "smoothing": Smoothing(ema=0.5)}
    discount = config.discount[i] if mechanism == "carried" else 0.0
    channel = Patterns(Encoding(config.N), discount=discount, alpha=config.alpha, **how)
    return HopfieldFederation(source, channel)


@dataclass(frozen=True)
class FirstRounds:
    """First rounds in which a new archetype is predicted, counted, remembered, has 5 examples."""

    foreseen: np.ndarray
    counted: np.ndarray
    remembered: np.ndarray
    five: np.ndarray

    @classmethod
    def of(cls, config: Config, arrays: Arrays, name: str) -> FirstRounds:
        """Compute them from the arrays of a variant."""
        events = (
            arrays[f"{name}/foreseen/distance"] > 0,
            detected(arrays, name),
            arrays[f"{name}/magnetisation"] >= FOUND,
            np.cumsum(arrays[f"{name}/labels"], axis=1) >= 5,
        )
        new = (event[:, :, config.old :] for event in events)
        return cls(*(np.where(e.any(axis=1), e.argmax(axis=1), config.rounds) for e in new))


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Latencies of the new archetypes, and false counts before they enter."""
    first = {name: FirstRounds.of(config, arrays, name) for name in VARIANTS}
    apart = [name for name in VARIANTS if not name.endswith("paper")]
    T, before = config.rounds, slice(config.at)
    asked = [first[n].foreseen < T for n in apart]
    early = np.stack([arrays[f"{n}/n_detected"][:, before] > config.old for n in apart], axis=1)
    summary: dict[str, Any] = {
        "counted": share([first[n].counted <= first[n].foreseen for n in apart], asked),
        "agree": share(*agreement(arrays, apart, slice(config.old, None))),
        "early": share([early], [np.ones_like(early)]),
    }
    for key, slack in (("on_time", 0), ("within_one", 1)):
        for name, f in first.items():
            hit, due = f.remembered <= f.foreseen + slack, f.foreseen + slack < T
            summary[f"{key}/{name}"] = share([hit], [due])
    legible = [n for n in apart if not n.startswith("scarce")]
    summary["legible"] = share(
        [first[n].remembered <= np.maximum(first[n].foreseen, first[n].five) for n in legible],
        [np.maximum(first[n].foreseen, first[n].five) < T for n in legible],
    )
    for mechanism in ("fresh", "carried"):
        found = first[f"scarce/{mechanism}"].remembered < T
        summary[f"scarce_{mechanism}"] = share([found], [np.ones_like(found)])
    old = (arrays[f"{n}/magnetisation"][:, config.at :, : config.old].min() for n in VARIANTS)
    gap = relative_gap(arrays["equal/carried/eigenvalues"], config.old)
    return summary | {
        "old": float(min(old)),
        "gap_before": mean_and_sd(gap[:, config.at - 1]),
        "gap_after": mean_and_sd(gap[:, -1]),
        "blurred": max(float(arrays[f"{n}/false"][:, -1].mean()) for n in VARIANTS),
    }


def relative_gap(eigenvalues: np.ndarray, k: int) -> np.ndarray:
    """Gap after the k-th of descending eigenvalues (..., n), relative to that eigenvalue."""
    return 1 - eigenvalues[..., k] / eigenvalues[..., k - 1]
