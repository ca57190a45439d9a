"""Figures: one ``draw(run) -> Figure`` per module, in one style, saved whole or not at all."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from matplotlib.figure import Figure

from hopfed.runs import replacing

MM = 1 / 25.4  # inches; sizes in this package are in millimetres


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of `width` x `height` mm, outside of pyplot and its state."""
    import matplotlib.style

    with as_file(files("hopfed.figures") / "hopfed.mplstyle") as style:
        matplotlib.style.use(str(style))
    return Figure(figsize=(width * MM, height * MM), layout="constrained")


def save(figure: Figure, path: str | Path) -> None:
    """Write `figure` to a .png, .pdf or .svg file, whole or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=200)
