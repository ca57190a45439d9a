"""What each ingredient of the recovery from one operator contributes (theory/NOTES.md, the search).

All variants get one spectrum: of few archetypes of unequal exposures, many of equal ones, letters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.archetypes.factorize import (
    Search,
    group_projections,
    joint_candidates,
    search_candidates,
)
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.subspace import Subspace, accepted, merge, select
from hopfed.experiments import Arrays
from hopfed.experiments.settings import RISING, Floats, Rule, Settings, at_least, within
from hopfed.experiments.shared.silhouettes import LETTERS, render_letters
from hopfed.experiments.shared.statistics import counted_spectrum, mean_and_error, stacked
from hopfed.figures.kinds import UNIT, Panel, over, paired
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.memory.layered import LayeredMemory
from hopfed.spectral.operators import FactorOperator
from hopfed.theory import spikes

SETTINGS = ("few", "many", "letters")
LEVEL = 0.95  # magnetisation from which an archetype counts as retrieved
GROUPS = 10  # random ones, for joint diagonalisation
SERIAL = partial(LayeredMemory, order="serial")
# Algorithm 2 as in its authors' program: synchronous updates with almost no noise, a clamped cue,
# and the self-field kept.
PAPER = partial(LayeredMemory, field=0.1, noise=(0.3, 0.02), noise_over_beta=True, self_field=True)
PROJECTOR = {"settings": ((0.0, 2.5),), "sweeps": 50}  # with the authors' temperature


@dataclass(frozen=True)
class Variant:
    """A recovery with one ingredient omitted or replaced."""

    change: Mapping[str, Any] = field(default_factory=dict)
    source: str = "search"
    fit: bool = True


UNPRUNED = {"slack": math.inf, "flips": 0.0, "duplicate": 1.0}
VARIANTS = {
    "full": Variant(),
    "no_layered": Variant(source="eigenvectors"),
    "joint": Variant(source="joint"),
    "no_sharpening": Variant({"settings": ((1.0, 3.0), (1.0, 3.5))}),
    "no_acceptance": Variant({"slack": math.inf}),
    "no_return": Variant({"flips": 0.0}),
    "no_merging": Variant({"duplicate": 1.0}),
    "no_deflation": Variant({"deflate": False}),
    "no_fit": Variant(fit=False),
    "unchecked": Variant(UNPRUNED, fit=False),
    "no_early_stop": Variant({"early_stop": False}),
    "self_field": Variant({"memory": SERIAL(layers=1, self_field=True)}),
    "repulsion": Variant({"starts": 8, "memory": SERIAL(layers=3)}),
    "paper": Variant(PROJECTOR | {"starts": 24, "memory": PAPER(layers=3)}),
    "paper_one_layer": Variant(PROJECTOR | {"starts": 72, "memory": PAPER(layers=1)}),
}
# Three layers with repulsion -> one layer with the same dynamics and number of spins.
SINGLE_LAYER = {"repulsion": "no_early_stop", "paper": "paper_one_layer"}

SQUARE = Rule(lambda n: n >= 100 and math.isqrt(n) ** 2 == n, "a square, at least 100")


def some(config: Any) -> Rule:
    """Archetypes, of which a few examples each are there."""
    return within(f"[2, {min(config.N, config.M) // 4}]")


class Config(Settings):
    """Settings."""

    N: Annotated[int, SQUARE, "sites: the pixels of the letters"] = 400
    M: Annotated[int, at_least(50), "examples"] = 2000
    few: Annotated[int, some, "random archetypes, of unequal exposures"] = 15
    many: Annotated[int, some, "of equal ones"] = 40
    tilt: Annotated[float, at_least(1), "largest over smallest exposure of the few"] = 4.0
    qualities: Annotated[Floats, within("(0, 1]"), RISING, "values of r"] = (
        0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    )  # fmt: skip
    patience: Annotated[int, at_least(1), "passes without a find that end a search"] = 3
    seeds: int = 5

    def archetypes(self, setting: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the archetypes (K, N) of a setting and their exposures (K,)."""
        if setting == "letters":
            return render_letters(math.isqrt(self.N)), np.full(len(LETTERS), 1 / len(LETTERS))
        K, tilt = (self.few, self.tilt) if setting == "few" else (self.many, 1.0)
        weights = np.geomspace(tilt, 1.0, K)
        xi = rademacher(K, self.N, stream(seed, "ablation", setting))
        return xi, weights / weights.sum()


