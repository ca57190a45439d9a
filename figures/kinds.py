"""Kinds of panels, of which the pictures of experiments are made, and pages of panels.

A kind takes numbers of a run and returns a :class:`Panel`; arrays have seeds as their first axis,
over which means are drawn, with a band or a bar. Lines of one label have one colour in a page.
Matplotlib is loaded when a page is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MOST = 6  # panels of a picture that is not whole
WIDTH, HEIGHT = 180, 52  # mm: width of a page, height of a row of panels
COLUMN = 88  # mm: width of a column of a paper
LINES = ("-", "--", ":", "-.")
MARKS = "os^vDPX"
GREYS = {"theory", "foreseen", "law", "test", "true", "edge", "full", "taken by hopfed"}
UNIT: dict[str, Any] = {"ylim": (-0.03, 1.05)}  # limits of an axis of shares
# Colours of a mosaic: paper, ink, wrong pixel, space between the pictures.
MOSAIC = ["white", "0.15", "#D55E00", "0.85"]

Lines = Mapping[str, Any]


@dataclass(frozen=True)
class Panel:
    """A panel: a function that draws it, its title, and settings of its axes.

    Attributes
    ----------
    draw : draws into axes, with the style of each label.
    title : text above the panel, and its name.
    words : arguments of `Axes.set`, such as labels and limits; `log`, axes that are logarithmic,
        "x", "y" or "xy"; `legend`, empty to leave labels out of the legend of the page.
    tall : number of rows of a panel that names rows.
    labels : labels of its lines, which look alike in all panels of a page.
    """

    draw: Callable[[Any, Mapping[str, dict[str, Any]]], None]
    title: str
    words: dict[str, Any] = field(default_factory=dict)
    tall: int = 0
    labels: tuple[str, ...] = ()


def draw_page(panels: Sequence[Panel], *, whole: bool = True, width: int = 0) -> Any:
    """Draw panels of all kinds in rows, `width` mm wide, legend below; only six unless `whole`."""
    from hopfed.figures.style import new_figure, use_style

    with use_style():
        shown = list(panels if whole else panels[:MOST])
        across = 2 if len(shown) in (2, 4) else min(3, max(len(shown), 1))
        width = width or (WIDTH if across > 1 else 100)
        rows = [shown[i : i + across] for i in range(0, len(shown), across)] or [[]]
        heights = [max([HEIGHT, *(16 + 4.2 * panel.tall for panel in row)]) for row in rows]
        figure = new_figure(width, sum(heights))
        grid = figure.subplots(len(rows), across, squeeze=False, height_ratios=heights).ravel()
        for axes in grid[len(shown) :]:
            axes.set_axis_off()
        style = label_styles(
            list(dict.fromkeys(label for panel in panels for label in panel.labels))
        )
        named: dict[str, Any] = {}
        for axes, panel in zip(grid, shown, strict=False):
            words = {"title": panel.title, "log": "", "legend": "below"} | panel.words
            panel.draw(axes, style)
            set_log_scales(axes, words.pop("log"))
            legend = words.pop("legend")
            axes.set(**words)
            lines, labels = axes.get_legend_handles_labels()
            if legend and len(labels) > 1:
                named = named | dict(zip(labels, lines, strict=True)) | named
        if named:
            columns = max(1, int(width / (9 + 1.3 * max(map(len, named)))))
            figure.set_figheight(figure.get_figheight() + math.ceil(len(named) / columns) / 6)
            below = {"loc": "outside lower center", "ncols": min(columns, len(named))}
            figure.legend(named.values(), named.keys(), **below)  # type: ignore[call-overload]
    return figure


def label_styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and line of each label in panels of all kinds; greys are those of theory."""
    own = [label for label in labels if label and label not in GREYS]
    made = {n: {"color": f"C{i % 7}", "ls": LINES[i // 7 % 4]} for i, n in enumerate(own)}
    grey = [label for label in labels if label in GREYS]
    made |= {n: {"color": "0.3", "ls": LINES[i % 4]} for i, n in enumerate(grey)}
    return made | {"": {"color": "C0"}}


def split_axis(names: Sequence[Any], values: np.ndarray, axis: int) -> dict[str, np.ndarray]:
    """For panels of all kinds: label -> its part of an array, along the axis of names."""
    return {str(n): np.take(values, i, axis) for i, n in enumerate(names)}


def mean_and_band(values: Any, band: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For kinds of panels: mean and both ends of a band, over seeds, from (mean, half) or all."""
    if isinstance(values, tuple):
        middle, *ends = (np.asarray(v, float) for v in values)
        low, high = ends if len(ends) == 2 else (middle - ends[0], middle + ends[0])
        return middle, low, high
    values = np.atleast_2d(np.asarray(values, float))
    middle = values.mean(axis=0)
    if band == "range":
        return middle, values.min(axis=0), values.max(axis=0)
    half = values.std(axis=0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0 * middle
    return middle, middle - half, middle + half


def line_plot(
    title: str,
    x: Sequence[Any] | np.ndarray,
    lines: Lines,
    foreseen: Lines | None = None,
    *,
    band: str = "range",
    points: bool = False,
    **words: Any,
) -> Panel:
    """Kind of panel: numbers over a setting, bands or bars over seeds, and predictions of theory.

    Parameters
    ----------
    x : values of the setting; words stand at equal distances.
    lines : label -> (seeds, x), or a pair of means and half widths, or means and both ends.
    foreseen : label -> (x,), or a pair (x, y); a thin line, in the colour of its label.
    band : "range" or "error".
    points : points with bars in place of lines with bands.
    """
    numbers, foreseen = all(isinstance(v, (int, float, np.number)) for v in x), foreseen or {}
    at = np.asarray(x, float) if numbers else np.arange(len(x), dtype=float)

    def draw(axes: Any, style: Mapping[str, dict[str, Any]]) -> None:
        for i, (label, values) in enumerate(lines.items()):
            middle, low, high = mean_and_band(values, band)
            look, there = style[label], np.isfinite(middle)
            if points:
                shift = 0 if numbers else 0.5 * ((i + 0.5) / len(lines) - 0.5)
                bars = np.nan_to_num(np.array([middle - low, high - middle])[:, there])
                own = {"fmt": MARKS[i % 7], "mfc": "none", "ms": 3.5, "color": look["color"]}
                axes.errorbar(at[there] + shift, middle[there], bars, label=label, **own)
            else:
                axes.fill_between(at, low, high, color=look["color"], alpha=0.15, lw=0)
                axes.plot(at, middle, label=label, **look)
        for label, values in foreseen.items():
            own_x, y = values if isinstance(values, tuple) else (at, values)
            look = style[label] | ({"ls": ":"} if label in lines else {})
            axes.plot(own_x, y, lw=0.9, label=None if label in lines else label, **look)
        if not numbers:
            axes.set_xticks(at, x)
        elif words.get("xlabel") == "round":
            axes.xaxis.get_major_locator().set_params(integer=True)

    return Panel(draw, title, words, labels=(*lines, *foreseen))


def round_plot(title: str, lines: Lines, foreseen: Lines | None = None, **words: Any) -> Panel:
    """Kind of panel: numbers over the rounds, a :func:`line_plot` of label -> (seeds, rounds)."""
    rounds = np.shape(next(iter(lines.values())))[1]
    return line_plot(title, range(1, rounds + 1), lines, foreseen, xlabel="round", **words)


def set_log_scales(axes: Any, log: str) -> None:
    """Make a panel's axes logarithmic, with labels at powers of ten, or closer if these are few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for name in log:
        getattr(axes, f"set_{name}scale")("log")
        axis = getattr(axes, f"{name}axis")
        low, high = getattr(axes, f"get_{name}lim")()
        if high < 100 * low:
            subs = (1.0, 2.0, 5.0) if high > 5 * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
            axis.set_major_locator(LogLocator(subs=subs))
            axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axis.set_minor_formatter(NullFormatter())


def scatter(
    title: str,
    points: Mapping[str, tuple[Any, Any]],
    *,
    diagonal: bool = True,
    joined: bool = False,
    lines: Lines | None = None,
    **words: Any,
) -> Panel:
    """Kind of panel: measured against predicted numbers, label -> (predicted, measured).

    Parameters
    ----------
    diagonal : draw the line where both are equal.
    joined : lines instead of points, as for a ROC.
    lines : label -> (x, y) of further lines, in the colour of the points of that label.
    """
    lines = lines or {}

    def draw(axes: Any, style: Mapping[str, dict[str, Any]]) -> None:
        for i, (label, (x, y)) in enumerate(points.items()):
            if joined:
                axes.plot(x, y, label=label, **style[label])
                continue
            ms, mew, alpha = (5.0, 1.0, 1.0) if np.size(x) < 10 else (2.5, 0.5, 0.6)
            own = {"color": style[label]["color"], "ms": ms, "mew": mew, "alpha": alpha}
            axes.plot(np.ravel(x), np.ravel(y), MARKS[i % 7], mfc="none", label=label, **own)
        for label, (x, y) in lines.items():
            name = None if label in points else label
            axes.plot(x, y, color=style[label]["color"], lw=1, label=name)
        if diagonal:
            held = np.concatenate([np.ravel(v) for pair in points.values() for v in pair])
            ends = np.nanmin(held), np.nanmax(held)
            axes.plot(ends, ends, color="0.6", lw=0.8, zorder=0)

    return Panel(draw, title, words, labels=(*points, *lines))


def error_bars(
    title: str,
    rows: Sequence[str],
    marks: Lines,
    *,
    level: float | None = None,
    band: tuple[float, float] | None = None,
    colours: Sequence[Any] | None = None,
    each: bool = False,
    **words: Any,
) -> Panel:
    """Kind of panel: means and standard errors by name, top down, such as methods paired by seed.

    Parameters
    ----------
    marks : label -> (seeds, rows), or a pair of means and half widths.
    level, band : place of a vertical line, and ends of an area.
    colours : colours of the rows, if there is one label.
    each : show every seed as well.
    """

    def draw(axes: Any, style: Mapping[str, dict[str, Any]]) -> None:
        if band is not None:
            axes.axvspan(*band, color="0.92", lw=0)
        if level is not None:
            axes.axvline(level, color="0.6", lw=0.8)
        for i, (label, values) in enumerate(marks.items()):
            middle, low, high = mean_and_band(values, "error")
            bars = np.nan_to_num(np.array([middle - low, high - middle]))
            for place, row in enumerate(np.flatnonzero(np.isfinite(middle)).tolist()):
                own = {"color": style[label]["color"] if colours is None else colours[row]}
                mark = {"fmt": MARKS[i % 7], "ms": 4, "label": None if place else label}
                axes.errorbar(middle[row], row, xerr=bars[:, [row]], mfc="none", **mark, **own)
                if each and not isinstance(values, tuple):
                    held = np.asarray(values)[:, row]
                    axes.plot(held, np.full(len(held), row), ".", alpha=0.3, mew=0, **own)
        axes.set_yticks(np.arange(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="y", color="0.93", lw=0.5)

    return Panel(draw, title, words, len(rows), tuple(marks))


def heat_map(
    title: str,
    values: np.ndarray,
    xs: Sequence[Any],
    ys: Sequence[Any],
    *,
    lines: Lines | None = None,
    half: bool = True,
    **words: Any,
) -> Panel:
    """Kind of panel: rates (xs, ys) as a matrix, the edge of a half, lines of theory as (x, y)."""

    def draw(axes: Any, _: Any) -> None:
        x, y = (np.arange(n) + 0.5 for n in np.shape(values))
        mesh = axes.pcolormesh(values.T, cmap="cividis", vmin=0, vmax=1)
        if half and min(values.shape) > 1 and values.min() < 0.5 < values.max():
            axes.contour(x, y, values.T, levels=[0.5], colors="w", linewidths=1)
        for i, (label, line) in enumerate((lines or {}).items()):
            ends = np.interp(line[0], xs, x), np.interp(line[1], ys, y)
            axes.plot(*ends, color="C3", ls=LINES[i], label=label)
        for name, at, held in (("x", x, xs), ("y", y, ys)):
            words = [f"{v:g}" if isinstance(v, float) else str(v) for v in held]
            getattr(axes, f"set_{name}ticks")(at, words)
        axes.figure.colorbar(mesh, ax=axes)

    return Panel(draw, title, words)


def mosaic(title: str, packed: np.ndarray, truth: np.ndarray | None = None) -> Panel:
    """Kind of panel: pictures given as bits, in a mosaic; wrong pixels are red, and counted."""
    side = math.isqrt(8 * packed.shape[1])  # the last byte may be longer than the picture
    pixels, words = np.unpackbits(packed, axis=1, count=side**2), dict[str, Any]()
    if truth is not None:
        right = np.unpackbits(truth, axis=1, count=side**2)
        pixels ^= ((pixels != right).mean(axis=1) > 0.5)[:, None]  # signs of patterns are free
        wrong = pixels != right
        words = {"xlabel": f"{wrong.sum()} wrong" if wrong.any() else "exact"}
        pixels[wrong] = 2
    across = math.ceil(math.sqrt(len(pixels)))
    down = math.ceil(len(pixels) / across)
    tiles = np.full((down * across, side + 2, side + 2), 3)
    tiles[: len(pixels), 1:-1, 1:-1] = pixels.reshape(-1, side, side)
    canvas = np.block([list(row) for row in tiles.reshape(down, across, side + 2, side + 2)])

    def draw(axes: Any, _: Any) -> None:
        from matplotlib.colors import ListedColormap

        axes.imshow(canvas, cmap=ListedColormap(MOSAIC), vmin=0, vmax=3, interpolation="nearest")
        axes.set(xticks=(), yticks=())
        axes.spines[:].set_visible(False)

    return Panel(draw, title, words)
