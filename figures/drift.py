"""The figure of `hopfed run drift`: exposures, weights and magnetisations, as in Fig. 7."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure
from hopfed.runs import Run

VARIANTS = ("w = 0", "w = 1", "entropy", "structure", "kept apart")
SCHEDULES = ("sequential", "cyclic")


def draw(run: Run) -> Figure:
    """Draw a row for each schedule and quality: exposures, weights, and m under each variant."""
    rows = [f"{s}/r={r:g}" for s in SCHEDULES for r in run.config["qualities"]]
    figure = new_figure(190, 30 * len(rows) + 10)
    grid = figure.subplots(len(rows), 2 + len(VARIANTS), sharex=True, sharey=True, squeeze=False)
    for row, at in zip(grid, rows, strict=True):
        _curves(row[0], run.arrays[f"{at}/exposures"])
        _weights(row[1], run, at)
        for axes, name in zip(row[2:], VARIANTS, strict=True):
            _curves(axes, run.arrays[f"{at}/{name}/magnetisation"])
        row[0].set_ylabel(at.replace("/", ", "))
        row[0].set(ylim=(-0.04, 1.04))
    for axes, title in zip(grid[0], ("exposure", "weight w", *VARIANTS), strict=True):
        axes.set_title(title if title not in VARIANTS else f"m: {title}")
    grid[0, 1].legend(loc="upper right", handlelength=1.2)
    for axes in grid[-1]:
        axes.set_xlabel("round")
    return figure


def _curves(axes: Axes, values: np.ndarray) -> None:
    """Mean over seeds of each archetype, and the range over seeds."""
    for k in range(values.shape[2]):
        x = np.arange(values.shape[1])
        low, high = values[:, :, k].min(axis=0), values[:, :, k].max(axis=0)
        axes.fill_between(x, low, high, color=f"C{k}", alpha=0.15, lw=0)
        axes.plot(x, values[:, :, k].mean(axis=0), color=f"C{k}")


def _weights(axes: Axes, run: Run, at: str) -> None:
    for i, name in enumerate(("entropy", "structure")):
        w = run.arrays[f"{at}/{name}/client/weight"].mean(axis=(0, 2))
        axes.plot(w, color="0.2", ls=("-", ":")[i], label=name)
