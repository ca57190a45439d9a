"""All methods on one federation: accuracy, bytes and seconds.

Sections: `methods`, one network for all clients; `mixed networks`, clients take the networks
`mixed` in turn, with methods that allow it. Seconds are those of a round of training of all
clients together, of one process; methods that only read one training in different ways share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import numpy as np

from hopfed.experiments import Arrays
from hopfed.experiments.settings import Words
from hopfed.experiments.shared import cells
from hopfed.experiments.shared.cells import TABLE, Bench, measure_round, tables
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.figures.kinds import Panel, paired

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

MIXED = "mixed networks"
ROWS = (
    "standalone", "standalone-bias", "fedavg", "fedavg+", "fedavg-prior", "fedprox", "scaffold",
    "feddyn", "moon", "ditto", "apfl", "fedrep", "fedper", "fedbabu", "fedbn", "per-fedavg",
    "pfedme", "fedala", "clustered-fl", "knn-per", "pfedgp", "hebbian", "sohip", "fedssa", "fedh2l",
    "fedproto", "fd", "fml", "fedkd", "lg-fedavg", "fedclassavg", "fedmrl", "fedral", "pfedes",
    "fedgh", "fedtgp", "fedgen", "agg", "fedmd",
)  # fmt: skip
DIFFER = (*ROWS[:2], *ROWS[ROWS.index("sohip") :])  # whose clients may have different networks
OPTIONS = {  # a small model that clients share is a LeNet; rounds of steps are an epoch of them
    **dict.fromkeys(("fml", "fedmrl"), "proxy=lenet"),
    "fedkd": "proxy=lenet,rounds={rounds}",
    **dict.fromkeys(("fedh2l", "fedmd"), "steps=5"),
    "agg": "images=160",
}
PLAIN = ("scaffold",)  # SGD without momentum, as in the paper, at three times the rate


class Config(Bench):
    """Settings."""

    partition: str = "dirichlet:0.1:redistribute"
    models: tuple[str, ...] = ("lenet",)
    mixed: Annotated[Words, "networks of `mixed networks`, of features of one length"] = (
        "lenet", "mlp:128x84",
    )  # fmt: skip
    sections: Annotated[Words, "tables to play"] = (TABLE, MIXED)
    seeds: int = 5

    SECTIONS: ClassVar[tuple[str, ...]] = (TABLE, MIXED)
    TIMED: ClassVar[bool] = True

    def planned(self) -> Iterator[Any]:
        """Every method, with one network and with several."""
        for section, rows, models in ((TABLE, ROWS, self.models), (MIXED, DIFFER, self.mixed)):
            for row in rows:
                changes: dict[str, Any] = {"models": models, "options": OPTIONS.get(row, "")}
                changes |= {"momentum": 0.0, "lr": 3 * self.lr} if row in PLAIN else {}
                yield section, row, "", changes


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Means and deviations over seeds, and the seconds of a round."""
    summary = cells.summarise(config, arrays)
    for key, held in cells.by_cell(config, arrays).items():
        each = np.median(held["seconds"], axis=1)  # the first round loads the data
        summary[f"{key}/seconds"] = mean_and_sd(each)
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
