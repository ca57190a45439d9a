"""The figure of `hopfed run fedh2l`: accuracy on all domains, over rounds and at the end."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hopfed.figures import _planes, new_figure, styled
from hopfed.figures._methods import TABLE, Cell, cells_of, planes_of, styles
from hopfed.runs import Run

NAMES = ("ACC", "WDP", "CDP")
MARKS = ("o", "^", "v")
FIRST = 2  # sections in the first picture of a run without the table


@styled()
def draw(run: Run) -> Figure:
    """Draw ACC over rounds, node by domain, and ACC with WDP and CDP of the methods."""
    cells = _trained(run)
    sections = _sections(cells)
    return _panels(cells, [TABLE] if TABLE in sections else sections[:FIRST], [])


@styled()
def draw_whole(run: Run) -> Figure:
    """Draw ACC over rounds, node by domain, ACC with WDP and CDP, and features (Fig. 1)."""
    cells = _trained(run)
    return _panels(cells, _sections(cells), _planes_of(cells))


def has_more_sections(run: Run) -> bool:
    """Whether there are further sections, or features."""
    cells = _trained(run)
    sections = _sections(cells)
    return len(sections) > (1 if TABLE in sections else FIRST) or bool(_planes_of(cells))


def _trained(run: Run) -> list[Cell]:
    return [cell for cell in cells_of(run) if "reading" not in cell.arrays]


def _sections(cells: list[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.section for cell in cells))


def _planes_of(cells: list[Cell]) -> list[tuple[str, np.ndarray]]:
    return planes_of([cell for cell in cells if cell.section == TABLE])


def _panels(cells: list[Cell], sections: list[str], planes: list[tuple[str, np.ndarray]]) -> Figure:
    table = [cell for cell in cells if cell.section == TABLE]
    style = styles([cell.row for cell in table], "ind")
    heights = [sum(cell.section == s for cell in cells) + 1.5 for s in sections]
    parts = [66, 5 * sum(heights) + 4] + [64] * bool(planes)
    figure = new_figure(180, sum(parts))
    upper, lower, *rest = figure.subfigures(len(parts), 1, height_ratios=parts)
    curves, *maps = upper.subplots(1, 4, width_ratios=(2, 1, 1, 1))
    _curves(curves, table, style)
    for axes, row in zip(maps, ("ind", "agg equal images", "fedh2l"), strict=True):
        played = [cell for cell in table if cell.row == row]
        if played:
            _domains(axes, played[0])
        else:
            axes.set_axis_off()
    grid = lower.subplots(len(sections), 1, sharex=True, height_ratios=heights, squeeze=False)
    for axes, section in zip(grid[:, 0], sections, strict=True):
        _rows(axes, [c for c in cells if c.section == section], section)
    grid[-1, 0].set_xlabel("accuracy, mean over nodes; each point a seed")
    grid[0, 0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3)  # beside the title
    if planes:
        _planes.draw(rest[0], planes, "domain")
    return figure


def _scores(cell: Cell) -> np.ndarray:
    """ACC, WDP and CDP of each seed and round, means over nodes: (3, seeds, rounds)."""
    parts = (cell.arrays[f"domains/{name.lower()}"].mean(axis=2) for name in NAMES)
    return np.stack(list(parts))


def _curves(axes: Axes, table: list[Cell], style: dict[str, dict[str, str]]) -> None:
    for cell in table:
        acc = _scores(cell)[0]
        scored = np.flatnonzero(~np.isnan(acc[0]))
        mean = acc[:, scored].mean(axis=0)
        axes.fill_between(
            scored + 1,
            acc[:, scored].min(axis=0),
            acc[:, scored].max(axis=0),
            color=style[cell.row]["color"],
            alpha=0.15,
            lw=0,
        )
        axes.plot(scored + 1, mean, label=cell.row, **style[cell.row])
    axes.set(xlabel="round", ylabel="ACC", title="accuracy on all domains")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.22), ncols=2)


def _domains(axes: Axes, cell: Cell) -> None:
    """Accuracy of node i on the test examples of domain j, mean over seeds."""
    accuracy = cell.arrays["domains/accuracy"][:, -1].mean(axis=0)
    axes.imshow(accuracy, vmin=0, vmax=1, cmap="viridis")
    for (i, j), value in np.ndenumerate(accuracy):
        axes.text(
            j,
            i,
            f"{100 * value:.0f}",
            ha="center",
            va="center",
            fontsize=7,
            color="white" if value < 0.6 else "black",
        )
    axes.set(title=cell.row, xlabel="domain", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    if cell.row == "ind":
        axes.set_ylabel("node")


def _rows(axes: Axes, cells: list[Cell], section: str) -> None:
    for i, cell in enumerate(cells):
        scores = _scores(cell)[:, :, -1]
        for s, (name, mark) in enumerate(zip(NAMES, MARKS, strict=True)):
            axes.plot(scores[s], np.full(scores.shape[1], i), mark, color=f"C{s}", alpha=0.3, mew=0)
            label = name if i == 0 else None
            axes.plot(scores[s].mean(), i, mark, color=f"C{s}", ms=4.5, label=label)
    axes.set_yticks(range(len(cells)), [f"{c.row} {c.at}".strip() for c in cells])
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.grid(axis="x", lw=0.3)
    axes.set_title(section)
