"""Figures, drawn from run files alone, in one style, saved completely or not at all.

Pictures of experiments are pages of panels of a few kinds (`hopfed.figures.kinds`): the first six
are what a reader needs first, the whole page has all. Pictures are at most as wide as a page, 180
mm, and their text has at least 7 pt there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from hopfed._lib.outputs import replacing
from hopfed._lib.settings import require
from hopfed.errors import shown
from hopfed.figures.kinds import MOST, Panel, page
from hopfed.figures.style import literal, new_figure, styled
from hopfed.runs import Run

__all__ = [
    "drawer", "has_more_sections", "literal", "new_figure", "save", "sections_drawer", "styled",
]  # fmt: skip

NEURAL = ("sohip", "fedssa", "fedh2l", "knnper", "oneshot")
# Kind of a run that has a picture of its own -> module with `draw`.
OWN = {"recover": "recovery", "recall": "recall", "fl": "fl", "bench": "bench"}


def drawer(kind: str, *, several: bool = False, whole: bool = False) -> Any:
    """Return the function that draws a run, or `several` in a list; None if there is none.

    A `whole` picture has all panels, and not only the first ones.
    """
    if kind in OWN:
        module = import_module(f"hopfed.figures.{OWN[kind]}")
        return getattr(module, "draw_several" if several else "draw", None)
    known = kind in NEURAL or hasattr(import_module("hopfed.figures.claims"), kind)
    return partial(_draw, whole=whole) if known and not several else None


def panels_of(run: Run) -> list[Panel]:
    """All panels of the picture of an experiment's run."""
    if run.kind in NEURAL:
        held: list[Panel] = import_module("hopfed.figures.methods").panels(run)
        return held
    made: list[Panel] = getattr(import_module("hopfed.figures.claims"), run.kind)(run)
    return made


@styled()
def _draw(run: Run, *, whole: bool = False) -> Figure:
    return page(panels_of(run), whole=whole)


def sections_drawer(kind: str) -> Any:
    """Return the function of a run of `kind` and names that draws these sections, or None."""
    return _draw_sections if kind in NEURAL else None


@styled()
def _draw_sections(run: Run, names: Sequence[str]) -> Figure:
    there = {panel.title: panel for panel in panels_of(run)}
    rule = f"one to {MOST} of {shown(', '.join(there))}"
    require(0 < len(names) <= MOST and set(names) <= set(there), "sections", rule, names)
    return page([there[name] for name in dict.fromkeys(names)])


def has_more_sections(run: Run) -> bool:
    """Whether the whole picture of `run` has panels that the first one leaves out."""
    return run.kind not in OWN and drawer(run.kind) is not None and len(panels_of(run)) > MOST


def save(figure: Figure, path: str | Path) -> None:
    """Write `figure` to a .png, .pdf or .svg file, completely or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=200)
