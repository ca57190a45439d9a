"""The figure of `hopfed run scale`: seconds, memory and bytes sent against the larger side."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from hopfed.figures import new_figure, styled
from hopfed.runs import Run


@styled()
def draw(run: Run) -> Figure:
    """Draw each quantity over max(N, M); a line joins points of the same min(N, M)."""
    N, M = np.array(run.config["N"]), np.array(run.config["M"])
    larger, smaller = np.maximum(N, M), np.minimum(N, M)
    a = {name: np.median(values, axis=0) for name, values in run.arrays.items() if name != "seeds"}
    panels = (
        ("seconds", a["seconds"], None),
        ("peak memory (GB)", a["peak"] / 1e9, ("float32 N x N", a["dense"] / 1e9)),
        ("sent by a client (MB)", a["sent"] / 1e6, ("float32 N x N", a["dense"] / 1e6)),
    )
    figure = new_figure(170, 62)
    row = figure.subplots(1, 3)
    for axes, (label, values, dense) in zip(row, panels, strict=True):
        for k, side in enumerate(np.unique(smaller)):
            at = np.flatnonzero(smaller == side)
            at = at[np.argsort(larger[at])]
            axes.plot(larger[at], values[at], "o-", color=f"C{k}", label=f"smaller side {side:,}")
        if dense is not None:
            order = np.argsort(N)
            axes.plot(N[order], dense[1][order], ":", color="0.5", label=dense[0])
        axes.set(xscale="log", yscale="log", xlabel="larger of N and M", ylabel=label)
        axes.xaxis.set_minor_formatter(NullFormatter())
    figure.legend(*row[-1].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
