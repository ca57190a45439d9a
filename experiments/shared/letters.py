"""The 26 capital letters as archetypes, drawn with the font that matplotlib brings along."""

from __future__ import annotations

import string

import numpy as np

from hopfed._lib.random import stream
from hopfed.hopfield.channel import draw_examples

LETTERS = string.ascii_uppercase
CLIENTS, EACH, QUALITY, SUBSET = 5, 1_200, 0.5, 14  # of `hopfed demo`


def render_letters(size: int = 48) -> np.ndarray:
    """Draw the capital letters in ink +1 on paper -1, `size` pixels each way: int8 (26, size^2)."""
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


def letters_over_clients(seed: int, size: int) -> tuple[np.ndarray, list[np.ndarray], list[str]]:
    """Letters (26, size^2) of `hopfed demo`, each client's examples, and which letters it holds.

    Subsets overlap and together cover the alphabet: every client gets its share of a shuffled
    alphabet dealt round, and more letters at random up to its number. A quarter of the pixels of
    examples is flipped.
    """
    letters = render_letters(size)
    order = stream(seed, "demo", "deal").permutation(len(LETTERS))
    examples, subsets = [], []
    for c in range(CLIENTS):
        rng = stream(seed, "demo", "client", c)
        own = set(order[c::CLIENTS].tolist())
        others = [k for k in rng.permutation(len(LETTERS)).tolist() if k not in own]
        subset = sorted(own | set(others[: SUBSET - len(own)]))
        examples.append(draw_examples(letters[subset], EACH, QUALITY, rng)[0])
        subsets.append("".join(LETTERS[k] for k in subset))
    return letters, examples, subsets
