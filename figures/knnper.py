"""The figure of `hopfed run knnper`: methods and sweeps."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from hopfed.figures import _methods, styled
from hopfed.figures._methods import has_more_sections
from hopfed.runs import Run

__all__ = ["draw", "draw_sections", "draw_whole", "has_more_sections"]

REFERENCE = "fedavg"

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


@styled()
def draw(run: Run) -> Figure:
    """Draw the methods; gains are over FedAvg."""
    return _marked(run, _methods.draw(run, REFERENCE, VALUES))


@styled()
def draw_whole(run: Run) -> Figure:
    """Draw the methods and sweeps."""
    return _marked(run, _methods.draw_whole(run, REFERENCE, VALUES))


@styled()
def draw_sections(run: Run, names: Sequence[str]) -> Figure:
    """Draw the sweeps `names`, at most six."""
    return _marked(run, _methods.draw_sections(run, names, REFERENCE, VALUES))


def _marked(run: Run, figure: Figure) -> Figure:
    """Mark in the stream where other examples begin."""
    for axes in figure.axes:
        if axes.get_title() == STREAM:
            axes.axvline(run.config["before"] - 0.5, color="0.6", ls=":", lw=0.8)
    return figure
