"""The picture of `hopfed demo`: noisy examples above, recovered letters below."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from hopfed.figures.style import new_figure, styled, tiles

COLUMNS = 13


@styled()
def draw(examples: Sequence[np.ndarray], patterns: np.ndarray, size: int) -> Figure:
    """Draw 26 `examples` above and the recovered `patterns` (K, size^2) below, as given."""
    figure = new_figure(170, 70)
    above, below = figure.subfigures(2, 1, squeeze=False)[:, 0]
    above.suptitle("examples of the clients: a quarter of all pixels is flipped", fontsize=8)
    below.suptitle("patterns that the server recovers from their operators", fontsize=8)
    for part, images in ((above, examples), (below, patterns)):
        tiles(part, images[: 2 * COLUMNS], (size, size), COLUMNS, named=False)
    return figure