def measure(seed: int, config: Config) -> Arrays:
    """Recover with every variant at every setting and quality."""
    rows, sizes = [], []
    for setting in SETTINGS:
        xi, exposures = config.archetypes(setting, seed)
        rows.append([_cell(config, setting, xi, exposures, r, seed) for r in config.qualities])
        sizes.append(len(xi))
    return stacked(rows) | {"n_archetypes": np.array(sizes)}


def _cell(
    config: Config, setting: str, xi: np.ndarray, exposures: np.ndarray, quality: float, seed: int
) -> dict[str, Any]:
    """Results of one draw: its spectrum, every variant on it, and what theory predicts."""
    rng = stream(seed, "ablation", setting, str(quality))
    examples, labels = draw_examples(xi, config.M, quality, rng, exposures=exposures)
    operator = FactorOperator.from_examples(examples)
    spectrum, rank = counted_spectrum(operator, config.M)
    space = Subspace.of(spectrum, rank)
    shares = np.bincount(labels, minlength=len(xi)) / config.M
    theory = spikes.finite_size(xi, shares, min(quality, 1 - 1e-6), config.M)
    cell: dict[str, Any] = {"n_detected": rank.n_detected, "detectable": theory.rank}
    for name, variant in VARIANTS.items():
        patterns = np.zeros((0, space.n_sites), np.int8)
        if space.dim and variant.source == "search":
            how = Search(patience=config.patience, reluctance=config.patience, **variant.change)
            patterns = search_candidates(space, how, seed)
        elif space.dim and variant.source == "joint":
            groups = group_projections(operator.rows, space.vectors, GROUPS, seed)
            patterns = joint_candidates(space, *groups, rank.variance, seed)
        elif space.dim:
            states = space.polish(np.where(space.vectors.T >= 0, 1, -1))
            patterns = merge(space, states[:0], states[accepted(space, states)])
        if space.dim and variant.fit:
            patterns = select(space, patterns)[0]
        score = retrieval(patterns, xi)
        cell |= {f"found/{name}": score.found(LEVEL), f"false/{name}": score.false_discoveries}
    return cell


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:  # noqa: ARG001
    """Means over settings and qualities with standard errors over seeds; losses are paired."""
    K = arrays["n_archetypes"][..., None]
    found = {name: arrays[f"found/{name}"] / K for name in VARIANTS}
    summary: dict[str, Any] = {"found_full": _mean(found["full"])}
    for name, alone in SINGLE_LAYER.items():
        summary[f"gain_{name}"] = _mean(found[name] - found[alone])
    for name in VARIANTS:
        both = {"lost": found["full"] - found[name], "false": arrays[f"false/{name}"] / K}
        for what, values in both.items():
            summary[f"{what}_{name}"] = _mean(values)
            for s, setting in enumerate(SETTINGS):
                summary[f"{what}_{name}_{setting}"] = _mean(values[:, s])
    return summary


def _mean(values: np.ndarray) -> tuple[float, float | None]:
    """Mean and its standard error over seeds, the first axis."""
    return mean_and_error(values.reshape(len(values), -1).mean(axis=1))


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    """What is lost and falsely reported without each ingredient, and what the whole retrieves."""
    labels = f"{config.few} random", f"{config.many} random", "26 letters"
    less, made = [n for n in VARIANTS if n != "full"], []
    for title, what in (("lost against the full recovery", "lost"), ("false", "false")):
        marks = {}
        for setting, label in zip(SETTINGS, labels, strict=True):
            pairs = [summary[f"{what}_{n}_{setting}"] for n in less]
            marks[label] = tuple(np.array([[x or 0 for x in pair] for pair in pairs]).T)
        rows = [n.replace("_", " ") for n in less]
        made.append(paired(f"{title}, part of K", rows, marks, level=0.0))
    for i, label in enumerate(labels):
        K = arrays["n_archetypes"][0, i]
        held = {"retrieved, full": "found/full", "retrieved, no LAM": "found/no_layered"}
        held["false, full"] = "false/full"
        lines = {name: arrays[key][:, i] / K for name, key in held.items()}
        best = {"foreseen": arrays["detectable"][:, i].mean(axis=0) / K}
        words: dict[str, Any] = {"xlabel": "quality r", "ylabel": "part of K"} | UNIT
        made.append(over(label, config.qualities, lines, best, **words))
    return made
