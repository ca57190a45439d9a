"""The figure of `hopfed run drift`: exposures, weights, magnetisations (Fig. 7); the simplex."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

VARIANTS = ("w = 0", "w = 1", "entropy", "structure", "kept apart")
SCHEDULES = ("sequential", "cyclic")
HELD = {"w = 0": "o", "entropy": "-", "kept apart": "--"}  # mixtures drawn on the simplex
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])


@styled()
def draw(run: Run) -> Figure:
    """Draw the exposures and m under each variant, where the variants end most differently."""
    at = max(_rows(run), key=lambda row: float(np.ptp(_kept(run, row))))
    schedule, quality = at.split("/r=")
    figure = new_figure(170, 92)
    grid = figure.subplots(2, 3, sharex=True, sharey=True)
    panels = [f"{at}/exposures", *(f"{at}/{name}/magnetisation" for name in VARIANTS)]
    titles = [f"exposure, {schedule} (r = {quality})", *(f"m: {name}" for name in VARIANTS)]
    for axes, name, title in zip(grid.flat, panels, titles, strict=True):
        _curves(axes, run.arrays[name])
        axes.set(title=title, ylim=(-0.04, 1.04))
    for axes in grid[-1]:
        axes.set_xlabel("round")
    _name_archetypes(figure, run)
    return figure


@styled()
def draw_whole(run: Run) -> Figure:
    """Draw a row for each schedule and quality: exposures, weights, and m under each variant.

    For three archetypes a triangle shows the path of the exposures, and of those in what the
    server holds.
    """
    rows = _rows(run)
    figure = new_figure(180, 30 * len(rows) + 16)
    held = run.config["K"] == 3 and f"{rows[0]}/{VARIANTS[0]}/mixture" in run.arrays
    left, right = figure.subfigures(1, 2, width_ratios=(6.5, 1)) if held else (figure, None)
    if right is not None:
        for axes, at in zip(right.subplots(len(rows), squeeze=False)[:, 0], rows, strict=True):
            _triangle(axes, run, at)
        right.axes[0].set_title("shares held")
        right.axes[-1].legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), handlelength=1.2)
    grid = left.subplots(len(rows), 2 + len(VARIANTS), sharex=True, sharey=True, squeeze=False)
    for row, at in zip(grid, rows, strict=True):
        _curves(row[0], run.arrays[f"{at}/exposures"])
        _weights(row[1], run, at)
        for axes, name in zip(row[2:], VARIANTS, strict=True):
            _curves(axes, run.arrays[f"{at}/{name}/magnetisation"])
        row[0].set_ylabel(at.replace("/", ", "))
        row[0].set(ylim=(-0.04, 1.04))
    for axes, title in zip(grid[0], ("exposure", "weight w", *VARIANTS), strict=True):
        axes.set_title(title if title not in VARIANTS else f"m: {title}")
    grid[0, 1].legend(loc="upper right", handlelength=1, handletextpad=0.3, borderaxespad=0)
    for axes in grid[-1]:
        axes.set_xlabel("round")
    _name_archetypes(left, run)
    return figure


def _rows(run: Run) -> list[str]:
    return [f"{s}/r={r:g}" for s in SCHEDULES for r in run.config["qualities"]]


def _kept(run: Run, at: str) -> list[float]:
    """Mean magnetisation in the last round under each variant."""
    return [float(run.arrays[f"{at}/{name}/magnetisation"][:, -1].mean()) for name in VARIANTS]


def _name_archetypes(part: Figure | SubFigure, run: Run) -> None:
    handles = [
        Line2D([], [], color=f"C{k}", label=f"archetype {k + 1}") for k in range(run.config["K"])
    ]
    part.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _curves(axes: Axes, values: np.ndarray) -> None:
    """Mean over seeds of each archetype, and the range over seeds."""
    for k in range(values.shape[2]):
        x = np.arange(values.shape[1])
        low, high = values[:, :, k].min(axis=0), values[:, :, k].max(axis=0)
        axes.fill_between(x, low, high, color=f"C{k}", alpha=0.15, lw=0)
        axes.plot(x, values[:, :, k].mean(axis=0), color=f"C{k}")


def _weights(axes: Axes, run: Run, at: str) -> None:
    for i, name in enumerate(("entropy", "structure")):
        w = run.arrays[f"{at}/{name}/client/weight"].mean(axis=(0, 2))
        axes.plot(w, color="0.2", ls=("-", ":")[i], label=name)


def _triangle(axes: Axes, run: Run, at: str) -> None:
    """Paths of one seed on the simplex: what the examples are, and what the server holds."""
    axes.set(aspect="equal", xlim=(-0.08, 1.08), ylim=(-0.08, 0.95))
    axes.axis("off")
    axes.fill(*CORNERS.T, facecolor="none", edgecolor="0.8", lw=0.6)
    for k, corner in enumerate(CORNERS):
        axes.plot(*corner, marker="s", ms=3, color=f"C{k}", clip_on=False)
    axes.plot(
        *(run.arrays[f"{at}/exposures"][0] @ CORNERS).T, color="0.7", lw=2.5, label="examples"
    )
    for name, style in HELD.items():
        path = run.arrays[f"{at}/{name}/mixture"][0]
        whole = path[path.sum(axis=1) > 0] @ CORNERS
        axes.plot(*whole.T, style, color="0.1", lw=0.8, ms=2.5, label=name)
