"""The spectrum of a matrix beside the law of its noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.scale import SymmetricalLogScale

from hopfed._lib.settings import require
from hopfed.figures.kinds import COLUMN, Panel, draw_page, line_plot, scatter
from hopfed.theory import marchenko_pastur, spikes

MOST = 8.0  # edges, beyond which outliers make the axis logarithmic


def draw(found: Any, kind: str = "spectrum") -> Any:
    """Draw the picture `kind` of a matrix's `Spectrum`, as wide as a column of a paper."""
    require(kind in KINDS, "kind", f"one of {', '.join(KINDS)}", repr(kind))
    figure = draw_page([KINDS[kind](found)], width=COLUMN)
    for mark in figure.axes[0].lines[: found.n_components > 0]:  # which lie on the axis
        mark.set_clip_on(False)
    return figure


def bulk_density(q: float, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Bulk in the picture of a spectrum: places, closest at the steep edges, and densities."""
    lower, upper = marchenko_pastur.edges(q, variance)
    x = (lower + upper) / 2 - (upper - lower) / 2 * np.cos(np.linspace(0, np.pi, 401)[1:-1])
    return x, marchenko_pastur.pdf(x, q, variance)


def _overlaps(found: Any) -> Panel:
    """Squared overlaps of the components over their strengths, beside the law."""
    (m, N), root = found.shape, float(spikes.threshold(found.shape[1] / found.shape[0]))
    most = 1.2 * max([4 * root, *found.strengths])
    strength = np.geomspace(root / 4, most, 1000)
    label = f"components ({found.n_components}), N = {N:,}, M = {m:,}"
    lines = {label: (found.overlaps, found.overlap_errors)}
    law = {f"law, q = {N / m:.3g}": (strength, spikes.overlap(strength, N / m))}
    law[rf"threshold $\sqrt{{q}}$ = {root:.3g}"] = np.full(2, root), np.array([0.0, 1.0])
    words = {"points": True, "log": "x" if most > 30 * root else "", "ylim": (-0.03, 1.05)}
    words |= {"xlabel": r"strength $\kappa$", "ylabel": "squared overlap"}
    return line_plot("", found.strengths, lines, law, **words)


def _histogram(found: Any) -> Panel:
    """Histogram of the eigenvalues, their law with its atom, its edge, and the components."""
    m, N = found.shape
    noise, outliers = np.split(found.eigenvalues, [found.n_components])[::-1]
    share, q = len(noise) / N, N / m  # zeros from the shape of the matrix are the atom
    heights, ends = np.histogram(noise, max(int(np.sqrt(len(noise)) * 2), 10))
    heights = heights / heights.sum() / (ends[1] - ends[0]) * share
    variance = found.edge / float(marchenko_pastur.edges(q)[1])  # the law ends at the found edge
    x, density = bulk_density(q, variance)
    atom = float(marchenko_pastur.atom(q))
    law = f"law, q = {q:.3g}" + (f", atom {atom:.2g} at 0" if atom > 0 else "")
    steps = np.repeat(ends, 2), np.r_[0, np.repeat(heights, 2), 0]
    lines: dict[str, Any] = {f"eigenvalues, N = {N:,}, M = {m:,}": steps}
    lines[law] = x, density * share / (1 - atom)
    lines[f"edge {found.edge:.3g}"] = [found.edge] * 2, [0, 0.5 * heights.max()]
    points = {f"components ({found.n_components})": (outliers, np.zeros(len(outliers)))}
    words = {"lines": lines, "diagonal": False, "xlabel": "eigenvalue", "ylabel": "density"}
    if len(outliers) and outliers[0] > MOST * found.edge:
        words |= {"xscale": SymmetricalLogScale(None, linthresh=found.edge)}
        powers = np.ceil(np.log10([found.edge, 10 * outliers[0]]))
        words |= {"xticks": [0, *10.0 ** np.arange(*powers)]}
    return scatter("", points if len(outliers) else {}, **words | {"ylim": (0, None)})


KINDS = {"spectrum": _histogram, "overlaps": _overlaps}
