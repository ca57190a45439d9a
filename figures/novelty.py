"""The figure of `hopfed run novelty`: count, magnetisation, spectral gap and latency (Fig. 8)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

COLOURS = {"fresh": "C1", "carried": "C0", "paper": "C2"}
ROWS = {
    "equal": ("carried", "paper"),
    "rare": ("fresh", "carried", "paper"),
    "scarce": ("fresh", "carried"),
}
FOUND = 0.95  # magnetisation from which an archetype is remembered
LATEST = 4  # this latency and longer ones share a bar


@styled()
def draw(run: Run) -> Figure:
    """Draw counts, and when new archetypes are remembered, a column for each scenario."""
    figure = new_figure(170, 96)
    above, below = figure.subplots(2, len(ROWS), sharey="row")
    for top, bottom, (scenario, mechanisms) in zip(above, below, ROWS.items(), strict=True):
        names = {f"{scenario}/{m}": COLOURS[m] for m in mechanisms}
        _counts(top, run, names)
        _latencies(bottom, run, names)
        top.set(title=f"{scenario} new ones", xlabel="round")
        bottom.set_xlabel("rounds after foreseen")
    above[0].set_ylabel(r"archetypes counted, $\hat K$")
    below[0].set_ylabel("share remembered")
    _legend(figure)
    return figure


@styled()
def draw_whole(run: Run) -> Figure:
    """Draw a row for each scenario."""
    figure = new_figure(180, 128)
    grid = figure.subplots(len(ROWS), 4, sharex="col", squeeze=False)
    for row, (scenario, mechanisms) in zip(grid, ROWS.items(), strict=True):
        names = {f"{scenario}/{m}": COLOURS[m] for m in mechanisms}
        _counts(row[0], run, names)
        _magnetisation(row[1], run, f"{scenario}/carried")
        _gap(row[2], run, {n: c for n, c in names.items() if "paper" not in n})
        _latencies(row[3], run, names)
        row[0].set_ylabel(f"{scenario} new ones\n$\\hat K$", linespacing=1.5)
    grid[0, 1].legend(loc="center left")
    titles = ("count", "magnetisation, carried", "relative gap at $K_{old}$", "remembered")
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title)
    for axes in grid[-1, :3]:
        axes.set_xlabel("round")
    for axes in grid[:, 3]:
        axes.set_ylabel("share of those foreseen")
    grid[-1, 3].set_xlabel("rounds after foreseen")
    _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    lines = [Line2D([], [], color=colour, label=name) for name, colour in COLOURS.items()]
    lines.append(Line2D([], [], color="k", ls=":", label="foreseen for carried"))
    figure.legend(handles=lines, loc="outside upper center", ncols=len(lines))


def _counts(axes: Axes, run: Run, names: dict[str, str]) -> None:
    """Mean count over seeds, and what theory foresees for carried evidence."""
    old = run.config["old"]
    for name, colour in names.items():
        axes.plot(run.arrays[f"{name}/n_detected"].mean(axis=0), color=colour)
        if name.endswith("carried"):
            new = run.arrays[f"{name}/foreseen/distance"][:, :, old:] > 0
            foreseen = old + new.sum(axis=2).mean(axis=0)
            axes.plot(foreseen, color="k", ls=":")
    axes.axvline(run.config["at"] - 0.5, color="0.8", lw=0.8, zorder=0)
    axes.set(ylim=(0, old + run.config["new"] + 1.5))


def _magnetisation(axes: Axes, run: Run, name: str) -> None:
    """Mean over seeds of each archetype, and the central 80% of the seeds."""
    m = run.arrays[f"{name}/magnetisation"]
    old = run.config["old"]
    x = np.arange(m.shape[1])
    for k in range(m.shape[2]):
        colour = "0.5" if k < old else "C3"
        low, high = np.quantile(m[:, :, k], [0.1, 0.9], axis=0)
        axes.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
        label = {old - 1: "old", old: "new"}.get(k)
        style = "-" if k < old else ("-", "--", ":")[(k - old) % 3]
        axes.plot(x, m[:, :, k].mean(axis=0), color=colour, ls=style, label=label)
    axes.axhline(FOUND, color="0.8", lw=0.8, zorder=0)
    axes.set(ylim=(-0.03, 1.05))


def _gap(axes: Axes, run: Run, names: dict[str, str]) -> None:
    old = run.config["old"]
    for name, colour in names.items():
        values = run.arrays[f"{name}/eigenvalues"]
        gap = 1 - values[..., old] / values[..., old - 1]
        low, high = np.quantile(gap, [0.1, 0.9], axis=0)
        axes.fill_between(np.arange(gap.shape[1]), low, high, color=colour, alpha=0.2, lw=0)
        axes.plot(gap.mean(axis=0), color=colour)
    axes.set(ylim=(-0.03, 1.05))


def _latencies(axes: Axes, run: Run, names: dict[str, str]) -> None:
    """Draw a histogram of latencies of predicted archetypes; the last bar is "never"."""
    old, width = run.config["old"], 0.8 / len(names)
    bins = np.arange(-1, LATEST + 2)
    for i, (name, colour) in enumerate(names.items()):
        foreseen, seen = _first(run.arrays[f"{name}/foreseen/distance"][:, :, old:] > 0)
        found, ever = _first(run.arrays[f"{name}/magnetisation"][:, :, old:] >= FOUND)
        late = np.clip((found - foreseen)[seen & ever], -1, LATEST)
        counts = [*((late == b).sum() for b in bins[:-1]), (seen & ~ever).sum()]
        shares = np.array(counts) / max(seen.sum(), 1)
        axes.bar(bins + (i - (len(names) - 1) / 2) * width, shares, width, color=colour)
    words = ["early", *map(str, range(LATEST)), f"{LATEST}+", "not"]
    axes.set_xticks(bins, words)
    axes.set(ylim=(0, 1.05))


def _first(events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First round of events (S, T, K), and whether they happen at all."""
    return events.argmax(axis=1), np.asarray(events.any(axis=1))
