"""Archetypes counted under heavy tails from the sample covariance and from Tyler's shape matrix.

Noise is multivariate Student-t of unit variance. A few Gaussian nulls say how much wider Tyler's
spectrum is.
"""

import math
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.correlated_noise import count_white
from hopfed.experiments.settings import Floats, Mixed, above, at_least, within
from hopfed.experiments.shared.statistics import mean_and_sd, stacked
from hopfed.figures.kinds import Panel, by, over
from hopfed.hopfield.channel import rademacher
from hopfed.theory import tracy_widom
from hopfed.theory.tyler import tyler

NULLS = 20  # noise matrices that calibrate Tyler's edge, per seed and ratio


class Config(Mixed):
    N: Annotated[int, at_least(20), "sites"]
    ratios: Annotated[Floats, within("(0, 1)"), "q = N / M, where Tyler's exists"]
    degrees: Annotated[Floats, above(2), "of freedom; inf is Gaussian"]
    quality: Annotated[float, within("(0, 1)"), "r of the examples"]
    alpha: Annotated[float, within("(0, 1)"), "false-alarm rate of the test"]


def measure(seed: int, config: Config) -> Arrays:
    """Counts of one seed; the first axes are (nu, ratio, method)."""
    widening = [_widening(config, round(config.N / q), seed) for q in config.ratios]
    pairs = [*zip(config.ratios, widening, strict=True)]
    return stacked([[_cell(config, nu, *pair, seed) for pair in pairs] for nu in config.degrees])


def _widening(config: Config, M: int, seed: int) -> float:
    """Largest eigenvalue on white noise: of Tyler's matrix, over Wishart's."""
    rng = stream(seed, "heavy_tails", "nulls", M)
    shapes = (tyler(rng.standard_normal((M, config.N))).matrix for _ in range(NULLS))
    tops = [np.linalg.eigvalsh(shape)[-1] for shape in shapes]
    centre, scale = tracy_widom.wishart_scaling(M, config.N)
    expected = float((centre + scale * tracy_widom.moments(1).mean) / M)
    return float(np.mean(tops)) / expected


def _cell(config: Config, nu: float, q: float, widening: float, seed: int) -> dict[str, Any]:
    rng = stream(seed, "heavy_tails", str(nu), str(q))
    K, N, M, r = len(config.mixture), config.N, round(config.N / q), config.quality
    xi = rademacher(K, N, rng)
    labels = rng.choice(K, size=M, p=config.mixture)
    noise = rng.standard_normal((M, N))
    if math.isfinite(nu):
        noise *= np.sqrt((nu - 2) / rng.chisquare(nu, size=(M, 1)))
    x = r * xi[labels] + math.sqrt(1 - r**2) * noise
    sample, shape = (np.linalg.eigh(a)[0][::-1] for a in (x.T @ x / M, tyler(x).matrix))
    test = N, M, config.alpha
    return {"n_detected": (count_white(sample, *test), count_white(shape, *test, widening))}


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    sample, shape = np.moveaxis(arrays["n_detected"], -1, 0)
    heaviest = int(np.argmin(config.degrees))
    return {
        "sample_heaviest": mean_and_sd(sample[:, heaviest].ravel()),
        "tyler_heaviest": mean_and_sd(shape[:, heaviest].ravel()),
        "tyler_exact": float((shape == len(config.exposures)).mean()),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    at = [r"$\infty$" if math.isinf(nu) else f"{nu:g}" for nu in config.degrees]
    words: dict[str, Any] = {"xlabel": r"degrees of freedom $\nu$", "log": "y", "points": True}
    names = ("sample covariance", "Tyler's shape")
    true = {"true": [len(config.exposures)] * len(at)}
    return [
        over(f"counted, q = {q:g}", at, by(names, arrays["n_detected"][:, :, j], -1), true, **words)
        for j, q in enumerate(config.ratios)
    ]
