"""Outliers and overlaps of archetypes follow the BBP theory (Fig. 5).

Source: arXiv:2603.19902, Fig. 5 and eqs. (41), (42).

Examples of K = 6 archetypes of +-1 give a Hebbian operator. Three archetypes are strong; three are
so rare that most draws hold none or one of their examples. The leading eigenpairs are compared with
two predictions. The *plain* one, eqs. (41) and (42), uses the nominal exposures and orthogonal
archetypes. The *finite-size* one uses the exposures of the draw and the actual archetypes; only its
noise is asymptotic (`hopfed.theory.spikes.finite_size`). Labels and archetypes are used only to
score.

Measured (paper preset, 50 draws, +- standard error over draws). R^2 over draws of each of the nine
strong outliers is at least .994 +- .002, plain -.23; pooled .9999, plain .967, as the paper
reports. The median overlap gap is .00036 +- .00003, plain .0107, the paper .0163. All 80 weak
archetypes whose predicted outlier lies above the test level are seen. Of the 323 that theory leaves
in the bulk 2 are seen, as many as the 1% test allows. 47 lie between edge and test level, where
theory predicts an outlier that no test can tell from noise; they are single examples at M = 6,400,
and 21% of them are seen.

Run it with ``hopfed run bbp --preset paper --out bbp.h5``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.experiments import Arrays, Measure, Record
from hopfed.experiments.shared.statistics import r_squared, with_spread
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.noise import Sample
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import TracyWidom
from hopfed.theory import marchenko_pastur, spikes

TOP = 10  # leading eigenvalues stored for each draw, as in the paper's panel A


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes
    ----------
    N : sites.
    M : numbers of examples, one draw each per seed.
    quality : r of the examples, in (0, 1).
    exposures, weak : exposures of the strong and of the weak archetypes, before normalisation.
    alpha : false-alarm rate of the Tracy-Widom count.
    seeds : draws.
    """

    N: int = 400
    M: tuple[int, ...] = (400, 1600, 6400)
    quality: float = 0.9
    exposures: tuple[float, ...] = (0.5, 0.3, 0.2)
    weak: tuple[float, ...] = (2e-4, 1.5e-4, 1e-4)
    alpha: float = 0.01
    seeds: int = 20

    def __post_init__(self) -> None:
        check_types(self)
        require(self.N >= 20, "N", "at least 20", self.N)
        require(min(self.M) >= TOP, "M", f"at least {TOP} each", self.M)
        require(0 < self.quality < 1, "quality", "in (0, 1)", self.quality)
        for name in ("exposures", "weak"):
            require(min(getattr(self, name)) > 0, name, "above 0", getattr(self, name))
        require(self.n_archetypes <= TOP, "exposures", f"at most {TOP} with weak", self.exposures)
        require(0 < self.alpha < 1, "alpha", "in (0, 1)", self.alpha)
        require(self.seeds >= 1, "seeds", "at least 1", self.seeds)

    @property
    def n_archetypes(self) -> int:
        """K, strong and weak."""
        return len(self.exposures) + len(self.weak)

    @property
    def mixture(self) -> np.ndarray:
        """(K,) normalised exposures, the strong ones first."""
        shares = np.array(self.exposures + self.weak)
        return shares / shares.sum()


PRESETS = {
    "quick": Config(seeds=5),
    "default": Config(),
    "paper": Config(seeds=50),
}

RECORD = Record(
    claim="outliers and overlaps of archetypes follow the BBP formulas",
    source="hopfield federation, Fig. 5",
    minutes={"quick": 0.05, "default": 0.1, "paper": 0.2},
    measures={
        "r2_lowest": Measure("lowest R^2 of one outlier, finite size", aim=">= .98"),
        "r2_lowest_plain": Measure("lowest R^2 of one outlier, plain"),
        "r2_pooled": Measure("lowest pooled R^2, finite size", ".955-.977"),
        "r2_pooled_plain": Measure("lowest pooled R^2, plain", ".955-.977"),
        "gap": Measure("median overlap gap, finite size", ".0163", "<= .003"),
        "gap_plain": Measure("median overlap gap, plain", ".0163"),
        "weak_above": Measure("weak, foreseen above the test: seen", aim="1"),
        "weak_between": Measure("weak, between edge and test: seen"),
        "weak_below": Measure("weak, foreseen in the bulk: seen", "~0", "0"),
    },
)


