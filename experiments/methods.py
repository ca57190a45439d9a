"""All methods on one federation: accuracy, bytes and seconds.

Sections: `methods`, one network for all clients; `mixed networks`, clients take the networks
`mixed` in turn, with methods that allow it; `departures`, methods as their authors' programs or
common libraries have them, where these depart from the paper, beside the defaults here. Seconds
are those of a round of training of all clients together, of one process; methods that only read one
training in different ways share it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np

from hopfed.experiments import Arrays, Table
from hopfed.experiments.settings import Words
from hopfed.experiments.shared import cells
from hopfed.experiments.shared.cells import TABLE, Bench, Cell, measure_round, percent
from hopfed.experiments.shared.statistics import mean_and_error, mean_and_sd
from hopfed.figures.kinds import Panel, paired

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

DEPARTURES = "departures"
PLAIN = ("scaffold",)  # SGD without momentum, as in the paper


class Config(Bench):
    """Settings."""

    partition: str = "dirichlet:0.1:redistribute"
    models: tuple[str, ...] = ("lenet",)
    mixed: Annotated[Words, "networks of `mixed networks`, of features of one length"] = (
        "lenet", "mlp:128x84",
    )  # fmt: skip
    plain: Annotated[float, "times the rate of others, of SGD without momentum"] = 3.0
    sections: Annotated[Words, "tables to play"] = (TABLE, "mixed networks")
    seeds: int = 5

    TIMED: ClassVar[bool] = True

    def cell(self, section: str, row: str, *rest: Any) -> Cell:
        """Make a cell."""
        made = super().cell(section, row, *rest)
        if row not in PLAIN:
            return made
        return replace(made, config=replace(made.config, momentum=0.0, lr=self.plain * self.lr))


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Means and deviations over seeds, seconds of a round, and what departures change."""
    summary = cells.summarise(config, arrays)
    for key, held in cells.by_cell(config, arrays).items():
        each = np.median(held["seconds"], axis=1)  # the first round loads the data
        summary[f"{key}/seconds"] = mean_and_sd(each)
    tests = {key: found["test"] for key, found in cells.per_seed(config, arrays).items()}
    for cell, default in _departures(config):
        summary[f"{cell.key}/change"] = mean_and_error(tests[cell.key] - tests[default])
    return summary


def tables(config: Config, summary: dict[str, Any]) -> list[Table]:
    """The tables of methods, and what departures change, beside the same seeds."""
    rows = tuple(
        (cell.row, percent(summary[f"{cell.key}/change"], 2, True))
        for cell, _ in _departures(config)
    )
    more = [Table("departures beside the defaults", ("accuracy ± s.e.",), rows)] if rows else []
    return cells.tables(config, summary) + more


def _departures(config: Config) -> list[tuple[Cell, str]]:
    """Cells with other settings than the defaults, and the keys of those with the defaults."""
    played = {cell.key: cell for cell in cells.cells_of(config) if cell.section == DEPARTURES}
    pairs = ((cell, f"{DEPARTURES}/{cell.config.method}") for cell in played.values())
    return [(cell, key) for cell, key in pairs if cell.config.options and key in played]


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    """For each section accuracy, megabytes and seconds of every method."""
    numbers, made = cells.per_seed(config, arrays), []
    for section in config.sections:
        rows = [cell for cell in cells.cells_of(config) if cell.section == section]
        names = [cell.row for cell in rows]
        for name, label in (("test", "test accuracy"), ("megabytes", "MB of a client")):
            values = np.stack([numbers[cell.key][name] for cell in rows], axis=1)
            log = "" if name == "test" else "x"
            made.append(paired(section, names, {"": values}, each=True, xlabel=label, log=log))
        means = np.array([summary[f"{cell.key}/seconds"][0] for cell in rows])
        seconds = {"": means[None]}
        made.append(paired(section, names, seconds, xlabel="seconds of a round", log="x"))
    return made
