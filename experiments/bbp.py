"""Outliers and overlaps of archetypes beside BBP theory, of infinite and of finite size."""

from functools import partial
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Floats, Ints, Settings, above, at_least, within
from hopfed.experiments.shared.statistics import bootstrap_seeds, stack_cells
from hopfed.figures.kinds import Panel, scatter
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import Sample, TracyWidom
from hopfed.theory import marchenko_pastur, spikes

TOP = 10  # leading eigenvalues stored for each draw, as in the paper's panel A


class Config(Settings):
    N: Annotated[int, at_least(20), "sites"]
    M: Annotated[Ints, at_least(TOP), "numbers of examples, one draw each"]
    quality: Annotated[float, within("(0, 1)"), "r of the examples"]
    exposures: Annotated[Floats, above(0), "exposures of the strong archetypes"]
    weak: Annotated[Floats, above(0), "exposures of the weak archetypes"]
    alpha: Annotated[float, within("(0, 1)"), "false-alarm rate of the count"]


def measure(seed: int, config: Config) -> Arrays:
    """Experiment `bbp`: draw one sample for each M, the first axis of the arrays."""
    strong, mixture = len(config.exposures), np.array(config.exposures + config.weak)
    mixture = mixture / mixture.sum()
    K, N, s2, own = len(mixture), config.N, 1 - config.quality**2, np.arange(strong)

    def draw(M: int) -> dict[str, Any]:
        rng, q = stream(seed, "bbp", M), N / M
        xi = rademacher(K, N, rng)
        examples, labels = draw_examples(xi, M, config.quality, rng, exposures=mixture)
        found = eigenpairs(FactorOperator.from_examples(examples), K)
        rank = TracyWidom(config.alpha)(Sample(found.values, N, M, found.complete))
        shares = np.bincount(labels, minlength=K) / M
        theory = spikes.finite_size(xi, shares, config.quality, M)
        kappa = spikes.spike_strength(config.quality, mixture, N)
        partner = theory.overlaps[:, :strong].argmax(axis=0)
        cosines = (found.vectors.T @ (xi[:strong].T / np.sqrt(N))) ** 2
        return {
            "eigenvalues": found.values[: max(TOP, K)],
            "threshold": rank.threshold,
            "n_detected": rank.n_detected,
            "edge": marchenko_pastur.edges(q, s2)[1],
            "outliers/finite_size": theory.outliers,
            "outliers/plain": spikes.outlier(kappa, q, s2),
            "overlaps/measured": cosines[partner, own],
            "overlaps/finite_size": theory.overlaps[partner, own],
            "overlaps/plain": spikes.overlap(kappa[:strong], q),
        }

    return stack_cells([draw(M) for M in config.M])


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    strong, values = len(config.exposures), arrays["eigenvalues"]

    def r_squared(axis: Any, measured: np.ndarray, predicted: np.ndarray) -> Any:
        """Lowest explained share of the variance; negative if it grows; NaN without any."""
        total = ((measured - measured.mean(axis=axis, keepdims=True)) ** 2).sum(axis=axis)
        left = ((measured - predicted) ** 2).sum(axis=axis)
        return (1 - left / np.where(total > 0, total, np.nan)).min()

    summary: dict[str, Any] = {}
    for name, suffix in (("finite_size", ""), ("plain", "_plain")):
        pair = values[..., :strong], arrays[f"outliers/{name}"][..., :strong]
        for key, axes in (("r2_lowest", 0), ("r2_pooled", (0, 2))):
            summary[key + suffix] = bootstrap_seeds(partial(r_squared, axes), *pair)
        gaps = np.abs(arrays["overlaps/measured"] - arrays[f"overlaps/{name}"])
        summary[f"gap{suffix}"] = bootstrap_seeds(np.median, gaps)
    tau, edge = arrays["threshold"][..., None], arrays["edge"][..., None] * (1 + 1e-9)
    foreseen = arrays["outliers/finite_size"][..., strong:]
    seen = values[..., strong : strong + len(config.weak)] > tau
    above_test, above_edge = foreseen > tau, foreseen > edge
    places = {"above": above_test, "between": above_edge & ~above_test, "below": ~above_edge}
    for name, at in places.items():
        summary[f"weak_{name}"] = seen[at].mean() if at.any() else None
        summary[f"weak_{name}_number"] = int(at.sum())
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    strong, made = len(config.exposures), []
    for kind, measured in (("outliers", "eigenvalues"), ("overlaps", "overlaps/measured")):
        for words, name in (("finite size", "finite_size"), ("plain", "plain")):
            pair = [arrays[key][..., :strong] for key in (f"{kind}/{name}", measured)]
            points = {f"M = {M:,}": (pair[0][:, i], pair[1][:, i]) for i, M in enumerate(config.M)}
            title = f"{kind}, {words}"
            made.append(scatter(title, points, xlabel="predicted", ylabel="measured"))
    return made
