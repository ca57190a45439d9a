"""The spectrum of a matrix beside the law of its noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed._lib.settings import require
from hopfed.figures.style import new_figure, styled
from hopfed.theory import marchenko_pastur, spikes

WIDTH, HEIGHT = 88, 60  # mm: a column of a paper
MOST = 8.0  # edges to the right of which outliers are drawn on a logarithmic axis


@styled()
def draw(found: Any, kind: str = "spectrum") -> Figure:
    """Draw the picture of a `Spectrum` that is asked for, in a column of a paper."""
    require(kind in KINDS, "kind", f"one of {', '.join(KINDS)}", repr(kind))
    figure = new_figure(WIDTH, HEIGHT)
    axes = figure.subplots()
    KINDS[kind](axes, found)
    axes.legend()
    return figure


def bulk(q: float, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Places and densities of the bulk, dense at the edges, where the density is steep."""
    lower, upper = marchenko_pastur.edges(q, variance)
    x = (lower + upper) / 2 - (upper - lower) / 2 * np.cos(np.linspace(0, np.pi, 401)[1:-1])
    return x, marchenko_pastur.pdf(x, q, variance)


def _overlaps(axes: Axes, found: Any) -> None:
    """Squared overlaps of the components over their strengths, beside the law."""
    (m, N), root = found.shape, float(spikes.threshold(found.shape[1] / found.shape[0]))
    most = 1.2 * max([4 * root, *found.strengths])
    strength = np.geomspace(root / 4, most, 1000)
    axes.plot(strength, spikes.overlap(strength, N / m), color="0.3", label=f"law, q = {N / m:.3g}")
    axes.axvline(root, color="0.3", ls="--", label=rf"threshold $\sqrt{{q}}$ = {root:.3g}")
    axes.errorbar(
        found.strengths, found.overlaps, found.overlap_errors, fmt="o", color="C1",
        label=f"components ({found.n_components}), N = {N:,}, M = {m:,}",
    )  # fmt: skip
    if most > 30 * root:
        axes.set_xscale("log")
    axes.set(xlabel=r"strength $\kappa$", ylabel="squared overlap", ylim=(-0.03, 1.05))


def _histogram(axes: Axes, found: Any) -> None:
    """Histogram of the eigenvalues, their law with its atom, its edge, and the components."""
    m, N = found.shape
    noise, outliers = np.split(found.eigenvalues, [found.n_components])[::-1]
    share = len(noise) / N  # eigenvalues that are 0 by their number are the atom
    bins = max(int(np.sqrt(len(noise)) * 2), 10)
    heights, ends = np.histogram(noise, bins)
    width = ends[1] - ends[0]
    axes.bar(
        ends[:-1], heights / heights.sum() / width * share, width, align="edge", color="0.75",
        label=f"eigenvalues, N = {N:,}, M = {m:,}",
    )  # fmt: skip
    q = N / m  # the law of Marchenko and Pastur, moved to the edge that was found
    variance = found.edge / float(marchenko_pastur.edges(q)[1])
    x, density = bulk(q, variance)
    atom = float(marchenko_pastur.atom(q))
    label = f"law, q = {q:.3g}" + (f", atom {atom:.2g} at 0" if atom > 0 else "")
    axes.plot(x, density * share / (1 - atom), color="C0", label=label)
    axes.axvline(found.edge, ymax=0.55, color="0.3", ls="--", label=f"edge {found.edge:.3g}")
    if found.n_components:
        axes.plot(
            outliers, np.zeros(len(outliers)), "v", color="C1", clip_on=False,
            label=f"components ({found.n_components})",
        )  # fmt: skip
        if outliers[0] > MOST * found.edge:
            axes.set_xscale("symlog", linthresh=found.edge)
            ends = np.ceil(np.log10([found.edge, 10 * outliers[0]]))
            axes.set_xticks([0, *10.0 ** np.arange(*ends)])
    axes.set(xlabel="eigenvalue", ylabel="density", ylim=(0, None))


KINDS = {"spectrum": _histogram, "overlaps": _overlaps}
