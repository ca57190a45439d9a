"""The figure of `hopfed run load`: what is found at which load, and how long it takes."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from hopfed.figures import new_figure
from hopfed.runs import Run

MODES = ("one operator", "one operator, unequal", "ten groups", "ten owners")
LINES = ("-", "--", ":", "-.")


def draw(run: Run) -> Figure:
    """Draw, by N, the part found (mean, range over seeds) and the seconds over K / N."""
    sizes, loads = run.config["N"], np.array(run.config["loads"])
    found, seconds = run.arrays["found"], run.arrays["seconds"]
    figure = new_figure(max(60 * len(sizes), 90), 95)
    grid = figure.subplots(2, len(sizes), sharex=True, sharey="row", squeeze=False)
    for j, N in enumerate(sizes):
        top, bottom = grid[:, j]
        for i, mode in enumerate(MODES):
            tried = ~np.isnan(found[:, i, j]).any(axis=0)
            part, spent = found[:, i, j][:, tried], seconds[:, i, j][:, tried]
            style = {"color": f"C{i}", "ls": LINES[i]}
            top.plot(loads[tried], part.mean(axis=0), marker="o", label=mode, **style)
            top.fill_between(
                loads[tried], part.min(axis=0), part.max(axis=0), alpha=0.15, color=f"C{i}"
            )
            bottom.plot(loads[tried], np.median(spent, axis=0), marker="o", **style)
        top.set_title(f"N = {N:,}")
        bottom.set(yscale="log", xlabel="load K / N")
    grid[0, 0].set(ylabel="part of archetypes found", ylim=(-0.03, 1.03))
    grid[1, 0].set_ylabel("seconds")
    lines, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper center", ncols=min(2 * len(sizes), len(names)))
    return figure
