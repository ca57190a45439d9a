"""The figure of `hopfed run knnper`: methods and sweeps."""

from __future__ import annotations

from matplotlib.figure import Figure

from hopfed.figures import _methods
from hopfed.runs import Run

STREAM = "stream"
# Section -> label of its swept values.
VALUES = {
    "heterogeneity": "concentration of the Dirichlet law",
    "k": "neighbours",
    "sigma": "width of the kernel",
    "lambda": "weight of the neighbours",
    "capacity": "share of examples that a client keeps",
    "weight by size": "weight of the neighbours",
    "capacity by heterogeneity": "share of examples that a client keeps",
    "capacity by method": "share of examples that a client has",
    "hardware": "capacity of strong clients minus 1/2",
    "global model": "rounds of training",
    STREAM: "step (dotted: other examples from here)",
}


def draw(run: Run) -> Figure:
    """Draw the methods and sweeps; gains are over FedAvg."""
    figure = _methods.draw(run, "fedavg")
    for axes in figure.axes:
        section = axes.get_title()
        if section in VALUES:
            axes.set_xlabel(VALUES[section])
        if section == STREAM:
            axes.axvline(run.config["before"] - 0.5, color="0.6", ls=":", lw=0.8)
    return figure
