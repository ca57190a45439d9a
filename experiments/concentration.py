"""The operator of M examples deviates from its mean by less than matrix Bernstein allows (Thm 1).

The deviation ``||J - E J||`` of ``J = eta^T eta / (N M)`` is measured over M and compared with
bounds of `hopfed.theory.concentration` at one level: Bernstein with the variance proxy of the
mixture, with the universal proxy 1/4, and the paper's form, eq. (36) of arXiv:2603.19902. The mean
is exact, because it is computed from the archetypes; these are used only to score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Ints, Mixed, above, at_least, within
from hopfed.experiments.shared.statistics import stacked, with_spread
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.spectral.operators import DenseOperator
from hopfed.theory import concentration


@dataclass(frozen=True)
class Config(Mixed):
    """Settings."""

    N: Annotated[int, at_least(10), "sites"] = 400
    M: Annotated[Ints, at_least(1), "examples"] = (100, 215, 464, 1000, 2154, 4642, 10000)
    qualities: Annotated[Floats, within("(0, 1)"), "values of r"] = (0.3, 0.6, 0.9)
    exposures: Annotated[Floats, above(0), "shares of the archetypes"] = (0.5, 0.3, 0.2)
    level: Annotated[float, within("(0, 1)"), "probability that the bound is exceeded"] = 0.05
    seeds: int = 10


PRESETS = {
    "quick": {"N": 100, "M": (100, 316, 1000, 3162), "seeds": 5},
    "default": {},
    "paper": {"seeds": 50},
}
MINUTES = {"quick": 0.05, "default": 0.2, "paper": 0.8}
COMPARED = {
    "exceeded": ("draws above the 5% Bernstein bound", "", "<= .05"),
    "slope": ("slope of log deviation in log M", "-1/2", "-.5"),
    "tightest": "bound / measured, least over r and M",
    "loosest": "bound / measured, greatest",
    "universal": "bound with proxy 1/4 / measured, greatest",
    "paper_form": "paper's form (36), c = 3/8 / measured, greatest",
    "counting": "measured / exposures alone, highest r",
}


def measure(seed: int, config: Config) -> Arrays:
    """Deviations of one seed's archetypes, and the bounds; every array is (qualities, M)."""
    xi = rademacher(len(config.mixture), config.N, stream(seed, "concentration", "archetypes"))
    rows = []
    for i, r in enumerate(config.qualities):
        mean = r**2 * (xi.T * config.mixture) @ xi.astype(float) + (1 - r**2) * np.eye(config.N)
        mean /= config.N
        pairs = [_deviation(config, xi, mean, r, M, stream(seed, "draw", i, M)) for M in config.M]
        spectrum = np.linalg.eigvalsh(mean)
        measured, counting = np.array(pairs).T
        bounds = _bounds(config, min((spectrum * (1 - spectrum)).max(), 0.25))
        rows.append({"deviation": measured, "counting": counting} | bounds)
    return stacked(rows)


def _deviation(
    config: Config, xi: np.ndarray, mean: np.ndarray, r: float, M: int, rng: np.random.Generator
) -> tuple[float, float]:
    """``||J - E J||`` of M examples, and the part of it due to the exposures alone."""
    examples, labels = draw_examples(xi, M, r, rng, exposures=config.mixture)
    operator = DenseOperator.from_examples(examples)
    surplus = np.bincount(labels, minlength=len(xi)) / M - config.mixture
    return (
        _norm(operator.matrix / operator.mass / config.N - mean),
        _norm(r**2 / config.N * (xi.T * surplus) @ xi.astype(float)),
    )


def _norm(symmetric: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvalsh(symmetric)).max())


def _bounds(config: Config, proxy: float) -> Arrays:
    """Deviations (M,) that are exceeded with probability at most `level`."""
    M = np.array(config.M, dtype=float)
    exponent = np.log(2 * config.N / config.level) / (0.375 * M)
    return {
        "bounds/bernstein": concentration.bernstein_deviation(config.level, config.N, M, proxy),
        "bounds/universal": concentration.bernstein_deviation(config.level, config.N, M),
        "bounds/paper": np.maximum(np.sqrt(proxy * exponent), exponent),
    }


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Share of draws above the bound, ratio of bound to measurement, and the slope."""
    deviation, n = arrays["deviation"], len(arrays["deviation"])

    def ratio(i: np.ndarray, name: str) -> np.ndarray:
        return arrays[name][i].mean(axis=0) / deviation[i].mean(axis=0)

    def worst(end: str, name: str) -> tuple[float, float | None]:
        return with_spread(lambda i: getattr(ratio(i, f"bounds/{name}"), end)(), n)

    def slope(i: np.ndarray) -> float:
        logs = np.log(deviation[i].mean(axis=0)).T  # (M, qualities)
        return float(np.polyfit(np.log(config.M), logs, 1)[0].mean())

    highest = int(np.argmax(config.qualities))
    return {
        "exceeded": float((deviation > arrays["bounds/bernstein"]).mean()),
        "slope": with_spread(slope, n) if len(set(config.M)) > 1 else None,
        "tightest": worst("min", "bernstein"),
        "loosest": worst("max", "bernstein"),
        "universal": worst("max", "universal"),
        "paper_form": worst("max", "paper"),
        "counting": with_spread(lambda i: (1 / ratio(i, "counting")[highest]).mean(), n),
    }
