"""FedSSA and its baselines: does averaging head rows by class help?

See theory/NOTES.md, "FedSSA head aggregation". Sections: `methods`; `M1`, without averaging by
class (A is LG-FedAvg, B with blending); `M2`, without blending (A uses the whole global head, B its
rows of seen classes); `stabilised for`, rounds with blending, literal (the printed sum) and
normalised; `classes`, `dirichlet`, `participation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from hopfed.experiments import Table
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cell_pictures import panels
from hopfed.experiments.shared.cells import TABLE, Bench, Cell, measure_round, summarise
from hopfed.experiments.sohip import SWEEPS as _ALL

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

SWEEPS = {name: _ALL[name] for name in ("classes", "dirichlet", "participation")}
STABLE = "stabilised for"
STABILISED = [*product(("literal",), (1, 2)), *product(("normalised",), (2, 10, 20))]
SECTIONS = (TABLE, "M1", "M2", STABLE, *SWEEPS)
METHODS = {
    "standalone": "", "fd": "", "fedproto": "", "fml": "", "fedkd": "rounds={rounds}",
    "lg-fedavg": "", "fedclassavg": "", "fedssa": "",
}  # fmt: skip
SWEPT = ("standalone", "fedproto", "lg-fedavg", "fedssa")

# Tables 1 (one architecture) and 2: (homogeneous, data, clients) -> accuracy by row.
_ROWS = ("standalone", "fml", "fedkd", "lg-fedavg", "fedclassavg", "fd", "fedproto", "fedssa")
PAPER = {
    (True, "cifar10", 10): "96.35 94.83 94.77 96.47 96.44 96.30 95.83 98.57",
    (True, "cifar100", 10): "74.32 70.02 70.04 73.43 74.33 - 72.79 74.81",
    (True, "cifar10", 50): "95.25 93.18 92.93 94.20 94.45 - 95.10 95.32",
    (True, "cifar100", 50): "62.38 57.56 57.56 61.77 63.10 - 62.55 64.38",
    (True, "cifar10", 100): "92.58 87.93 90.23 90.25 91.03 - 91.19 92.67",
    (True, "cifar100", 100): "54.93 46.20 50.99 46.64 49.31 - 54.01 58.54",
    (False, "cifar10", 10): "96.53 30.48 80.20 96.30 94.41 96.21 96.51 96.54",
    (False, "cifar100", 10): "72.53 16.84 53.23 72.20 69.16 - 72.59 73.39",
    (False, "cifar10", 50): "95.14 - 77.37 94.83 85.23 - 95.48 95.83",
    (False, "cifar100", 50): "62.71 21.96 44.27 60.95 56.54 - 62.69 64.20",
    (False, "cifar10", 100): "91.97 - 73.21 91.27 82.61 - 92.49 92.92",
    (False, "cifar100", 100): "53.04 15.21 37.21 45.83 35.48 - 53.67 57.29",
}
CLASSES = {"cifar10": "classes:2", "cifar100": "classes:10"}
RATES = {10: 1.0, 50: 0.2, 100: 0.1}


@dataclass(frozen=True)
class Config(Bench):
    """Settings."""

    SECTIONS: ClassVar[tuple[str, ...]] = SECTIONS
    ALONE: ClassVar[tuple[str, ...]] = tuple(SWEEPS)
    PICTURED: ClassVar[tuple[str, ...]] = tuple(f"{TABLE}/{row}" for row in SWEPT if row[0] != "l")

    @property
    def homogeneous(self) -> bool:
        """Whether all clients have one architecture."""
        return len(set(self.models)) == 1

    def cells(self) -> tuple[Cell, ...]:
        """Cells of the requested sections, in their order."""
        made: list[Cell] = []
        if TABLE in self.sections:
            rows = (*METHODS, *["fedavg"] * self.homogeneous)
            made += [self._cell(TABLE, row) for row in rows]
        for family, row in product((s for s in self.sections if s in ("M1", "M2")), "AB"):
            own = f"ablation={family.lower()}-{row.lower()}"
            made.append(self.cell(family, row, method="fedssa", options=own))
        for fusion, T in STABILISED if STABLE in self.sections else ():
            own = f"fusion={fusion},stable={T}"
            made.append(self.cell(STABLE, fusion, T, method="fedssa", options=own))
        for section in (s for s in self.sections if s in SWEEPS):
            name, values = SWEEPS[section]
            for row, value in product(SWEPT, values):
                at = str(value).rpartition(":")[2]
                made.append(self._cell(section, row, at, **{name: value}))
        return tuple(made)

    def _cell(self, section: str, row: str, at: str = "", **changes: Any) -> Cell:
        options = METHODS.get(row, "").format(rounds=self.rounds)
        return self.cell(section, row, at, options=options, **changes)


def tables(config: Config, summary: dict[str, Any]) -> list[Table]:
    """The table of methods, with the paper's numbers if the setting is the paper's; the sweeps."""
    paper = {}
    for (homogeneous, data, clients), row in PAPER.items():
        theirs = data in config.data.split("/")[-1].split("_")[0].split(".")
        theirs &= config.partition == CLASSES[data] and config.rate == RATES[clients]
        if theirs and (config.homogeneous, config.clients) == (homogeneous, clients):
            paper = dict(zip(_ROWS, row.split(), strict=True))
    return _cells.tables(config, summary, paper)
