"""Panels of comparisons of neural methods: the table of methods, and sweeps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hopfed.experiments import Arrays, fl
from hopfed.experiments.shared import cells
from hopfed.figures.kinds import Panel, against, over, paired, styles

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


def panels(bench: cells.Bench, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    """The table: accuracy over rounds and cost, gains, clients; then sections by their names."""
    held, chosen = cells.by_cell(bench, arrays), {}
    for cell in cells.cells_of(bench):
        test, seen = cells.counted_round(bench, held[cell.key])[1], cell.config.seen
        chosen[cell.key] = test[:, seen:] if seen < bench.clients else test  # only the unseen
    means = {key: test.mean(axis=1) for key, test in chosen.items()} | cells.read(bench, arrays)
    table = [cell for cell in cells.cells_of(bench) if cell.section == cells.TABLE]
    made = _table(bench, table, held, chosen) if table else []
    played = *cells.cells_of(bench), *cells.readings_of(bench)
    others = [place for place in played if place.section != cells.TABLE]
    for section in dict.fromkeys(place.section for place in others):
        made.append(_section([p for p in others if p.section == section], means))
    return made


def _table(
    bench: cells.Bench, table: Sequence[cells.Cell], held: Mapping[str, Arrays], chosen: Arrays
) -> list[Panel]:
    reference, rows = bench.COMPARED[0], [cell.row for cell in table]
    style = styles([row for row in rows if row != reference])
    colours = [style[r]["color"] if r in style else "0.6" for r in rows]
    # The reference comes last, in grey.
    order = {c.row: c.key for c in table if c.row != reference}
    order["test"] = next(c.key for c in table if c.row == reference)
    tests = {row: held[key]["test"].mean(axis=2) for row, key in order.items()}
    scored = {row: np.flatnonzero(~np.isnan(test[0])) for row, test in tests.items()}
    curves = {row: test[:, scored[row]] for row, test in tests.items()}
    made, at = [], (next(iter(scored.values())) + 1).tolist()
    if len(at) > 1:
        words: dict[str, Any] = {"xlabel": "round", "ylabel": "test accuracy", "band": "error"}
        made.append(over("accuracy over rounds", at, curves, legend="", **words))
    costs = {row: fl.costs(held[key]) for row, key in order.items()}
    spent = {
        "MB": {row: (up + down) / 1e6 for row, (up, down, *_) in costs.items()},
        "GFLOP": {row: flops / 1e9 for row, (_, _, flops, _) in costs.items()},
    }
    for name, by_row in spent.items():
        points: dict[str, tuple[Any, Any]] = {}
        for row, cost in by_row.items():
            x, y = cost[:, scored[row]].mean(axis=0), curves[row].mean(axis=0)
            # Rounds after the last that changed anything, as of a method of one round, need not be.
            moved = np.flatnonzero(np.diff(y) != 0)
            last = 2 + int(moved[-1]) if len(moved) else 1
            points[row] = x[:last], y[:last]
        points = {row: pair for row, pair in points.items() if pair[0][-1] > 0}
        words = {"xlabel": f"{name} of a client", "log": "x", "legend": "", "joined": True}
        if points:
            made.append(against("over cost", points, diagonal=False, **words))
    base = chosen[order["test"]].mean(axis=1)
    gains = {"": 100 * np.stack([chosen[c.key].mean(axis=1) - base for c in table], axis=1)}
    title = f"points over {reference}, paired by seed"
    made.append(paired(title, rows, gains, level=0.0, colours=colours, each=True))
    size = chosen[table[0].key].size
    clients = {"": np.stack([np.resize(chosen[c.key].ravel(), size) for c in table], 1)}
    return [*made, paired("accuracy of clients", rows, clients, colours=colours, each=True)]


def _section(places: Sequence[cells.Place], means: Arrays) -> Panel:
    """Accuracy of each row at every value, or of each row alone."""
    section, rows = places[0].section, list(dict.fromkeys(place.row for place in places))
    at = list(dict.fromkeys(place.at for place in places))
    if at == [""]:
        values = {"": np.stack([means[place.key] for place in places], axis=1)}
        return paired(section, rows, values, each=True, xlabel="test accuracy")
    none = np.full(len(means[places[0].key]), np.nan)
    lines = {
        row: np.stack([means.get(cells.Place(section, row, x).key, none) for x in at], axis=1)
        for row in rows
    }
    joined = all(re.fullmatch(r"[-+.\de]+", value) for value in at)
    if not joined and len(rows) > 7:  # than a legend tells apart
        marks = {x: np.stack([lines[row][:, i] for row in rows], axis=1) for i, x in enumerate(at)}
        return paired(section, rows, marks, each=True, legend="below", xlabel="test accuracy")
    words: dict[str, Any] = {"xlabel": VALUES.get(section, ""), "ylabel": "test accuracy"}
    return over(section, at, lines, points=not joined, band="error", **words)
