"""The style of pictures: matplotlib has it while one is drawn or written, and its own otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import as_file, files
from threading import RLock
from typing import Any

import matplotlib
from matplotlib.figure import Figure

_BUSY = RLock()  # matplotlib's settings are those of the process: one picture at a time


@contextmanager
def styled() -> Iterator[None]:
    """Have matplotlib draw in this style inside; as a decorator, in a function.

    Examples
    --------
    >>> with styled():
    ...     inside = matplotlib.rcParams["image.cmap"]
    >>> inside, matplotlib.rcParams["image.cmap"]
    ('gray_r', 'viridis')
    """
    with _BUSY, matplotlib.rc_context(_settings()):
        yield


@cache
def _settings() -> Any:
    with as_file(files("hopfed.figures") / "hopfed.mplstyle") as path:
        return matplotlib.rc_params_from_file(path, use_default_template=False)


class StyledFigure(Figure):
    """A figure that is drawn and written in this style, whoever asks for it and when.

    Ticks are made, and fonts are chosen, no sooner than that.

    Examples
    --------
    >>> from io import BytesIO
    >>> StyledFigure(figsize=(1, 1)).savefig(BytesIO())
    """

    def draw(self, renderer: Any) -> None:  # noqa: D102
        with styled():
            super().draw(renderer)

    def savefig(self, *args: Any, **options: Any) -> None:  # noqa: D102
        with styled():
            super().savefig(*args, **options)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of `width` x `height` mm, without pyplot's global state."""
    return StyledFigure(figsize=(width / 25.4, height / 25.4), layout="constrained")


def literal(text: str) -> str:
    """Return a foreign text for a label, with dollars escaped, which would start a formula.

    Examples
    --------
    >>> literal("cost in $")
    'cost in \\\\$'
    """
    return text.replace("$", r"\$")
