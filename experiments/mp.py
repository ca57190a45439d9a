"""Pure noise: the bulk follows the Marchenko-Pastur law, and thresholds keep their level.

Nulls hold no archetype: independent +-1 entries, on which the rules of `hopfed.spectral.rank` run
as for a user, or Gaussian ones, for which the quantiles of the law are the thresholds. The edge has
no level of its own; its rate is compared with that of the Tracy-Widom law. Source:
arXiv:2603.19902, Section 4.1 and Appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import derive, stream
from hopfed._lib.settings import require
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Settings, above, at_least
from hopfed.experiments.shared.statistics import kolmogorov, mean_and_sd, stacked, wilson
from hopfed.hopfield.channel import rademacher
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import MarchenkoPastur, RankRule, Shuffle, TracyWidom
from hopfed.theory import marchenko_pastur, tracy_widom

KINDS = ("signs", "gaussian")
LEVELS = (0.01, 0.05)
BINS = 60  # bins of the histograms, from 0 to 1.1 times the upper edge


@dataclass(frozen=True)
class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(10), "sites where the whole spectrum is compared"] = 500
    N_test: Annotated[int, at_least(10), "sites of the nulls that are tested"] = 100
    ratios: Annotated[Floats, above(0), "aspect ratios q = N / M"] = (0.1, 0.5, 1.0, 4.0)
    nulls: Annotated[int, at_least(1), "per seed, ratio and kind"] = 25
    shuffle: Annotated[bool, "test the shuffle rule, which takes nearly all the time"] = True
    seeds: int = 20

    def validate(self) -> None:
        """Refuse nulls of too few examples."""
        fewest = min(self.N, self.N_test) / max(self.ratios)
        require(fewest >= 8, "ratios", "such that N / q is at least 8", self.ratios)

    def samples(self, N: int) -> list[int]:
        """M for each ratio, rounded."""
        return [round(N / q) for q in self.ratios]


PRESETS = {
    "quick": {"N": 200, "N_test": 50, "ratios": (0.5, 4.0), "nulls": 3, "seeds": 4},
    "default": {},
    "paper": {"nulls": 100},
}
MINUTES = {"quick": 0.2, "default": 4, "paper": 15}
_RULES = (("tw", "Tracy-Widom", KINDS), ("shuffle", "shuffle", ("signs",)))
COMPARED = {
    "distance_signs": "mean Kolmogorov distance to the law, +-1",
    "distance_gaussian": "mean Kolmogorov distance to the law, Gaussian",
    **{
        f"{rule}_{kind}_{at:g}": (f"{words} at {at:.0%}, {kind}: farthest rate", "", f"{at:g}")
        for rule, words, kinds in _RULES
        for kind in kinds
        for at in LEVELS
    },
    "unshifted_signs_0.05": "Tracy-Widom at 5% without +-1 shift: farthest rate",
    "mp_excess": ("MP edge, rate minus the law's: farthest", "", "0"),
}


def measure(seed: int, config: Config) -> Arrays:
    """Spectra and tests of one seed; axes are (kind, ratio, ...)."""
    bulk = [[_bulk(config, kind, M, seed) for M in config.samples(config.N)] for kind in KINDS]
    tests = [_tests(config, M, seed) for M in config.samples(config.N_test)]
    gaussian = [_tops(config, M, seed) for M in config.samples(config.N_test)]
    found = stacked(tests)
    return {
        "distance": np.array([[d for d, _ in row] for row in bulk]),
        "histogram": np.array([[h for _, h in row] for row in bulk]),
        "bins": np.stack([bins(config.N / M) for M in config.samples(config.N)]),
        "tops": np.stack([found.pop("tops"), np.stack(gaussian)]),
        **found,
    }


def operator(kind: str, M: int, N: int, rng: np.random.Generator) -> FactorOperator:
    """Operator of a null with M rows and N sites."""
    if kind == "signs":
        return FactorOperator.from_examples(rademacher(M, N, rng))
    return FactorOperator(N, float(M), float(M), rng.standard_normal((M, N)), np.ones(M))


def bins(q: float) -> np.ndarray:
    """(BINS + 1,) edges of the histogram for ratio q."""
    return np.linspace(0, 1.1 * float(marchenko_pastur.edges(q)[1]), BINS + 1)


def _bulk(config: Config, kind: str, M: int, seed: int) -> tuple[float, np.ndarray]:
    values = eigenpairs(operator(kind, M, config.N, stream(seed, "mp", kind, M)), 0).values
    nonzero = values[: min(M, config.N)][::-1]
    q = config.N / M
    levels = marchenko_pastur.cdf(nonzero, q)
    distance = kolmogorov(nonzero, levels, zeros=config.N - len(nonzero))
    return distance, np.histogram(nonzero, bins(q))[0]


def _tops(config: Config, M: int, seed: int) -> np.ndarray:
    """Largest eigenvalues of the Gaussian nulls, (nulls,)."""
    rng = stream(seed, "mp", "test", "gaussian", M)
    nulls = (operator("gaussian", M, config.N_test, rng) for _ in range(config.nulls))
    return np.array([eigenpairs(null, 0).values[0] for null in nulls])


def _tests(config: Config, M: int, seed: int) -> Arrays:
    """Largest eigenvalues of the +-1 nulls, and the alarms of each rule on each null."""
    rng = stream(seed, "mp", "test", "signs", M)
    rows = []
    for i in range(config.nulls):
        null = operator("signs", M, config.N_test, rng)
        spectrum = eigenpairs(null, 0)
        sample = Sample(spectrum.values, config.N_test, M, spectrum.complete, operators=(null,))
        rules = _rules(config, derive(seed, "mp", "shuffle", M, i))
        alarms = {name: rule(sample).n_detected > 0 for name, rule in rules.items()}
        rows.append({"tops": spectrum.values[0], **alarms})
    return stacked(rows)


def _rules(config: Config, seed: int) -> dict[str, RankRule]:
    rules: dict[str, RankRule] = {"mp": MarchenkoPastur()}
    for level in LEVELS:
        rules[f"tw_{level:g}"] = TracyWidom(level)
        if config.shuffle:
            repeats = round(1 / level) - 1
            rules[f"shuffle_{level:g}"] = Shuffle(level, repeats=repeats, seed=seed)
    return rules


def rates(config: Config, arrays: Arrays) -> dict[str, np.ndarray]:
    """Share of alarms for each ratio, by rule, kind and level; and `mp_expected` for both kinds."""
    table = {}
    for name, alarms in arrays.items():
        if name.startswith(("tw_", "shuffle_")):
            rule, _, percent = name.partition("_")
            table[f"{rule}_signs_{percent}"] = alarms.mean(axis=(0, 2))
    M = np.array(config.samples(config.N_test), dtype=float)
    centre, scale = tracy_widom.wishart_scaling(M, config.N_test)
    for level in LEVELS:
        threshold = (centre + scale * float(tracy_widom.isf(level))) / M
        above = (arrays["tops"] > threshold[:, None]).mean(axis=(0, 3))
        table[f"unshifted_signs_{level:g}"], table[f"tw_gaussian_{level:g}"] = above
    edge = marchenko_pastur.edges(config.N_test / M)[1]
    table["mp_signs"] = arrays["mp"].mean(axis=(0, 2))
    table["mp_gaussian"] = (arrays["tops"][:, 1] > edge[:, None]).mean(axis=(0, 2))
    table["mp_expected"] = tracy_widom.sf((edge * M - centre) / scale)
    return table


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Distances, and the rate of each rule that is farthest from its level."""
    number = config.nulls * len(arrays["distance"])
    table = rates(config, arrays)
    summary: dict[str, Any] = {"nulls": number, "rates": table}
    for k, kind in enumerate(KINDS):
        summary[f"distance_{kind}"] = mean_and_sd(arrays["distance"][:, k].mean(axis=1))
    for name, rate in table.items():
        level = name.rpartition("_")[2]
        if name.startswith("mp_"):  # has no level of its own
            continue
        worst = rate[np.abs(rate - float(level)).argmax()]
        low, high = wilson(worst * number, number)
        summary[name] = (float(worst), float(high - low) / 2)
    excess = np.concatenate([table[f"mp_{k}"] - table["mp_expected"] for k in KINDS])
    summary["mp_excess"] = float(excess[np.abs(excess).argmax()])
    return summary
