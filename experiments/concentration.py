"""Deviation of the operator of M examples from its mean, beside the bound of theory."""

from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Floats, Ints, Settings, at_least, within
from hopfed.experiments.shared.statistics import bootstrap_seeds, stack_cells
from hopfed.figures.kinds import Panel, line_plot
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.theory import concentration

MIXTURE = np.array([0.5, 0.3, 0.2])  # shares of the archetypes


class Config(Settings):
    N: Annotated[int, at_least(10), "sites"]
    M: Annotated[Ints, at_least(1), "examples"]
    qualities: Annotated[Floats, within("(0, 1)"), "values of r"]
    level: Annotated[float, within("(0, 1)"), "probability that the bound is exceeded"]


def measure(seed: int, config: Config) -> Arrays:
    """Experiment `concentration`: deviations of a seed, and the bound; both are (qualities, M)."""
    xi = rademacher(len(MIXTURE), config.N, stream(seed, "concentration", "archetypes"))
    N, cells = config.N, []
    for i, r in enumerate(config.qualities):
        mean = (r**2 * (xi.T * MIXTURE) @ xi.astype(float) + (1 - r**2) * np.eye(N)) / N
        spectrum, measured = np.linalg.eigvalsh(mean), []  # ``||J - E J||`` of M examples
        for M in config.M:
            rng = stream(seed, "draw", i, M)
            rows = draw_examples(xi, M, r, rng, exposures=MIXTURE)[0].astype(np.float64)
            measured.append(np.abs(np.linalg.eigvalsh(rows.T @ rows / M / N - mean)).max())
        proxy = min((spectrum * (1 - spectrum)).max(), 0.25)
        about = config.level, N, np.array(config.M, dtype=float), proxy
        bound = concentration.bernstein_deviation(*about)
        cells.append({"deviation": measured, "bounds/bernstein": bound})
    return stack_cells(cells)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    deviation, both = arrays["deviation"], (arrays["bounds/bernstein"], arrays["deviation"])

    def slope(values: np.ndarray) -> float:
        logs = np.log(values.mean(axis=0)).T  # (M, qualities)
        return float(np.polyfit(np.log(config.M), logs, 1)[0].mean())

    def ratio(bound: np.ndarray, measured: np.ndarray) -> Any:
        return bound.mean(axis=0) / measured.mean(axis=0)

    return {
        "exceeded": float((deviation > both[0]).mean()),
        "slope": bootstrap_seeds(slope, deviation) if len(set(config.M)) > 1 else None,
        "tightest": bootstrap_seeds(lambda *pair: ratio(*pair).min(), *both),
        "loosest": bootstrap_seeds(lambda *pair: ratio(*pair).max(), *both),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    words: dict[str, Any] = {"xlabel": "M", "ylabel": r"$\|J - \mathrm{E}\,J\|$", "log": "xy"}
    measured, bound = arrays["deviation"], arrays["bounds/bernstein"].mean(axis=0)
    return [
        line_plot(
            f"r = {r:g}", config.M, {"measured": measured[:, i]}, {"Bernstein": bound[i]}, **words
        )
        for i, r in enumerate(config.qualities)
    ]
