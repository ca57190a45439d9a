"""The figure of `hopfed sweep`: one number of the summary over a grid of settings."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from hopfed.figures.kinds import over, page
from hopfed.figures.style import literal

LINES = 20  # beyond which a legend says no more


def draw_sweep(
    keys: Sequence[str], values: Mapping[tuple[str, ...], tuple[float, float] | None], label: str
) -> Figure:
    """Draw a measure over the first setting of a grid, a line for each choice of the others."""
    at, lines = list(dict.fromkeys(cell[0] for cell in values)), {}
    for line in dict.fromkeys(cell[1:] for cell in values):
        pairs = [values.get((x, *line)) or (np.nan, np.nan) for x in at]
        words = ", ".join(f"{k} = {v}" for k, v in zip(keys[1:], line, strict=True))
        lines[literal(words)] = tuple(np.array(pairs, float).T)
    legend = "best" if len(lines) <= LINES else ""
    axes = {"xlabel": literal(keys[0]), "ylabel": literal(label), "legend": legend}
    return page([over("", [literal(x) for x in at], lines, points=True, **axes)])
