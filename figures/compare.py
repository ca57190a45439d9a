"""The figure of `hopfed.compare`: criteria and what is left, over the number of archetypes."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hopfed.figures.style import new_figure, styled


@styled()
def draw(compared: Any) -> Figure:
    """Draw a `hopfed.recovery.compare.Comparison`."""
    numbers, table = compared.table["archetypes"], compared.table
    figure = new_figure(150, 58)
    left, right = figure.subplots(1, 2)
    for name, line in (("BIC", "o-"), ("AIC", "s--")):
        left.plot(numbers, table[name], line, label=name)
    right.plot(numbers, table["residual"], "o-", label="columns left dependent (1: none)")
    right.plot(numbers, table["entropy"], "s--", label="entropy (1: rows are sure)")
    for axes, title in ((left, "criteria, lower is better"), (right, "what the rows say")):
        axes.axvline(len(compared.taken), color="0.6", lw=0.8, ls=":", label="taken by hopfed")
        axes.set(xlabel="archetypes", title=title)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend()
    return figure
