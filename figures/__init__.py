"""Figures: one ``draw(run) -> Figure`` per module, in one style, saved whole or not at all."""

from __future__ import annotations

from importlib import import_module
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from hopfed._lib.outputs import replacing

_NAMES = {"recover": "recovery"}  # kind of run -> module, where they differ

MM = 1 / 25.4  # inches; sizes in this package are in millimetres


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of `width` x `height` mm, outside of pyplot and its state."""
    import matplotlib.style

    with as_file(files("hopfed.figures") / "hopfed.mplstyle") as style:
        matplotlib.style.use(str(style))
    return Figure(figsize=(width * MM, height * MM), layout="constrained")


def literal(text: str) -> str:
    """Return words of others for a label, in which a dollar would begin a formula.

    Examples
    --------
    >>> literal("cost in $")
    'cost in \\\\$'
    """
    return text.replace("$", r"\$")


def drawer(kind: str, *, several: bool = False) -> Any:
    """Return what draws a run of `kind`, or several of them at once; None where nothing does.

    Examples
    --------
    >>> drawer("bbp").__module__, drawer("dance")
    ('hopfed.figures.bbp', None)
    """
    name = _NAMES.get(kind, kind)
    if not name.isidentifier() or find_spec(f"hopfed.figures.{name}") is None:
        return None
    return getattr(
        import_module(f"hopfed.figures.{name}"), "draw_several" if several else "draw", None
    )


def save(figure: Figure, path: str | Path) -> None:
    """Write `figure` to a .png, .pdf or .svg file, whole or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=200)
