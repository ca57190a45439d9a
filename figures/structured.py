"""The figure of `hopfed run structured`: pictures in, pictures out, as in Figs. 9 and 10."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure, SubFigure

from hopfed.figures import new_figure, spread, styled
from hopfed.runs import Run

# Colours: paper, ink, wrong pixel of a reconstruction, space between the pictures.
COLOURS = ListedColormap(["white", "0.15", "#D55E00", "0.85"])
WRONG, GAP = 2, 3
CHANGED = {
    1.0: "",
    0.0: " deflated",
}  # overlap -> how the names of its arrays begin, after the number
FIRST = 3  # sets in the first picture
LARGEST, CURVES = 30, 46  # mm: side of a mosaic, width of the curves
PAPER = {0.8: 0.9}  # quality -> magnetisation that the paper reports to exceed


@styled()
def draw(run: Run) -> Figure:
    """Draw at the lowest quality rows of pictures of unchanged sets, and magnetisations."""
    sets = _sets(run)
    plain = [name for name in sets if " " not in name] or sets
    shown = [plain[i] for i in spread(len(plain), FIRST)]
    qualities = sorted(run.config["qualities"])
    return _panels(run, shown, qualities[:1], qualities[:2])


@styled()
def draw_whole(run: Run) -> Figure:
    """Draw a row of pictures for each set, and the magnetisations over rounds at each quality."""
    return _panels(run, _sets(run), run.config["qualities"], run.config["qualities"])


def _sets(run: Run) -> list[str]:
    c = run.config
    return [
        f"{K}{CHANGED.get(overlap, ' decorrelated')}"
        for K, overlap in zip(c["pictures"], c["overlap"], strict=True)
    ]


def _panels(run: Run, sets: list[str], pictured: list[float], curves: list[float]) -> Figure:
    columns = 1 + 3 * len(pictured)
    side = min((180 - CURVES) / columns, LARGEST)
    width = side * columns + CURVES
    figure = new_figure(width, max((side + 4) * len(sets) + 14, 38 * len(curves)))
    left, right = figure.subfigures(1, 2, width_ratios=(side * columns, CURVES))
    _pictures(left, run, sets, pictured)
    panels = right.subplots(len(curves), 1, sharex=True, sharey=True, squeeze=False)
    for axes, r in zip(panels[:, 0], curves, strict=True):
        _curves(axes, run, sets, r)
    panels[0, 0].legend(title="pictures", loc="lower right")
    panels[-1, 0].set_xlabel("round")
    return figure


def _pictures(part: SubFigure, run: Run, sets: list[str], qualities: list[float]) -> None:
    """Archetypes, then for each quality examples and the first seed's early and last results."""
    rounds, a = run.config["rounds"], run.arrays
    grid = part.subplots(len(sets), 1 + 3 * len(qualities), squeeze=False)
    for row, name in zip(grid, sets, strict=True):
        _mosaic(row[0], a[f"{name}, r={qualities[0]:g}/archetypes"][0, 0])
        row[0].set_ylabel(name.replace(" ", "\n"))
        for i, r in enumerate(qualities):
            truth, made = (
                a[f"{name}, r={r:g}/{what}"][0] for what in ("archetypes", "reconstructions")
            )
            early, last = row[2 + 3 * i], row[3 + 3 * i]
            _mosaic(row[1 + 3 * i], a[f"{name}, r={r:g}/examples"][0, 0])
            early.set_xlabel(_mosaic(early, made[0], truth[0]), labelpad=2)
            last.set_xlabel(_mosaic(last, made[-1], truth[0]), labelpad=2)
    grid[0, 0].set_title("archetypes")
    for i, r in enumerate(qualities):
        heads = (f"r = {r:g}:\nexamples", "after\n1 round", f"after\n{rounds} rounds")
        for axes, head in zip(grid[0, 1 + 3 * i :], heads, strict=False):
            axes.set_title(head)


def _mosaic(axes: Axes, packed: np.ndarray, truth: np.ndarray | None = None) -> str:
    """Draw pictures given as bits, wrong pixels in red; return their number as a text."""
    side = math.isqrt(8 * packed.shape[1])  # the last byte may be longer than the picture
    pixels = np.unpackbits(packed, axis=1, count=side**2)
    words = ""
    if truth is not None:
        right = np.unpackbits(truth, axis=1, count=side**2)
        turned = (pixels != right).mean(axis=1) > 0.5  # a pattern is known up to its sign
        wrong = (pixels ^ turned[:, None]) != right
        words = f"{wrong.sum()} wrong" if wrong.any() else "exact"
        pixels = np.where(wrong, WRONG, pixels ^ turned[:, None])
    across = math.ceil(math.sqrt(len(pixels)))
    down = math.ceil(len(pixels) / across)
    canvas = np.full((down * (side + 2), across * (side + 2)), GAP)
    for k, picture in enumerate(pixels):
        top, left = (side + 2) * (k // across) + 1, (side + 2) * (k % across) + 1
        canvas[top : top + side, left : left + side] = picture.reshape(side, side)
    axes.imshow(canvas, cmap=COLOURS, vmin=0, vmax=GAP, interpolation="nearest")
    axes.set(xticks=(), yticks=())
    axes.spines[:].set_visible(False)
    return words


def _curves(axes: Axes, run: Run, sets: list[str], r: float) -> None:
    """Draw the lowest magnetisation of each set: mean over seeds, and range."""
    for i, name in enumerate(sets):
        lowest = run.arrays[f"{name}, r={r:g}/magnetisation"].min(axis=2)
        rounds = np.arange(1, lowest.shape[1] + 1)
        low, high = lowest.min(axis=0), lowest.max(axis=0)
        axes.fill_between(rounds, low, high, color=f"C{i}", alpha=0.2, lw=0)
        style = {"color": f"C{i}", "ls": ("-", "--", "-.", ":")[i % 4], "label": name}
        axes.plot(rounds, lowest.mean(axis=0), marker="o", ms=2, **style)
    if r in PAPER:
        axes.axhline(PAPER[r], color="0.5", lw=0.6, zorder=0)
        place = {"ha": "right", "va": "top", "color": "0.4", "size": 7}
        axes.text(rounds[-1], PAPER[r] - 0.01, "the paper is above this", **place)
    axes.set(ylim=(0.4, 1.03), ylabel="lowest m", title=f"r = {r:g}")
