"""Ablation: the effect of each ingredient of the recovery from one operator.

The recovery is the search of theory/NOTES.md, "Search with one operator", "Closed form of dreaming"
and "Layered associative memory"; the paper is arXiv:2603.19902. Each variant omits or replaces one
thing. All variants get the same spectrum, in three settings: 15 random archetypes of exposures 4:1,
40 of equal exposures, and 26 letters, whose overlaps reach .88. r runs from .1 to 1; theory gives
the r at which the weakest direction leaves the bulk. Every variant gives up after three passes
without a find. Archetypes and labels are used only to score.

Measured (paper preset, 20 seeds). Numbers are parts of K, means over settings and r, +- standard
error over seeds; losses are paired. All archetypes are counted from the first r of the grid above
the onset: .3, .4 and .74 +- .01; theory has .197, .289 and .628. The full recovery retrieves .688
+- .002 and makes .043 +- .001 false discoveries; 99.9% of these are in draws in which it misses
archetypes.

- Without the LAM .412 +- .003 are lost. Without deflation .221 +- .003 are lost, and the search
  takes over twice as long. These two matter most. Ten groups with joint diagonalisation gain .009
  +- .001.
- Sharpening matters most for letters, whose overlaps spread the spectrum: without it .100 +- .017
  of them are lost, nearly half at r = 1; of 40 random archetypes .019 +- .005.
- A rest state must return after some of its sites are flipped. This test identifies archetypes just
  above the onset: of 40 at r = .4 the recovery retrieves 28.6 +- .8 with 2.8 false, and without the
  test 19.4 +- 2.3 with 11.3; over all settings .009 +- .001. With this test in place, the test of
  scores does not change retrieval, .003 +- .002, but prevents false letters: .003 instead of .056.
  Keeping duplicates costs .004 +- .001.
- The exposure fit does not improve retrieval. Without it false discoveries rise to .051; without
  pruning too, to .191 (letters: from .003 to .007 and .191). So pruning has most of the effect.
- The early stop halves the time, but misses more letters just below the onset: at r = .5 it finds
  15.3 +- 1.4 of 26, and 19.1 +- .4 are found without it.
- Keeping the self-field costs nothing in serial updates: .000 +- .002 compared with no early stop.
- Repulsion, L = 3 against L = 1 with as many spins, gains .012 +- .002 in the serial heat bath, all
  of it near the onset (letters at r = .5: 19.9 of 26 against 15.3). In the paper's LAM it gains
  -.006 +- .002. The paper's LAM, within our search, loses .019 +- .003 and has more false letters,
  .027.

Run it with ``hopfed run ablation --preset paper --out ablation.h5``. CPU seconds are measured, so
they differ from run to run; all other numbers in the file are reproducible.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.archetypes.annealed_search import Search, search_candidates
from hopfed.archetypes.joint_diagonalization import (
    JointDiagonalization,
    group_projections,
    joint_candidates,
)
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.selection import accepted, merge, select
from hopfed.archetypes.subspace import Subspace
from hopfed.experiments import Arrays, Measure, Record
from hopfed.experiments.shared.letters import LETTERS, render_letters
from hopfed.experiments.shared.statistics import with_spread
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.memory.layered import LayeredMemory
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import RankEstimate, TracyWidom
from hopfed.theory import planning, spikes

SETTINGS = ("few", "many", "letters")
LEVEL = 0.95  # magnetisation from which an archetype counts as retrieved

SERIAL = partial(LayeredMemory, order="serial")
# Algorithm 2 as in its authors' program: synchronous updates with almost no noise, a clamped cue,
# and the self-field kept.
PAPER = partial(LayeredMemory, field=0.1, noise=(0.3, 0.02), noise_over_beta=True, self_field=True)


@dataclass(frozen=True)
class Variant:
    """A recovery with one ingredient omitted or replaced.

    Attributes
    ----------
    label : description.
    change : fields of `Search` that differ from those of the full recovery.
    source : source of the candidates: "search", "eigenvectors" or "joint".
    fit : whether the exposure fit decides which candidates are kept.
    """

    label: str
    change: Mapping[str, Any] = field(default_factory=dict)
    source: str = "search"
    fit: bool = True


def _as_in_the_paper(label: str, memory: LayeredMemory) -> Variant:
    """Variant with the authors' memory and temperature in the projector.

    A pass makes as many updates as in the full search: 72 layers 50 times, or 24 memories 150
    times.
    """
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
class Config:
    """Settings.

    Attributes
    ----------
    N : sites, a square number, because the letters have N pixels.
    M : examples.
    few, many : numbers of random archetypes; the few have unequal exposures.
    tilt : ratio of the largest to the smallest exposure of the few.
    qualities : values of r, rising, in (0, 1].
    patience : passes of the search without a find before it gives up.
    seeds : draws.
    """

    N: int = 400
    M: int = 2000
    few: int = 15
    many: int = 40
    tilt: float = 4.0
    qualities: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    patience: int = 3
    seeds: int = 5

    def __post_init__(self) -> None:
        check_types(self)
        square = self.N >= 100 and math.isqrt(self.N) ** 2 == self.N
        require(square, "N", "a square, at least 100", self.N)
        require(self.M >= 50, "M", "at least 50", self.M)
        for name in ("few", "many"):
            most = min(self.N, self.M) // 4
            require(2 <= getattr(self, name) <= most, name, f"2 to {most}", getattr(self, name))
        require(self.tilt >= 1, "tilt", "at least 1", self.tilt)
        r = self.qualities
        rising = all(a < b for a, b in pairwise(r))
        require(rising and r[0] > 0 and r[-1] <= 1, "qualities", "rising, in (0, 1]", r)
        require(self.patience >= 1, "patience", "at least 1", self.patience)
        require(self.seeds >= 1, "seeds", "at least 1", self.seeds)

    def archetypes(self, setting: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the archetypes (K, N) of a setting and their exposures (K,)."""
        if setting == "letters":
            return render_letters(math.isqrt(self.N)), np.full(len(LETTERS), 1 / len(LETTERS))
        K, tilt = (self.few, self.tilt) if setting == "few" else (self.many, 1.0)
        weights = np.geomspace(tilt, 1.0, K)
        xi = rademacher(K, self.N, stream(seed, "ablation", setting))
        return xi, weights / weights.sum()


