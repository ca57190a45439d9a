"""All methods on one federation: accuracy, bytes and seconds.

Sections: `methods`, one network for all clients; `mixed networks`, clients take the networks
`mixed` in turn, with methods that allow it; `departures`, methods as their authors' programs or
common libraries have them, where these depart from the paper, beside the defaults here. Seconds
are those of a round of training of all clients together, of one process; methods that only read one
training in different ways share it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from hopfed.experiments import Arrays
from hopfed.experiments.settings import Words
from hopfed.experiments.shared import cells
from hopfed.experiments.shared.cells import Bench, measure_round, tables
from hopfed.experiments.shared.statistics import mean_and_error, mean_and_sd
from hopfed.figures.kinds import Panel, paired

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]


class Config(Bench):
    """Settings."""

    mixed: Annotated[Words, "networks of `mixed networks`, of features of one length"]
    plain: Annotated[float, "times the rate of others, of SGD without momentum"]

    TIMED: ClassVar[bool] = True

    @property
    def faster(self) -> float:
        """Rate of SGD without momentum."""
        return self.plain * self.lr


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Means and deviations over seeds, seconds of a round, and what departures change."""
    summary = cells.summarise(config, arrays)
    for key, held in cells.by_cell(config, arrays).items():
        each = np.median(held["seconds"], axis=1)  # the first round loads the data
        summary[f"{key}/seconds"] = mean_and_sd(each)
    tests = {key: found["test"] for key, found in cells.per_seed(config, arrays).items()}
    for cell in cells.cells_of(config):
        beside = f"{cell.section}/{cell.config.method}"
        if cell.section == "departures" and cell.config.options and beside in tests:
            change = mean_and_error(tests[cell.key] - tests[beside])
            summary[f"{cell.key}/change"] = change
    return summary


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
