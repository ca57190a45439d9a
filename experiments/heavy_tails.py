"""Counts of archetypes in Student-t noise, from the covariance and from Tyler's shape matrix."""

import math
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.correlated_noise import count_white
from hopfed.experiments.machinery.settings import Settings, at_least
from hopfed.experiments.shared.statistics import mean_and_sd, stack_cells
from hopfed.figures.kinds import Panel, line_plot, split_axis
from hopfed.hopfield.channel import rademacher
from hopfed.theory import tracy_widom
from hopfed.theory.tyler import tyler

NULLS = 20  # noise matrices that calibrate Tyler's edge, per seed and ratio
RATIOS = (0.3, 0.6)  # q = N / M, below 1, where Tyler's matrix exists
DEGREES = (3.0, 5.0, 8.0, math.inf)  # degrees of freedom; inf is Gaussian
QUALITY, MIXTURE = 0.4, (0.5, 0.3, 0.2)  # r of the examples, and shares of the archetypes
ALPHA = 0.01  # false-alarm rate of the test


class Config(Settings):
    N: Annotated[int, at_least(20), "sites"]


def measure(seed: int, config: Config) -> Arrays:
    """Experiment `heavy_tails`: counts of one seed; the first axes are (nu, ratio, method)."""
    N, widening = config.N, {}
    for q in RATIOS:  # largest eigenvalue in white noise of Tyler's matrix, over Wishart's
        M = round(N / q)
        rng = stream(seed, "heavy_tails", "nulls", M)
        shapes = (tyler(rng.standard_normal((M, N))).matrix for _ in range(NULLS))
        tops = [np.linalg.eigvalsh(shape)[-1] for shape in shapes]
        centre, scale = tracy_widom.wishart_scaling(M, N)
        expected = float((centre + scale * tracy_widom.moments(1).mean) / M)
        widening[q] = float(np.mean(tops)) / expected

    def cell(nu: float, q: float) -> dict[str, Any]:
        rng, M = stream(seed, "heavy_tails", str(nu), str(q)), round(N / q)
        xi = rademacher(len(MIXTURE), N, rng)
        labels = rng.choice(len(MIXTURE), size=M, p=MIXTURE)
        noise = rng.standard_normal((M, N))
        if math.isfinite(nu):
            noise *= np.sqrt((nu - 2) / rng.chisquare(nu, size=(M, 1)))
        x = QUALITY * xi[labels] + math.sqrt(1 - QUALITY**2) * noise
        sample, shape = (np.linalg.eigh(a)[0][::-1] for a in (x.T @ x / M, tyler(x).matrix))
        test = N, M, ALPHA
        return {"n_detected": (count_white(sample, *test), count_white(shape, *test, widening[q]))}

    return stack_cells([[cell(nu, q) for q in RATIOS] for nu in DEGREES])


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:  # noqa: ARG001
    sample, shape = np.moveaxis(arrays["n_detected"], -1, 0)
    return {
        "sample_heaviest": mean_and_sd(sample[:, 0].ravel()),
        "tyler_heaviest": mean_and_sd(shape[:, 0].ravel()),
        "tyler_exact": float((shape == len(MIXTURE)).mean()),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    at = [r"$\infty$" if math.isinf(nu) else f"{nu:g}" for nu in DEGREES]
    words: dict[str, Any] = {"xlabel": r"degrees of freedom $\nu$", "log": "y", "points": True}
    names, true = ("sample covariance", "Tyler's shape"), {"true": [len(MIXTURE)] * len(at)}
    return [
        line_plot(
            f"counted, q = {q:g}",
            at,
            split_axis(names, arrays["n_detected"][:, :, j], -1),
            true,
            **words,
        )
        for j, q in enumerate(RATIOS)
    ]
