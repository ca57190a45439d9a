"""The figure of `hopfed run heavy_tails`: counts, spectra and overlaps under heavy tails."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

METHODS = (("sample covariance", "C1", "s"), ("Tyler's shape", "C0", "o"))
LINES = ("-", "--", ":", "-.")  # one per aspect ratio


@styled()
def draw(run: Run) -> Figure:
    """Draw one spectrum of each matrix above, counts and overlaps over nu below."""
    figure = new_figure(90, 112)
    spectra, counts = figure.subfigures(2, 1, height_ratios=(50, 62))
    for k, axes in enumerate(spectra.subplots(1, 2)):
        _spectrum(axes, run, k)
    left, right = counts.subplots(1, 2)
    _over_degrees(left, run, run.arrays["n_detected"])
    left.axhline(len(run.config["exposures"]), color="0.4", lw=0.8, zorder=0)
    left.set(yscale="log", ylabel="components counted", yticks=(1, 3, 10, 30, 100))
    left.set_yticklabels(["1", "3", "10", "30", "100"])
    left.minorticks_off()
    _over_degrees(right, run, run.arrays["overlap"])
    right.set(ylabel="subspace overlap", ylim=(None, 1.02))
    counts.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _spectrum(axes: Axes, run: Run, k: int) -> None:
    """Eigenvalues of the first draw at the lowest nu and the last ratio; dashed the test level."""
    heaviest = int(np.argmin([float(nu) for nu in run.config["degrees"]]))
    values = run.arrays["eigenvalues"][0, heaviest, -1, k]
    tau = run.arrays["threshold"][0, heaviest, -1, k]
    n_detected = run.arrays["n_detected"][0, heaviest, -1, k]
    index = np.arange(1, len(values) + 1)
    seen = index <= n_detected
    name, colour, marker = METHODS[k]
    axes.plot(index[seen], values[seen], marker, color=colour)
    axes.plot(index[~seen], values[~seen], marker, color="0.6", mfc="none")
    axes.axhline(tau, color="0.4", ls="--", lw=0.9)
    axes.set(xscale="log", yscale="log", xlabel="rank", ylabel="eigenvalue")
    nu, q = run.config["degrees"][heaviest], run.config["ratios"][-1]
    axes.set_title(name)
    text = rf"$\nu$ = {_degree(nu)}, q = {q:g}" + f"\n{n_detected} counted"
    axes.text(0.97, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=7)


def _over_degrees(axes: Axes, run: Run, values: np.ndarray) -> None:
    """Mean and standard deviation over seeds for every nu, ratio and method."""
    degrees, ratios = run.config["degrees"], run.config["ratios"]
    place = np.arange(len(degrees))
    for k, (name, colour, marker) in enumerate(METHODS):
        for j, q in enumerate(ratios):
            mean, sd = values[:, :, j, k].mean(axis=0), values[:, :, j, k].std(axis=0)
            style: dict[str, Any] = {"color": colour, "ls": LINES[j % len(LINES)], "marker": marker}
            shift = 0.08 * (j - (len(ratios) - 1) / 2)
            style |= {"mfc": "none", "elinewidth": 0.7, "label": f"{name}, q = {q:g}"}
            axes.errorbar(place + shift, mean, sd, **style)
    labels = [_degree(nu) for nu in degrees]
    axes.set(xlabel=r"degrees of freedom $\nu$", xticks=place, xticklabels=labels)


def _degree(nu: float | str) -> str:
    """Degrees of freedom as text; a run's config names the infinite ones "inf"."""
    return r"$\infty$" if nu == "inf" else f"{nu:g}"
