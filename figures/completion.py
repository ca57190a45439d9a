"""The figure of `hopfed run completion`: right entries over the share that is masked."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

RULES = ("hebb", "dreamed", "projector", "dense", "exponential")
METHODS = ("commoner value", "projector", "dense", "nearest row", "graded", "true classes")
COLOURS = ("0.6", "C2", "C3", "C4", "C5", "0.2")


@styled()
def draw(run: Run) -> Figure:
    """Left and middle: stored patterns. Right: rows of a table that were not stored."""
    figure = new_figure(180, 80)
    left, middle, right = figure.subplots(1, 3)
    colours = [f"C{i}" for i in range(len(RULES))]
    _lines(left, run, "random/right", RULES, colours, "random patterns")
    _lines(middle, run, "pictures/right", RULES, colours, "pictures")
    _lines(right, run, "table/right", METHODS, COLOURS, "rows that were not stored")
    left.set_ylabel("masked entries that are right")
    figure.legend(handles=left.lines, loc="outside lower left", ncols=3)
    figure.legend(handles=right.lines, loc="outside lower right", ncols=3)
    return figure


def _lines(
    axes: Axes, run: Run, name: str, labels: tuple[str, ...], colours: object, title: str
) -> None:
    """Mean and range over the seeds, one line for each label."""
    masked, right = np.array(run.config["masked"]), run.arrays[name]
    for i, (label, colour) in enumerate(zip(labels, list(colours), strict=True)):  # type: ignore[call-overload]
        if np.isnan(right[:, i]).all():
            continue
        axes.plot(masked, right[:, i].mean(axis=0), color=colour, label=label)
        low, high = right[:, i].min(axis=0), right[:, i].max(axis=0)
        axes.fill_between(masked, low, high, color=colour, alpha=0.12, lw=0)
    axes.set(xlabel="share masked", ylim=(0.45, 1.02), title=title)
