"""The style of pictures, which matplotlib has while a picture is drawn or written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import as_file, files
from threading import RLock
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from hopfed._lib.settings import require

_BUSY = RLock()  # matplotlib's settings are those of the process: one picture at a time


@contextmanager
def use_style() -> Iterator[None]:
    """Let matplotlib draw in the style of pictures inside, or, as a decorator, in a function."""
    with _BUSY, matplotlib.rc_context(_settings()):
        yield


@cache
def _settings() -> Any:
    with as_file(files("hopfed.figures") / "hopfed.mplstyle") as path:
        return matplotlib.rc_params_from_file(path, use_default_template=False)


class StyledFigure(Figure):
    """A figure that is drawn and written in this style everywhere."""

    def draw(self, renderer: Any) -> None:  # noqa: D102
        with use_style():
            super().draw(renderer)

    def savefig(self, *args: Any, **options: Any) -> None:  # noqa: D102
        with use_style():
            super().savefig(*args, **options)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure for the style, `width` x `height` mm, without pyplot's state."""
    return StyledFigure(figsize=(width / 25.4, height / 25.4), layout="constrained")


def escape_dollars(text: str) -> str:
    """Style of labels: return a foreign text with dollars escaped, which would start a formula."""
    return text.replace("$", r"\$")


def picture_shape(shape: tuple[int, int] | None, n: int) -> tuple[int, int]:
    """Style of pictures: height and width of n pixels, those given, or the nearest rectangle."""
    if shape is None:
        height = next(h for h in range(math.isqrt(n), 0, -1) if n % h == 0)
        return height, n // height
    rule = f"height x width with a product of {n}"
    require(shape[0] * shape[1] == n, "shape", rule, f"{shape[0]}x{shape[1]}")
    return shape


def draw_tiles(part: Any, images: Any, shape: tuple[int, int], across: int) -> None:
    """Style of tiles: draw pictures (K, N) of -1 to 1 in rows of `across`, with their numbers."""
    grid = part.subplots(-(-len(images) // across), across, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for k, (axes, image) in enumerate(zip(grid.flat, images, strict=False), start=1):
        axes.imshow(image.reshape(shape), vmin=-1, vmax=1, interpolation="nearest")
        axes.set_title(str(k), pad=1)


def examples_and_patterns(examples: Any, patterns: Any) -> Figure:
    """Draw in this style 26 noisy `examples` and recovered `patterns` (K, size^2), as given."""
    from hopfed.figures.kinds import draw_page, mosaic

    parts = {"examples: a quarter of the pixels is flipped": examples[:26], "recovered": patterns}
    bits = {title: np.packbits(np.array(rows) > 0, axis=1) for title, rows in parts.items()}
    drawn: Figure = draw_page([mosaic(*pair) for pair in bits.items()])
    return drawn
