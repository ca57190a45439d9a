"""The figure of `hopfed recall`: cues, intermediate states, and recalled patterns."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from hopfed.figures.style import new_figure, shaped, styled
from hopfed.runs import Run

SIDE = 22  # side of a picture in mm
SHOWN = 6  # number of cues


@styled()
def draw(run: Run, *, shape: tuple[int, int] | None = None) -> Figure:
    """Draw a recall from its run, with patterns of a shape, or of the nearest rectangle."""
    cues = run.arrays["cues"][:SHOWN]
    shape = shaped(shape, cues.shape[1])
    columns: list[tuple[str, np.ndarray]] = [("cue", cues)]
    marks = zip(run.arrays["steps/updates"], run.arrays["steps/states"], strict=True)
    columns += [(f"after {mark}", states) for mark, states in marks]
    columns.append(("recalled", run.arrays["states"][:SHOWN]))
    layers = 1 if run.arrays["states"].ndim == 2 else run.arrays["states"].shape[1]
    rows = len(cues) * layers
    figure = new_figure(SIDE * len(columns), 6 + SIDE * rows)
    grid = figure.subplots(rows, len(columns), squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for j, (title, states) in enumerate(columns):
        grid[0, j].set_title(title, pad=2)
        for s in range(len(cues)):
            for layer in range(1 if states.ndim == 2 else layers):
                image = states[s] if states.ndim == 2 else states[s, layer]
                # A cue is next to the middle one of the layers that start from it.
                row = s * layers + (layer if states.ndim == 3 else layers // 2)
                axes = grid[row, j]
                axes.imshow(image.reshape(shape), vmin=-1, vmax=1, interpolation="nearest")
    return figure
