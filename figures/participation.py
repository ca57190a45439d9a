"""The figure of `hopfed run participation`: detection against prediction, and its traffic."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import ndtr

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

FOUND = 0.95  # magnetisation from which an archetype is found
BAND = 2.0  # within this number of fluctuations a prediction is uncertain
EDGES = np.arange(-3.5, 5.01, 0.5)

Styles = dict[str, dict[str, Any]]


@styled()
def draw(run: Run) -> Figure:
    """Draw detection over its prediction, rounds until then, archetypes over rounds and bytes."""
    styles = _styles(run.config)
    figure = new_figure(160, 120)
    (calibration, first), (rounds, traffic) = figure.subplots(2, 2)
    _calibration(calibration, run, styles)
    _first_rounds(first, run, styles)
    _over_rounds(rounds, run, styles)
    _traffic(traffic, run, styles)
    return figure


def _styles(config: dict[str, Any]) -> Styles:
    """Style of each variant: a shade for its rate, dashed with late clients."""
    shades = {rate: i for i, rate in enumerate(sorted(set(config["rates"])))}
    colours = colormaps["viridis_r"](np.linspace(0.1, 0.95, len(shades)))
    return {
        f"{rate:.0%}" + (f", {late:.0%} late" if late else ""): {
            "color": tuple(colours[shades[rate]]),
            "ls": "--" if late else "-",
        }
        for rate, late in zip(config["rates"], config["late"], strict=True)
    }


def _events(run: Run, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Distance from the level, and whether the count reaches the archetype: (S, T, K)."""
    distance = run.arrays[f"{name}/foreseen/distance"]
    return distance, run.arrays[f"{name}/n_detected"][..., None] > run.arrays[
        f"{name}/foreseen/place"
    ]


def _calibration(axes: Axes, run: Run, styles: Styles) -> None:
    x = np.linspace(EDGES[0], EDGES[-1], 200)
    axes.axvspan(-BAND, BAND, color="0.93", lw=0)
    axes.plot(x, ndtr(x), color="k", lw=0.8, label="foreseen")
    for late, marker, colour in ((False, "o", "C0"), (True, "s", "C1")):
        names = [n for n in styles if ("late" in n) == late]
        if not names:
            continue
        pairs = [_events(run, n) for n in names]
        distance = np.concatenate([d.ravel() for d, _ in pairs])
        seen = np.concatenate([s.ravel() for _, s in pairs])
        points = []
        for low, high in pairwise(EDGES):
            inside = (distance >= low) & (distance < high)
            if n := int(inside.sum()):
                p = seen[inside].mean()
                points.append((distance[inside].mean(), p, np.sqrt(p * (1 - p) / n)))
        at, part, error = np.reshape(points, (-1, 3)).T
        label = "with late clients" if late else "all in time"
        axes.errorbar(at, part, error, color=colour, fmt=marker, lw=0.8, label=label)
    axes.set(
        xlabel="foreseen eigenvalue above the test's level, in sd",
        ylabel="part detected",
        ylim=(-0.03, 1.05),
    )
    axes.legend(loc="upper left")


def _first_rounds(axes: Axes, run: Run, styles: Styles) -> None:
    """Draw bubbles: numbers of archetypes by first predicted and first detected round."""
    T = run.config["rounds"]
    table = np.zeros((T + 1, T + 1))
    for name in styles:
        distance, seen = _events(run, name)
        foreseen, detected = (
            np.where(e.any(axis=1), e.argmax(axis=1), T).ravel() for e in (distance > 0, seen)
        )
        np.add.at(table, (foreseen, detected), 1)
    row, column = np.nonzero(table)
    sizes = 3 + 160 * np.sqrt(table[row, column] / table.max())
    axes.plot([0, T], [0, T], color="0.7", lw=0.8, zorder=0)
    axes.scatter(row, column, s=sizes, color="C0", alpha=0.5, lw=0)
    ticks = np.arange(0, T, max(T // 4, 1))
    words = [*map(str, ticks), "never"]
    axes.set_xticks([*ticks, T], words)
    axes.set_yticks([*ticks, T], words)
    axes.set(xlabel="first round foreseen", ylabel="first round detected")


def _over_rounds(axes: Axes, run: Run, styles: Styles) -> None:
    """Mean number of archetypes detected so far, and foreseen (dotted)."""
    for name, style in styles.items():
        if "late" in name:
            continue
        distance, seen = _events(run, name)
        so_far = [
            np.logical_or.accumulate(e, axis=1).sum(axis=2).mean(axis=0)
            for e in (seen, distance > 0)
        ]
        axes.plot(so_far[0], label=name, **style)
        axes.plot(so_far[1], color="k", ls=":", lw=0.8)
    axes.plot([], [], color="k", ls=":", lw=0.8, label="foreseen")
    axes.set(xlabel="round", ylabel="archetypes detected so far")
    axes.legend(loc="lower right", ncols=2)


def _traffic(axes: Axes, run: Run, styles: Styles) -> None:
    """Archetypes found at the end over megabytes sent up, mean and sd over seeds."""
    for name, style in styles.items():
        found = (run.arrays[f"{name}/magnetisation"][:, -1] >= FOUND).sum(axis=1)
        up = run.arrays[f"{name}/traffic/up"].sum(axis=(1, 2)) / 1e6
        late, sd = "late" in name, found.std()
        axes.errorbar(up.mean(), found.mean(), sd, fmt="s" if late else "o", lw=0.8, **style)
        at, ahead = (found.mean() - sd, -8) if late else (found.mean() + sd, 3)
        axes.annotate(
            name,
            (up.mean(), at),
            (0, ahead),
            textcoords="offset points",
            fontsize=7,
            ha="center",
        )
    axes.set(xlabel="megabytes up", ylabel=f"archetypes found (m >= {FOUND:g})")
    axes.set_xlim(left=0)
    axes.margins(x=0.15)
