"""The figure of `hopfed run ablation`: retrieved and false patterns without each ingredient."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

# Row -> its variants and their labels.
ROWS = {
    "candidates from": {"no_layered": "eigenvectors", "joint": "ten groups"},
    "sharpening": {"no_sharpening": "none"},
    "rest states": {"no_acceptance": "not scored", "no_return": "not disturbed"},
    "duplicates": {"no_merging": "kept"},
    "deflation": {"no_deflation": "none"},
    "exposure fit": {"no_fit": "none", "unchecked": "nor pruning"},
    "memory": {"no_early_stop": "no early stop", "self_field": "self-field kept"},
    "repulsion": {"repulsion": "L = 3"},
    "paper's LAM": {"paper": "L = 3, repulsion", "paper_one_layer": "L = 1"},
}
COLOURS, LINES = ("C0", "C1"), ("-", "--")
FULL, THEORY, LABELLED = "0.82", "C4", "0.3"
FIRST = 2  # rows of the first picture
LABELS, AXIS = 21, 10  # mm: width of the names of rows and variants, and of the axis
LINE = 10  # points from one line of text to the next


@styled()
def draw(run: Run) -> Figure:
    """Draw the rows whose ingredients cost most where they are left out, as `draw_whole`."""
    costs = {row: _cost(run, list(variants)) for row, variants in ROWS.items()}
    first = sorted(ROWS, key=costs.__getitem__, reverse=True)[:FIRST]
    return _grid(run, [row for row in ROWS if row in first], 150, 95)


@styled()
def draw_whole(run: Run) -> Figure:
    """Draw parts of K over r for every row and setting: retrieved upward, false downward."""
    return _grid(run, list(ROWS), 90, 198)


def _cost(run: Run, variants: list[str]) -> float:
    """Part of K that the worst variant does not retrieve, or falsely reports, beyond the full."""
    K = run.arrays["n_archetypes"][0][:, None]

    def kept(name: str) -> float:
        found, false = (run.arrays[f"{measure}/{name}"] for measure in ("found", "false"))
        return float(((found - false).mean(axis=0) / K).mean())

    return kept("full") - min(kept(name) for name in variants)


def _grid(run: Run, rows: list[str], width: float, height: float) -> Figure:
    figure = new_figure(width, height)
    ratios = (1, 1, 1, 3 * LABELS / (width - LABELS - AXIS))
    grid = figure.subplots(
        len(rows), 4, sharex="col", sharey=True, width_ratios=ratios, squeeze=False
    )
    config = run.config
    titles = (f"{config['few']} random", f"{config['many']} random", "26 letters")
    for axes, title in zip(grid[0], titles, strict=False):
        axes.set_title(title)
    for row, question in zip(grid, rows, strict=True):
        variants = ROWS[question]
        for setting, axes in enumerate(row[:3]):
            _panel(axes, run, setting, list(variants))
        _labels(row[3], question, list(variants.values()))
    for axes in grid[-1, :3]:
        axes.set(xticks=(0, 0.5, 1), xticklabels=("0", ".5", "1"), xlim=(0, 1.03))
    grid[0, 0].set(ylim=(-1.25, 1.1), yticks=(-1, 0, 1), yticklabels=("1", "0", "1"))
    grid[-1, 1].set_xlabel("quality r")
    figure.supylabel("part of K: retrieved upward, false downward", fontsize=8)
    figure.legend(handles=_key(), loc="outside lower center", ncols=2)
    return figure


def _panel(axes: Axes, run: Run, setting: int, variants: list[str]) -> None:
    a, r = run.arrays, np.array(run.config["qualities"])
    K = a["n_archetypes"][0, setting]
    first, last = np.median(a["onset"][:, setting], axis=0)
    axes.axvspan(first, last, color=THEORY, alpha=0.15, lw=0)
    axes.axvline(last, color=THEORY, lw=0.8)
    for measure, sign in (("found", 1), ("false", -1)):
        full = a[f"{measure}/full"][:, setting].mean(axis=0)
        axes.fill_between(r, 0, sign * full / K, color=FULL, lw=0)
        for name, colour, line in zip(variants, COLOURS, LINES, strict=False):
            values = a[f"{measure}/{name}"][:, setting].mean(axis=0)
            axes.plot(r, sign * values / K, color=colour, ls=line)
    axes.plot(r, a["labelled"][:, setting].mean(axis=0) / K, ":", color=LABELLED, lw=0.8)
    axes.axhline(0, color=LABELLED, lw=0.5)


def _labels(axes: Axes, question: str, labels: list[str]) -> None:
    """Name the row, and its lines in their colours."""
    axes.set_axis_off()
    lines = [(question, "black"), *zip(labels, COLOURS, strict=False)]
    for i, (text, colour) in enumerate(lines):
        place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
        axes.annotate(text, (0, 1), (0, -LINE * i), color=colour, fontsize=7, **place)


def _key() -> list[Patch | Line2D]:
    return [
        Patch(color=FULL, lw=0, label="full recovery"),
        Line2D([], [], color=LABELLED, ls=":", lw=0.8, label="with true labels"),
        Patch(color=THEORY, alpha=0.15, lw=0, label="theory: some detectable"),
        Line2D([], [], color=THEORY, lw=0.8, label="theory: all detectable"),
    ]
