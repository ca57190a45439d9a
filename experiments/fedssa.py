"""FedSSA and its baselines: does averaging head rows by class help? (Tables 1-5, Figs. 4-11)

Source: arXiv:2312.09006; theory/NOTES.md, "FedSSA head aggregation".

Sections, chosen by ``--set sections=methods,...``:

- `methods`: all methods on one task. Gains over `standalone` are paired by seed, at the round
  chosen by validation and at an early round, because FedSSA's gain is largest early.
- `M1`: without averaging by class: A is LG-FedAvg, B is LG-FedAvg with blending; C is FedSSA.
- `M2`: without blending: A uses the whole global head, B its rows of seen classes.
- `stabilised for`: number T_stable of rounds with blending, literal (the printed sum) and
  normalised. The literal sum is refused above 2, because it makes the head grow without bound.
- `classes`, `dirichlet`, `participation`: sweeps.

Measured (default preset: 2,000 images of MNIST, ten clients of four classes, CNN-3 to 5; five
paired seeds; points gained over Standalone, +- standard error, at the round chosen by validation /
at round 5): FedSSA -.01 +- .17 / +1.00 +- 1.37, LG-FedAvg -.60 +- .52 / -6.27 +- 1.58, FedProto
-.13 +- .22 / +.45 +- .90, FedClassAvg +.96 +- .23 / +2.85 +- .89, all others below Standalone. So
FedSSA is far better than LG-FedAvg early and slightly better at the end, with half the bytes, but
no better than training alone; the paper's lead over every baseline is not reproduced. Of its parts
averaging by class (M1) may have an effect, less than twice its error: -.51 +- .57 and -.77 +- .40
without it; the number of blending rounds has none. Over classes per
client, Dirichlet and participation (five seeds, nine settings) FedSSA gains most at Dirichlet(.1),
+1.04 +- .35, and is within two errors of Standalone elsewhere. It is above LG-FedAvg in seven of
the nine. FedProto gains +4.69 +- 1.54 with a fifth of the clients a round, and loses at Dirichlet
partitions.

On CIFAR-100 with 100 clients, a tenth of them a round, the same author reports FedSSA at 57.3%
against 53.0% of training alone here (Table 2), and at 47.4% against 53.6% in arXiv:2603.25614
(Table 1). ``hopfed run sohip --preset deciding`` asks what moves such numbers.

At sizes for one machine (CIFAR-10, ten clients of two classes, 4,000 images, 20 rounds, three
seeds; half an hour each; points over Standalone at the end / at round 5, +- standard error):
``--preset cifar10``, Table 2: FedSSA +.74 +- .88 / -.48 +- 1.12, and no method gains twice its
error. ``--preset homogeneous``, Table 1, with one architecture and FedAvg in the table: FedSSA +.16
+- .25 / +1.59 +- .13, FedProto +1.38 +- .40 / +1.76 +- .42, FedClassAvg +1.57 +- .65 / -1.95 +-
.57, and FedAvg, one model for all, -49.46 +- 1.10 at the end.

The last part of the figure shows features of some clients' test examples in a plane (t-SNE, Fig.
6).

Run it with ``hopfed run fedssa --preset default --out fedssa.h5``. The paper's setting, ``--preset
paper``, needs a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hopfed.experiments import Record, Table
from hopfed.experiments.shared import cell_tables
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import TABLE, Bench, Cell

SWEEPS = {
    "classes": ("partition", ("classes:2", "classes:4", "classes:6", "classes:8")),
    "dirichlet": ("partition", ("dirichlet:0.1", "dirichlet:0.3", "dirichlet:0.5")),
    "participation": ("rate", (0.2, 0.5, 1.0)),
}
STABLE = "stabilised for"
ALONE = tuple(SWEEPS)  # sections that also play `standalone`
SECTIONS = (TABLE, "M1", "M2", STABLE, *SWEEPS)

METHODS = {
    "standalone": ("standalone", ""),
    "fd": ("fd", ""),
    "fedproto": ("fedproto", ""),
    "fml": ("fml", ""),
    "fedkd": ("fedkd", "rounds={rounds}"),
    "lg-fedavg": ("lg-fedavg", ""),
    "fedclassavg": ("fedclassavg", ""),
    "fedssa": ("fedssa", ""),
}
HOMOGENEOUS = {"fedavg": ("fedavg", "")}
FAMILIES = {
    "M1": {"A": "ablation=m1-a", "B": "ablation=m1-b"},
    "M2": {"A": "ablation=m2-a", "B": "ablation=m2-b"},
}
STABILISED = {"literal": (1, 2), "normalised": (2, 10, 20)}
SWEPT = ("standalone", "fedproto", "lg-fedavg", "fedssa")
PICTURED = (f"{TABLE}/standalone", f"{TABLE}/fedproto", f"{TABLE}/fedssa")

# Tables 1 (one architecture) and 2: (homogeneous, data, clients) -> row -> accuracy.
_ROWS = ("standalone", "fml", "fedkd", "lg-fedavg", "fedclassavg", "fd", "fedproto", "fedssa")
_COLUMNS = {
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
PAPER = {key: dict(zip(_ROWS, row.split(), strict=True)) for key, row in _COLUMNS.items()}
CLASSES = {"cifar10": "classes:2", "cifar100": "classes:10"}
RATES = {10: 1.0, 50: 0.2, 100: 0.1}


@dataclass(frozen=True)
class Config(Bench):
    """Settings; see `hopfed.experiments.shared.cells.Bench`."""

    SECTIONS: ClassVar[tuple[str, ...]] = SECTIONS
    ALONE: ClassVar[tuple[str, ...]] = ALONE
    PICTURED: ClassVar[tuple[str, ...]] = PICTURED

    @property
    def homogeneous(self) -> bool:
        """Whether all clients have one architecture."""
        return len(set(self.models)) == 1

    def cells(self) -> tuple[Cell, ...]:
        """Cells of the requested sections, in their order."""
        methods = METHODS | (HOMOGENEOUS if self.homogeneous else {})
        methods = methods if TABLE in self.sections else {}
        made = [self._row(TABLE, row, *methods[row]) for row in methods]
        for family in (s for s in self.sections if s in FAMILIES):
            made += [self._row(family, row, "fedssa", o) for row, o in FAMILIES[family].items()]
        if STABLE in self.sections:
            for fusion, rounds in STABILISED.items():
                for T in rounds:
                    options = f"fusion={fusion},stable={T}"
                    made.append(self.cell(STABLE, fusion, T, method="fedssa", options=options))
        for section in (s for s in self.sections if s in SWEEPS):
            setting, values = SWEEPS[section]
            for row in SWEPT:
                for value in values:
                    at = str(value).rpartition(":")[2]
                    changes: dict[str, Any] = {setting: value}
                    made.append(self._row(section, row, *METHODS[row], at, **changes))
        return tuple(made)

    def _row(
        self, section: str, row: str, method: str, options: str, at: str = "", **changes: Any
    ) -> Cell:
        options = options.format(rounds=self.rounds)
        return self.cell(section, row, at, method=method, options=options, **changes)


CNNS = ("cnn-1", "cnn-2", "cnn-3", "cnn-4", "cnn-5")

PRESETS = {
    "quick": Config(clients=4, models=("cnn-4", "cnn-5"), examples=300, rounds=2, early=1, seeds=1),
    "default": Config(
        data="mnist",
        models=("cnn-3", "cnn-4", "cnn-5"),
        examples=2000,
        shares=(6.0, 1.0, 3.0),
        seeds=5,
        sections=(TABLE, "M1", "M2", STABLE),
    ),
    "cifar10": Config(
        data="cifar10",
        partition="classes:2",
        models=CNNS,
        examples=4000,
        shares=(6.0, 1.0, 3.0),
        every=2,
        seeds=3,
        lax=True,
    ),
    "paper": Config(
        data="cifar10",
        partition="classes:2",
        clients=10,
        models=CNNS,
        rounds=100,
        early=10,
        every=5,
        momentum=0.0,
        epochs=10,
        batch=64,
        sections=SECTIONS,
        seeds=3,
    ),
}

# Parts of the question that a CPU finishes in hours, each a row of experiments/README.md.
PRESETS |= {
    "sweeps": replace(PRESETS["default"], sections=("classes", "dirichlet", "participation")),
}
PRESETS["homogeneous"] = replace(PRESETS["cifar10"], models=("cnn-1",))

RECORD = Record(
    claim="head rows averaged class by class help heterogeneous clients",
    source="FedSSA, Tables 1-5, Figs. 4-11",
    minutes={
        "quick": 0.4,
        "default": 22,
        "cifar10": 30,
        "homogeneous": 35,
        "paper": 3000,
        "sweeps": 60,
    },
)

run_round = _cells.play
summarise = _cells.summarise


def tables(config: Config, summary: dict[str, Any]) -> list[Table]:
    """The table of methods, with the paper's numbers if the setting is the paper's; the sweeps."""
    for (homogeneous, data, clients), paper in PAPER.items():
        theirs = data in config.data.split("/")[-1].split("_")[0].split(".")
        theirs &= config.partition == CLASSES[data] and config.rate == RATES[clients]
        if theirs and (config.homogeneous, config.clients) == (homogeneous, clients):
            return cell_tables.tables(config, summary, paper)
    return cell_tables.tables(config, summary)
