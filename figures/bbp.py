"""The figure of `hopfed run bbp`: spectra, outliers and overlaps against theory, as in Fig. 5."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure, spread, styled
from hopfed.runs import Run

MARKERS = ("o", "s", "^", "v", "D", "P", "X")  # one per M
PREDICTIONS = (("plain", "plain formula"), ("finite_size", "finite size"))


def has_more_sections(run: Run) -> bool:
    """Whether there are further spectra."""
    return len(run.config["M"]) > 2


@styled()
def draw(run: Run, *, whole: bool = False) -> Figure:
    """Draw the leading eigenvalues, at two M unless `whole`, and both predictions side by side."""
    shown = spread(len(run.config["M"]), 3 if whole else 2)
    strong = len(run.config["exposures"])
    figure = new_figure(90, 150)
    grid = figure.add_gridspec(3, 6)
    w = 6 // len(shown)
    spectra = _row(figure, [grid[0, w * i : w * i + w] for i in range(len(shown))])
    for axes, i in zip(spectra, shown, strict=True):
        _spectrum(axes, run, i)
    spectra[0].set_ylabel("eigenvalue")
    spectra[-1].legend(loc="upper right", handletextpad=0.2, borderaxespad=0)

    halves = [slice(0, 3), slice(3, 6)]
    measured = run.arrays["eigenvalues"][..., :strong]
    _against(_row(figure, [grid[1, h] for h in halves]), run, "outliers", measured)
    measured = run.arrays["overlaps/measured"]
    _against(_row(figure, [grid[2, h] for h in halves]), run, "overlaps", measured)
    return figure


draw_whole = partial(draw, whole=True)


def _row(figure: Figure, places: list) -> list[Axes]:
    first = figure.add_subplot(places[0])
    rest = [figure.add_subplot(place, sharey=first) for place in places[1:]]
    for axes in rest:
        axes.tick_params(labelleft=False)
    return [first, *rest]


def _spectrum(axes: Axes, run: Run, i: int) -> None:
    """Leading eigenvalues of the first draw: filled above the test level, open below."""
    a = run.arrays
    values, predicted = a["eigenvalues"][0, i], a["outliers/finite_size"][0, i]
    index = np.arange(1, len(values) + 1)
    seen = values > a["threshold"][0, i]
    axes.axhline(a["edge"][0, i], color="0.4", ls="--", lw=0.9, label="edge")
    axes.plot(index[: len(predicted)], predicted, "x", color="C1", ms=5, label="theory")
    axes.plot(index[seen], values[seen], "o", color="C0", label="seen")
    axes.plot(index[~seen], values[~seen], "o", color="C0", mfc="none", label="not seen")
    axes.set(yscale="log", title=f"M = {run.config['M'][i]:,}", xlabel="rank", xticks=(1, 5, 10))


def _against(row: list[Axes], run: Run, what: str, measured: np.ndarray) -> None:
    """Draw measured over predicted values; a colour per archetype, a marker per M."""
    strong = measured.shape[2]
    predicted = {n: run.arrays[f"{what}/{n}"][..., :strong] for n, _ in PREDICTIONS}
    everything = np.concatenate([measured.ravel(), *(p.ravel() for p in predicted.values())])
    low, high = everything.min(), everything.max()
    for axes, (name, title) in zip(row, PREDICTIONS, strict=True):
        axes.axline((low, low), (high, high), color="0.6", lw=0.8, zorder=0)
        for i in range(measured.shape[1]):
            for k in range(strong):
                style: dict[str, Any] = {
                    "marker": MARKERS[i % len(MARKERS)],
                    "color": f"C{k}",
                    "mfc": "none",
                }
                points = predicted[name][:, i, k], measured[:, i, k]
                axes.plot(*points, ls="none", ms=2.5, mew=0.4, **style)
        axes.set(xlabel=f"predicted {what[:-1]}", title=_title(run, what, name, title))
    row[0].set_ylabel(f"measured {what[:-1]}")
    _legend(row[0], run, what)


def _title(run: Run, what: str, name: str, title: str) -> str:
    suffix = "_plain" if name == "plain" else ""
    if what == "overlaps":
        return f"{title}: gap {run.summary[f'gap{suffix}'][0]:.2g}"
    explained = run.summary[f"r2_pooled{suffix}"][0]  # None where the draws do not vary
    return title if explained is None else f"{title}: $R^2$ = {explained:.4f}"


def _legend(axes: Axes, run: Run, what: str) -> None:
    """Explain colours next to the outliers, and markers next to the overlaps."""
    if what == "outliers":
        shares = run.config["exposures"]
        styles = [("o", f"C{k}", rf"$\pi$ = {share:g}") for k, share in enumerate(shares)]
    else:
        sizes = run.config["M"]
        styles = [(MARKERS[i % len(MARKERS)], "0.3", f"M = {M:,}") for i, M in enumerate(sizes)]
    for marker, colour, label in styles:
        axes.plot([], [], marker, color=colour, mfc="none", ms=3, label=label)
    axes.legend(loc="upper left", handletextpad=0.2, borderaxespad=0)
