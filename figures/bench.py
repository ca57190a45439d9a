"""The figure of `hopfed bench`: time against size, with the fitted exponents."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from hopfed.figures.kinds import Panel, against, page
from hopfed.figures.style import styled
from hopfed.runs import Run


@styled()
def draw(run: Run) -> Figure:
    """Draw a panel for each size that varies, of each benchmark.

    Parameters
    ----------
    run : as `hopfed.bench.harness.report.measure` returns it.
    """
    held = run.summary["benchmarks"].items()
    panels = [_panel(name, found, sweep) for name, found in held for sweep in found["sweeps"]]
    return page(panels, columns=2)


def _panel(name: str, found: dict[str, Any], sweep: dict[str, Any]) -> Panel:
    """Seconds of every way along one sweep."""
    letter, lines = sweep["vary"], {}
    for device, way in dict.fromkeys((row["device"], row["way"]) for row in found["rows"]):
        line = []
        for value in sweep["values"]:
            point = {**sweep["fixed"], letter: value}
            for row in found["rows"]:
                same = (row["device"], row["way"], row["point"]) == (device, way, point)
                if same and row["seconds"] is not None:
                    line.append((value, row["seconds"]))
        fits = [
            fit["exponent"]
            for fit in found["exponents"]
            if (fit["vary"], fit["fixed"]) == (letter, sweep["fixed"])
            and (fit["device"], fit["way"]) == (device, way)
        ]
        power = "" if not fits or fits[0] is None else f": ${letter}^{{{fits[0]:.2f}}}$"
        if line:
            place = "" if device == "cpu" else f" ({device})"
            lines[f"{way}{place}{power}"] = list(zip(*line, strict=True))
    fixed = ", ".join(f"{key} = {value:,}" for key, value in sweep["fixed"].items())
    words = {"xlabel": letter, "ylabel": "seconds", "log": "xy", "joined": True}
    return against(f"{name}: {fixed}", lines, diagonal=False, **words)
