"""Outliers and overlaps of strong and rare archetypes beside the BBP theory.

The plain prediction, eqs. (41) and (42), takes nominal exposures and orthogonal archetypes, that of
finite size those of the draw.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Ints, Rule, Settings, above, at_least, within
from hopfed.experiments.shared.statistics import r_squared, stacked, with_spread
from hopfed.figures.kinds import Panel, against
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import TracyWidom
from hopfed.theory import marchenko_pastur, spikes

TOP = 10  # leading eigenvalues stored for each draw, as in the paper's panel A


def few(config: Any) -> Rule:
    """No more archetypes than eigenvalues that are kept."""
    return Rule(lambda v: len(v + config.weak) <= TOP, f"at most {TOP} with weak", whole=True)


class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(20), "sites"] = 400
    M: Annotated[Ints, at_least(TOP), "numbers of examples, one draw each"] = (400, 1600, 6400)
    quality: Annotated[float, within("(0, 1)"), "r of the examples"] = 0.9
    exposures: Annotated[Floats, above(0), few, "of the strong archetypes"] = (0.5, 0.3, 0.2)
    weak: Annotated[Floats, above(0), "exposures of the weak ones"] = (2e-4, 1.5e-4, 1e-4)
    alpha: Annotated[float, within("(0, 1)"), "false-alarm rate of the count"] = 0.01
    seeds: int = 20

    @property
    def mixture(self) -> np.ndarray:
        """(K,) normalised exposures, the strong ones first."""
        shares = np.array(self.exposures + self.weak)
        return shares / shares.sum()


def measure(seed: int, config: Config) -> Arrays:
    """Draw one sample for each M, the first axis."""
    return stacked([_draw(config, M, seed) for M in config.M])


def _draw(config: Config, M: int, seed: int) -> dict[str, Any]:
    rng = stream(seed, "bbp", M)
    K, strong = len(config.mixture), len(config.exposures)
    xi = rademacher(K, config.N, rng)
    examples, labels = draw_examples(xi, M, config.quality, rng, exposures=config.mixture)
    found = eigenpairs(FactorOperator.from_examples(examples), K)
    rank = TracyWidom(config.alpha)(Sample(found.values, config.N, M, found.complete))

    shares = np.bincount(labels, minlength=K) / M
    theory, s2 = spikes.finite_size(xi, shares, config.quality, M), 1 - config.quality**2
    kappa = spikes.spike_strength(config.quality, config.mixture, config.N)
    cosines = (found.vectors.T @ (xi[:strong].T / np.sqrt(config.N))) ** 2
    partner, own = theory.overlaps[:, :strong].argmax(axis=0), np.arange(strong)
    return {
        "eigenvalues": found.values[:TOP],
        "threshold": rank.threshold,
        "n_detected": rank.n_detected,
        "edge": marchenko_pastur.edges(theory.q, s2)[1],
        "shares": shares,
        "outliers/finite_size": theory.outliers,
        "outliers/plain": spikes.outlier(kappa, theory.q, s2),
        "overlaps/measured": cosines[partner, own],
        "overlaps/finite_size": theory.overlaps[partner, own],
        "overlaps/plain": spikes.overlap(kappa[:strong], theory.q),
    }


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Agreement of both predictions in the worst case over M and archetypes; weak ones seen."""
    strong = len(config.exposures)
    top, overlaps = arrays["eigenvalues"][..., :strong], arrays["overlaps/measured"]
    summary: dict[str, Any] = {}
    for name, suffix in (("finite_size", ""), ("plain", "_plain")):
        foreseen = arrays[f"outliers/{name}"][..., :strong]
        gaps = np.abs(overlaps - arrays[f"overlaps/{name}"])
        for key, axes in (("r2_lowest", 0), ("r2_pooled", (0, 2))):
            explained = partial(r_squared, axis=axes)
            least = with_spread(lambda *pair, r2=explained: r2(*pair).min(), top, foreseen)
            summary[key + suffix] = least
        summary[f"gap{suffix}"] = with_spread(np.median, gaps)
    weak = slice(strong, len(config.mixture))
    tau, edge = arrays["threshold"][..., None], arrays["edge"][..., None] * (1 + 1e-9)
    seen = arrays["eigenvalues"][..., weak] > tau
    foreseen = arrays["outliers/finite_size"][..., weak]
    places = {
        "weak_above": foreseen > tau,
        "weak_between": (foreseen > edge) & (foreseen <= tau),
        "weak_below": foreseen <= edge,
    }
    for name, at in places.items():
        summary[name] = seen[at].mean() if at.any() else None
        summary[f"{name}_number"] = int(at.sum())
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    """Outliers and overlaps on their predictions (Fig. 5)."""
    strong, made = len(config.exposures), []
    top = arrays["eigenvalues"][..., :strong]
    for what, measured in (("outlier", top), ("overlap", arrays["overlaps/measured"])):
        for words, name in (("finite size", "finite_size"), ("plain", "plain")):
            guess = arrays[f"{what}s/{name}"][..., :strong]
            points = {f"M = {M:,}": (guess[:, i], measured[:, i]) for i, M in enumerate(config.M)}
            title = f"{what}s, {words}"
            made.append(against(title, points, xlabel="predicted", ylabel="measured"))
    return made
