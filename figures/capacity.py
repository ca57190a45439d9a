"""The figure of `hopfed run capacity`: overlap and basins by load, and the laws beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from hopfed.figures import new_figure, styled
from hopfed.runs import Run
from hopfed.theory import dense_storage, storage

RULES = ("hebb", "dreamed", "projector", "dense", "exponential")
DATA = ("random", "correlated", "pictures", "table")
FIRST = ("random", "pictures", "table", "correlated")  # the first three that were measured
REACHED = 0.95


@styled()
def draw(run: Run) -> Figure:
    """Above: laws of the rules, by load. Below: basins, for kinds of data that differ."""
    figure = new_figure(180, 118)
    top, bottom = figure.subfigures(2, 1)
    above = top.subplots(1, 3)
    _overlaps(above[0], run)
    _dense(above[1], run)
    _exponential(above[2], run)
    measured = [n for n in FIRST if not np.isnan(run.arrays[f"{n}/overlap"]).all()]
    _all_basins(bottom, run, measured[:3])
    return figure


@styled()
def draw_whole(run: Run) -> Figure:
    """Above: laws, lines theory and points measured. Below: basins by kind of data."""
    figure = new_figure(180, 120)
    top, bottom = figure.subfigures(2, 1)
    above = top.subplots(1, 4)
    _overlaps(above[0], run)
    _sizes(above[1], run)
    _dense(above[2], run)
    _exponential(above[3], run)
    _all_basins(bottom, run, DATA)
    return figure


def _all_basins(part: SubFigure, run: Run, names: Sequence[str]) -> None:
    """Basins by kind of data, and the legend of the whole figure."""
    panels = part.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        _basins(axes, run, name)
    panels[0].set_ylabel("flips that are repaired")
    handles = [Line2D([], [], color=f"C{i}", label=rule) for i, rule in enumerate(RULES)]
    handles += [
        Line2D([], [], color="0.3", label="above: law"),
        Line2D([], [], color="0.3", ls="", marker="o", mfc="none", label="above: measured"),
    ]
    part.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _overlaps(axes: Axes, run: Run) -> None:
    """Overlap of the quadratic rules from undamaged cues, N as given."""
    loads = np.array(run.config["loads"])
    overlap = run.arrays["random/overlap"][..., 0]
    for i, t in enumerate((0.0, run.config["t"], None)):
        _points(axes, loads, overlap[:, i], f"C{i}")
        if t is None:
            axes.plot([0, 1], [1, 1], color=f"C{i}")
            continue
        last = float(storage.capacity(t))
        x = np.linspace(0, last, 200)
        axes.plot([*x, last], [*storage.magnetisation(x, t), 0], color=f"C{i}")
    axes.set(xlabel="load K / N", ylabel="overlap", ylim=(0, 1.05), xlim=(0, None))
    axes.set_title(f"N = {run.config['N']:,}")


def _sizes(axes: Axes, run: Run) -> None:
    """Load at which half are lost over that of theory, by the number of sites."""
    x = np.array(run.config["sizes"]) ** -0.5
    for i, name in enumerate(RULES[:2]):
        y, error = np.array(run.summary["by_size"][name], float).T  # None is NaN
        axes.errorbar(x, y, error, color=f"C{i}", ls="none", marker="o", mfc="none", ms=3.5)
        line = np.isfinite(y) & np.isfinite(error)
        if line.sum() >= 2:
            slope, start = np.polyfit(x[line], y[line], 1)
            axes.plot([0, x.max()], [start, start + slope * x.max()], color=f"C{i}", lw=0.8)
    axes.axhline(1, color="0.6", lw=0.8)
    axes.set_xticks([0, *x], ["$\\infty$", *(f"{n:,}" for n in run.config["sizes"])])
    axes.tick_params(axis="x", rotation=60)
    axes.set(xlabel="sites N", xlim=(0, None), title="half are lost")
    axes.set_ylabel("load over theory's")


def _dense(axes: Axes, run: Run) -> None:
    loads = np.array(run.config["dense_loads"])
    _points(axes, loads, run.arrays["dense/overlap"][..., 0], "C3")
    last = dense_storage.dense_capacity(3)
    x = np.linspace(0, last, 200)
    axes.plot([*x, last], [*dense_storage.dense_magnetisation(x, 3), 0], color="C3")
    axes.set(xlabel=r"load $3 K / N^2$", ylim=(0, 1.05), xlim=(0, None))
    axes.set_title(f"dense, n = 3, N = {run.config['dense_sites']:,}")


def _exponential(axes: Axes, run: Run) -> None:
    """Share of cues returned over rate and flips, and the line of the random energy model."""
    rates, flips = (np.array(run.config[name]) for name in ("exp_rates", "flips"))
    shares = run.arrays["exponential/returned"].mean(axis=0)
    beta = run.config["exp_beta"]
    mesh = axes.pcolormesh(
        rates, flips, shares.T, cmap="cividis", vmin=0, vmax=1, shading="nearest"
    )
    axes.figure.colorbar(mesh, ax=axes, label="returned")
    x = np.linspace(rates[0], min(rates[-1], float(dense_storage.exponential_capacity(beta))), 100)
    axes.plot(x, (1 - dense_storage.exponential_reach(x, beta)) / 2, color="C3", label="law")
    axes.set(xlabel="log(K) / N", ylabel="flips", ylim=(-0.02, 0.42))
    axes.set_title(f"exponential, $\\beta$ = {beta:g}, N = {run.config['exp_sites']}")


def _basins(axes: Axes, run: Run, name: str) -> None:
    """Largest share of flips from which the mean overlap is .95, by load."""
    loads, flips = (np.array(run.config[key]) for key in ("loads", "flips"))
    overlap = run.arrays[f"{name}/overlap"].mean(axis=0)
    for i in range(len(RULES)):
        at = ~np.isnan(overlap[i, :, 0])
        found = np.array([_edge(flips, row) for row in overlap[i][at]])
        axes.plot(loads[at], found, marker="o", ms=2.5, color=f"C{i}", label=RULES[i])
    if np.isnan(overlap).all():
        axes.text(0.5, 0.5, "no file given", transform=axes.transAxes, ha="center")
    axes.set(xlabel="load K / N", ylim=(-0.02, 0.42), xlim=(0, 1), title=name)


def _edge(flips: np.ndarray, overlap: np.ndarray) -> float:
    low = np.flatnonzero(overlap < REACHED)
    if not len(low):
        return float(flips[-1])
    if low[0] == 0:
        return np.nan
    a, b = overlap[low[0] - 1], overlap[low[0]]
    part = (a - REACHED) / (a - b)
    return float(flips[low[0] - 1] + part * (flips[low[0]] - flips[low[0] - 1]))


def _points(axes: Axes, x: np.ndarray, y: np.ndarray, colour: str) -> None:
    """Mean and standard error over the seeds."""
    error = y.std(axis=0, ddof=1) / len(y) ** 0.5 if len(y) > 1 else None
    style = {"ls": "none", "marker": "o", "mfc": "none", "ms": 3.5}
    axes.errorbar(x, y.mean(axis=0), error, color=colour, **style)
