"""The figure of `hopfed sweep`: one number of the summary over a grid of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from hopfed.figures import literal, new_figure, styled

LINES = 20  # beyond which a legend says no more


@styled()
def draw_sweep(
    keys: Sequence[str], values: Mapping[tuple[str, ...], tuple[float, float] | None], label: str
) -> Figure:
    """Draw a measure over the first setting of a grid, a line for each choice of the others.

    Parameters
    ----------
    keys : the settings.
    values : their values -> the measure and its spread, or None where there is none.
    label : of the measure.
    """
    figure = new_figure(120, 80)
    axes = figure.add_subplot()
    at = list(dict.fromkeys(cell[0] for cell in values))
    places = _places(at)
    lines = list(dict.fromkeys(cell[1:] for cell in values))
    for i, line in enumerate(lines):
        pairs = [values.get((x, *line)) or (np.nan, np.nan) for x in at]
        means, spreads = np.array(pairs, float).T
        words = ", ".join(f"{k} = {v}" for k, v in zip(keys[1:], line, strict=True))
        axes.errorbar(
            places, means, spreads, fmt=".-", color=f"C{i % 10}", capsize=2, label=literal(words)
        )
    axes.set(xlabel=literal(keys[0]), ylabel=literal(label))
    if places == list(range(len(at))):
        axes.set_xticks(places, [literal(x) for x in at])
    if 1 < len(lines) <= LINES:
        axes.legend()
    return figure


def _places(at: Sequence[str]) -> list[float]:
    """Where values of a setting stand: at themselves, where all of them are numbers."""
    try:
        found = [float(x) for x in at]
    except ValueError:
        return list(range(len(at)))
    return found if np.isfinite(found).all() else list(range(len(at)))
