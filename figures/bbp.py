"""The figure of `hopfed run bbp`: spectra, outliers and overlaps against theory, as in Fig. 5."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.config import from_plain
from hopfed.experiments import bbp
from hopfed.figures import new_figure
from hopfed.runs import Run

MARKERS = ("o", "s", "^", "v", "D", "P", "X")


def draw(run: Run) -> Figure:
    """Draw the leading eigenvalues, and the plain and finite-size predictions side by side."""
    config = from_plain(bbp.Config, run.config)
    figure = new_figure(90, 150)
    rows = figure.subfigures(3, 1, height_ratios=(50, 50, 50))
    _spectra(rows[0].subplots(1, len(config.M), sharey=True, squeeze=False)[0], run, config)
    outliers, overlaps = bbp.plain(config)
    strong = len(config.exposures)
    top = run.arrays["eigenvalues"][:, :, :strong]
    plain = np.broadcast_to(outliers[:, :strong], top.shape)
    pairs = (("plain", plain), ("finite size", run.arrays["predicted"][:, :, :strong]))
    _against(rows[1].subplots(1, 2, sharey=True), "eigenvalue", top, pairs, config, log=True)
    measured = run.arrays["overlaps"]
    plain = np.broadcast_to(overlaps[:, :strong], measured.shape)
    pairs = (("plain", plain), ("finite size", run.arrays["predicted_overlaps"]))
    _against(rows[2].subplots(1, 2, sharey=True), "overlap", measured, pairs, config, log=False)
    return figure


def _spectra(row: np.ndarray, run: Run, config: bbp.Config) -> None:
    """Leading eigenvalues of the first draw: filled above the test level, open below."""
    edges = bbp.bulk_edge(config)
    for i, (axes, M) in enumerate(zip(row, config.M, strict=True)):
        values, tau = run.arrays["eigenvalues"][0, i], run.arrays["threshold"][0, i]
        index = np.arange(1, len(values) + 1)
        seen = values > tau
        axes.axhline(edges[i], color="0.4", ls="--", lw=0.9, label="edge")
        predicted = run.arrays["predicted"][0, i]
        axes.plot(index[: len(predicted)], predicted, "x", color="C1", ms=5, label="theory")
        axes.plot(index[seen], values[seen], "o", color="C0", label="seen")
        axes.plot(index[~seen], values[~seen], "o", color="C0", mfc="none", label="not seen")
        axes.set(yscale="log", title=f"M = {M:,}", xlabel="rank", xticks=(1, 5, 10))
    row[0].set_ylabel("eigenvalue")
    row[-1].legend(loc="upper right", handletextpad=0.2, borderaxespad=0)


def _against(
    row: np.ndarray,
    name: str,
    measured: np.ndarray,
    pairs: tuple[tuple[str, np.ndarray], ...],
    config: bbp.Config,
    log: bool,
) -> None:
    """Measured over predicted, one colour per archetype and one marker per M."""
    axes: Axes
    low = min(measured.min(), *(p.min() for _, p in pairs))
    high = max(measured.max(), *(p.max() for _, p in pairs))
    for axes, (title, predicted) in zip(row, pairs, strict=True):
        axes.axline((low, low), (high, high), color="0.6", lw=0.8, zorder=0)
        for i, M in enumerate(config.M):
            for k, share in enumerate(config.mixture[: measured.shape[2]]):
                label = None
                if name == "eigenvalue" and axes is row[0] and i == 0:
                    label = rf"$\pi$ = {share:.2g}"
                if name == "overlap" and axes is row[0] and k == 0:
                    label = f"M = {M:,}"
                colour = f"C{k}" if name == "eigenvalue" or k or axes is not row[0] else f"C{k}"
                axes.plot(
                    predicted[:, i, k],
                    measured[:, i, k],
                    MARKERS[i % len(MARKERS)],
                    color=colour,
                    ms=2.5,
                    mew=0.4,
                    mfc="none",
                    label=label,
                )
        gap = np.median(np.abs(measured - predicted))
        title = title if log else f"{title}: median gap {gap:.2g}"
        axes.set(title=title, xlabel=f"predicted {name}")
        if log:
            axes.set(xscale="log", yscale="log")
        if axes is row[0]:
            axes.legend(loc="upper left", handletextpad=0.2, borderaxespad=0)
    row[0].set_ylabel(f"measured {name}")
