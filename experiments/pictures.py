"""Which function draws a run; pictures of experiments are pages of their panels."""

from importlib import import_module
from typing import Any

from hopfed.experiments import NAMES, config_of, find
from hopfed.figures.kinds import MOST, Panel, page
from hopfed.runs import Run

# Kind of a run that has a picture of its own -> module with `draw`.
OWN = {"recover": "figures.recovery", "recall": "figures.recall", "fl": "experiments.shared.curves"}


def drawer(kind: str, *, several: bool = False, whole: bool = False) -> Any:
    """Return the function that draws a run, or `several` in a list; None if there is none.

    A `whole` picture has all panels, and not only the first ones.
    """
    if kind in OWN:
        module = import_module(f"hopfed.{OWN[kind]}")
        return getattr(module, "draw_several" if several else "draw", None)
    if several or kind not in NAMES:
        return None
    return lambda run: page(panels_of(run), whole=whole)


def panels_of(run: Run) -> list[Panel]:
    """All panels of the picture of an experiment's run."""
    arrays = {name: array for name, array in run.arrays.items() if name != "seeds"}
    made: list[Panel] = find(run.kind).panels(config_of(run), arrays, run.summary)
    return made


def has_more_sections(run: Run) -> bool:
    """Whether the whole picture of `run` has panels that the first one leaves out."""
    return run.kind in NAMES and len(panels_of(run)) > MOST
