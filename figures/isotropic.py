"""The figure of `hopfed run isotropic`: the isotropic law, decoupling, and the band of the bulk."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

PLACES = ("z above the support", "z below it", "z over its middle")


@styled()
def draw(run: Run) -> Figure:
    """Errors over N and over the overlap, and how far the bulk leaves its edges."""
    figure = new_figure(180, 110)
    (law, lemma), (overlap, band) = figure.subplots(2, 2)
    N, K = np.array(run.config["N"], float), run.config["K"]
    error = run.arrays["law/error"]
    for i, place in enumerate(PLACES):
        _with_spread(law, N, error[..., i], f"C{i}", place)
    law.set(ylabel=r"largest $|a^T G\,b - m\,a\cdot b|$", title="Theorem 3")
    for k, number in enumerate(K):
        _with_spread(lemma, N, run.arrays["lemma/error"][..., k], f"C{k}", f"K = {number}")
    lemma.set(ylabel=r"$\|U^T G\,U - m\,\Gamma\|$", title="Lemma 1")
    for axes, values in ((law, error), (lemma, run.arrays["lemma/error"])):
        guide = np.sqrt(np.log(N) / N)
        guide *= 1.4 * values.mean(axis=0).max() / guide[0]
        axes.plot(N, guide, "--", color="0.5", lw=0.9, label=r"$\sqrt{\log N / N}$")
        axes.set(xscale="log", yscale="log", xlabel="N")
        axes.set_xticks(N, [f"{n:g}" for n in N])
        axes.minorticks_off()
        axes.set_ylim(bottom=values.mean(axis=0).min() / (6 if axes is law else 25))
        axes.legend(loc="lower left")
    _overlap(overlap, run)
    _band(band, run, N)
    return figure


def _with_spread(axes: Axes, x: np.ndarray, draws: np.ndarray, colour: str, label: str) -> None:
    middle, spread = draws.mean(axis=0), draws.std(axis=0)
    axes.errorbar(x, middle, spread, color=colour, marker="o", ms=3, lw=1, label=label)


def _overlap(axes: Axes, run: Run) -> None:
    eps, arrays = np.array(run.config["overlaps"]), run.arrays
    _with_spread(axes, eps, arrays["overlap/decoupled"], "C0", r"$\|U^T G\,U - m\,1\|$")
    axes.plot(eps, arrays["overlap/expected"].mean(axis=0), "--", color="0.5", lw=0.9,
              label=r"$|m|\,\|\Gamma - 1\|$")  # fmt: skip
    _with_spread(axes, eps, arrays["overlap/gram"], "C1", r"$\|U^T G\,U - m\,\Gamma\|$")
    _with_spread(axes, eps, arrays["overlap/outlier"], "C2", "outlier / orthogonal one - 1")
    axes.set(xlabel=r"overlap $\epsilon$ of five archetypes", title="Archetypes that overlap")
    axes.legend()


def _band(axes: Axes, run: Run, N: np.ndarray) -> None:
    """The 1 - delta quantile of what is needed, and the fitted band, for each aspect ratio."""
    level, widths = 1 - run.config["delta"], run.arrays["band/width"]
    C = [float(c) for c in run.summary["band_constants"].split(",")]
    for j, ratio in enumerate(run.config["ratios"]):
        draws = np.moveaxis(widths[:, :, j], 1, 0).reshape(len(N), -1)
        axes.plot(N, np.quantile(draws, level, axis=1), "o", color=f"C{j}", label=f"q = {ratio:g}")
        first = np.sqrt((np.log(1 / run.config["delta"]) + np.log(N)) / np.round(N / ratio))
        band = C[0] * first + C[1] * np.log(N) ** 2 / N ** (2 / 3)
        axes.plot(N, band, color=f"C{j}", lw=0.9)
    axes.set(xscale="log", xlabel="N", title="Bulk beyond the edges: band (40)", ylim=(0, None))
    axes.set_ylabel(f"{level:.0%} quantile")
    axes.set_xticks(N, [f"{n:g}" for n in N])
    axes.minorticks_off()
    axes.legend(loc="upper right")
