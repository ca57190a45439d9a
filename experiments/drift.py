"""Archetypes that come and go: acquisition and forgetting under different plasticity rules."""

from itertools import product
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import derive, stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Federated, Floats, at_least, within
from hopfed.experiments.shared.hopfield_variants import make_federation, play_variants
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import Engine
from hopfed.figures.kinds import UNIT, Panel, round_plot, split_axis
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.plasticity import Entropy, Fixed, Structure
from hopfed.theory import planning

COMMON = {"memory": "common", "discount": 0.0, "votes": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "w = 0": COMMON | {"rule": Fixed(0.0), "ema": 1.0},
    "w = 1": COMMON | {"rule": Fixed(1.0), "ema": 1.0},
    "entropy": COMMON | {"rule": Entropy()},
    "structure": COMMON | {"rule": Structure()},
    "kept apart": {"rule": Structure(), "discount": 0.5},
}
K, OVERLAP = 3, 0.5  # archetypes, and the part of a stage over which one gives way to the next


class Config(Federated):
    rounds: Annotated[int, at_least(K)]
    qualities: Annotated[Floats, within("(0, 1)"), "values of r"]
    period: Annotated[int, at_least(K), "rounds of a cycle"]

    @property
    def places(self) -> dict[str, tuple[str, float]]:
        """Name -> schedule of the exposures, and quality."""
        each = product(("sequential", "cyclic"), self.qualities)
        return {f"{schedule}/r={r:g}": (schedule, r) for schedule, r in each}


def drifting_exposures(rounds: int, period: int) -> np.ndarray:
    """Exposures (rounds, K) that drift: archetypes in turn (arXiv:2603.19902, eqs. (22), (23))."""
    position = (np.arange(rounds) % period + 0.5) * K / period
    stage = position.astype(int)
    after = position - stage
    border, half = np.minimum(after, 1 - after), np.full(rounds, 0.5)  # to the border nearby
    own = 0.5 + np.divide(border, OVERLAP, out=half, where=border < OVERLAP / 2)
    other = np.where(after < 0.5, stage - 1, stage + 1)
    made, rows = np.zeros((rounds, K)), np.arange(rounds)
    made[rows, stage] = own
    made[rows, other % K if period < rounds else np.clip(other, 0, K - 1)] += 1 - own
    return made


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    T, xi = config.rounds, rademacher(K, config.N, stream(seed, "drift"))
    variants, truth = {}, dict[str, Any]()
    for at, (schedule, r) in config.places.items():
        own = derive(seed, "drift", schedule)
        shares = drifting_exposures(T, T if schedule == "sequential" else config.period)
        for name, how in VARIANTS.items():
            how = {"ema": 0.5, "quality": r} | how
            variants[f"{at}/{name}"] = make_federation(config, xi, own, shares, **how)
        source: Any = variants[f"{at}/{name}"].source
        exposures = np.array([source.pooled_exposures(t) for t in range(T)])
        seen = r, np.maximum(exposures, 1e-12), config.N, config.clients * config.examples
        truth |= {f"{at}/exposures": exposures, f"{at}/margin": planning.margin(*seen)}
    return play_variants(variants, xi, (seed, config, engine)) | truth


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    ever = np.stack([(arrays[f"{at}/margin"] > 1).any(axis=1) for at in config.places])
    summary: dict[str, Any] = {}
    for name in VARIANTS:
        m = np.stack([arrays[f"{at}/{name}/magnetisation"][:, -1] for at in config.places])
        kept = (ever & (m >= 0.99)).sum(axis=2) / np.maximum(ever.sum(axis=2), 1)
        summary |= {
            f"kept/{name}": mean_and_sd(kept.mean(axis=0)),
            f"lowest/{name}": float(np.nanmin(np.where(ever, m, np.nan))),
            f"false/{name}": int(max(arrays[f"{at}/{name}/false"].max() for at in config.places)),
        }
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    labels, made = [f"archetype {k + 1}" for k in range(K)], []
    called = {n: f"weight {n}" if "=" in n else f"{n} rule" for n in VARIANTS}
    called["kept apart"] = "separate memory"
    for at in reversed(config.places):  # places where variants differ most come first
        held = {("exposure", "share of rows"): arrays[f"{at}/exposures"]}
        held |= {(called[n], "overlap m"): arrays[f"{at}/{n}/magnetisation"] for n in VARIANTS}
        for (title, label), values in held.items():
            lines = split_axis(labels, values, -1)
            made.append(
                round_plot(f"{title}, {at.replace('/', ', ')}", lines, ylabel=label, **UNIT)
            )
    return made
