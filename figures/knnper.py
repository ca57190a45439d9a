"""The figure of `hopfed run knnper`."""

from __future__ import annotations

from matplotlib.figure import Figure

from hopfed.figures import _methods
from hopfed.runs import Run

STREAM = "stream"


def draw(run: Run) -> Figure:
    """Draw the methods and sweeps; gains are over FedAvg."""
    figure = _methods.draw(run, "fedavg")
    for axes in figure.axes:
        if axes.get_title() == STREAM:
            axes.axvline(run.config["before"] - 0.5, color="0.6", ls=":", lw=0.8)
            axes.set_xlabel("step (dotted: other examples from here)")
    return figure
