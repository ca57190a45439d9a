"""The figure of `hopfed run cooperation`: clients alone and together, compared with theory."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

LABELS = ("magnetisation", "false discoveries", "weight")
TOGETHER = {"fixed": ("C0", "-", "together"), "structure": ("C2", "--", "structure rule")}


FIRST = 3  # federations in the first picture


@styled()
def draw(run: Run) -> Figure:
    """Draw a column for each of the federations that see least: magnetisation, and false ones."""
    names = _names(run)[-FIRST:]
    figure = new_figure(170, 96)
    grid = figure.subplots(2, len(names), sharex=True, sharey="row", squeeze=False)
    for column, name in zip(grid.T, names, strict=True):
        column[0].set_title(_title(name))
        _magnetisations(column[0], run, name, _alone(run, name))
        _false(column[1], run, name, _alone(run, name))
        column[1].set_xlabel("round")
        column[1].xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes, label in zip(grid[:, 0], LABELS, strict=False):
        axes.set_ylabel(label)
    handles, words = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, words, loc="outside upper center", ncols=len(words))
    return figure


def _names(run: Run) -> list[str]:
    """Federations, those that see most first."""
    found = {k.split("/")[0] for k in run.arrays if k.endswith("/foreseen/margin")}
    return sorted(found, key=lambda n: -float(run.arrays[f"{n}/foreseen/margin"][0, 0, 0]))


@styled()
def draw_whole(run: Run) -> Figure:
    """Draw a column for each federation: magnetisation, false discoveries, weights."""
    names = _names(run)
    figure = new_figure(min(14 + 34 * len(names), 180), 92)
    grid = figure.subplots(
        3, len(names), sharex=True, sharey="row", squeeze=False, height_ratios=(5, 4, 3)
    )
    for column, name in zip(grid.T, names, strict=True):
        column[0].set_title(_title(name))
        alone = _alone(run, name)
        _magnetisations(column[0], run, name, alone)
        _false(column[1], run, name, alone)
        _weights(column[2], run.arrays[f"{name}/structure/client/weight"])
        column[2].set_xlabel("round")
        column[2].xaxis.set_major_locator(MaxNLocator(4, integer=True))
    for axes, label in zip(grid[:, 0], LABELS, strict=True):
        axes.set_ylabel(label)
    grid[1, 0].set_ylim(-0.2, max(1, grid[1, 0].get_ylim()[1]))
    grid[0, 0].legend(loc="lower right")
    grid[2, 0].legend(
        loc="lower left", borderaxespad=0, labelspacing=0.2
    )  # early weights are rarely this low
    return figure


def _title(name: str) -> str:
    return f"{name.replace(' of ', ' clients of r = ')}" if " of " in name else f"r = {name}"


def _alone(run: Run, name: str) -> list[str]:
    """Names of the federations of one."""
    prefix, suffix = f"{name}/alone ", "/magnetisation"
    return sorted(
        k.removesuffix(suffix) for k in run.arrays if k.startswith(prefix) and k.endswith(suffix)
    )


def _magnetisations(axes: Axes, run: Run, name: str, alone: list[str]) -> None:
    """Draw means over archetypes and seeds, ranges over seeds, and theory as dots."""
    a = run.arrays
    foreseen = a[f"{name}/foreseen/magnetisation"][0]  # the same for every seed
    rounds = np.arange(1, len(foreseen) + 1)
    for i, key in enumerate(alone):
        label = "alone" if i == 0 else None
        axes.plot(rounds, a[f"{key}/magnetisation"].mean(axis=(0, 2)), "C1", lw=0.8, label=label)
        axes.plot(rounds, foreseen[:, 1 + i], ".", color="C1", ms=2.5)
    for rule, (colour, line, label) in TOGETHER.items():
        m = a[f"{name}/{rule}/magnetisation"].mean(axis=2)
        axes.fill_between(rounds, m.min(axis=0), m.max(axis=0), color=colour, alpha=0.15, lw=0)
        axes.plot(rounds, m.mean(axis=0), color=colour, ls=line, label=label)
    axes.plot(rounds, foreseen[:, 0], ".", color="0.2", ms=3, label="theory")
    axes.set(ylim=(-0.03, 1.03))


def _false(axes: Axes, run: Run, name: str, alone: list[str]) -> None:
    for key in alone:
        axes.plot(*_over_rounds(run.arrays[f"{key}/false"]), "C1", lw=0.8)
    for rule, (colour, line, _) in TOGETHER.items():
        axes.plot(*_over_rounds(run.arrays[f"{name}/{rule}/false"]), color=colour, ls=line)


def _weights(axes: Axes, weights: np.ndarray) -> None:
    """Mean weights under the structure rule: the first client, and the mean of all others."""
    parts = (("first client", weights[:, :, 0], "C2"), ("others", weights[:, :, 1:], "C3"))
    for label, part, colour in parts:
        mean = part.reshape(*part.shape[:2], -1).mean(axis=2)
        axes.plot(*_over_rounds(mean), color=colour, label=label)
    axes.set(ylim=(-0.03, 1.03))


def _over_rounds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rounds from 1 on, and the mean over seeds of values (seeds, rounds)."""
    return np.arange(1, values.shape[1] + 1), values.mean(axis=0)
