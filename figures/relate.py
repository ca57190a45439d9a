"""The figure of `Archetypes.relate`: estimates of each class with their 95% intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hopfed.errors import shown
from hopfed.figures.style import new_figure, styled

MOST = 8  # names that are drawn


@styled()
def draw(related: Any) -> Figure:
    """Draw a `hopfed.archetypes.relate.Relation`."""
    first = int(related.kind == "log odds")  # the constant says nothing of covariates
    names = related.names[first : first + MOST]
    figure = new_figure(50 + 45 * len(names), 58)
    numbers, spans = np.arange(1, len(related.estimates) + 1), related.intervals()
    for axes, j in zip(
        np.atleast_1d(figure.subplots(1, len(names))), range(first, 99), strict=False
    ):
        x = related.estimates[:, j]
        axes.errorbar(numbers, x, np.abs(spans[:, j].T - x), fmt="o", capsize=3)
        if first:
            axes.axhline(0, color="0.6", lw=0.8, ls=":")
        axes.set(xlabel="archetype", title=shown(related.names[j], 40), xticks=numbers)
        axes.set_ylabel(f"{related.kind}, 95% intervals")
    return figure
