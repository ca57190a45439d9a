"""The figure of `hopfed run disentangle`: where layers take mixtures apart."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure, SubFigure

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

COUPLINGS = ("linear", "quadratic")
KINDS = ("Hebb", "projector")
GRAPHS = ("all", "ring", "chain", "star")
GRAPH_PARTS = (0.0, 0.2, 0.4, 0.7, 0.9)
LAYER_PARTS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.98)
SCHEDULES = (
    "none", "constant", "cooling", "authors", "no clamped field", "nor self-field", "full noise",
    "larger repulsion",
)  # fmt: skip
OWN, AUTHORS = slice(0, 3), slice(3, None)  # of the schedules
BARS = ("noise, site by site", "authors' annealing, and changed")


@styled()
def draw(run: Run) -> Figure:
    """Where mixtures come apart on the projector, by load, temperature and layers; the rest."""
    figure = new_figure(180, 112)
    above, below = figure.subfigures(2, 1)
    grid = above.subplots(1, 4)
    for c, axes in enumerate(grid[:2]):
        mesh = _by_load(axes, run, c, 1)
    grid[1].set_ylabel("")
    _by_temperature(grid[2], run, 1, min(1, len(run.config["K"]) - 1))
    _by_layers(grid[3], run)
    above.colorbar(mesh, ax=grid, label="taken apart")
    _rest(below, run)
    return figure


@styled()
def draw_whole(run: Run) -> Figure:
    """Where mixtures come apart: by load, by temperature, by layers; then annealing and graphs."""
    figure = new_figure(180, 165)
    above, middle, below = figure.subfigures(3, 1, height_ratios=(1, 1, 1.05))
    grid = above.subplots(1, 4, sharex=True, sharey=True)
    for j, axes in enumerate(grid):
        mesh = _by_load(axes, run, j // 2, j % 2)
        axes.label_outer()
    above.colorbar(mesh, ax=grid, label="taken apart")
    grid, second = middle.subplots(1, 4), min(1, len(run.config["K"]) - 1)
    for axes, (c, k) in zip(grid, ((0, second), (1, 0), (1, second)), strict=False):
        _by_temperature(axes, run, c, k)
    _by_layers(grid[3], run)
    middle.colorbar(mesh, ax=grid, label="taken apart")
    _rest(below, run)
    return figure


def _rest(part: SubFigure, run: Run) -> None:
    left, right = part.subplots(1, 2)
    _annealing(left, run)
    _graphs(right, run)


def _by_load(axes: Axes, run: Run, c: int, kind: int) -> QuadMesh:
    """Stored patterns and repulsion, at the best temperature."""
    apart = run.arrays["map/apart"].mean(axis=0).max(axis=-1)
    mesh = _map(axes, apart[c, kind], run.config["K"], run.config["repulsions"])
    axes.set(xlabel="stored patterns K", ylabel=r"repulsion $\lambda$")
    axes.set_title(f"{COUPLINGS[c]}, {KINDS[kind]}")
    return mesh


def _by_temperature(axes: Axes, run: Run, c: int, k: int) -> None:
    """Temperature and repulsion on the projector, at the k-th number of patterns."""
    apart = run.arrays["map/apart"].mean(axis=0)[c, 1, k].T
    _map(axes, apart, run.config["temperatures"], run.config["repulsions"])
    axes.set(xlabel="noise cools from T", ylabel=r"repulsion $\lambda$")
    axes.set_title(f"{COUPLINGS[c]}, K = {run.config['K'][k]}")


def _by_layers(axes: Axes, run: Run) -> None:
    """Layers and repulsion, at the best temperature."""
    layers = np.array(run.config["layers"])
    several = layers > 1
    if several.any():
        rows = run.arrays["layers/apart"].mean(axis=0).max(axis=-1)
        _map(axes, rows[several], layers[several], LAYER_PARTS)
    axes.set(xlabel="layers, parts of the mixture", ylabel=r"$\lambda$, part of the largest")
    axes.set_title("quadratic, K = 10")


def _map(axes: Axes, share: np.ndarray, xs: Iterable[float], ys: Iterable[float]) -> QuadMesh:
    """Share of starts taken apart, (xs, ys), with the edge of the region where half are."""
    mesh = axes.pcolormesh(share.T, cmap="cividis", vmin=0, vmax=1)
    x, y = (np.arange(n) + 0.5 for n in share.shape)
    if min(share.shape) > 1 and share.min() < 0.5 < share.max():
        axes.contour(x, y, share.T, levels=[0.5], colors="w", linewidths=1)
    axes.set_xticks(x, [f"{value:g}" for value in xs])
    axes.set_yticks(y, [f"{value:g}" for value in ys])
    return mesh


def _annealing(axes: Axes, run: Run) -> None:
    """Share taken apart by schedule, at the second K."""
    at = min(1, len(run.config["K"]) - 1)
    share = run.arrays["annealing/apart"][:, :, at]
    place = np.arange(len(SCHEDULES))[::-1]
    mean = share.mean(axis=0)
    error = share.std(axis=0, ddof=1) / len(share) ** 0.5 if len(share) > 1 else np.zeros_like(mean)
    for part, colour, label in zip((OWN, AUTHORS), ("C0", "C1"), BARS, strict=True):
        axes.barh(place[part], mean[part], xerr=error[part], color=colour, label=label)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, handlelength=1, columnspacing=1)
    axes.set_yticks(place, SCHEDULES)
    axes.set(xlabel=f"taken apart, K = {run.config['K'][at]}", xlim=(0, 1))


def _graphs(axes: Axes, run: Run) -> None:
    part = run.arrays["general/part"].mean(axis=0)
    for name, row in zip(GRAPHS, part, strict=True):
        axes.plot(GRAPH_PARTS, row, marker="o", ms=3, label=name)
    axes.set(xlabel="repulsion, part of the largest", ylabel="of five patterns found", ylim=(0, 1))
    axes.set_title("linear coupling, five layers")
    axes.legend(loc="upper left")
