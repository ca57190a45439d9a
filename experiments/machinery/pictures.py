"""Pictures of runs; those of experiments are pages of their panels."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from hopfed.experiments import NAMES, config_of, find_experiment
from hopfed.figures.kinds import MOST, Panel, draw_page
from hopfed.runs import Run

OWN = {"recover": "recovery", "recall": "recall"}  # kind of a run -> module of its picture


def draw_runs(runs: Sequence[Run], *, whole: bool = False) -> Any:
    """Draw the picture of a run, or of several of one kind; None if there is no such picture.

    A `whole` picture has all panels, and not only the first ones.
    """
    kind = runs[0].kind
    if kind == "fl":
        return import_module("hopfed.experiments.shared.curves").draw(runs)
    if len(runs) > 1:
        return None
    if kind in OWN:
        return import_module(f"hopfed.figures.{OWN[kind]}").draw(runs[0])
    return draw_page(panels_of(runs[0]), whole=whole) if kind in NAMES else None


def panels_of(run: Run) -> list[Panel]:
    """All panels of the picture of an experiment's run."""
    arrays = {name: array for name, array in run.arrays.items() if name != "seeds"}
    made: list[Panel] = find_experiment(run.kind).panels(config_of(run), arrays, run.summary)
    return made


def has_more_sections(run: Run) -> bool:
    """Whether the whole picture of `run` has panels that the first one leaves out."""
    return run.kind in NAMES and len(panels_of(run)) > MOST
