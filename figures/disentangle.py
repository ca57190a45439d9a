"""The figure of `hopfed run disentangle`: where layers take mixtures apart."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure
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


def draw(run: Run) -> Figure:
    """Where mixtures come apart: by load, by temperature, by layers; then annealing and graphs."""
    figure = new_figure(180, 165)
    above, middle, below = figure.subfigures(3, 1, height_ratios=(1, 1, 1.05))
    _by_load(above, run)
    _by_temperature(middle, run)
    left, right = below.subplots(1, 2)
    _annealing(left, run)
    _graphs(right, run)
    return figure


def _by_load(part: Figure, run: Run) -> None:
    """Stored patterns and repulsion, at the best temperature."""
    grid = part.subplots(1, 4, sharex=True, sharey=True)
    apart = run.arrays["map/apart"].mean(axis=0).max(axis=-1)
    for j, axes in enumerate(grid):
        mesh = _map(axes, apart[j // 2, j % 2], run.config["K"], run.config["repulsions"])
        axes.set(xlabel="stored patterns K", ylabel=r"repulsion $\lambda$")
        axes.set_title(f"{COUPLINGS[j // 2]}, {KINDS[j % 2]}")
        axes.label_outer()
    part.colorbar(mesh, ax=grid, label="taken apart")


def _by_temperature(part: Figure, run: Run) -> None:
    """Temperature and repulsion on the projector; layers and repulsion at the best temperature."""
    grid = part.subplots(1, 4)
    apart = run.arrays["map/apart"].mean(axis=0)[:, 1]
    K, second = run.config["K"], min(1, len(run.config["K"]) - 1)
    for axes, (c, k) in zip(grid, ((0, second), (1, 0), (1, second)), strict=False):
        mesh = _map(axes, apart[c, k].T, run.config["temperatures"], run.config["repulsions"])
        axes.set(xlabel="noise cools from T", ylabel=r"repulsion $\lambda$")
        axes.set_title(f"{COUPLINGS[c]}, K = {K[k]}")
    layers = [L for L in run.config["layers"] if L > 1]
    rows = run.arrays["layers/apart"].mean(axis=0).max(axis=-1)[-len(layers) :]
    _map(grid[3], rows, layers, LAYER_PARTS)
    grid[3].set(xlabel="layers, parts of the mixture", ylabel=r"$\lambda$, part of the largest")
    grid[3].set_title("quadratic, K = 10")
    part.colorbar(mesh, ax=grid, label="taken apart")


def _map(axes: Axes, share: np.ndarray, xs: Iterable[float], ys: Iterable[float]) -> object:
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
    colours = ["C0"] * 3 + ["C1"] * (len(SCHEDULES) - 3)
    error = share.std(axis=0, ddof=1) / len(share) ** 0.5 if len(share) > 1 else None
    axes.barh(place, share.mean(axis=0), xerr=error, color=colours)
    axes.set_yticks(place, SCHEDULES)
    axes.set(xlabel=f"taken apart, K = {run.config['K'][at]}", xlim=(0, 1))


def _graphs(axes: Axes, run: Run) -> None:
    part = run.arrays["general/part"].mean(axis=0)
    for name, row in zip(GRAPHS, part, strict=True):
        axes.plot(GRAPH_PARTS, row, marker="o", ms=3, label=name)
    axes.set(xlabel="repulsion, part of the largest", ylabel="of five patterns found", ylim=(0, 1))
    axes.set_title("linear coupling, five layers")
    axes.legend(loc="upper right")
