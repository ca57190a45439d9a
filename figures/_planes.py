"""Features in a plane, one panel for each cell (`hopfed.experiments.shared.feature_planes`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D

MARKS = "o^sD"
COLOURS = colormaps["tab10"].colors  # type: ignore[attr-defined]  # labels take them in turn


def draw(figure: SubFigure, planes: Sequence[tuple[str, np.ndarray]], groups: str) -> None:
    """Draw a panel for each plane; colours are labels, marks are `groups`."""
    row_of_axes = figure.subplots(1, len(planes), squeeze=False)[0]
    for axes, (row, plane) in zip(row_of_axes, planes, strict=True):
        for points, mark in zip(plane, MARKS, strict=False):
            x, y, label = points[points[:, 2] > 0].T.astype(int)
            colours = [_colour(k) for k in label]
            axes.scatter(x, y, s=11, marker=mark, color=colours, alpha=0.8, lw=0)
        axes.set(title=row, xticks=[], yticks=[])
    labels = np.unique([plane[..., 2] for _, plane in planes])
    named = [int(k) for k in labels if k > 0]
    keys = [_key("o", _colour(k), str(k - 1)) for k in named if len(named) <= len(COLOURS)]
    marks = zip(range(len(planes[0][1])), MARKS, strict=False)
    keys += [_key(mark, "0.4", f"{groups} {g + 1}") for g, mark in marks]
    near = {"handletextpad": -0.3, "columnspacing": 0.7}
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), **near)
    figure.suptitle("features of test examples; a colour is a label", fontsize=8)


def _colour(label: int) -> tuple[float, float, float]:
    """Colour of a label, counted from 1."""
    red, green, blue = COLOURS[(label - 1) % len(COLOURS)]
    return red, green, blue


def _key(mark: str, colour: str | tuple[float, float, float], label: str) -> Line2D:
    return Line2D([], [], color=colour, marker=mark, ls="", label=label)