def run(config: Config, seed: int) -> Arrays:
    """Draw one sample for each M; arrays have M as their first axis."""
    draws = [_draw(config, M, seed) for M in config.M]
    return {name: np.stack([d[name] for d in draws]) for name in draws[0]}


def _draw(config: Config, M: int, seed: int) -> dict[str, Any]:
    rng = stream(seed, "bbp", M)
    K, strong = config.n_archetypes, len(config.exposures)
    xi = rademacher(K, config.N, rng)
    examples, labels = draw_examples(xi, M, config.quality, rng, exposures=config.mixture)

    found = eigenpairs(FactorOperator.from_examples(examples), K)
    rank = TracyWidom(config.alpha)(Sample(found.values, config.N, M, found.complete))

    shares = np.bincount(labels, minlength=K) / M
    theory = spikes.finite_size(xi, shares, config.quality, M)
    kappa = spikes.spike_strength(config.quality, config.mixture, config.N)
    cosines = (found.vectors.T @ (xi[:strong].T / np.sqrt(config.N))) ** 2
    partner = theory.overlaps[:, :strong].argmax(axis=0)
    own = np.arange(strong)
    return {
        "eigenvalues": found.values[:TOP],
        "threshold": rank.threshold,
        "n_detected": rank.n_detected,
        "edge": marchenko_pastur.edges(theory.q, theory.variance)[1],
        "shares": shares,
        "outliers/finite_size": theory.outliers,
        "outliers/plain": spikes.outlier(kappa, theory.q, theory.variance),
        "overlaps/measured": cosines[partner, own],
        "overlaps/finite_size": theory.overlaps[partner, own],
        "overlaps/plain": spikes.overlap(kappa[:strong], theory.q),
    }


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Agreement of both predictions with the draws, in the worst case over M and archetypes."""
    strong, n = len(config.exposures), len(arrays["edge"])
    top, overlaps = arrays["eigenvalues"][..., :strong], arrays["overlaps/measured"]
    summary: dict[str, Any] = {}
    for name, suffix in (("finite_size", ""), ("plain", "_plain")):
        foreseen = arrays[f"outliers/{name}"][..., :strong]
        gaps = np.abs(overlaps - arrays[f"overlaps/{name}"])

        def lowest(i: np.ndarray, axes: Any, foreseen: np.ndarray = foreseen) -> float:
            return r_squared(top[i], foreseen[i], axis=axes).min()

        summary |= {
            f"r2_lowest{suffix}": with_spread(partial(lowest, axes=0), n),
            f"r2_pooled{suffix}": with_spread(partial(lowest, axes=(0, 2)), n),
            f"gap{suffix}": with_spread(partial(_median_of, gaps), n),
        }
    return summary | _weak(config, arrays)


def _median_of(values: np.ndarray, seeds: np.ndarray) -> float:
    return float(np.median(values[seeds]))


def _weak(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Share of weak archetypes that pass the test, by the predicted place of their eigenvalue."""
    weak = slice(len(config.exposures), config.n_archetypes)
    tau, edge = arrays["threshold"][..., None], arrays["edge"][..., None] * (1 + 1e-9)
    seen = arrays["eigenvalues"][..., weak] > tau
    foreseen = arrays["outliers/finite_size"][..., weak]
    places = {
        "weak_above": foreseen > tau,
        "weak_between": (foreseen > edge) & (foreseen <= tau),
        "weak_below": foreseen <= edge,
    }
    shares = {name: seen[at].mean() if at.any() else None for name, at in places.items()}
    return shares | {f"{name}_number": int(at.sum()) for name, at in places.items()}
