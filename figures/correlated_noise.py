"""The figure of `hopfed run correlated_noise`: deformed bulks, and counts against theory."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure, styled
from hopfed.runs import Run
from hopfed.theory.covariance import Population
from hopfed.theory.density import density

METHODS = (("classical", "C1", "s"), ("generalised", "C0", "o"), ("whitened", "C2", "^"))


@styled()
def draw(run: Run) -> Figure:
    """Draw the spectrum under each noise, and the counts over the quality below it."""
    noises = _noises(run)
    figure = new_figure(max(90, 32 * len(noises)), 105)
    grid = figure.subplots(2, len(noises), squeeze=False, sharey="row")
    for i, (name, _) in enumerate(noises):
        _spectrum(grid[0, i], run, i)
        grid[0, i].set_title(name)
        _counts(grid[1, i], run, i)
    grid[0, 0].set_ylabel("density")
    grid[1, 0].set_ylabel("archetypes counted")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    more, names = grid[1, 0].get_legend_handles_labels()
    figure.legend(handles + more, labels + names, loc="outside lower center", ncols=2)
    return figure


def _noises(run: Run) -> list[tuple[str, Population]]:
    """Short name and spectrum, of mean 1, of every noise."""
    made = [(rf"AR(1), $\rho$ = {rho:g}", Population.ar1(rho)) for rho in run.config["rhos"]]
    blocks = np.array(run.config["blocks"])
    sizes = [len(part) for part in np.array_split(np.empty(run.config["N"]), len(blocks))]
    variances = blocks / np.average(blocks, weights=sizes)
    return [*made, ("blocks", Population(variances, sizes))]


def _spectrum(axes: Axes, run: Run, i: int) -> None:
    """Histogram over all seeds at the last quality, its law, and the two test levels."""
    r, bins = run.config["qualities"][-1], run.arrays["bins"][0, i, -1]
    counts = run.arrays["histogram"][:, i, -1].sum(axis=0)
    total = run.config["N"] * run.committed
    noise = _noises(run)[i][1]
    scaled = Population((1 - r**2) * noise.eigenvalues, noise.weights)
    x = np.linspace(bins[0], bins[-1], 500)[1:]
    axes.stairs(counts / total / np.diff(bins), bins, color="0.7", fill=True, label="spectrum")
    axes.plot(x, density(x, scaled, run.config["ratio"]), color="k", lw=0.9, label="law")
    levels = run.arrays["thresholds"][:, i, -1].mean(axis=0)
    for (name, colour, _), level in zip(METHODS, levels, strict=False):
        axes.axvline(level, color=colour, ls="--", lw=0.9, label=f"{name} level")
    axes.set(xlabel="eigenvalue")


def _counts(axes: Axes, run: Run, i: int) -> None:
    """Mean counts with standard deviations, and what theory foresees."""
    qualities = np.array(run.config["qualities"])
    n_detected, foreseen = run.arrays["n_detected"][:, i], run.arrays["foreseen"][:, i]
    for k, (name, colour, marker) in enumerate(METHODS):
        style: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "mfc": "none",
            "elinewidth": 0.7,
            "ls": "none",
        }
        mean, sd = n_detected[..., k].mean(axis=0), n_detected[..., k].std(axis=0)
        axes.errorbar(qualities, mean, sd, label=name, **style)
        if k:
            axes.plot(
                qualities,
                foreseen[..., k - 1].mean(axis=0),
                color=colour,
                lw=0.9,
                label=f"{name}, foreseen",
            )
    axes.axhline(len(run.config["exposures"]), color="0.8", lw=0.8, zorder=0)
    # Linear up to the number of archetypes; logarithmic above, for the classical counts.
    K = len(run.config["exposures"])
    axes.set_yscale("symlog", linthresh=K, linscale=1.2)
    ticks = [*range(K + 1), 10 * K, 100 * K]
    axes.set(xlabel="quality r", yticks=ticks, yticklabels=[str(t) for t in ticks])
    axes.set_ylim(bottom=-0.2)
    axes.minorticks_off()
