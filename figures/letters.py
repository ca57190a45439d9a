"""The picture of `hopfed demo`: noisy examples above, recovered letters below."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from hopfed.factorize import Archetypes
from hopfed.figures import new_figure


def draw(
    examples: list[np.ndarray], found: Archetypes, letters: np.ndarray, size: int
) -> Figure:
    """Draw `examples` above and the recovered patterns below, in the order of the alphabet.

    The letters (26, size^2) only put the recovered patterns in a readable order.
    """
    patterns = found.patterns
    if len(patterns):
        nearest = np.abs(patterns.astype(np.float32) @ letters.T).argmax(axis=1)
        patterns = patterns[np.argsort(nearest, kind="stable")]
    columns = 13
    above = examples[: 2 * columns]
    rows = [above[:columns], above[columns:], patterns[:columns], patterns[columns:]]
    figure = new_figure(170, 60)
    grid = figure.subplots(4, columns)
    for row, images in zip(grid, rows, strict=True):
        for axes in row:
            axes.set_axis_off()
        for axes, image in zip(row, images, strict=False):
            axes.imshow(image.reshape(size, size), vmin=-1, vmax=1, interpolation="nearest")
    grid[0, 0].set_title("what the clients hold (a quarter of all pixels flipped)", loc="left")
    grid[2, 0].set_title("what the server recovers from their operators", loc="left")
    return figure
