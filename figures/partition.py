"""The figure of a partition: number of examples of every client, by part and by class."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from hopfed.figures.style import literal, new_figure, styled

PARTS = {"training": "C0", "validation": "C4", "test": "C1"}
NAMED = 20  # largest number of classes or clients with names; more of them get numbers


@styled()
def draw(partition: Any) -> Figure:
    """Draw the sizes of the clients above and their classes below."""
    counts, names = partition.counts(), partition.dataset.class_names
    height = min(max(4 * len(names), 25), 80)
    figure = new_figure(170, 42 + height)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(28, height))
    bottom = np.zeros(len(counts))
    for (part, colour), sizes in zip(PARTS.items(), partition.sizes.T, strict=True):
        above.bar(np.arange(len(counts)), sizes, 0.8, bottom, color=colour, label=part)
        bottom += sizes
    above.set(ylabel="examples")
    above.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)
    norm = PowerNorm(0.5, vmin=0, vmax=max(counts.max(), 1))
    mesh = below.imshow(counts.T, cmap="Blues", norm=norm, aspect="auto", interpolation="none")
    below.set(xlabel="client", ylabel="class")
    if len(names) <= NAMED:
        below.set_yticks(range(len(names)), [_word(name) for name in names])
    if len(counts) <= NAMED:
        below.set_xticks(range(len(counts)), [_word(name) for name in partition.names])
    figure.colorbar(mesh, ax=below, label="examples", pad=0.01)
    unused = f", {partition.unused:,} unused" if partition.unused else ""
    title = f"{partition.dataset.name}, {partition.scheme}, {len(counts)} clients{unused}"
    above.set_title(literal(title), loc="left")
    return figure


def _word(name: str) -> str:
    """Return a name for an axis: visible, and not too long."""
    name = {" ": "space", "\n": "line break"}.get(name, name)
    return literal(name if len(name) <= 18 else name[:17] + "…")
