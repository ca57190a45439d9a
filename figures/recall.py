"""The figure of `hopfed recall`: cues, intermediate states, and recalled patterns."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from hopfed.figures.style import new_figure, picture_shape, use_style
from hopfed.runs import Run

SIDE = 22  # side of a picture in mm
SHOWN = 6  # number of cues


@use_style()
def draw(run: Run, *, shape: tuple[int, int] | None = None) -> Figure:
    """Draw a recall from its run, with patterns in `shape`, or in the nearest rectangle."""
    cues, last = run.arrays["cues"][:SHOWN], run.arrays["states"][:SHOWN]
    shape, layers = picture_shape(shape, cues.shape[1]), 1 if last.ndim == 2 else last.shape[1]
    marks = zip(run.arrays["steps/updates"], run.arrays["steps/states"], strict=True)
    columns = {"cue": cues, **{f"after {mark}": states for mark, states in marks}, "recalled": last}
    rows = len(cues) * layers
    figure = new_figure(SIDE * len(columns), 6 + SIDE * rows)
    grid = figure.subplots(rows, len(columns), squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for j, (title, states) in enumerate(columns.items()):
        grid[0, j].set_title(title, pad=2)
        # A cue is next to the middle one of the layers that start from it.
        start = layers // 2 if states.ndim == 2 else 0
        for s, layer in np.ndindex(len(cues), layers if states.ndim == 3 else 1):
            image = np.atleast_2d(states[s])[layer].reshape(shape)
            axes = grid[s * layers + start + layer, j]
            axes.imshow(image, vmin=-1, vmax=1, interpolation="nearest")
    return figure
