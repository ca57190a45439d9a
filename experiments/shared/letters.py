"""The 26 capital letters as archetypes, drawn with the font that matplotlib brings along."""

from __future__ import annotations

import string

import numpy as np

LETTERS = string.ascii_uppercase


def render_letters(size: int = 48) -> np.ndarray:
    r"""Draw the capital letters in ink +1 on paper -1: int8 (26, size * size).

    Parameters
    ----------
    size : height and width in pixels.

    Examples
    --------
    >>> L = render_letters(8)[11].reshape(8, 8)
    >>> print("\n".join("".join("-#"[int(x > 0)] for x in row) for row in L))
    --------
    --#-----
    --#-----
    --#-----
    --#-----
    --#-----
    --#-----
    --------
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    images = np.empty((len(LETTERS), size, size), dtype=np.int8)
    for k, letter in enumerate(LETTERS):
        figure = Figure(figsize=(1, 1), dpi=size)
        canvas = FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.axis("off")
        path = TextPath((0, 0), letter, size=1)
        box = path.get_extents()
        scale = 0.86 / max(box.width, box.height)
        centre = Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2)
        place = centre.scale(scale).translate(0.5, 0.5)
        axes.add_patch(PathPatch(path, transform=place + axes.transData, color="black"))
        canvas.draw()
        grey = np.asarray(canvas.buffer_rgba())[..., 0]
        images[k] = np.where(grey < 128, 1, -1)
    return images.reshape(len(LETTERS), -1)
