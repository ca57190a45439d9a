"""Archetypes come and go: acquisition and forgetting under different plasticity rules (Fig. 7).

Source: arXiv:2603.19902, Fig. 7.

The exposures of K = 3 archetypes drift over the rounds, one after the other ("sequential") or
periodically ("cyclic"). Five federations see the same examples. In the first four the memory is the
blended operator, as in the paper, on a common scale. With w = 0 the first archetypes stay and
nothing new is acquired; with w = 1 an archetype that is no longer exposed is forgotten; the entropy
rule and `structure` lie between. In the fifth, proposed here, archetypes are remembered separately
from the evidence, so w weights the fresh examples and has no effect on forgetting.

What a server holds is also read as shares of the archetypes, and set against those of the examples:
by how many rounds they are late, and how far off (`hopfed.experiments.shared.tracking`).

An archetype counts as detectable if, in some round so far, its exposure in the examples of that
round was above the threshold of theory. Labels and archetypes are used only to score.

Measured (paper preset, 20 seeds, two schedules, r = .6 and .8). With a separate memory every
archetype that was ever detectable has m = 1.000 at the end. With a blended memory all have m >=
.993 under `structure`, and .996 +- .019 of them reach .99 under the entropy rule; w = 0 and w = 1
hold half. Three of the blended variants have a false pattern in some round, as expected from 1,920
counts each at a false-alarm rate of .001. With a separate memory there is none, because a pattern
that no example resembles is dropped. The shares that a server holds are 0 / .4 / .6 rounds late at
w = 1 / the entropy rule / the separate memory, and .001 / .26 / .138 off (total variation).

Run it with ``hopfed run drift --preset paper --workers 2 --out drift.h5``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hopfed._lib.random import derive, stream
from hopfed._lib.settings import check_types, require
from hopfed.experiments import Arrays, Measure, Record
from hopfed.experiments.shared.federation import play_variants
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.experiments.shared.tracking import lag
from hopfed.federation.engines import Engine
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.plasticity.rules import Entropy, Fixed, Rule, Smoothing, Structure
from hopfed.hopfield.schedules import Cyclic, Sequential
from hopfed.hopfield.stream import ArchetypeStream
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


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes
    ----------
    N, K, clients, examples, rounds : sites, archetypes, clients, examples of each in a round.
    qualities : values of r, one federation for each.
    overlap : part of a stage during which one archetype replaces the previous one.
    period : rounds of a cycle.
    ema : share of a new value in the moving average of the weight, for the adaptive rules.
    seeds : draws.
    """

    N: int = 300
    K: int = 3
    clients: int = 3
    examples: int = 100
    rounds: int = 24
    qualities: tuple[float, ...] = (0.6, 0.8)
    overlap: float = 0.5
    period: int = 12
    ema: float = 0.5
    seeds: int = 5

    def __post_init__(self) -> None:
        check_types(self)
        require(self.N >= 50, "N", "at least 50", self.N)
        for name in ("K", "clients", "examples", "seeds"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        require(self.rounds >= self.K, "rounds", f"at least K = {self.K}", self.rounds)
        require(self.period >= self.K, "period", f"at least K = {self.K}", self.period)
        for r in self.qualities:
            require(0 < r < 1, "qualities", "in (0, 1)", r)
        require(0 <= self.overlap <= 1, "overlap", "in [0, 1]", self.overlap)
        require(0 < self.ema <= 1, "ema", "in (0, 1]", self.ema)

    def mixture(self, schedule: str, seed: int) -> np.ndarray:
        """(rounds, K) exposures of a schedule."""
        sequential = Sequential(overlap=self.overlap)
        chosen = sequential if schedule == "sequential" else Cyclic(self.period, 0.0, self.overlap)
        return chosen.mixture(self.K, self.rounds, seed)


PRESETS = {
    "quick": Config(N=150, rounds=9, period=6, qualities=(0.8,), seeds=2),
    "default": Config(),
    "paper": Config(seeds=20),
}

RECORD = Record(
    claim="w = 0 does not acquire, w = 1 forgets, an adaptive w does both",
    source="hopfield federation, Fig. 7",
    minutes={"quick": 0.2, "default": 1.5, "paper": 4.5},
    measures={
        f"{key}/{name}": Measure(f"{label}, {name}", aim=aim if name == "kept apart" else "")
        for key, label, aim in (
            ("kept", "detectable so far with m >= .99 at the end", "1"),
            ("lowest", "lowest m of those at the end", ">= .99"),
            ("false", "false discoveries, most in a round", "0"),
            ("lag", "rounds by which the shares that the server holds are late", ""),
            ("distance", "total variation from the shares of a round to those held", ""),
        )
        for name in VARIANTS
    },
)


def run_round(
    config: Config, seed: int, t: int, state: Arrays | None, engine: Engine
) -> tuple[Arrays, Arrays | None]:
    """Play one round of every variant, schedule and quality."""
    xi = rademacher(config.K, config.N, stream(seed, "drift"))
    variants, truth = {}, {}
    for schedule in SCHEDULES:
        for r in config.qualities:
            at = f"{schedule}/r={r:g}"
            source = _source(config, xi, schedule, r, seed)
            exposures = source.pooled_exposures(t)
            M = config.clients * config.examples
            truth[f"{at}/exposures"] = exposures
            truth[f"{at}/margin"] = planning.margin(r, np.maximum(exposures, 1e-12), config.N, M)
            for name in VARIANTS:
                variants[f"{at}/{name}"] = _method(config, source, name)
    arrays, after = play_variants(
        variants,
        xi,
        state,
        t,
        rounds=config.rounds,
        seed=seed,
        clients=config.clients,
        engine=engine,
        mixtures=True,
    )
    return arrays | truth, after


def _source(config: Config, xi: np.ndarray, schedule: str, r: float, seed: int) -> ArchetypeStream:
    mixture = config.mixture(schedule, seed)
    mixtures = np.repeat(mixture[:, None], config.clients, axis=1)
    return ArchetypeStream(xi, mixtures, config.examples, r, derive(seed, "drift", schedule))


def _method(config: Config, source: ArchetypeStream, name: str) -> HopfieldFederation:
    rule, memory = VARIANTS[name]
    fixed = isinstance(rule, Fixed)
    return HopfieldFederation(
        source,
        Encoding(config.N),
        rule=rule,
        smoothing=Smoothing(ema=1.0 if fixed else config.ema),
        memory=memory,
        discount=0.5 if memory == "separate" else 0.0,
        votes=memory == "separate",
    )


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Detectable archetypes in each variant at the end, and how late its shares of them are."""
    summary: dict[str, Any] = {}
    for name in VARIANTS:
        kept, lowest, false, late = [], [], [], []
        for schedule in SCHEDULES:
            for r in config.qualities:
                at = f"{schedule}/r={r:g}"
                ever = (arrays[f"{at}/margin"] > 1).any(axis=1)
                m = np.where(ever, arrays[f"{at}/{name}/magnetisation"][:, -1], np.nan)
                kept.append(np.nansum(m >= LEVEL, axis=1) / np.maximum(ever.sum(axis=1), 1))
                lowest.append(np.nanmin(m))
                false.append(arrays[f"{at}/{name}/false"].max())
                held, true = arrays[f"{at}/{name}/mixture"], arrays[f"{at}/exposures"]
                late.append([lag(h, t)[:2] for h, t in zip(held, true, strict=True)])
        summary |= {
            f"kept/{name}": mean_and_sd(np.mean(kept, axis=0)),
            f"lowest/{name}": float(np.min(lowest)),
            f"false/{name}": int(np.max(false)),
            f"lag/{name}": mean_and_sd(np.mean(late, axis=0)[:, 0]),
            f"distance/{name}": mean_and_sd(np.mean(late, axis=0)[:, 1]),
        }
    return summary
