"""The figure of a partition: number of examples of every client, by part and by class."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hopfed.figures.style import literal, new_figure, styled

PARTS = ("training", "validation", "test")
COLOURS = ("C0", "C4", "C1")
NAMED = 20  # largest number of classes or clients with names; more of them get numbers


@styled()
def draw(partition: Any) -> Figure:
    """Draw the sizes of the clients above and their classes below.

    Parameters
    ----------
    partition : as :func:`hopfed.neural.data.partition` returns it.
    """
    counts = partition.counts()
    names = partition.dataset.class_names
    height = 42 + min(max(4 * len(names), 25), 80)
    figure = new_figure(170, height)
    ratios = (28, height - 42)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=ratios)
    _sizes(above, partition.sizes)
    mesh = below.pcolormesh(
        np.arange(counts.shape[0] + 1) - 0.5,
        np.arange(counts.shape[1] + 1) - 0.5,
        counts.T,
        cmap="Blues",
        norm=PowerNorm(0.5, vmin=0, vmax=max(counts.max(), 1)),
        edgecolors="white" if len(counts) <= NAMED else "none",
        linewidth=0.4,
    )
    below.set(xlabel="client", ylabel="class", xlim=(-0.5, len(counts) - 0.5))
    below.invert_yaxis()
    if len(names) <= NAMED:
        below.set_yticks(range(len(names)), [_word(name) for name in names])
    if len(counts) <= NAMED:
        below.set_xticks(range(len(counts)), [_word(name) for name in partition.names])
    else:
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(mesh, ax=below, label="examples", pad=0.01)
    data = literal(partition.dataset.name)
    unused = f", {partition.unused:,} unused" if partition.unused else ""
    above.set_title(f"{data}, {partition.scheme}, {len(counts)} clients{unused}", loc="left")
    return figure


def _sizes(axes: Axes, sizes: np.ndarray) -> None:
    """Draw stacked bars of training, validation and test examples."""
    place, bottom = np.arange(len(sizes)), np.zeros(len(sizes))
    width = 0.8 if len(sizes) <= 100 else 1.0
    for part, colour, height in zip(PARTS, COLOURS, sizes.T, strict=True):
        axes.bar(place, height, width, bottom, color=colour, label=part)
        bottom += height
    axes.set(ylabel="examples")
    axes.tick_params(labelbottom=False)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)


def _word(name: str) -> str:
    """Return a name for an axis: visible, and not too long."""
    name = {" ": "space", "\n": "line break"}.get(name, name)
    return literal(name if len(name) <= 18 else name[:17] + "…")
