"""An exchange of operators against many rounds of gradients: `hopfed.neural.methods.hebbian`.

Gains are over the same read-out of the client's own examples (``hebbian alone``). Sections:
`methods`; `heterogeneity`; `feature shift`, by `shift`; `filters`, numbers of random filters;
`ridge and rank`, choices of the ridge; `same bits`, by partition, and the read-out that weights
other clients by similarity; `privacy`, noise on the sums, and the accuracy that theory predicts;
`features`, by partition, of a frozen network: global read-outs by bytes, personal ones, and trained
heads, which see features of mean 0 and variance 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from hopfed.experiments import Arrays, fl
from hopfed.experiments.machinery.settings import Words
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import CellSettings, Place, measure_round, tables
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import EVERYONE
from hopfed.federation.rounds import FederationState
from hopfed.figures.kinds import Panel, scatter

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

FOR_ALL = (
    "hebbian small", "hebbian global", "hebbian components", "afl", "ranpac", "safle", "fedavg",
)  # fmt: skip


class Config(CellSettings):
    """Settings; those of the read-out are of `hopfed.neural.methods.hebbian.Hebbian`."""

    filters: int
    patch: int
    fields: int
    mirror: bool
    ridge: str
    shift: Annotated[str, "partition of `feature shift`"]
    components: Annotated[int, "components of the kernel in `features`"]
    columns: Annotated[int, "columns of the small read-out in `features`"]
    partitions: Annotated[Words, "used in `features` and, beside `shift`, in `same bits`"]

    REFERENCE: ClassVar[str] = "hebbian alone"

    def score(
        self, readings: Sequence[Place], method: Any, state: FederationState
    ) -> list[np.ndarray]:
        """Predicted test accuracy (clients,) of the read-out of all clients with noise."""
        from hopfed.neural.readouts.ridge import Spectrum

        down = state.down.get(EVERYONE, {})
        members = [int(c) for c in down["members"]]
        sums = [method.own_sums(state.clients.get(c), down, c) for c in members]
        whole = Spectrum.of(sum(sums[1:], sums[0]))
        ridge = 1 + method.private.radius(len(members)) / whole.examples
        tests = [method.bits_of(down, c, "test") for c in range(method.task.clients)]
        asked = whole, ridge, len(members)
        found = [method.private.predicted_accuracy(*asked, *test) for test in tests]
        return [np.array(found)] * len(readings)


def summarise(bench: Config, arrays: Arrays) -> dict[str, Any]:
    """Experiment `oneshot`: summary of every comparison, and megabytes a client sends in all."""
    summary = _cells.summarise(bench, arrays)
    for key, a in _cells.arrays_by_cell(bench, arrays).items():
        summary[f"{key}/up"] = mean_and_sd(fl.sum_costs(a)[0][:, -1] / 1e6)
        summary[f"{key}/whole"] = summary[f"{key}/weighted"]
    return summary


def panels(bench: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    """Experiment `oneshot`: panels of every comparison; of features also accuracy over bytes."""
    made = _cells.panels(bench, arrays, summary)
    points: dict[str, tuple[Any, Any]] = {}
    for cell in _cells.cells_of(bench):
        if cell.section == "features" and cell.row in FOR_ALL:
            x, y = (summary[f"{cell.key}/{name}"][0] for name in ("up", "weighted"))
            before = points.get(cell.row, ((), ()))
            points[cell.row] = (*before[0], x), (*before[1], y)
    words: dict[str, Any] = {"log": "x", "legend": "below", "diagonal": False}
    words |= {"xlabel": "MB up of a client", "ylabel": "accuracy on all examples"}
    return made + [scatter("one model for all over bytes", points, **words)] * bool(points)
