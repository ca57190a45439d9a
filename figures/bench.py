"""The figure of `hopfed bench`: time against size, with the fitted exponents."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

MARKERS = "osD^v"


@styled()
def draw(run: Run) -> Figure:
    """Draw a row of panels for each benchmark, a panel for each size that varies.

    Parameters
    ----------
    run : as `hopfed.bench.harness.report.measure` returns it.
    """
    found = run.summary["benchmarks"]
    heights = [62 + 4 * len(_ways(benchmark)) for benchmark in found.values()]
    figure = new_figure(170, sum(heights))
    rows = figure.subfigures(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, (name, benchmark) in zip(rows, found.items(), strict=True):
        part.suptitle(f"{name}: {benchmark['summary']}", fontsize=8)
        sweeps = benchmark["sweeps"]
        panels = part.subplots(1, len(sweeps), squeeze=False, sharey=True)[0]
        for axes, sweep in zip(panels, sweeps, strict=True):
            _panel(axes, benchmark, sweep)
        panels[0].set(ylabel="seconds", ylim=_decades(benchmark["rows"]))  # shared
    return figure


def _decades(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Powers of ten around all times, so that every axis has at least two labels."""
    times = [row["seconds"] for row in rows if row["seconds"] is not None]
    return 10.0 ** math.floor(math.log10(min(times))), 10.0 ** math.ceil(math.log10(max(times)))


def _panel(axes: Axes, benchmark: dict[str, Any], sweep: dict[str, Any]) -> None:
    """Time of every way along one sweep."""
    for number, (device, way) in enumerate(_ways(benchmark)):
        line = _line(benchmark["rows"], device, way, sweep)
        if not line:
            continue
        exponent = _exponent(benchmark["exponents"], device, way, sweep)
        axes.plot(
            *zip(*line, strict=True),
            f"{MARKERS[number % len(MARKERS)]}-",
            color=f"C{number}",
            label=_label(device, way, sweep["vary"], exponent),
        )
    axes.set(xscale="log", yscale="log", xlabel=sweep["vary"])
    axes.set_xticks(sweep["values"], [f"{value:,}" for value in sweep["values"]])
    axes.minorticks_off()
    axes.set_title(", ".join(f"{letter} = {value:,}" for letter, value in sweep["fixed"].items()))
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2))


def _ways(benchmark: dict[str, Any]) -> list[tuple[str, str]]:
    """(device, way), in order, of all rows."""
    return list(dict.fromkeys((row["device"], row["way"]) for row in benchmark["rows"]))


def _line(
    rows: list[dict[str, Any]], device: str, way: str, sweep: dict[str, Any]
) -> list[tuple[int, float]]:
    """Measured (size, seconds) of one way along a sweep."""
    line = []
    for value in sweep["values"]:
        point = {**sweep["fixed"], sweep["vary"]: value}
        line += [
            (value, row["seconds"])
            for row in rows
            if (row["device"], row["way"], row["point"]) == (device, way, point)
            and row["seconds"] is not None
        ]
    return line


def _exponent(
    fits: list[dict[str, Any]], device: str, way: str, sweep: dict[str, Any]
) -> float | None:
    for fit in fits:
        same_line = (fit["vary"], fit["fixed"]) == (sweep["vary"], sweep["fixed"])
        if same_line and (fit["device"], fit["way"]) == (device, way):
            return fit["exponent"]
    return None


def _label(device: str, way: str, letter: str, exponent: float | None) -> str:
    place = "" if device == "cpu" else f" ({device})"
    power = "" if exponent is None else f": ${letter}^{{{exponent:.2f}}}$"
    return f"{way}{place}{power}"