PRESETS = {
    "quick": Config(N=196, M=800, few=6, many=15, qualities=(0.3, 0.6, 1.0), patience=2, seeds=2),
    "default": Config(),
    "paper": Config(seeds=20),
}

RECORD = Record(
    claim="each ingredient of the recovery from one operator, and the loss without it",
    source="hopfield federation, supplement",
    minutes={"quick": 0.2, "default": 1.2, "paper": 5},
    measures={
        **{f"onset_{s}": Measure(f"theory sees all from r = : {s}") for s in SETTINGS},
        **{f"counted_{s}": Measure(f"all counted from r = : {s}") for s in SETTINGS},
        "found_full": Measure("part retrieved, all settings and r: full"),
        **{
            f"lost_{name}": Measure(f"lost against full: {variant.label}")
            for name, variant in VARIANTS.items()
            if name != "full"
        },
        "gain_repulsion": Measure("gained by L = 3 with repulsion over L = 1"),
        "gain_paper": Measure("gained by L = 3 with repulsion over L = 1, paper's LAM"),
        **{
            f"false_{name}": Measure(f"false discoveries over K: {variant.label}")
            for name, variant in VARIANTS.items()
        },
    },
)


def run(config: Config, seed: int) -> Arrays:
    """Recover with every variant at every setting and quality.

    Scores are named ``measure/variant``. The axes are (setting, quality); ``n_archetypes`` is
    (setting,), and ``onset`` (setting, 2) holds the values of r from which theory predicts that
    the first archetype, and that all archetypes, are detectable.
    """
    rows, n_archetypes, onset = [], [], []
    for setting in SETTINGS:
        xi, exposures = config.archetypes(setting, seed)
        rows.append([_cell(config, setting, xi, exposures, r, seed) for r in config.qualities])
        n_archetypes.append(len(xi))
        onset.append(_onset(config, xi, exposures))
    arrays = {name: np.array([[c[name] for c in row] for row in rows]) for name in rows[0][0]}
    return arrays | {"n_archetypes": np.array(n_archetypes), "onset": np.array(onset)}


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
        cell[f"found/{name}"] = score.found(LEVEL)
        cell[f"false/{name}"] = score.false_discoveries
        cell[f"magnetisation/{name}"] = score.magnetisation.mean()
        cell[f"matched/{name}"] = score.matched.mean()
        cell[f"frobenius/{name}"] = score.frobenius
        cell[f"kept/{name}"] = len(patterns)
        cell[f"candidates/{name}"] = candidates
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
        joint = JointDiagonalization()
        groups = group_projections(evidence.operator.rows, space.vectors, joint.groups, seed)
        candidates = joint_candidates(space, *groups, evidence.rank.variance, joint, seed)
    else:
        states = space.polish(np.where(space.vectors.T >= 0, 1, -1))
        candidates = merge(space, states[:0], states[accepted(space, states)])
    kept = select(space, candidates)[0] if variant.fit else candidates
    return kept, len(candidates)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Means over settings and qualities with standard errors over seeds; losses are paired.

    In addition to the rows of the record, keys such as ``lost_..._letters`` hold a single setting.
    Each variant also has its mean magnetisation, patterns kept over K, and CPU seconds.
    """
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
