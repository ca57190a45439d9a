"""Archetypes as a heat map with a line for each column, or as pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, shown
from hopfed.figures import literal, new_figure, styled
from hopfed.runs import Run

LINES = 50  # columns in the heat map: those that differ most between archetypes
SHOWN = 40  # archetypes
LONGEST = 32  # characters of a name
ACROSS = 10  # pictures in a row


@styled()
def draw(run: Run, *, shape: tuple[int, int] | None = None) -> Figure:
    """Draw the means of archetypes from their run.

    Parameters
    ----------
    run : of a recovery, with `archetypes/means` (K, N), and `columns/names` where there are any.
    shape : height and width of a picture; a heat map when None.

    Raises
    ------
    ArgumentError : there is no archetype, or `shape` does not make up the columns.
    """
    means = run.arrays["archetypes/means"]
    require(len(means) > 0, "run", "of a recovery that found archetypes", "none")
    if shape is not None:
        return _pictures(means, shape)
    figure = new_figure(*heat_map_size(means))
    heat_map(figure, run)
    return figure


def heat_map_size(means: np.ndarray) -> tuple[float, float]:
    """Width and height in mm of a heat map of means (K, N)."""
    K, N = means.shape
    return 70 + 6 * min(K, SHOWN), 25 + 4.2 * min(N, LINES)


def heat_map(figure: Any, run: Run) -> None:
    """Draw a line for each column of the table, in its order; across are archetypes.

    Parameters
    ----------
    figure : or a part of one.
    run : of a recovery.
    """
    means = run.arrays["archetypes/means"]
    K, N = means.shape
    kept = np.sort(np.argsort(-means.std(axis=0), kind="stable")[:LINES])
    some = means[:SHOWN, kept].T
    axes = figure.subplots()
    image = axes.imshow(some, vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto", interpolation="none")
    axes.set_yticks(np.arange(len(kept)), [_label(run, j) for j in kept])
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


def _label(run: Run, j: int) -> str:
    """Name of column j, as a harmless line."""
    names = run.arrays.get("columns/names")
    if names is None:
        return f"column {j + 1}"
    return literal(shown(names[j].decode("utf-8", "replace"), LONGEST))


def _pictures(means: np.ndarray, shape: tuple[int, int]) -> Figure:
    height, width = shape
    if height * width != means.shape[1]:
        rule = f"height x width with a product of {means.shape[1]}"
        raise ArgumentError("shape", rule, f"{height}x{width}")
    some = means[:SHOWN]
    across = min(ACROSS, len(some))
    rows = -(-len(some) // across)
    figure = new_figure(17 * across, 18 * rows + 2)
    for k, axes in enumerate(figure.subplots(rows, across, squeeze=False).flat):
        axes.set_axis_off()
        if k < len(some):
            axes.imshow(some[k].reshape(shape), vmin=-1, vmax=1, interpolation="nearest")
            axes.set_title(str(k + 1), pad=1)
    return figure
