"""The figure of `hopfed recover`: the spectrum, the scores, and the patterns themselves."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hopfed._lib.settings import require
from hopfed.figures import archetypes
from hopfed.figures.kinds import COLUMN, HEIGHT, scales
from hopfed.figures.style import new_figure, shaped, styled, tiles
from hopfed.runs import Run
from hopfed.theory import marchenko_pastur

SHOWN = 40  # largest number of patterns in the figure
FEW = 50  # eigenvalues up to which ranks are drawn one like the other


@styled()
def draw(run: Run, *, shape: tuple[int, int] | None = None) -> Figure:
    """Draw a recovery from its run."""
    if "spectrum/eigenvalues" not in run.arrays:
        return archetypes.draw(run, shape=shape)
    # A fit of classes has shares and errors, and no scores, also where it finds one quality.
    graded = run.summary.get("channel", "symmetric") != "symmetric"
    graded |= "archetypes/errors" in run.arrays
    patterns = run.arrays["archetypes/means" if graded else "archetypes/patterns"]
    named = shape is None and len(patterns) and archetypes.has_names(run)
    rows = -(-min(len(patterns), SHOWN) // 10)
    width, height = (170.0, 18.0 * rows)
    if named:
        width, height = archetypes.heat_map_size(run.arrays["archetypes/means"])
    else:
        shape = shaped(shape, patterns.shape[1])
    figure = new_figure(max(170, width), 55 + height)
    top, bottom = figure.subfigures(2, 1, height_ratios=(55, max(height, 1)))
    left, right = top.subplots(1, 2)
    _spectrum(left, run)
    (_shares if graded else _scores)(right, run)
    if named:
        archetypes.heat_map(bottom, run)
    elif rows:
        tiles(bottom, patterns[:SHOWN], shape, 10, named=True)
    return figure


@styled()
def part(run: Run, kind: str) -> Figure:
    """Draw the "scores" of patterns beside theory, or the "shares" of classes, in a column."""
    require(kind in PARTS, "kind", f"one of means, {', '.join(PARTS)}", repr(kind))
    needed = f"archetypes/{kind}"
    require(len(run.arrays.get(needed, ())) > 0, "kind", "one that these archetypes have", kind)
    figure = new_figure(COLUMN, HEIGHT)
    PARTS[kind](figure.subplots(), run)
    return figure


def _spectrum(axes: Axes, run: Run) -> None:
    values = run.arrays["spectrum/eigenvalues"]
    n_detected, threshold = run.summary["n_detected"], run.summary["threshold"]
    index = np.arange(1, len(values) + 1)
    signal = index <= n_detected
    M, N = sum(run.summary["n_examples"]), run.summary["n_sites"]
    axes.set_title(f"N = {N:,}, M = {M:,}, q = {N / M:.3g}")
    axes.plot(index[~signal], values[~signal], ".", color="0.7", label="noise")
    axes.plot(index[signal], values[signal], "o", label=f"signal ({n_detected})")
    noise = values[~signal & (values > 1e-9 * values.max(initial=0.0))]
    if len(values) == min(M, N) and len(noise):  # all there are: their median gives the variance
        place = (np.arange(len(noise)) + 0.5) / len(noise) * min(1.0, M / N)
        variance = np.median(noise) / marchenko_pastur.median_nonzero(N / M)
        law = marchenko_pastur.quantile(1 - place, N / M, variance)
        axes.plot(index[~signal][: len(noise)], law, color="0.3", lw=0.9, label="law of noise")
    axes.axhline(threshold, color="C1", ls="--", label="threshold")
    axes.set(yscale="log", xlabel="rank", ylabel="eigenvalue")
    axes.set_ylim(bottom=0.8 * max(values[values > 0].min(initial=1.0), threshold / 300))
    scales(axes, "xy" if len(values) > FEW else "y")
    if len(values) <= FEW:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="upper right")


def _scores(axes: Axes, run: Run) -> None:
    score, predicted = run.arrays["archetypes/scores"], run.arrays["archetypes/predicted_scores"]
    axes.plot(predicted, score, "o")
    low = min([*score, *predicted, 0.9])
    axes.plot([low, 1], [low, 1], color="0.6", lw=0.8, zorder=0)
    status, explained = run.summary["status"], run.summary["explained"]
    axes.set(xlabel="score predicted by theory", ylabel="score measured")
    axes.set_title(f"{status}; explained {explained:.3f}, quality r = {run.summary['quality']:.3f}")


def _shares(axes: Axes, run: Run) -> None:
    shares = run.arrays["archetypes/shares"]
    axes.bar(np.arange(1, len(shares) + 1), shares)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="archetype", ylabel="share of the rows")
    residual = run.summary["residual"]
    left = f"dependence left: {residual:.2f} of the edge of noise"
    axes.set_title(f"{run.summary['status']}; {run.summary['channel']}\n{left}")


PARTS = {"scores": _scores, "shares": _shares}
