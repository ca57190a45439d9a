"""The figure of `hopfed run knnper`."""

from __future__ import annotations

from matplotlib.figure import Figure

from hopfed.figures import _methods
from hopfed.runs import Run


def draw(run: Run) -> Figure:
    """Draw the methods and sweeps; gains are over FedAvg."""
    return _methods.draw(run, "fedavg")
