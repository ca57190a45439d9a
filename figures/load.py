"""The figure of `hopfed run load`: archetypes found over the load, limits, and seconds."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hopfed.figures import new_figure, spread, styled
from hopfed.runs import Run

MODES = (
    "one operator",
    "one operator, unequal",
    "ten groups",
    "ten groups, unequal",
    "ten owners",
    "ten groups in layers",
)
COLOURS = ("C0", "C0", "C1", "C1", "C2", "C3")
LINES = ("-", ":", "-", ":", "-", "-")  # dotted for unequal exposures
STOPS = ("threshold", "subspace", "search", "examples")  # numbers 1 to 4 in the run
MARKS = ("v", "s", "X", "o")


FIRST = 3  # sizes in the first picture


def has_more_sections(run: Run) -> bool:
    """Whether there are further sizes."""
    return len(run.config["N"]) > FIRST


@styled()
def draw(run: Run, *, whole: bool = False) -> Figure:
    """Draw, by N (three unless `whole`), the part found (mean, range over seeds), and seconds."""
    sizes, loads = len(run.config["N"]), np.array(run.config["loads"])
    shown = spread(sizes, sizes if whole else FIRST)
    figure = new_figure(min(max(50 * len(shown), 110), 180), 110)
    grid = figure.subplots(2, len(shown), sharex=True, sharey="row", squeeze=False)
    for top, bottom, j in zip(*grid, shown, strict=True):
        arrays = {name: run.arrays[name][:, :, j] for name in ("found", "seconds", "stop")}
        for i in range(len(MODES)):
            _lines(top, bottom, loads, {k: a[:, i] for k, a in arrays.items()}, i)
        top.set_title(f"N = {run.config['N'][j]:,}")
        bottom.set(yscale="log", xlabel="load K / N")
    grid[0, 0].set(ylabel="part of archetypes found", ylim=(-0.03, 1.04))
    grid[1, 0].set_ylabel("seconds of processor time")
    lines = [
        Line2D([], [], color=colour, ls=line, label=mode)
        for mode, colour, line in zip(MODES, COLOURS, LINES, strict=True)
    ]
    marks = [
        Line2D([], [], color="0.3", ls="", marker=mark, ms=4, label=f"stopped by {stop}")
        for mark, stop in zip(MARKS, STOPS, strict=True)
    ]
    columns = 3 if len(shown) < 3 else 4
    figure.legend(handles=[*lines, *marks], loc="outside upper center", ncols=columns)
    return figure


draw_whole = partial(draw, whole=True)


def _lines(top: Axes, bottom: Axes, loads: np.ndarray, a: dict[str, np.ndarray], i: int) -> None:
    """Draw mode `i` at one N from arrays (seeds, loads), up to the loads that all seeds tried."""
    tried = ~np.isnan(a["found"]).any(axis=0)
    found, seconds, stop = (a[name][:, tried] for name in ("found", "seconds", "stop"))
    at, mean = loads[tried], found.mean(axis=0)
    style = {"color": COLOURS[i], "ls": LINES[i]}
    top.plot(at, mean, **style)
    top.fill_between(at, found.min(axis=0), found.max(axis=0), alpha=0.12, color=COLOURS[i], lw=0)
    bottom.plot(at, np.median(seconds, axis=0), **style)
    for number, mark in enumerate(MARKS, start=1):
        # The most frequent limit among seeds that are not complete.
        counts = [(stop == n).sum(axis=0) for n in range(1, len(MARKS) + 1)]
        here = (counts[number - 1] > 0) & (np.argmax(counts, axis=0) == number - 1)
        points = {"ls": "", "marker": mark, "ms": 4, "color": COLOURS[i]}
        top.plot(at[here], mean[here], **points)
        bottom.plot(at[here], np.median(seconds, axis=0)[here], **points)
