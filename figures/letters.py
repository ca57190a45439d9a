"""The picture of `hopfed demo`: noisy examples above, recovered letters below."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from hopfed.figures import new_figure, styled

COLUMNS = 13


@styled()
def draw(examples: Sequence[np.ndarray], patterns: np.ndarray, size: int) -> Figure:
    """Draw 26 `examples` above and the recovered `patterns` below, in the order given.

    Parameters
    ----------
    examples : rows of +-1, each size^2 pixels.
    patterns : (K, size^2) of +-1.
    """
    figure = new_figure(170, 70)
    above, below = figure.subfigures(2, 1, squeeze=False)[:, 0]
    above.suptitle("examples of the clients: a quarter of all pixels is flipped", fontsize=8)
    below.suptitle("patterns that the server recovers from their operators", fontsize=8)
    for part, images in ((above, examples), (below, patterns)):
        for axes, k in zip(part.subplots(2, COLUMNS).flat, range(2 * COLUMNS), strict=True):
            axes.set_axis_off()
            if k < len(images):
                image = images[k].reshape(size, size)
                axes.imshow(image, vmin=-1, vmax=1, interpolation="nearest")
    return figure
