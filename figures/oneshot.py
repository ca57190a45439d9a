"""The figure of `hopfed run oneshot`: methods and sweeps."""

from __future__ import annotations

from matplotlib.figure import Figure

from hopfed.figures import _methods
from hopfed.runs import Run

VALUES = {
    "heterogeneity": "concentration of the Dirichlet law",
    "filters": "random filters",
    "privacy": "epsilon",
}


def draw(run: Run) -> Figure:
    """Draw the methods and sweeps; gains are over the read-out of a client's own examples."""
    figure = _methods.draw(run, "hebbian alone")
    for axes in figure.axes:
        if axes.get_title() in VALUES:
            axes.set_xlabel(VALUES[axes.get_title()])
    return figure
