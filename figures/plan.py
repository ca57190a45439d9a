"""The figure of `hopfed run plan`: frequencies at the planned sizes beside the promised power."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

TITLES = ("each is seen", "all are counted", "all are resolved")


@styled()
def draw(run: Run) -> Figure:
    """A panel for each promise: kinds of study from top to bottom, two errors as a band."""
    names = ["N = {:.0f}, K = {:.0f}, r = {:g}".format(*kind) for kind in run.summary["kinds"]]
    found, sizes = np.array(run.summary["frequencies"]), np.array(run.summary["sizes"])
    power, error = run.config["power"], run.summary["error"]
    rows = np.arange(len(names))
    figure = new_figure(180, 30 + 5 * len(names))
    panels = figure.subplots(1, len(TITLES), sharey=True, sharex=True)
    for j, (axes, title) in enumerate(zip(panels, TITLES, strict=True)):
        axes.axvspan(power - 2 * error, min(power + 2 * error, 1), color="0.9")
        axes.axvline(power, color="0.4", lw=0.8)
        axes.plot(found[:, j], rows, "o", color=f"C{j}", markersize=4)
        for row, size in zip(rows, sizes[:, j], strict=True):
            axes.annotate(
                f"M = {size:,.0f}", (0.02, row), xycoords=("axes fraction", "data"), va="center"
            )
        axes.set(title=title, xlabel="share")
    lowest = min(float(found.min()), power - 2 * error)
    panels[0].set_xlim(lowest - 0.8 * (1.02 - lowest), 1.02)
    panels[0].set_yticks(rows, names)
    panels[0].invert_yaxis()
    return figure
