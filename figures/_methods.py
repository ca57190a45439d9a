"""Figures of experiments made of cells: many neural methods on one task, and sweeps of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from hopfed._lib.settings import require
from hopfed.errors import shown
from hopfed.figures import _planes, new_figure, styled
from hopfed.runs import Run

TABLE = "methods"
COLOURS = ("C0", "C1", "C2", "C3", "C4", "C5", "0.25")
LINES = ("-", "--", ":", "-.")
NAMED = 6  # methods in a line of the legend
FIRST = 6  # sections in the first picture of a run without the table
NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Cell:
    """A cell of the run: its place in the summary, and its arrays (seeds, rounds, ...)."""

    section: str
    row: str
    at: str
    arrays: dict[str, np.ndarray]
    last: bool = False  # whether the last round is reported
    apart: bool = False  # whether some clients never take part

    def test(self) -> np.ndarray:
        """Test accuracy, mean over clients: (seeds, rounds); NaN in rounds without evaluation."""
        return np.asarray(self.arrays["test"].mean(axis=2))

    def chosen(self) -> np.ndarray:
        """Test accuracy of every client at the reported round: (seeds, clients)."""
        if "reading" in self.arrays:
            return self.arrays["reading"]
        if self.last:
            return np.asarray(self.arrays["test"][:, -1])
        mean = self.arrays["validation"].mean(axis=2)
        best = np.where(np.isnan(mean), -1, mean).argmax(axis=1)
        return np.asarray(self.arrays["test"][np.arange(len(best)), best])

    @property
    def unseen(self) -> np.ndarray:
        """Clients that never take part: bool (clients,); they received no message."""
        sent = self.arrays["traffic/down"].any(axis=(0, 1)) if self.apart else np.ones(1)
        return ~sent.astype(bool)

    def megabytes(self) -> np.ndarray:
        """MB both ways of a client up to each round: (seeds, rounds)."""
        both = self.arrays["traffic/up"] + self.arrays["traffic/down"]
        return np.asarray(both.mean(axis=2).cumsum(axis=1) / 1e6)

    def gigaflops(self) -> np.ndarray:
        """GFLOP of a client up to each round: (seeds, rounds)."""
        flops = np.nan_to_num(self.arrays["client/flops"])
        return np.asarray(flops.mean(axis=2).cumsum(axis=1) / 1e9)


def cells_of(run: Run) -> list[Cell]:
    """Cells in playing order, with names from the summary."""
    keys = [k.removesuffix("/round") for k in run.summary if k.endswith("/round")]
    rounds = run.config["rounds"]
    found = []
    for i, key in enumerate(keys):
        part = slice(i * rounds, (i + 1) * rounds)
        arrays = {n: a[:, part] for n, a in run.arrays.items() if a.ndim >= 2}
        last, apart = run.config.get("choose") == "last", f"{key}/unseen" in run.summary
        found.append(Cell(*_place(key), arrays, last, apart))
    tests = [k.removesuffix("/test") for k in run.summary if k.endswith("/test")]
    for i, key in enumerate(k for k in tests if k not in keys):
        scores = run.arrays["readings"][:, :, i]
        at = np.flatnonzero(~np.isnan(scores).all(axis=(0, 2)))[-1]  # the last round of its cell
        found.append(Cell(*_place(key), {"reading": scores[:, at]}))
    return found


def _place(key: str) -> tuple[str, str, str]:
    section, row, *at = key.split("/", 2)
    return section, row, at[0] if at else ""


def planes_of(cells: Sequence[Cell]) -> list[tuple[str, np.ndarray]]:
    """Return rows and planes (groups, examples, 3) of the first seed, for cells with a plane."""
    planes = [(cell.row, cell.arrays["plane"][0, -1]) for cell in cells if "plane" in cell.arrays]
    return [(row, plane) for row, plane in planes if plane.any()]


def styles(rows: Sequence[str], reference: str) -> dict[str, dict[str, str]]:
    """Colour and line of each row; the reference is grey."""
    others = [row for row in rows if row != reference]
    made = {
        row: {"color": COLOURS[i % len(COLOURS)], "ls": LINES[i // len(COLOURS) % len(LINES)]}
        for i, row in enumerate(others)
    }
    return {reference: {"color": "0.6", "ls": "-"}} | made


@styled()
def draw(run: Run, reference: str = "standalone", labels: Mapping[str, str] = NO_LABELS) -> Figure:
    """Draw curves, costs, gains over `reference` and clients; without a table the first sections.

    Parameters
    ----------
    run : of an experiment made of cells.
    reference : row that gains are over.
    labels : section -> label of its swept values.
    """
    cells = cells_of(run)
    sections = [] if _table_of(cells) else _sections_of(cells)[:FIRST]
    return _draw(cells, _table_of(cells), sections, [], reference, labels)


@styled()
def draw_whole(
    run: Run, reference: str = "standalone", labels: Mapping[str, str] = NO_LABELS
) -> Figure:
    """Draw the table, if there is one, all sections, and features in a plane; as :func:`draw`."""
    cells = cells_of(run)
    table = _table_of(cells)
    return _draw(cells, table, _sections_of(cells), planes_of(table), reference, labels)


@styled()
def draw_sections(
    run: Run,
    names: Sequence[str],
    reference: str = "standalone",
    labels: Mapping[str, str] = NO_LABELS,
) -> Figure:
    """Draw the sections `names`, at most six, in this order; as :func:`draw`.

    Raises
    ------
    ArgumentError : there is no such section, or there are too many names.
    """
    cells = cells_of(run)
    there = _sections_of(cells)
    rule = f"one to {FIRST} of {shown(', '.join(there) or 'no sections: the run has none')}"
    require(0 < len(names) <= FIRST and set(names) <= set(there), "sections", rule, names)
    return _draw(cells, [], list(dict.fromkeys(names)), [], reference, labels)


def has_more_sections(run: Run) -> bool:
    """Whether there are sections beside the table, more than fit, or features in a plane."""
    cells = cells_of(run)
    table, sections = _table_of(cells), _sections_of(cells)
    return len(sections) > (0 if table else FIRST) or bool(planes_of(table))


def _table_of(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.section == TABLE]


def _sections_of(cells: Sequence[Cell]) -> list[str]:
    return [s for s in dict.fromkeys(cell.section for cell in cells) if s != TABLE]


def _draw(
    cells: list[Cell],
    table: list[Cell],
    sections: list[str],
    planes: list[tuple[str, np.ndarray]],
    reference: str,
    labels: Mapping[str, str],
) -> Figure:
    style = styles(list(dict.fromkeys(c.row for c in cells)), reference)
    columns = 2 if len(sections) in (2, 4) else max(1, min(len(sections), 3))
    rows = math.ceil(len(sections) / columns)
    heights = [62 + 4 * _lines(table), 12 + 4.2 * len(table)] * bool(table)
    heights += [52 * rows] * bool(rows) + [64] * bool(planes)
    figure = new_figure(180, sum(heights))
    parts = list(np.ravel(figure.subfigures(len(heights), 1, height_ratios=heights)))
    if table:
        _table(parts.pop(0), parts.pop(0), table, style, reference)
    if sections:
        grid = parts.pop(0).subplots(rows, columns, squeeze=False).ravel()
        for axes, section in zip(grid, sections, strict=False):
            _section(axes, section, [c for c in cells if c.section == section], style)
            axes.set_xlabel(labels.get(section, ""))
        for axes in grid[len(sections) :]:
            axes.set_axis_off()
    if planes:
        _planes.draw(parts.pop(0), planes, "client")
    return figure


def _lines(table: list[Cell]) -> int:
    return math.ceil(len(table) / NAMED)


def _table(
    above: SubFigure,
    below: SubFigure,
    table: list[Cell],
    style: dict[str, dict[str, str]],
    reference: str,
) -> None:
    """Draw curves, if there are several rounds, and costs, gains and clients."""
    several = any(np.isfinite(cell.test()[0]).sum() > 1 for cell in table)
    *curves, price, work = above.subplots(1, 2 + several, sharey=True)
    for axes in curves:
        _curves(axes, table, style)
    _price(price, table, style, "megabytes", "MB of a client, both ways")
    _price(work, table, style, "gigaflops", "GFLOP of a client")
    (curves or [price])[0].set_ylabel("test accuracy, mean over clients")
    marked = {} if several else {"ls": "", "marker": "o"}
    handles = [Line2D([], [], label=c.row, **{**style[c.row], **marked}) for c in table]
    above.legend(handles=handles, loc="outside lower center", ncols=NAMED)
    gains, clients = below.subplots(1, 2, sharey=True)
    _gains(gains, table, style, reference)
    _clients(clients, table, style)


def _curves(axes: Axes, table: list[Cell], style: dict[str, dict[str, str]]) -> None:
    for cell in table:
        test = cell.test()
        scored = np.flatnonzero(~np.isnan(test[0]))
        mean, error = test[:, scored].mean(axis=0), _error(test[:, scored])
        look = style[cell.row]
        axes.fill_between(
            scored + 1, mean - error, mean + error, color=look["color"], alpha=0.15, lw=0
        )
        axes.plot(scored + 1, mean, **look)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    means = [cell.test()[:, ~np.isnan(cell.test()[0])].mean(axis=0) for cell in table]
    low, high = min(mean[0] for mean in means), max(mean[-1] for mean in means)
    axes.set_ylim(max(0.0, float(low) - 0.02), min(1.0, float(high) + 0.03))
    axes.set(xlabel="round", title="accuracy over rounds")


def _price(
    axes: Axes, table: list[Cell], style: dict[str, dict[str, str]], what: str, label: str
) -> None:
    for cell in table:
        test, spent = cell.test(), getattr(cell, what)()
        scored = np.flatnonzero(~np.isnan(test[0]))
        # Rounds after the last one that changed anything, as of a method of one round, need not be.
        moved = (np.diff(test[:, scored], axis=1) != 0).any(axis=0)
        scored = scored[: 2 + np.flatnonzero(moved)[-1] if moved.any() else 1]
        x, y = spent[:, scored].mean(axis=0), test[:, scored].mean(axis=0)
        if x[-1] > 0:
            axes.plot(x, y, **style[cell.row])
            axes.plot(x[-1], y[-1], "o", color=style[cell.row]["color"])
    axes.set(xscale="log", xlabel=label, title="over cost")
    low, high = axes.get_xlim()
    if high < 4 * low:  # differences of some per cent are none
        low, high = axes.set_xlim(low / 2, 2 * high)
    if high < 200 * low:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=7))
    else:
        axes.xaxis.set_major_locator(LogLocator(numticks=5))  # whole powers, room between labels
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _gains(axes: Axes, table: list[Cell], style: dict[str, dict[str, str]], reference: str) -> None:
    """Paired gains over the reference: each seed, mean and standard error."""
    base = next(c for c in table if c.row == reference).chosen().mean(axis=1)
    for i, cell in enumerate(table):
        gain = 100 * (cell.chosen().mean(axis=1) - base)
        colour = style[cell.row]["color"]
        axes.plot(gain, np.full(len(gain), i), "o", color=colour, alpha=0.35, ms=2.5, mew=0)
        axes.errorbar(gain.mean(), i, xerr=_error(gain), fmt="|", color=colour, ms=7, lw=1.2)
    axes.axvline(0, color="0.6", lw=0.6)
    axes.set_yticks(range(len(table)), [c.row for c in table])
    for label, cell in zip(axes.get_yticklabels(), table, strict=True):
        label.set_color(style[cell.row]["color"])
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.set(xlabel=f"points gained over {reference}", title="paired by seed")


def _clients(axes: Axes, table: list[Cell], style: dict[str, dict[str, str]]) -> None:
    """Accuracy of every client of every seed: quartiles, tenths, all points."""
    for i, cell in enumerate(table):
        values = cell.chosen().ravel()
        low, first, middle, third, high = np.quantile(values, (0.1, 0.25, 0.5, 0.75, 0.9))
        colour = style[cell.row]["color"]
        axes.plot(values, np.full(len(values), i), ".", color=colour, alpha=0.2, ms=2, mew=0)
        axes.plot((low, high), (i, i), color=colour, lw=0.8)
        axes.plot((first, third), (i, i), color=colour, lw=3)
        axes.plot(middle, i, "|", color="white", ms=5)
    axes.set(xlabel="test accuracy of a client", title="over clients: tenths, quartiles, median")


def _section(axes: Axes, section: str, cells: list[Cell], style: dict[str, dict[str, str]]) -> None:
    axes.set_title(section)
    if any(cell.at for cell in cells):
        _sweep(axes, cells, style)
    else:
        _bars(axes, cells)


def _sweep(axes: Axes, cells: list[Cell], style: dict[str, dict[str, str]]) -> None:
    """Accuracy of each row at every value; lines join numbers, and not kinds of something."""
    at, rows = list(dict.fromkeys(c.at for c in cells)), list(dict.fromkeys(c.row for c in cells))
    joined = all(re.fullmatch(r"[-+.\de]+", value) for value in at)
    for i, row in enumerate(rows):
        values = np.stack([c.chosen().mean(axis=1) for c in cells if c.row == row], axis=1)
        places = np.array([float(at.index(c.at)) for c in cells if c.row == row])
        look = {**style[row], "marker": "o"}
        if not joined:
            places += 0.6 * ((i + 0.5) / len(rows) - 0.5)
            look["ls"] = ""
        axes.errorbar(places, values.mean(axis=0), yerr=_error(values), label=row, **look)
    axes.set_xticks(range(len(at)), at)
    axes.set_ylabel("test accuracy")
    figure = axes.get_figure()
    if figure is not None and len(figure.axes) == 1:
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
        return
    low, high = axes.get_ylim()  # above error bars, which "best" ignores
    columns = 1 if len(rows) < 4 else 2
    axes.set_ylim(low, high + 0.19 * math.ceil(len(rows) / columns) * (high - low))
    axes.legend(loc="upper left", ncols=columns, columnspacing=0.8)
    axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= min(high, 1.0)])


def _bars(axes: Axes, cells: list[Cell]) -> None:
    """Draw the accuracy of each row as a point with its error.

    Bars from zero would hide differences. If there are unseen clients, only they are shown.
    """
    for i, cell in enumerate(cells):
        chosen = cell.chosen()
        values = (chosen[:, cell.unseen] if cell.unseen.any() else chosen).mean(axis=1)
        axes.plot(np.full(len(values), i), values, "o", color="C0", alpha=0.35, ms=2.5, mew=0)
        axes.errorbar(i, values.mean(), yerr=_error(values), fmt="_", color="C0", ms=9)
    names = [c.row for c in cells]
    slant = {"rotation": 30, "ha": "right"} if max(map(len, names)) > 6 else {}
    axes.set_xticks(range(len(cells)), names, **slant)
    axes.set_xlim(-0.5, len(cells) - 0.5)
    axes.set_ylabel("test accuracy")


def _error(values: np.ndarray) -> np.ndarray:
    """Standard error over the first axis; 0 for a single value."""
    n = len(values)
    return np.asarray(values.std(axis=0, ddof=1) / n**0.5 if n > 1 else 0 * values[0])
