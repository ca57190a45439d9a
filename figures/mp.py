"""The figure of `hopfed run mp`: spectra of noise and their law, and false-alarm rates."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure, spread, styled
from hopfed.runs import Run
from hopfed.theory import marchenko_pastur

KINDS = ("+-1", "Gaussian")

# Rule in the summary, its name, marker.
RULES = (
    ("tw_signs", "Tracy-Widom, +-1", "o"),
    ("tw_gaussian", "Tracy-Widom, Gaussian", "s"),
    ("shuffle_signs", "shuffle, +-1", "^"),
    ("unshifted_signs", "Tracy-Widom unshifted, +-1", "x"),
)


FIRST = 3  # densities in the first picture


def has_more_sections(run: Run) -> bool:
    """Whether there are further aspect ratios."""
    return len(run.config["ratios"]) > FIRST


@styled()
def draw(run: Run, *, whole: bool = False) -> Figure:
    """Draw densities, three unless `whole`, and the rate of every rule over the aspect ratio."""
    ratios = len(run.config["ratios"])
    shown = spread(ratios, ratios if whole else FIRST)
    columns = 2 if len(shown) == 4 else min(len(shown), FIRST)
    rows = -(-len(shown) // columns)
    figure = new_figure(150, 42 * rows + 60)
    top, bottom = figure.subfigures(2, 1, height_ratios=(42 * rows, 60))
    grid = top.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(shown) :]:
        axes.set_axis_off()
    for i, axes in zip(shown, grid.flat, strict=False):
        _density(axes, run, i)
    for axes in grid[:, 0]:
        axes.set_ylabel("density")
    grid.flat[min(1, len(shown) - 1)].legend(loc="upper right", handlelength=1)

    left, middle, right = bottom.subplots(1, 3)
    _rates(left, run, "0.01")
    _rates(middle, run, "0.05")
    _edge(right, run)
    left.set_ylabel("false-alarm rate (%)")
    bottom.legend(*middle.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


draw_whole = partial(draw, whole=True)


def _density(axes: Axes, run: Run, i: int) -> None:
    """Histograms over all seeds, per eigenvalue off zero, and the law."""
    q, bins = run.config["ratios"][i], run.arrays["bins"][0, i]
    for kind, counts, colour in zip(
        KINDS, run.arrays["histogram"].sum(axis=0)[:, i], ("C0", "C1"), strict=True
    ):
        axes.stairs(counts / counts.sum() / np.diff(bins), bins, color=colour, lw=0.8, label=kind)
    x = np.linspace(bins[0], bins[-1], 600)[1:]
    axes.plot(x, marchenko_pastur.pdf(x, q) * max(1, q), color="k", lw=0.9, label="law")
    distance = run.arrays["distance"].mean(axis=0)[:, i].max()
    axes.set(title=f"q = {q:g}: distance {distance:.1g}", xlabel="eigenvalue")
    if q == 1:  # the density is infinite at 0
        axes.set_ylim(0, 2)


def _rates(axes: Axes, run: Run, level: str) -> None:
    rules = [rule for rule in RULES if f"{rule[0]}_{level}" in run.summary["rates"]]
    for k, (name, label, marker) in enumerate(rules):
        shift = 0.15 * (k - (len(rules) - 1) / 2)
        _points(axes, run, run.summary["rates"][f"{name}_{level}"], shift, marker, f"C{k}", label)
    axes.axhline(100 * float(level), color="0.4", ls="--", lw=0.9)
    axes.set(title=f"at {float(level):.0%}")
    axes.set_ylim(bottom=0)
    _ratio_axis(axes, run)


def _edge(axes: Axes, run: Run) -> None:
    rates = run.summary["rates"]
    kinds = zip(("signs", "gaussian"), KINDS, (-0.1, 0.1), "os", ("C0", "C1"), strict=True)
    for name, kind, shift, marker, colour in kinds:
        _points(axes, run, rates[f"mp_{name}"], shift, marker, colour, kind)
    expected = 100 * np.array(rates["mp_expected"])
    at = np.arange(len(expected))
    axes.hlines(expected, at - 0.3, at + 0.3, "0.4", label="foreseen")
    axes.set(title="above the MP edge")
    axes.legend(loc="lower center", ncols=2, columnspacing=1)
    axes.set_ylim(bottom=0)
    _ratio_axis(axes, run)


def _points(
    axes: Axes, run: Run, rates: list, shift: float, marker: str, colour: str, label: str | None
) -> None:
    """Rates in per cent with 95% binomial bars."""
    rate, n = np.array(rates), run.summary["nulls"]
    bar = 1.96 * np.sqrt(np.maximum(rate * (1 - rate), 1 / n) / n)
    x = np.arange(len(rate)) + shift
    style: dict[str, Any] = {
        "ls": "none",
        "marker": marker,
        "color": colour,
        "elinewidth": 0.7,
        "mfc": "none",
    }
    axes.errorbar(x, 100 * rate, 100 * bar, label=label, **style)


def _ratio_axis(axes: Axes, run: Run) -> None:
    ratios = run.config["ratios"]
    axes.set(xlabel="q", xticks=range(len(ratios)), xticklabels=[f"{q:g}" for q in ratios])
