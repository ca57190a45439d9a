"""Figures: one ``draw(run) -> Figure`` per module, in one style, saved completely or not at all.

``draw`` shows what a reader needs first, in at most six panels. Modules that have more show all of
it by ``draw_whole``; those of many methods draw sections by name, ``draw_sections``. All are
``styled``. Pictures are at most as wide as a page, 180 mm, and their text has at least 7 pt there.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hopfed._lib.outputs import replacing
from hopfed.figures.style import StyledFigure, styled
from hopfed.runs import Run

__all__ = [
    "drawer",
    "has_more_sections",
    "literal",
    "new_figure",
    "save",
    "sections_drawer",
    "spread",
    "styled",
]

_NAMES = {"recover": "recovery"}  # kind of run -> module, if the names differ

MM = 1 / 25.4  # inches; sizes in this package are in millimetres


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of `width` x `height` mm, without pyplot's global state."""
    return StyledFigure(figsize=(width * MM, height * MM), layout="constrained")


def literal(text: str) -> str:
    """Return a foreign text for a label, with dollars escaped, which would start a formula.

    Examples
    --------
    >>> literal("cost in $")
    'cost in \\\\$'
    """
    return text.replace("$", r"\$")


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` of `count` places, from the first to the last.

    Examples
    --------
    >>> spread(4, 3), spread(2, 3)
    ([0, 2, 3], [0, 1])
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist()


def drawer(kind: str, *, several: bool = False, whole: bool = False) -> Any:
    """Return the function that draws a run of `kind`, or several runs; None if there is none.

    Parameters
    ----------
    kind : of the runs.
    several : the function takes a list of runs.
    whole : it draws all panels, and not only the first ones.

    Examples
    --------
    >>> drawer("bbp").__module__, drawer("dance")
    ('hopfed.figures.bbp', None)
    >>> drawer("drift", whole=True).__name__, drawer("plan", whole=True).__name__
    ('draw_whole', 'draw')
    """
    if several:
        return _function(kind, "draw_several")
    return (_function(kind, "draw_whole") if whole else None) or _function(kind, "draw")


def sections_drawer(kind: str) -> Any:
    """Return the function of a run of `kind` and names that draws these sections, or None."""
    return _function(kind, "draw_sections")


def has_more_sections(run: Run) -> bool:
    """Whether the whole picture of `run` has panels that the first one leaves out."""
    asked = _function(run.kind, "has_more_sections")
    return _function(run.kind, "draw_whole") is not None and (asked is None or bool(asked(run)))


def _function(kind: str, name: str) -> Any:
    """Return the function `name` of the module that draws runs of `kind`, or None."""
    module = _NAMES.get(kind, kind)
    if not module.isidentifier() or find_spec(f"hopfed.figures.{module}") is None:
        return None
    return getattr(import_module(f"hopfed.figures.{module}"), name, None)


def save(figure: Figure, path: str | Path) -> None:
    """Write `figure` to a .png, .pdf or .svg file, completely or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=200)
