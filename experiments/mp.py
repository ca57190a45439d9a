"""Spectra of noise beside the Marchenko-Pastur law, and false-alarm rates of thresholds."""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from scipy.stats import binomtest

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Floats, Settings, at_least, within
from hopfed.experiments.shared.statistics import mean_and_sd, stack_cells
from hopfed.figures.kinds import Panel, line_plot, split_axis
from hopfed.hopfield.channel import rademacher
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import Sample, TracyWidom, count_sequentially, robust_start
from hopfed.theory import marchenko_pastur, spikes, tracy_widom

KINDS = ("signs", "gaussian")
LEVELS = (0.01, 0.05)
SHOWN = {  # rule and kind -> its name in panels
    "tw_signs": "Tracy-Widom, +-1", "tw_gaussian": "Tracy-Widom, Gaussian",
    "shuffle_signs": "shuffle, +-1", "unshifted_signs": "unshifted, +-1",
    "mp_signs": "+-1", "mp_gaussian": "Gaussian",
}  # fmt: skip
BINS = 60  # number of bins, from 0 to 1.1 times the upper edge


class Config(Settings):
    N: Annotated[int, at_least(10), "sites where the whole spectrum is compared"]
    N_test: Annotated[int, at_least(10), "sites of the nulls that are tested"]
    ratios: Annotated[Floats, lambda s: within(f"(0, {min(s.N, s.N_test) / 8}]"), "q = N / M"]
    nulls: Annotated[int, at_least(1), "nulls per seed, ratio and kind"]
    shuffle: Annotated[bool, "test the shuffle rule, which takes nearly all the time"]

    def samples(self, N: int) -> list[int]:
        """M for each ratio, rounded."""
        return [round(N / q) for q in self.ratios]


def measure(seed: int, config: Config) -> Arrays:
    """Experiment `mp`: spectra and tests of one seed; axes are (kind, ratio, ...)."""
    N, sizes, tested = config.N_test, config.samples(config.N), config.samples(config.N_test)
    bulk = stack_cells([[_bulk(config.N, kind, M, seed) for M in sizes] for kind in KINDS])
    found, gaussian = stack_cells([_tests(config, M, seed) for M in tested]), []
    for M in tested:
        nulls = _spectra("gaussian", M, N, stream(seed, "mp", "test", "gaussian", M), config.nulls)
        gaussian.append([null.values[0] for null in nulls])
    return bulk | found | {"bins": bulk["bins"][0], "tops": np.stack([found["tops"], gaussian])}


def _spectra(kind: str, M: int, N: int, rng: np.random.Generator, count: int) -> Iterator[Any]:
    """Eigenvalues of nulls with M rows and N sites."""
    for _ in range(count):
        if kind == "signs":
            null = FactorOperator.from_examples(rademacher(M, N, rng))
        else:
            null = FactorOperator(N, float(M), float(M), rng.standard_normal((M, N)), np.ones(M))
        yield eigenpairs(null, 0)


def _bulk(N: int, kind: str, M: int, seed: int) -> dict[str, Any]:
    """A histogram of a spectrum, and its Kolmogorov distance from the law."""
    q, [spectrum] = N / M, _spectra(kind, M, N, stream(seed, "mp", kind, M), 1)
    nonzero = spectrum.values[: min(M, N)][::-1]
    law, steps = marchenko_pastur.cdf(nonzero, q), np.arange(N - len(nonzero), N + 1) / N
    bins = np.linspace(0, 1.1 * float(marchenko_pastur.edges(q)[1]), BINS + 1)
    distance = max(np.abs(steps[1:] - law).max(), np.abs(steps[:-1] - law).max())
    return {"distance": distance, "histogram": np.histogram(nonzero, bins)[0], "bins": bins}


def _tests(config: Config, M: int, seed: int) -> Arrays:
    """Largest eigenvalues of the +-1 nulls, and the alarms of each rule on each null."""
    N, rng, rows = config.N_test, stream(seed, "mp", "test", "signs", M), []
    for i, null in enumerate(_spectra("signs", M, N, rng, config.nulls)):
        top, sample = null.values[0], Sample(null.values, N, M, null.complete)
        row = {f"tw_{a:g}": TracyWidom(a)(sample).n_detected > 0 for a in LEVELS}
        row |= {"tops": top, "mp": _passes_the_law(sample)}
        for level in LEVELS if config.shuffle else ():
            # Random signs times independent ones are new signs, drawn here directly.
            own, number = stream(seed, "mp", "shuffle", M, i, f"{level:g}"), round(1 / level) - 1
            tops = [copy.values[0] for copy in _spectra("signs", M, N, own, number)]
            row[f"shuffle_{level:g}"] = top > np.quantile(tops, 1 - level, method="higher")
        rows.append(row)
    return stack_cells(rows)


