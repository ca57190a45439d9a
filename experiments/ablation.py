"""Ablation: the effect of each ingredient of the recovery from one operator.

Each variant of the search of theory/NOTES.md omits or replaces one thing. All get one spectrum, in
three settings: few random archetypes of unequal exposures, many of equal ones, and 26 letters.
Theory gives the r at which the weakest direction leaves the bulk. CPU seconds are measured, so they
differ from run to run. The paper is arXiv:2603.19902.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.archetypes.annealed_search import Search, search_candidates
from hopfed.archetypes.joint_diagonalization import (
    group_projections,
    joint_candidates,
)
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.subspace import Subspace, accepted, merge, select
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Settings, at_least, within
from hopfed.experiments.shared.letters import LETTERS, render_letters
from hopfed.experiments.shared.statistics import stacked, with_spread
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.memory.layered import LayeredMemory
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import RankEstimate, TracyWidom
from hopfed.theory import planning, spikes

SETTINGS = ("few", "many", "letters")
LEVEL = 0.95  # magnetisation from which an archetype counts as retrieved
GROUPS = 10  # random ones, for joint diagonalisation
SERIAL = partial(LayeredMemory, order="serial")
# Algorithm 2 as in its authors' program: synchronous updates with almost no noise, a clamped cue,
# and the self-field kept.
PAPER = partial(LayeredMemory, field=0.1, noise=(0.3, 0.02), noise_over_beta=True, self_field=True)


@dataclass(frozen=True)
class Variant:
    """A recovery with one ingredient omitted or replaced."""

    label: str
    change: Mapping[str, Any] = field(default_factory=dict)
    source: str = "search"
    fit: bool = True


def _as_in_the_paper(label: str, memory: LayeredMemory) -> Variant:
    """Variant with the authors' memory and temperature in the projector."""
    starts = 72 // memory.layers
    change = {"settings": ((0.0, 2.5),), "starts": starts, "sweeps": 50, "memory": memory}
    return Variant(label, change)


UNPRUNED = {"slack": math.inf, "flips": 0.0, "duplicate": 1.0}
VARIANTS = {
    "full": Variant("full"),
    "no_layered": Variant("no LAM", source="eigenvectors"),
    "joint": Variant("joint, ten groups", source="joint"),
    "no_sharpening": Variant("no sharpening", {"settings": ((1.0, 3.0), (1.0, 3.5))}),
    "no_acceptance": Variant("no acceptance test", {"slack": math.inf}),
    "no_return": Variant("rest states not disturbed", {"flips": 0.0}),
    "no_merging": Variant("duplicates kept", {"duplicate": 1.0}),
    "no_deflation": Variant("no deflation", {"deflate": False}),
    "no_fit": Variant("no exposure fit", fit=False),
    "unchecked": Variant("no pruning and no fit", UNPRUNED, fit=False),
    "no_early_stop": Variant("no early stop", {"early_stop": False}),
    "self_field": Variant("self-field kept", {"memory": SERIAL(layers=1, self_field=True)}),
    "repulsion": Variant("L = 3, repulsion", {"starts": 8, "memory": SERIAL(layers=3)}),
    "paper": _as_in_the_paper("paper's LAM, L = 3", PAPER(layers=3)),
    "paper_one_layer": _as_in_the_paper("paper's LAM, L = 1", PAPER(layers=1)),
}
# Three layers with repulsion -> one layer with the same dynamics and number of spins.
SINGLE_LAYER = {"repulsion": "no_early_stop", "paper": "paper_one_layer"}


