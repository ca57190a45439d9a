"""The figure of `hopfed run tables`: likelihood, masked entries and time on real tables."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

COLOURS = ("C0", "C2", "0.6", "C1", "C3", "C4", "C5")
MARKS = ("o", "D", "|", "s", "v", "^", "x")
REFERENCES = ("stepmix", "one class")  # the first that was run is what likelihoods are compared to


@styled()
def draw(run: Run) -> Figure:
    """Real tables from top to bottom, methods as marks; bars are standard errors over the seeds."""
    names = np.array(run.summary["tables"])
    methods = ["hopfed", f"hopfed, {run.config['owners']} owners", *run.config["methods"]]
    reference = methods.index(next((m for m in REFERENCES if m in methods), "hopfed"))
    gains = run.arrays["likelihood"] - run.arrays["likelihood"][..., reference, None]
    order = np.argsort(gains[..., 0].mean(axis=0))
    figure = new_figure(180, 30 + 5 * len(names))
    left, middle, right = figure.subplots(1, 3, sharey=True)
    shown = [m for m in methods if m != "one class"]
    _marks(left, gains[:, order], methods, [m for m in shown if m != methods[reference]])
    _marks(middle, run.arrays["masked"][:, order], methods, shown)
    _marks(right, run.arrays["seconds"][:, order], methods, shown)
    left.set_yticks(range(len(names)), names[order])
    left.axvline(0, color="0.3", lw=0.8)
    left.set_xlabel(f"held-out nats an entry, over {methods[reference]}")
    middle.set_xlabel("masked entries that are right")
    right.set(xlabel="seconds", xscale="log")
    figure.legend(
        handles=middle.get_legend_handles_labels()[0], loc="outside lower center", ncols=6
    )
    return figure


def _marks(axes: Axes, values: np.ndarray, methods: list[str], shown: list[str]) -> None:
    """One mark for each table and method; `values` (seeds, tables, methods)."""
    mean = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0 * mean
    rows = np.arange(len(mean))
    for i, (method, colour, mark) in enumerate(zip(methods, COLOURS, MARKS, strict=False)):
        if method in shown:
            face = "none" if mark == "D" else colour
            look = {"color": colour, "markerfacecolor": face, "markersize": 4, "linewidth": 1}
            axes.errorbar(mean[:, i], rows, xerr=error[:, i], fmt=mark, label=method, **look)
    axes.grid(axis="y", color="0.9", lw=0.5)
