"""Figures: one ``draw(run) -> Figure`` per module, in one style, saved completely or not at all."""

from __future__ import annotations

from importlib import import_module
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from hopfed._lib.outputs import replacing

_NAMES = {"recover": "recovery"}  # kind of run -> module, if the names differ

MM = 1 / 25.4  # inches; sizes in this package are in millimetres


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of `width` x `height` mm, without pyplot's global state."""
    import matplotlib.style

    with as_file(files("hopfed.figures") / "hopfed.mplstyle") as style:
        matplotlib.style.use(str(style))
    return Figure(figsize=(width * MM, height * MM), layout="constrained")


def literal(text: str) -> str:
    """Return a foreign text for a label, with dollars escaped, which would start a formula.

    Examples
    --------
    >>> literal("cost in $")
    'cost in \\\\$'
    """
    return text.replace("$", r"\$")


def drawer(kind: str, *, several: bool = False) -> Any:
    """Return the function that draws a run of `kind`, or several runs; None if there is none.

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
    """Write `figure` to a .png, .pdf or .svg file, completely or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=200)
