"""Panels of comparisons of neural methods: the table of methods, features in a plane, sweeps."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes

from hopfed.figures.kinds import Panel, against, matrix, over, paired, styles
from hopfed.runs import Run

TABLE = "methods"
REFERENCES = {"fedh2l": "ind", "knnper": "fedavg", "oneshot": "hebbian alone"}
VALUES = {  # section -> label of its swept values
    "heterogeneity": "concentration of the Dirichlet law",
    "k": "neighbours",
    "sigma": "width of the kernel",
    "lambda": "weight of the neighbours",
    "capacity": "share of examples that a client keeps",
    "weight by size": "weight of the neighbours",
    "hardware": "capacity of strong clients minus 1/2",
    "global model": "rounds of training",
    "stream": "step (other examples later)",
    "filters": "random filters",
    "privacy": "epsilon",
}


@dataclass(frozen=True)
class Cell:
    """A cell of the run: its place in the summary, and its arrays (seeds, rounds, ...)."""

    section: str
    row: str
    at: str
    arrays: dict[str, np.ndarray]
    chosen: np.ndarray  # (seeds, clients), test accuracy at the reported round

    def spent(self, name: str) -> np.ndarray:
        """MB both ways, or GFLOP, of a client up to each round: (seeds, rounds)."""
        a = self.arrays
        sent = a["traffic/up"] + a["traffic/down"] + a.get("scoring/bytes", 0)
        held = sent if name == "MB" else a["client/flops"]
        unit = 1e6 if name == "MB" else 1e9
        return np.asarray(np.nan_to_num(held.astype(float)).mean(axis=2).cumsum(axis=1) / unit)


def cells_of(run: Run) -> list[Cell]:
    """Cells and readings in playing order, with names from the summary."""
    keys = [k.removesuffix("/round") for k in run.summary if k.endswith("/round")]
    rounds, last = run.config["rounds"], run.config.get("choose") == "last"
    found = []
    for i, key in enumerate(keys):
        part = slice(i * rounds, (i + 1) * rounds)
        a = {n: v[:, part] for n, v in run.arrays.items() if v.ndim >= 2}
        mean = np.nan_to_num(a["validation"].mean(axis=2), nan=-1.0)
        best = np.full(len(mean), rounds - 1) if last else mean.argmax(axis=1)
        chosen = a["test"][np.arange(len(best)), best]
        if f"{key}/unseen" in run.summary:  # only those that never take part are shown
            chosen = chosen[:, ~a["traffic/down"].any(axis=(0, 1))]
        found.append(Cell(*_place(key), a, chosen))
    tests = [k.removesuffix("/test") for k in run.summary if k.endswith("/test")]
    for i, key in enumerate(k for k in tests if k not in keys):
        scores = run.arrays["readings"][:, :, i]
        at = np.flatnonzero(~np.isnan(scores).all(axis=(0, 2)))[-1]  # the last round of its cell
        found.append(Cell(*_place(key), {}, scores[:, at]))
    return found


def _place(key: str) -> tuple[str, str, str]:
    section, row, *at = key.split("/", 2)
    return section, row, at[0] if at else ""


def panels(run: Run) -> list[Panel]:
    """The table: accuracy over rounds and cost, gains, clients; then sections by their names."""
    cells = cells_of(run)
    reference = REFERENCES.get(run.kind, "standalone")
    table = [cell for cell in cells if cell.section == TABLE]
    made = _domains(table) if run.kind == "fedh2l" and table else []
    made += _table(table, reference) if table else []
    sections = dict.fromkeys(c.section for c in cells if c.section != TABLE)
    for section in sections:
        made.append(_section(section, [c for c in cells if c.section == section]))
    planes = [(c.row, c.arrays["plane"][0, -1]) for c in table if "plane" in c.arrays]
    return [*made, *(_plane(row, plane) for row, plane in planes if plane.any())]


def _scored(cell: Cell) -> np.ndarray:
    """Rounds, from 0, with an evaluation."""
    return np.flatnonzero(~np.isnan(cell.arrays["test"].mean(axis=2)[0]))


def _table(table: list[Cell], reference: str) -> list[Panel]:
    rows = [c.row for c in table]
    style = styles([row for row in rows if row != reference])
    colours = [style[r]["color"] if r in style else "0.6" for r in rows]
    order = [c for c in table if c.row != reference]
    order += [replace(c, row="test") for c in table if c.row == reference]  # in grey
    curves = {c.row: c.arrays["test"].mean(axis=2)[:, _scored(c)] for c in order}
    made, at = [], (_scored(table[0]) + 1).tolist()
    if len(at) > 1:
        words = {"xlabel": "round", "ylabel": "test accuracy", "band": "error", "legend": ""}
        made.append(over("accuracy over rounds", at, curves, **words))
    for name in ("MB", "GFLOP"):
        points = {}
        for c in order:
            scored = _scored(c)
            x, y = c.spent(name)[:, scored].mean(axis=0), curves[c.row].mean(axis=0)
            # Rounds after the last that changed anything, as of a method of one round, need not be.
            moved = np.flatnonzero(np.diff(y) != 0)
            points[c.row] = [v[: 2 + moved[-1] if len(moved) else 1] for v in (x, y)]
        points = {row: pair for row, pair in points.items() if pair[0][-1] > 0}
        words = {"xlabel": f"{name} of a client", "log": "x", "legend": "", "joined": True}
        if points:
            made.append(against("over cost", points, diagonal=False, **words))
    base = next(c for c in table if c.row == reference).chosen.mean(axis=1)
    gains = {"": 100 * np.stack([c.chosen.mean(axis=1) - base for c in table], axis=1)}
    title = f"points over {reference}, paired by seed"
    made.append(paired(title, rows, gains, level=0.0, colours=colours, each=True))
    clients = {"": np.stack([np.resize(c.chosen.ravel(), table[0].chosen.size) for c in table], 1)}
    made.append(paired("accuracy of clients", rows, clients, colours=colours, each=True))
    return made


def _domains(table: list[Cell]) -> list[Panel]:
    """ACC, WDP and CDP of each row, and who is right on whose domain."""
    marks = {}
    for name in ("acc", "wdp", "cdp"):
        held = [c.arrays[f"domains/{name}"][:, -1].mean(axis=1) for c in table]
        marks[name.upper()] = np.stack(held, axis=1)
    made = [paired("all domains, own, others", [c.row for c in table], marks, xlabel="accuracy")]
    for cell in table:
        if cell.row in ("ind", "fedh2l"):
            accuracy = cell.arrays["domains/accuracy"][:, -1].mean(axis=0)
            at, words = range(1, len(accuracy) + 1), {"xlabel": "node", "ylabel": "domain"}
            made.append(matrix(f"% right, {cell.row}", accuracy, at, at, half=False, **words))
    return made


def _section(section: str, cells: list[Cell]) -> Panel:
    """Accuracy of each row at every value, or of each row alone."""
    rows = list(dict.fromkeys(c.row for c in cells))
    at = list(dict.fromkeys(c.at for c in cells))
    if at == [""]:
        values = {"": np.stack([c.chosen.mean(axis=1) for c in cells], axis=1)}
        return paired(section, rows, values, each=True, xlabel="test accuracy")
    lines = {}
    for row in rows:
        held = {c.at: c.chosen.mean(axis=1) for c in cells if c.row == row}
        none = np.full(len(cells[0].chosen), np.nan)
        lines[row] = np.stack([held.get(x, none) for x in at], axis=1)
    joined = all(re.fullmatch(r"[-+.\de]+", value) for value in at)
    words = {"xlabel": VALUES.get(section, ""), "ylabel": "test accuracy", "band": "error"}
    return over(section, at, lines, points=not joined, **words)


def _plane(row: str, plane: np.ndarray) -> Panel:
    """Features of test examples in a plane; a colour is a label, a mark a client or domain."""

    def draw(axes: Axes, _: Any) -> None:
        for points, mark in zip(plane, "o^sD", strict=False):
            x, y, label = points[points[:, 2] > 0].T.astype(int)
            colours = colormaps["tab10"]((label - 1) % 10)
            axes.scatter(x, y, s=9, marker=mark, color=colours, alpha=0.8, lw=0)
        axes.set(xticks=[], yticks=[])

    return Panel(draw, f"features, {row}", {"xlabel": "colour: label, mark: client"}, "")
