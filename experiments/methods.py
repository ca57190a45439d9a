"""All methods on one federation: accuracy, bytes and seconds.

Sections: `methods`, one network for all clients; `mixed networks`, clients take the networks
`mixed` in turn, with methods that allow it; `departures`, methods as their authors' programs or
common libraries have them, where these depart from the paper, beside the defaults here. Seconds
are for a round of training of all clients in one process; methods that only read one training in
different ways share it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Words
from hopfed.experiments.shared import cells
from hopfed.experiments.shared.cells import CellSettings, measure_round, tables
from hopfed.experiments.shared.statistics import mean_and_error, mean_and_sd
from hopfed.figures.kinds import Panel, error_bars

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]


LABELS = {"test": "test accuracy", "megabytes": "MB of a client", "seconds": "seconds of a round"}


class Config(CellSettings):
    """Settings."""

    mixed: Annotated[Words, "networks of `mixed networks`, with equal numbers of features"]
    plain: Annotated[float, "rate of SGD without momentum, over the rate of others"]

    TIMED: ClassVar[bool] = True

    @property
    def faster(self) -> float:
        """Learning rate of SGD without momentum."""
        return self.plain * self.lr


def _numbers(config: Config, arrays: Arrays) -> dict[str, dict[str, np.ndarray]]:
    """Numbers (seeds,) of each cell, with the median seconds of a round: the first loads data."""
    found, held = cells.numbers_per_seed(config, arrays), cells.arrays_by_cell(config, arrays)
    return {k: v | {"seconds": np.median(held[k]["seconds"], axis=1)} for k, v in found.items()}


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Experiment `methods`: means, deviations over seeds, seconds a round, effect of departures."""
    summary, numbers = cells.summarise(config, arrays), _numbers(config, arrays)
    for cell in cells.cells_of(config):
        key, beside = cell.key, f"{cell.section}/{cell.config.method}"
        summary[f"{key}/seconds"] = mean_and_sd(numbers[key]["seconds"])
        if cell.section == "departures" and cell.config.options and beside in numbers:
            change = mean_and_error(numbers[key]["test"] - numbers[beside]["test"])
            summary[f"{key}/change"] = change
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    """Experiment `methods`: accuracy, megabytes and seconds of every method, for each section."""
    numbers, made = _numbers(config, arrays), list[Panel]()
    for section, rows in cells.group_by_section(cells.cells_of(config)):
        for name, label in LABELS.items():
            values = {"": np.stack([numbers[cell.key][name] for cell in rows], axis=1)}
            words: dict[str, Any] = {"xlabel": label, "log": "" if name == "test" else "x"}
            made.append(
                error_bars(section, [cell.row for cell in rows], values, each=True, **words)
            )
    return made
