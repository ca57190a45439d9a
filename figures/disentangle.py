"""The figure of `hopfed run disentangle`: where layers take mixtures apart."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure
from hopfed.runs import Run

COUPLINGS = ("linear", "quadratic")
KINDS = ("Hebb", "projector")
GRAPHS = ("all", "ring", "chain", "star")
GRAPH_PARTS = (0.0, 0.2, 0.4, 0.7, 0.9)
SCHEDULES = (
    "none", "constant", "cooling", "authors", "no clamped field", "nor self-field", "full noise",
    "larger repulsion",
)  # fmt: skip


def draw(run: Run) -> Figure:
    """Above: success over K and repulsion, best temperature. Below: layers, annealing, graphs."""
    figure = new_figure(180, 110)
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.15))
    grid = above.subplots(1, 4, sharex=True, sharey=True)
    apart = run.arrays["map/apart"].mean(axis=0).max(axis=-1)
    for j, axes in enumerate(grid):
        mesh = _map(axes, run, apart[j // 2, j % 2])
        axes.set_title(f"{COUPLINGS[j // 2]}, {KINDS[j % 2]}")
        axes.label_outer()
    above.colorbar(mesh, ax=grid, label="taken apart")
    left, middle, right = below.subplots(1, 3)
    _layers(left, run)
    _annealing(middle, run)
    _graphs(right, run)
    return figure


def _map(axes: Axes, run: Run, share: np.ndarray) -> object:
    """Share of starts taken apart, (K, repulsions), with the edge of the region where half are."""
    K, repulsions = run.config["K"], run.config["repulsions"]
    mesh = axes.pcolormesh(share.T, cmap="cividis", vmin=0, vmax=1)
    x, y = np.arange(len(K)) + 0.5, np.arange(len(repulsions)) + 0.5
    if min(share.shape) > 1 and share.min() < 0.5 < share.max():
        axes.contour(x, y, share.T, levels=[0.5], colors="w", linewidths=1)
    axes.set_xticks(x, [f"{k}" for k in K])
    axes.set_yticks(y, [f"{r:g}" for r in repulsions])
    axes.set(xlabel="stored patterns K", ylabel=r"repulsion $\lambda$")
    return mesh


def _layers(axes: Axes, run: Run) -> None:
    part = run.arrays["layers/part"].mean(axis=0).max(axis=-1)
    for row, label in zip(part, ("no repulsion", "repulsion"), strict=True):
        axes.plot(run.config["layers"], row, marker="o", ms=3, label=label)
    axes.set(xlabel="layers, and patterns in the mixture", ylabel="patterns found", ylim=(0, 1.05))
    axes.legend(loc="lower left")


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
