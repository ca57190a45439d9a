"""Archetypes as a heat map with a line for each column, or as pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hopfed._lib.settings import require
from hopfed.errors import shown
from hopfed.figures.style import literal, new_figure, shaped, styled, tiles
from hopfed.runs import Run

LINES = 50  # columns in the heat map: those that differ most between archetypes
SHOWN = 40  # archetypes
LONGEST = 32  # characters of a name
ACROSS = 10  # pictures in a row


@styled()
def draw(run: Run, *, shape: tuple[int, int] | None = None) -> Figure:
    """Draw the means of archetypes from their run, as pictures of a shape, or as a heat map."""
    means = run.arrays["archetypes/means"]
    require(len(means) > 0, "run", "of a recovery that found archetypes", "none")
    if shape is not None:
        some, shape = means[:SHOWN], shaped(shape, means.shape[1])
        across = min(ACROSS, len(some))
        figure = new_figure(17 * across, 18 * -(-len(some) // across) + 2)
        tiles(figure, some, shape, across, named=True)
        return figure
    figure = new_figure(*heat_map_size(means))
    heat_map(figure, run)
    return figure


def heat_map_size(means: np.ndarray) -> tuple[float, float]:
    """Width and height in mm of a heat map of means (K, N)."""
    K, N = means.shape
    return 70 + 6 * min(K, SHOWN), 25 + 4.2 * min(N, LINES)


def heat_map(figure: Any, run: Run) -> None:
    """Draw into a figure a line for each column of the table, in its order; across archetypes."""
    means = run.arrays["archetypes/means"]
    K, N = means.shape
    kept = np.sort(np.argsort(-means.std(axis=0), kind="stable")[:LINES])
    some = means[:SHOWN, kept].T
    axes = figure.subplots()
    image = axes.imshow(some, vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto", interpolation="none")
    names = run.arrays.get("columns/names")
    given = [
        f"column {j + 1}" if names is None else names[j].decode("utf-8", "replace") for j in kept
    ]
    axes.set_yticks(np.arange(len(kept)), [literal(shown(name, LONGEST)) for name in given])
    shares = run.arrays["archetypes/shares"][:SHOWN]
    known = np.isfinite(shares)  # not those that a federation of signs tells
    labels = [f"{k}\n{s:.0%}" if known[k - 1] else f"{k}" for k, s in enumerate(shares, start=1)]
    axes.set_xticks(np.arange(some.shape[1]), labels)
    axes.set_xlabel("archetype, and its share of the rows" if known.any() else "archetype")
    if some.size < means.size:
        rest = f" of the first {SHOWN} archetypes" if K > SHOWN else ""
        axes.set_title(f"the {len(kept)} of {N:,} columns that differ most{rest}")
    bar = figure.colorbar(image, ax=axes, ticks=[-1, 0, 1])
    bar.set_ticklabels(["0%", "50%", "100%"])  # a rate is (1 + mean) / 2
    bar.set_label("rate of +1 in the column")


def has_names(run: Run) -> bool:
    """Whether columns have names that somebody gave them."""
    names = run.arrays.get("columns/names")
    return names is not None and names.tolist() != [
        b"column %d" % j for j in range(1, len(names) + 1)
    ]
