"""Spectra of pure noise beside the Marchenko-Pastur law, and false-alarm rates of thresholds.

On nulls of +-1 the rules of `hopfed.spectral.rank` run as for a user; on Gaussian ones thresholds
are quantiles of the Tracy-Widom law.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Settings, at_least, within
from hopfed.experiments.shared.statistics import kolmogorov, mean_and_sd, stacked, wilson
from hopfed.figures.kinds import Panel, by, over
from hopfed.hopfield.channel import rademacher
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import MarchenkoPastur, RankRule, TracyWidom
from hopfed.theory import marchenko_pastur, tracy_widom

KINDS = ("signs", "gaussian")
LEVELS = (0.01, 0.05)
BINS = 60  # of the histograms, from 0 to 1.1 times the upper edge


class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(10), "sites where the whole spectrum is compared"] = 500
    N_test: Annotated[int, at_least(10), "sites of the nulls that are tested"] = 100
    ratios: Annotated[  # eight examples at least
        Floats, lambda s: within(f"(0, {min(s.N, s.N_test) / 8}]"), "aspect ratios q = N / M"
    ] = (0.1, 0.5, 1.0, 4.0)
    nulls: Annotated[int, at_least(1), "per seed, ratio and kind"] = 25
    shuffle: Annotated[bool, "test the shuffle rule, which takes nearly all the time"] = True
    seeds: int = 20

    def samples(self, N: int) -> list[int]:
        """M for each ratio, rounded."""
        return [round(N / q) for q in self.ratios]


def measure(seed: int, config: Config) -> Arrays:
    """Spectra and tests of one seed; axes are (kind, ratio, ...)."""
    sizes, tested = config.samples(config.N), config.samples(config.N_test)
    bulk = stacked([[_bulk(config, kind, M, seed) for M in sizes] for kind in KINDS])
    found = stacked([_tests(config, M, seed) for M in tested])
    gaussian = []
    for M in tested:  # largest eigenvalues of nulls
        rng = stream(seed, "mp", "test", "gaussian", M)
        nulls = (operator("gaussian", M, config.N_test, rng) for _ in range(config.nulls))
        gaussian.append([eigenpairs(null, 0).values[0] for null in nulls])
    tops = np.stack([found.pop("tops"), gaussian])
    return bulk | found | {"bins": bulk["bins"][0], "tops": tops}


def operator(kind: str, M: int, N: int, rng: np.random.Generator) -> FactorOperator:
    """Operator of a null with M rows and N sites."""
    if kind == "signs":
        return FactorOperator.from_examples(rademacher(M, N, rng))
    return FactorOperator(N, float(M), float(M), rng.standard_normal((M, N)), np.ones(M))


def _bulk(config: Config, kind: str, M: int, seed: int) -> dict[str, Any]:
    values = eigenpairs(operator(kind, M, config.N, stream(seed, "mp", kind, M)), 0).values
    nonzero, q = values[: min(M, config.N)][::-1], config.N / M
    law, zeros = marchenko_pastur.cdf(nonzero, q), config.N - len(nonzero)
    bins = np.linspace(0, 1.1 * float(marchenko_pastur.edges(q)[1]), BINS + 1)
    distance, histogram = kolmogorov(nonzero, law, zeros=zeros), np.histogram(nonzero, bins)[0]
    return {"distance": distance, "histogram": histogram, "bins": bins}


def _tests(config: Config, M: int, seed: int) -> Arrays:
    """Largest eigenvalues of the +-1 nulls, and the alarms of each rule on each null."""
    rng = stream(seed, "mp", "test", "signs", M)
    rows = []
    for i in range(config.nulls):
        null = operator("signs", M, config.N_test, rng)
        spectrum = eigenpairs(null, 0)
        sample = Sample(spectrum.values, config.N_test, M, spectrum.complete)
        rules: dict[str, RankRule] = {"mp": MarchenkoPastur()}
        for level in LEVELS:
            rules[f"tw_{level:g}"] = TracyWidom(level)
        alarms = {name: rule(sample).n_detected > 0 for name, rule in rules.items()}
        for level in LEVELS if config.shuffle else ():
            # Signs with random signs are other signs, of no structure.
            own, number = stream(seed, "mp", "shuffle", M, i, f"{level:g}"), round(1 / level) - 1
            copies = (operator("signs", M, config.N_test, own) for _ in range(number))
            tops = [eigenpairs(copy, 0).values[0] for copy in copies]
            threshold = float(np.quantile(tops, 1 - level, method="higher"))
            alarms[f"shuffle_{level:g}"] = spectrum.values[0] > threshold
        rows.append({"tops": spectrum.values[0], **alarms})
    return stacked(rows)


def rates(config: Config, arrays: Arrays) -> dict[str, np.ndarray]:
    """Share of alarms for each ratio, by rule, kind and level; and `mp_expected` for both kinds."""
    table = {}
    for name, alarms in arrays.items():
        rule, _, percent = name.partition("_")
        if rule in ("tw", "shuffle"):
            table[f"{rule}_signs_{percent}"] = alarms.mean(axis=(0, 2))
    M = np.array(config.samples(config.N_test), dtype=float)
    centre, scale = tracy_widom.wishart_scaling(M, config.N_test)
    for level in LEVELS:
        threshold = (centre + scale * float(tracy_widom.isf(level))) / M
        beyond = (arrays["tops"] > threshold[:, None]).mean(axis=(0, 3))
        table[f"unshifted_signs_{level:g}"], table[f"tw_gaussian_{level:g}"] = beyond
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
        if not name.startswith("mp_"):
            worst = rate[np.abs(rate - float(name.rpartition("_")[2])).argmax()]
            low, high = wilson(worst * number, number)
            summary[name] = (float(worst), float(high - low) / 2)
    excess = np.concatenate([table[f"mp_{k}"] - table["mp_expected"] for k in KINDS])
    summary["mp_excess"] = float(excess[np.abs(excess).argmax()])
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    """Spectra of noise on the law, and false-alarm rates with 95% bars."""
    made, found, n = [], summary["rates"], summary["nulls"]
    names = {"tw_signs": "Tracy-Widom, +-1", "tw_gaussian": "Tracy-Widom, Gaussian"}
    names |= {"shuffle_signs": "shuffle, +-1", "unshifted_signs": "unshifted, +-1"}

    def bars(name: str) -> tuple[np.ndarray, ...]:
        rate = np.array(found[name])
        return 100 * rate, *(100 * end for end in wilson(rate * n, n))

    for i, q in enumerate(config.ratios[:3]):
        ends = arrays["bins"][0, i]
        counts = arrays["histogram"][:, :, i].sum(axis=0)
        area = counts / counts.sum(axis=1, keepdims=True) / np.diff(ends)
        x = np.linspace(ends[0], ends[-1], 600)[1:]
        law = x, np.minimum(marchenko_pastur.pdf(x, q) * max(1, q), 3 if q == 1 else np.inf)
        middle = (ends[1:] + ends[:-1]) / 2
        lines: dict[str, Any] = by(("+-1", "Gaussian"), area, 0)
        title = f"q = {q:g}"
        made.append(over(title, middle, lines, {"law": law}, xlabel="eigenvalue", ylabel="density"))
    at = [f"{q:g}" for q in config.ratios]
    words: dict[str, Any] = {"xlabel": "q", "ylabel": "false alarms (%)"}
    for level in LEVELS:
        held = {w: f"{n}_{level:g}" for n, w in names.items() if f"{n}_{level:g}" in found}
        lines, test = {w: bars(name) for w, name in held.items()}, {"test": 100 * level}
        made.append(over(f"at {level:.0%}", at, lines, levels=test, points=True, **words))
    lines = {"+-1": bars("mp_signs"), "Gaussian": bars("mp_gaussian")}
    expected = {"foreseen": 100 * np.array(found["mp_expected"])}
    words |= {"legend": "upper center"}
    return [*made, over("above the MP edge", at, lines, expected, points=True, **words)]
