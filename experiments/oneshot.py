"""One exchange of operators against many rounds of gradients: `hopfed.neural.methods.hebbian`.

Gains are over the same read-out of the client's own examples (``hebbian alone``). Sections:
`methods`; `heterogeneity`; `feature shift`, by `shift`; `filters`, random ones of the bits; `ridge
and rank`, how the ridge is chosen; `same bits`, by partition, and the read-out that counts others
by how much they resemble a client; `privacy`, noise on the sums, and the accuracy that theory
predicts; `features`, by partition, of a network that is kept as it is: global read-outs by bytes,
personal ones, and heads that are trained, which see features of mean 0 and variance 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np

from hopfed.experiments import Arrays, Table, fl
from hopfed.experiments.settings import Words
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import measure_round
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import EVERYONE
from hopfed.federation.rounds import FederationState
from hopfed.figures.kinds import Panel, against

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

HETEROGENEITY, SHIFT, FILTERS = "heterogeneity", "feature shift", "filters"
RIDGE, SAME, PRIVACY, GIVEN = "ridge and rank", "same bits", "privacy", "features"
OWN_ONLY, RESEMBLING = "hebbian alone", "hebbian resembling"
READINGS = {OWN_ONLY: "alone", "hebbian global": "global", "hebbian": "personal"}
RULES = {rule: f"ridge={rule}" for rule in ("grid", "gcv")}
PRIVATE, PRIVATE_FILTERS = "bits=public,choose=own", 32  # fewer bits have less noise
TRAINED = ("standalone", "fedavg", "fedavg-prior", "knn-per", "pfedgp")
SWEPT = (*READINGS, "fedavg-prior", "knn-per")  # in the sections beside the table
SHIFTED = (*READINGS, "standalone", "fedavg", "knn-per")
FISHER = "code=coarse,discriminant=true,ridge=gcv"
GIVEN_FEATURES = {  # row -> reading of the read-out, and its options
    OWN_ONLY: ("alone", FISHER),
    "hebbian": ("personal", FISHER),
    "hebbian global": ("global", FISHER),
    "hebbian components": ("global", "components={components},discriminant=true,ridge=gcv"),
    "hebbian small": ("global", f"{FISHER},columns={{columns}}"),
}
CLOSED, HEADS = ("afl", "ranpac", "safle"), ("fedavg", "fedavg-prior", "knn-per")
FOR_ALL = ("hebbian small", "hebbian global", "hebbian components", *CLOSED, "fedavg")
EPSILONS = (100.0, 30.0, 10.0, 3.0, 1.0)


class Config(_cells.Bench):
    """Settings; those of the read-out are of `hopfed.neural.methods.hebbian.Hebbian`."""

    partition: str = "dirichlet:0.3"
    models: tuple[str, ...] = ("lenet",)
    lr: float = 0.03
    shares: tuple[float, ...] = (6.0, 1.0, 3.0)
    filters: int = 64
    patch: int = 3
    fields: int = 2
    mirror: bool = False
    ridge: str = "grid"
    shift: Annotated[str, "partition of `feature shift`"] = "rotation:0,45,90,135,180"
    components: Annotated[int, "of the kernel in `features`"] = 1000
    columns: Annotated[int, "of the small read-out in `features`"] = 780
    partitions: Annotated[Words, "of `same bits`, besides `shift`, and of `features`"] = (
        "dirichlet:0.1", "dirichlet:0.3", "dirichlet:1", "dirichlet:10",
    )  # fmt: skip

    COMPARED: ClassVar[tuple[str, ...]] = (OWN_ONLY,)
    ALONE: ClassVar[tuple[str, ...]] = (RIDGE, SAME, PRIVACY, GIVEN)
    SECTIONS: ClassVar[tuple[str, ...]] = (_cells.TABLE, HETEROGENEITY, SHIFT, FILTERS, *ALONE)

    def planned(self) -> Iterator[Any]:
        """Every row of a section at each of its values."""
        spread = [(at, {"partition": f"dirichlet:{at}"}) for at in ("0.1", "1", "10")]
        filters = [(n, {"filters": n}) for n in (8, 16, 32, 64, 128)]
        rules = [(at, {"more": rule}) for at, rule in RULES.items()]
        divided = (*self.partitions, self.shift)
        alike = [(at.partition(",")[0], {"partition": at}) for at in divided]
        own = {"filters": PRIVATE_FILTERS}
        noise = [(f"{at:g}", own | {"more": f"{PRIVATE},epsilon={at}"}) for at in EPSILONS]
        swept: dict[str, tuple[tuple[str, ...], list[tuple[Any, dict[str, Any]]]]] = {
            _cells.TABLE: ((*READINGS, *TRAINED), [("", {})]),
            HETEROGENEITY: (SWEPT, spread),
            SHIFT: (SHIFTED, [("", {"partition": self.shift})]),
            FILTERS: (tuple(READINGS), filters),
            RIDGE: (tuple(READINGS), rules),
            SAME: ((*READINGS, RESEMBLING), alike),
            PRIVACY: (tuple(READINGS), noise),
            GIVEN: ((*GIVEN_FEATURES, *CLOSED, *HEADS), alike[:-1]),
        }
        for section, (rows, places) in swept.items():
            for row, (at, how) in product(rows, places):
                yield section, row, at, self._changes(section, row, **how)

    def readings(self) -> tuple[_cells.Reading, ...]:
        """Predictions of what noise costs the read-out of all."""
        asked = (PRIVACY, "hebbian global")
        return tuple(
            _cells.Reading(PRIVACY, "predicted for all", cell.at, cell.key, "", 1)
            for cell in self.cells()
            if (cell.section, cell.row) == asked
        )

    def score(
        self, readings: Sequence[_cells.Reading], method: Any, state: FederationState
    ) -> list[np.ndarray]:
        """Predicted accuracy of the clients, from their sums without noise."""
        return [predicted(method, state)] * len(readings)

    def _changes(
        self, section: str, row: str, filters: int = 0, more: str = "", **changes: Any
    ) -> dict[str, Any]:
        """A reading of the read-out, or a method that trains; of features as they are or scaled."""
        if section == GIVEN and row in GIVEN_FEATURES:
            reading, own = GIVEN_FEATURES[row]
            own = f"encoder=rows,reading={reading},{own}"
            return changes | {"method": "hebbian", "options": own, "scaling": "none"}
        if section == GIVEN:
            return changes | ({"scaling": "none"} if row in CLOSED else {})
        own = f"filters={filters or self.filters},patch={self.patch},fields={self.fields}"
        own = f"{own},mirror={self.mirror}"
        if row not in READINGS and row != RESEMBLING:
            return changes
        reading = f"reading={READINGS[row]}" if row in READINGS else "pooling=resembling"
        ridge = "" if more else f"ridge={self.ridge}"
        own = ",".join(filter(None, (own, reading, ridge, more)))
        return changes | {"method": "hebbian", "options": own}


def summarise(bench: Config, arrays: Arrays) -> dict[str, Any]:
    """As of every comparison, and the megabytes that a client sends in all rounds."""
    held = _cells.by_cell(bench, arrays).items()
    sent = {f"{key}/up": mean_and_sd(fl.costs(a)[0][:, -1] / 1e6) for key, a in held}
    return _cells.summarise(bench, arrays) | sent


def tables(bench: Config, summary: dict[str, Any]) -> list[Table]:
    """Those of every comparison; of features also the accuracy on all examples, and bytes."""
    made = _cells.tables(bench, summary)
    ours = [cell for cell in _cells.cells_of(bench) if cell.section == GIVEN]
    if ours:
        held = ours, summary, "weighted", lambda v: _cells.percent(v, 1)
        made.append(_cells.swept(f"{GIVEN}: all examples", *held))
        made.append(_cells.swept(f"{GIVEN}: MB up", ours, summary, "up", _cells.brief))
    return made


def panels(bench: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    """Those of every comparison; of features also the accuracy of one model for all over bytes."""
    made = _cells.panels(bench, arrays, summary)
    points: dict[str, tuple[Any, Any]] = {}
    for cell in _cells.cells_of(bench):
        if cell.section == GIVEN and cell.row in FOR_ALL:
            x, y = (summary[f"{cell.key}/{name}"][0] for name in ("up", "weighted"))
            before = points.get(cell.row, ((), ()))
            points[cell.row] = (*before[0], x), (*before[1], y)
    words: dict[str, Any] = {"log": "x", "legend": "below", "diagonal": False}
    words |= {"xlabel": "MB up of a client", "ylabel": "accuracy on all examples"}
    return made + [against("one model for all over bytes", points, **words)] * bool(points)


def predicted(method: Any, state: FederationState) -> np.ndarray:
    """Accuracy (clients,) that a read-out of all with noise should have on test examples."""
    from hopfed.neural.readouts.ridge import Spectrum

    down = state.down.get(EVERYONE, {})
    members = [int(c) for c in down["members"]]
    sums = [method.own_sums(state.clients.get(c), down, c) for c in members]
    whole = Spectrum.of(sum(sums[1:], sums[0]))
    ridge = 1 + method.private.radius(len(members)) / whole.examples
    tests = [method.bits_of(down, c, "test") for c in range(method.task.clients)]
    found = [method.private.predicted_accuracy(whole, ridge, len(members), *t) for t in tests]
    return np.array(found)
