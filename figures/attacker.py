"""The figure of `hopfed run attacker`: weights and magnetisations over rounds, as in Fig. 6."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

RULES = ("entropy", "agreement", "structure")


def has_more_sections(run: Run) -> bool:
    """Whether there are several scenarios."""
    return len(_attackers(run)) > 1


def _attackers(run: Run) -> dict[str, int]:
    """Number of attackers by scenario."""
    c = run.config
    return {f"{n} of r={r:g}": n for n, r in zip(c["attackers"], c["noise"], strict=True)}


@styled()
def draw(run: Run, *, whole: bool = False) -> Figure:
    """Draw weights and magnetisation, a row a scenario; of the most attackers unless `whole`."""
    attackers = _attackers(run)
    scenarios = list(attackers) if whole else [max(attackers, key=attackers.__getitem__)]
    figure = new_figure(170, 40 * len(scenarios) + 14)
    grid = figure.subplots(len(scenarios), 4, sharex=True, sharey="col", squeeze=False)
    for row, scenario in zip(grid, scenarios, strict=True):
        good = run.config["clients"] - attackers[scenario]
        for axes, rule in zip(row, RULES, strict=False):
            _weights(axes, run.arrays[f"{scenario}/{rule}/client/weight"], good)
        _magnetisation(row[3], run, scenario)
        number, _, quality = scenario.partition(" of ")
        row[0].set_ylabel(f"attackers: {number}, {quality}\nweight w", linespacing=1.4)
    for axes, rule in zip(grid[0], RULES, strict=False):
        axes.set_title(f"{rule} rule" + ("\n(proposed here)" if rule == "structure" else ""))
    grid[0, 3].set_title("lowest m")
    grid[0, 1].legend(loc="center right")
    grid[0, 3].legend(loc="lower right")
    for axes in grid[-1]:
        axes.set_xlabel("round")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


draw_whole = partial(draw, whole=True)


def _weights(axes: Axes, weights: np.ndarray, good: int) -> None:
    """Draw the mean over seeds of every client, and for attackers the range over seeds."""
    rounds = np.arange(weights.shape[1])
    for part, colour, label in (
        (weights[:, :, :good], "C0", "good"),
        (weights[:, :, good:], "C3", "attacker"),
    ):
        low, high = part.min(axis=(0, 2)), part.max(axis=(0, 2))
        axes.fill_between(rounds, low, high, color=colour, alpha=0.2, lw=0)
        axes.plot(rounds, part.mean(axis=(0, 2)), color=colour, label=label)
    axes.set(ylim=(-0.03, 1.03))


def _magnetisation(axes: Axes, run: Run, scenario: str) -> None:
    for i, rule in enumerate(RULES):
        lowest = run.arrays[f"{scenario}/{rule}/magnetisation"].min(axis=(0, 2))
        axes.plot(lowest, color=f"C{i}", ls=("-", "--", ":")[i], label=rule)
    axes.set(ylim=(0, 1.03))
