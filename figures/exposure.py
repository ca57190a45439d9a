"""The figure of `hopfed run exposure`: retrieval, and the estimated exposure, over the exposure."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from hopfed.figures import new_figure, styled
from hopfed.runs import Run


@styled()
def draw(run: Run) -> Figure:
    """Overlap over exposure for each number of examples; estimated exposures; retrieval by Gini."""
    figure = new_figure(180, 62)
    left, middle, right = figure.subplots(1, 3)
    arrays, M = run.arrays, run.config["M"]
    for j, examples in enumerate(M):
        exposure = arrays["exposure"][:, :, j].ravel()
        order = np.argsort(exposure)
        there = exposure[order] > 0
        x = exposure[order][there]
        m = arrays["matched"][:, :, j].ravel()[order][there]
        foreseen = arrays["foreseen"][:, :, j].ravel()[order][there]
        left.plot(x, m, "o", ms=2, mew=0, alpha=0.4, color=f"C{j}", label=f"M = {examples}")
        left.plot(*_smooth(x, foreseen), color=f"C{j}", lw=1)
        middle.plot(exposure, arrays["estimated"][:, :, j].ravel(), "o", ms=2, mew=0, alpha=0.4,
                    color=f"C{j}")  # fmt: skip
        unequal = arrays["gini"][:, :, j]
        right.plot(unequal.mean(axis=0), arrays["matched"][:, :, j].mean(axis=(0, 2)), "o-", ms=3,
                   color=f"C{j}", label=f"M = {examples}")  # fmt: skip
    left.set(xscale="log", xlabel="exposure", ylabel="overlap (line: foreseen)", ylim=(-0.03, 1.05))
    ends = np.array([1e-3, 1])
    middle.plot(ends, ends, color="0.5", lw=0.9)
    middle.set(xscale="log", yscale="log", xlabel="exposure", ylabel="estimated", xlim=ends,
               ylim=ends)  # fmt: skip
    right.set(xlabel="Gini index of the exposures", ylabel="mean overlap", ylim=(0, 1.05))
    right.legend(loc="lower left")
    return figure


def _smooth(x: np.ndarray, y: np.ndarray, bins: int = 25) -> tuple[np.ndarray, np.ndarray]:
    """Means in bins of the logarithm."""
    if len(x) <= bins:
        return x, y
    edge = np.geomspace(x[0], x[-1] * (1 + 1e-9), bins + 1)
    at = np.clip(np.searchsorted(edge, x, side="right") - 1, 0, bins - 1)
    count = np.bincount(at, minlength=bins)
    some = count > 0
    means = [np.bincount(at, weights=v, minlength=bins)[some] / count[some] for v in (x, y)]
    return means[0], means[1]