def _passes_the_law(sample: Sample) -> bool:
    """Whether an eigenvalue is above the law's edge, moved by the kurtosis of +-1 entries (58)."""
    size = np.sqrt(sample.n_examples * sample.n_sites)

    def edge(_: int, s2: float) -> float:
        shift = 1 + float(spikes.excess_kurtosis(np.sqrt(max(1 - s2, 0)))) / size
        return float(marchenko_pastur.edges(sample.aspect, s2)[1]) * shift

    return count_sequentially(sample, robust_start(sample, edge), edge) > 0


def alarm_rates(config: Config, arrays: Arrays) -> dict[str, np.ndarray]:
    """Experiment `mp`: share of alarms by rule, kind and level for each ratio; `mp_expected`."""
    M = np.array(config.samples(config.N_test), dtype=float)
    centre, scale = tracy_widom.wishart_scaling(M, config.N_test)
    edge = marchenko_pastur.edges(config.N_test / M)[1]
    alarms = {"mp_gaussian": arrays["tops"][:, 1] > edge[:, None], "mp_signs": arrays["mp"]}
    for a in LEVELS:
        above = arrays["tops"] > ((centre + scale * tracy_widom.isf(a)) / M)[:, None]
        alarms[f"unshifted_signs_{a:g}"], alarms[f"tw_gaussian_{a:g}"] = above[:, 0], above[:, 1]
        for rule in ("tw", "shuffle"):
            if f"{rule}_{a:g}" in arrays:
                alarms[f"{rule}_signs_{a:g}"] = arrays[f"{rule}_{a:g}"]
    table = {name: held.mean(axis=(0, 2)) for name, held in sorted(alarms.items())}
    return table | {"mp_expected": tracy_widom.sf((edge * M - centre) / scale)}


def _bars(rate: Any, n: int) -> tuple[Any, ...]:
    """Rates with Wilson's 95% intervals, in percent."""
    tests = [binomtest(round(x * n), n).proportion_ci(method="wilson") for x in rate]
    return 100 * np.array(rate), *(100 * np.array(tests).T)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    number, table = config.nulls * len(arrays["distance"]), alarm_rates(config, arrays)
    summary: dict[str, Any] = {"nulls": number, "rates": table}
    for k, kind in enumerate(KINDS):
        summary[f"distance_{kind}"] = mean_and_sd(arrays["distance"][:, k].mean(axis=1))
    for name in (n for n in table if not n.startswith("mp_")):
        worst = table[name][np.abs(table[name] - float(name.rpartition("_")[2])).argmax()]
        _, low, high = _bars([worst], number)
        summary[name] = (float(worst), float(high[0] - low[0]) / 200)
    excess = np.concatenate([table[f"mp_{k}"] - table["mp_expected"] for k in KINDS])
    return summary | {"mp_excess": float(excess[np.abs(excess).argmax()])}


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    made, n, at = [], summary["nulls"], [f"{q:g}" for q in config.ratios]
    for i, q in enumerate(config.ratios[:3]):
        ends, counts = arrays["bins"][0, i], arrays["histogram"][:, :, i].sum(axis=0)
        area = counts / counts.sum(axis=1, keepdims=True) / np.diff(ends)
        x = np.linspace(ends[0], ends[-1], 600)[1:]
        law = x, np.minimum(marchenko_pastur.pdf(x, q) * max(1, q), 3 if q == 1 else np.inf)
        words: dict[str, Any] = {"xlabel": "eigenvalue", "ylabel": "density"}
        lines = split_axis(("+-1", "Gaussian"), area, 0)
        made.append(
            line_plot(f"q = {q:g}", (ends[1:] + ends[:-1]) / 2, lines, {"law": law}, **words)
        )
    expected = {"foreseen": 100 * np.array(summary["rates"]["mp_expected"])}
    words = {"xlabel": "q", "ylabel": "false alarms (%)", "points": True}
    each: list[tuple[str, str, dict[str, Any]]] = [("above the MP edge", "", expected)]
    each[:0] = [(f"at {a:.0%}", f"_{a:g}", {"test": [100 * a] * len(at)}) for a in LEVELS]
    for title, level, foreseen in each:
        held = {w: summary["rates"].get(f"{name}{level}") for name, w in SHOWN.items()}
        bars = {w: _bars(rate, n) for w, rate in held.items() if rate is not None}
        made.append(line_plot(title, at, bars, foreseen, **words))
    return made
