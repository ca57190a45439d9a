"""The figure of `hopfed run concentration`: the deviation from the mean, and the bounds."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

BOUNDS = (
    ("bernstein", "Bernstein", "-"),
    ("universal", "proxy 1/4", "--"),
    ("paper", "the paper's (36)", ":"),
)


@styled()
def draw(run: Run) -> Figure:
    """Draw measured deviations (all draws and their mean) below the bounds, for each quality."""
    qualities = run.config["qualities"]
    figure = new_figure(90, 62)
    row = figure.subplots(1, len(qualities), sharey=True, squeeze=False)[0]
    for i, (axes, r) in enumerate(zip(row, qualities, strict=True)):
        _panel(axes, run, i)
        axes.set(title=f"r = {r:g}", xlabel="M")
    row[0].set_ylabel(r"$\|J - \mathrm{E}\,J\|$")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _panel(axes: Axes, run: Run, i: int) -> None:
    M, measured = np.array(run.config["M"]), run.arrays["deviation"][:, i]
    axes.plot(np.tile(M, len(measured)), measured.ravel(), ".", color="C0", ms=2, alpha=0.3)
    axes.plot(M, measured.mean(axis=0), "o-", color="C0", mfc="none", label="measured")
    for k, (name, label, line) in enumerate(BOUNDS, start=1):
        bound = run.arrays[f"bounds/{name}"][:, i].mean(axis=0)
        axes.plot(M, bound, line, color=f"C{k}", label=label)
    counting = run.arrays["counting"][:, i].mean(axis=0)
    axes.plot(M, counting, "-.", color="0.5", lw=0.9, label="exposures alone")
    axes.set(xscale="log", yscale="log")
