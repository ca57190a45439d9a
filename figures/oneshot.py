"""The figure of `hopfed run oneshot`: methods and sweeps."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from hopfed.figures import _methods, styled
from hopfed.figures._methods import has_more_sections
from hopfed.runs import Run

__all__ = ["draw", "draw_sections", "draw_whole", "has_more_sections"]

REFERENCE = "hebbian alone"

VALUES = {
    "heterogeneity": "concentration of the Dirichlet law",
    "filters": "random filters",
    "privacy": "epsilon",
}


@styled()
def draw(run: Run) -> Figure:
    """Draw the methods; gains are over the read-out of a client's own examples."""
    return _methods.draw(run, REFERENCE, VALUES)


@styled()
def draw_whole(run: Run) -> Figure:
    """Draw the methods and sweeps."""
    return _methods.draw_whole(run, REFERENCE, VALUES)


@styled()
def draw_sections(run: Run, names: Sequence[str]) -> Figure:
    """Draw the sweeps `names`, at most six."""
    return _methods.draw_sections(run, names, REFERENCE, VALUES)