@dataclass(frozen=True)
class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(100), "sites, a square: the pixels of the letters"] = 400
    M: Annotated[int, at_least(50), "examples"] = 2000
    few: Annotated[int, at_least(2), "random archetypes, of unequal exposures"] = 15
    many: Annotated[int, at_least(2), "of equal ones"] = 40
    tilt: Annotated[float, at_least(1), "largest over smallest exposure of the few"] = 4.0
    qualities: Annotated[Floats, within("(0, 1]", rising=True), "values of r"] = (
        0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    )  # fmt: skip
    patience: Annotated[int, at_least(1), "passes without a find that end a search"] = 3
    seeds: int = 5

    def validate(self) -> None:
        """Refuse sites that are no square, and too many archetypes."""
        require(math.isqrt(self.N) ** 2 == self.N, "N", "a square, at least 100", self.N)
        most = min(self.N, self.M) // 4
        for name in ("few", "many"):
            require(getattr(self, name) <= most, name, f"2 to {most}", getattr(self, name))

    def archetypes(self, setting: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the archetypes (K, N) of a setting and their exposures (K,)."""
        if setting == "letters":
            return render_letters(math.isqrt(self.N)), np.full(len(LETTERS), 1 / len(LETTERS))
        K, tilt = (self.few, self.tilt) if setting == "few" else (self.many, 1.0)
        weights = np.geomspace(tilt, 1.0, K)
        xi = rademacher(K, self.N, stream(seed, "ablation", setting))
        return xi, weights / weights.sum()


PRESETS = {
    "quick": {
        "N": 196, "M": 800, "few": 6, "many": 15, "qualities": (0.3, 0.6, 1.0), "patience": 2,
        "seeds": 2,
    },
    "default": {},
    "paper": {"seeds": 20},
}  # fmt: skip
MINUTES = {"quick": 0.2, "default": 1.2, "paper": 5}
_LESS = {name: variant.label for name, variant in VARIANTS.items() if name != "full"}
COMPARED = {
    **{f"onset_{s}": f"theory sees all from r = : {s}" for s in SETTINGS},
    **{f"counted_{s}": f"all counted from r = : {s}" for s in SETTINGS},
    "found_full": "part retrieved, all settings and r: full",
    **{f"lost_{name}": f"lost against full: {label}" for name, label in _LESS.items()},
    "gain_repulsion": "gained by L = 3 with repulsion over L = 1",
    "gain_paper": "gained by L = 3 with repulsion over L = 1, paper's LAM",
    **{f"false_{n}": f"false discoveries over K: {v.label}" for n, v in VARIANTS.items()},
}


def measure(seed: int, config: Config) -> Arrays:
    """Recover with every variant at every setting and quality."""
    rows, n_archetypes, onset = [], [], []
    for setting in SETTINGS:
        xi, exposures = config.archetypes(setting, seed)
        rows.append([_cell(config, setting, xi, exposures, r, seed) for r in config.qualities])
        n_archetypes.append(len(xi))
        onset.append(_onset(config, xi, exposures))
    return stacked(rows) | {"n_archetypes": np.array(n_archetypes), "onset": np.array(onset)}


def _onset(config: Config, xi: np.ndarray, exposures: np.ndarray) -> np.ndarray:
    """Values of r at which the strongest and the weakest spike leave the bulk."""
    units = np.sqrt(exposures / config.N)[:, None] * xi
    ends = np.linalg.svd(units, compute_uv=False)[[0, -1]] ** 2
    return planning.minimal_quality(ends, config.N, config.M)


def _cell(
    config: Config, setting: str, xi: np.ndarray, exposures: np.ndarray, quality: float, seed: int
) -> dict[str, Any]:
    """Results of one draw: its spectrum, every variant on it, and the best possible result."""
    rng = stream(seed, "ablation", setting, str(quality))
    examples, labels = draw_examples(xi, config.M, quality, rng, exposures=exposures)
    evidence = Evidence.of(examples)
    cell: dict[str, Any] = {"n_detected": evidence.rank.n_detected}
    for name, variant in VARIANTS.items():
        start = time.process_time()  # CPU time, because other programs disturb wall-clock time
        patterns, candidates = recover_by(variant, evidence, config.patience, seed)
        cell[f"seconds/{name}"] = time.process_time() - start
        score = retrieval(patterns, xi)
        measured = {
            "found": score.found(LEVEL), "false": score.false_discoveries,
            "magnetisation": score.magnetisation.mean(), "matched": score.matched.mean(),
            "frobenius": score.frobenius, "kept": len(patterns), "candidates": candidates,
        }  # fmt: skip
        cell |= {f"{what}/{name}": value for what, value in measured.items()}
    return cell | _at_best(xi, examples, labels, quality)


def _at_best(
    xi: np.ndarray, examples: np.ndarray, labels: np.ndarray, quality: float
) -> dict[str, int]:
    """Numbers of archetypes that theory predicts, and that true labels would retrieve."""
    M, K = len(labels), len(xi)
    shares = np.bincount(labels, minlength=K) / M
    theory = spikes.finite_size(xi, shares, min(quality, 1 - 1e-6), M)
    means = np.where(np.eye(K)[labels].T @ examples >= 0, 1, -1)
    return {"detectable": theory.rank, "labelled": int(((means * xi).mean(axis=1) >= LEVEL).sum())}


@dataclass(frozen=True)
class Evidence:
    """Input of the search: operator, count, signal subspace."""

    operator: FactorOperator
    rank: RankEstimate
    space: Subspace

    @classmethod
    def of(cls, examples: np.ndarray) -> Evidence:
        """Count the spectrum of the examples' operator, as `recover` does."""
        operator, rule = FactorOperator.from_examples(examples), TracyWidom()
        ranks: list[RankEstimate] = []  # keeps the rule's one call, as costly as the spectrum

        def count(values: np.ndarray, complete: bool) -> int:
            M, N = examples.shape
            ranks.append(rule(Sample(values, N, M, complete)))
            return ranks[-1].n_detected

        spectrum = eigenpairs(operator, count)
        return cls(operator, ranks[-1], Subspace.of(spectrum, ranks[-1]))


def recover_by(
    variant: Variant, evidence: Evidence, patience: int, seed: int
) -> tuple[np.ndarray, int]:
    """Patterns (C, N) that a variant keeps, and the number of its candidates."""
    space = evidence.space
    if space.dim == 0:
        return np.zeros((0, space.n_sites), np.int8), 0
    if variant.source == "search":
        search = Search(patience=patience, reluctance=patience, **variant.change)
        candidates = search_candidates(space, search, seed)
    elif variant.source == "joint":
        groups = group_projections(evidence.operator.rows, space.vectors, GROUPS, seed)
        candidates = joint_candidates(space, *groups, evidence.rank.variance, seed)
    else:
        states = space.polish(np.where(space.vectors.T >= 0, 1, -1))
        candidates = merge(space, states[:0], states[accepted(space, states)])
    kept = select(space, candidates)[0] if variant.fit else candidates
    return kept, len(candidates)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Means over settings and qualities with standard errors over seeds; losses are paired."""
    K = arrays["n_archetypes"][..., None]
    full = arrays["found/full"] / K
    counted = _from_quality(config, arrays["n_detected"] >= K)
    summary: dict[str, Any] = {"found_full": _mean(full)}
    for s, setting in enumerate(SETTINGS):
        summary[f"onset_{setting}"] = _mean(arrays["onset"][:, s, 1])
        always = np.isfinite(counted[:, s]).all()
        summary[f"counted_{setting}"] = _mean(counted[:, s]) if always else None
    for name, alone in SINGLE_LAYER.items():
        gain = arrays[f"found/{name}"] - arrays[f"found/{alone}"]
        summary[f"gain_{name}"] = _mean(gain / K)
    for name in VARIANTS:
        by_setting = {
            "lost": full - arrays[f"found/{name}"] / K,
            "false": arrays[f"false/{name}"] / K,
        }
        for what, values in by_setting.items():
            summary[f"{what}_{name}"] = _mean(values)
            for s, setting in enumerate(SETTINGS):
                summary[f"{what}_{name}_{setting}"] = _mean(values[:, s])
        summary[f"magnetisation_{name}"] = _mean(arrays[f"magnetisation/{name}"])
        summary[f"kept_{name}"] = _mean(arrays[f"kept/{name}"] / K)
        summary[f"seconds_{name}"] = _mean(arrays[f"seconds/{name}"])
    return summary


def _from_quality(config: Config, holds: np.ndarray) -> np.ndarray:
    """Smallest quality from which `holds` is always True; infinite if the last one is False."""
    onward = np.logical_and.accumulate(holds[..., ::-1], axis=-1)[..., ::-1]
    return np.where(onward, np.array(config.qualities), np.inf).min(axis=-1)


def _mean(values: np.ndarray) -> tuple[float, float | None]:
    """Mean and its standard error over seeds, the first axis."""
    return with_spread(lambda seeds: float(values[seeds].mean()), len(values))
