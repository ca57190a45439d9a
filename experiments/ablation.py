"""Contribution of each ingredient of the recovery from one operator, on one spectrum."""

import math
from functools import partial
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.patterns import (
    Search,
    group_projections,
    joint_candidates,
    search_candidates,
)
from hopfed.archetypes.subspace import Subspace
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import RISING, Floats, Settings, at_least, within
from hopfed.experiments.shared.silhouettes import LETTERS, render_letters
from hopfed.experiments.shared.statistics import counted_spectrum, mean_and_error, stack_cells
from hopfed.figures.kinds import Panel, error_bars
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.memory.layered_memory import LayeredMemory
from hopfed.spectral.operators import FactorOperator

SETTINGS = ("few", "many", "letters")
LEVEL = 0.95  # magnetisation from which an archetype counts as retrieved
GROUPS = 10  # number of random groups, for joint diagonalisation
SERIAL = partial(LayeredMemory, order="serial")
# Algorithm 2 as in its authors' program: synchronous updates with almost no noise, a clamped cue,
# and the self-field kept.
PAPER = partial(LayeredMemory, field=0.1, noise=(0.3, 0.02), noise_over_beta=True, self_field=True)
PROJECTOR = {"settings": ((0.0, 2.5),), "sweeps": 50}  # with the authors' temperature

# Name -> changes of the search; no_layered (signs of eigenvectors) and joint work without it.
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "no_layered": {},
    "joint": {},
    "no_sharpening": {"settings": ((1.0, 3.0), (1.0, 3.5))},
    "no_acceptance": {"slack": math.inf},
    "no_return": {"flips": 0.0},
    "no_merging": {"duplicate": 1.0},
    "no_deflation": {"deflate": False},
    "no_fit": {},
    "unchecked": {"slack": math.inf, "flips": 0.0, "duplicate": 1.0},
    "no_early_stop": {"early_stop": False},
    "self_field": {"memory": SERIAL(layers=1, self_field=True)},
    "repulsion": {"starts": 8, "memory": SERIAL(layers=3)},
    "paper": PROJECTOR | {"starts": 24, "memory": PAPER(layers=3)},
    "paper_one_layer": PROJECTOR | {"starts": 72, "memory": PAPER(layers=1)},
}
# Three layers with repulsion -> one layer with the same dynamics and number of spins.
SINGLE_LAYER = {"repulsion": "no_early_stop", "paper": "paper_one_layer"}
UNFITTED = ("no_fit", "unchecked")  # without the fit of exposures, which drops patterns


class Config(Settings):
    N: Annotated[int, at_least(100), "sites: the pixels of the letters"]
    M: Annotated[int, at_least(50), "examples"]
    few: Annotated[int, at_least(2), "number of random archetypes of unequal exposures"]
    many: Annotated[int, at_least(2), "number of random archetypes of equal exposures"]
    tilt: Annotated[float, at_least(1), "largest over smallest exposure of the few"]
    qualities: Annotated[Floats, within("(0, 1]"), RISING, "values of r"]
    patience: Annotated[int, at_least(1), "passes without a new pattern that end a search"]

    def archetypes(self, setting: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the archetypes (K, N) of a setting and their exposures (K,)."""
        if setting == "letters":
            return render_letters(math.isqrt(self.N)), np.full(len(LETTERS), 1 / len(LETTERS))
        K, tilt = (self.few, self.tilt) if setting == "few" else (self.many, 1.0)
        weights = np.geomspace(tilt, 1.0, K)
        xi = rademacher(K, self.N, stream(seed, "ablation", setting))
        return xi, weights / weights.sum()


def measure(seed: int, config: Config) -> Arrays:
    drawn = {setting: config.archetypes(setting, seed) for setting in SETTINGS}

    def cell(setting: str, quality: float) -> dict[str, Any]:
        rng, (xi, exposures) = stream(seed, "ablation", setting, str(quality)), drawn[setting]
        examples, _ = draw_examples(xi, config.M, quality, rng, exposures=exposures)
        operator, made = FactorOperator.from_examples(examples), dict[str, Any]()
        spectrum, rank = counted_spectrum(operator, config.M)
        space = Subspace.of(spectrum, rank)
        for name, change in VARIANTS.items():
            patterns = np.zeros((0, space.n_sites), np.int8)
            if space.dim and name == "no_layered":
                states = space.polish(np.where(space.vectors.T >= 0, 1, -1))
                patterns = space.merge(states[:0], states[space.accepted(states)])
            elif space.dim and name == "joint":
                groups = group_projections(operator.rows, space.vectors, GROUPS, seed)
                patterns = joint_candidates(space, *groups, rank.variance, seed)
            elif space.dim:
                how = Search(patience=config.patience, reluctance=config.patience, **change)
                patterns = search_candidates(space, how, seed)
            if space.dim and name not in UNFITTED:
                patterns = space.select(patterns)[0]
            score = retrieval(patterns, xi)
            made |= {f"found/{name}": score.found(LEVEL), f"false/{name}": score.false_discoveries}
        return made

    cells = stack_cells([[cell(setting, r) for r in config.qualities] for setting in SETTINGS])
    return cells | {"n_archetypes": np.array([len(xi) for xi, _ in drawn.values()])}


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:  # noqa: ARG001
    K = arrays["n_archetypes"][..., None]
    found = {name: arrays[f"found/{name}"] / K for name in VARIANTS}
    held = {f"gain_{name}": found[name] - found[alone] for name, alone in SINGLE_LAYER.items()}
    held["found_full"] = found["full"]
    for name in VARIANTS:
        both = {"lost": found["full"] - found[name], "false": arrays[f"false/{name}"] / K}
        for kind, values in both.items():
            held[f"{kind}_{name}"] = values
            parts = zip(SETTINGS, np.moveaxis(values, 1, 0), strict=True)
            held |= {f"{kind}_{name}_{setting}": part for setting, part in parts}
    return {n: mean_and_error(v.reshape(len(v), -1).mean(axis=1)) for n, v in held.items()}


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    labels = f"{config.few} random", f"{config.many} random", "26 letters"
    less, made = [n for n in VARIANTS if n != "full"], []
    for title, kind in (("lost against the full recovery", "lost"), ("false", "false")):
        pairs = [[summary[f"{kind}_{n}_{s}"] for n in less] for s in SETTINGS]
        held = np.nan_to_num(np.array(pairs, float)).transpose(0, 2, 1)  # one seed has no error
        marks = {label: tuple(pair) for label, pair in zip(labels, held, strict=True)}
        rows = [n.replace("_", " ") for n in less]
        made.append(error_bars(f"{title}, part of K", rows, marks, level=0.0))
    return made
