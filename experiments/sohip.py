"""SoHip, its baselines and a control: does a shared memory help? (Table 1, Figs. 3-7)

Source: arXiv:2603.25614; theory/NOTES.md, "SoHip memory" and "SoHip with a linear head".

The paper's memory is common to the batch, so in a test it is a constant added to the features. With
a linear head this is an offset of the logits (`tests/neural/test_sohip.py` checks it). The control
`standalone-bias` learns such an offset of the features directly; comparing the rows shows whether
training with a memory matters. Three proposed rows use the same m numbers each way: a memory by
class, a memory recalled by the sample, and archetypes instead of the mean.

Sections, chosen by ``--set sections=methods,...``:

- `methods`: all methods on one task; gains over `standalone` are paired by seed.
- `ablation`: A no importance gate, B no consolidation, C no collective memory, D no memory at all.
- `mlp head`: a head with a hidden layer, for which the memory is not an offset of the logits.
- `m`, `classes`, `dirichlet`, `participation`, `learning rate`, `initialisation` (He et al., or
  PyTorch's own), `augmentation`: sweeps of the rows `swept`.

Measured (default preset: digits, ten clients of four classes, CNN-3 to 5; six paired seeds; points
gained over Standalone, +- standard error, at the round that validation chooses): SoHip +.03 +- .08,
without its collective memory +.12 +- .06, the bias control +.12 +- .06; A to C of the ablation +.16
+- .06, +.44 +- .24, +.12 +- .06. So the paper's gain is not reproduced here, and nothing shows a
benefit of the collective memory, in agreement with the argument above. With an mlp head, to which
the argument does not apply, SoHip loses: -.31 +- .09. For the same m numbers the proposed memory
gains +.50 +- .19 if recalled by the sample, +.27 +- .23 by class, and archetypes gain +.18 +- .04.
FedProto is best with +.70 +- .05. Over classes per client, Dirichlet, participation and learning
rate (five seeds, 11 settings) SoHip gains between -.58 +- .79 and +.52 +- .45; one of these gains
is two errors (+.15 +- .07). FedMRL with nested features gains +.18 +- .30 in the table, and in the
sweeps (``--preset sweeps_fedmrl``) between -1.83 +- 1.38 and +2.10 +- .68, but +6.05 +- .82
with a fifth of the clients a round.

A part of the paper's scale (CIFAR-100, ten classes and 500 images at each of 20 clients, half of
them a round, 24 rounds of two epochs, three seeds): Standalone 40.6 +- 1.2%, SoHip +.25 +- .31, the
bias -.32 +- .17, recalled by the sample +.18 +- .42 (+1.01 +- .29 at round 8), FedMRL +.09 +- .49.
The paper's 100 clients and 500 rounds need a GPU.

In this setting of CIFAR-100 with 100 clients, a tenth of them a round, one author reports FedSSA at
57.3% against 53.0% of training alone in arXiv:2312.09006 (Table 2), and at 47.4% against 53.6% in
arXiv:2603.25614 (Table 1). ``--preset deciding`` asks what moves such numbers, at a size for one
core (CIFAR-100, ten classes and 200 images at each of 20 clients, half of them a round, 16 rounds):
initial weights, learning rate, augmentation, participation, and, as the column "best test round", a
protocol that lets the test examples choose the round. Measured in 58 minutes (seeds 100 to 102,
points gained over Standalone, +- standard error): nothing makes SoHip gain, -.02 +- .06 to +.26 +-
.39 in seven settings, and Standalone has 28.3 +- 1.4%, PyTorch's initial weights 12.9%. Its memory
recalled by the sample gains +.95 +- .37 from PyTorch's initial weights and +2.58 +- .18 at a
learning rate of .03, which is too high for Standalone (24.1%), and loses .39 +- .12 with
augmentation. FedSSA has between -1.54 +- 1.49 and +2.14 +- 1.77, and +.71 +- .24 with all clients a
round: neither of the author's two numbers. FedMRL, with nested features, loses 1.8 to 4.2 points
but from PyTorch's weights (-.10 +- .46); LG-FedAvg loses 3.0 to 7.1 (+.15 +- .18). The best test
round adds up to 1.9 points, and up to 1.6 to Standalone, so it moves ranks of methods that differ
by less. ``--preset clients100`` is the table of methods at the paper's size, without the sweeps.

The last part of the figure shows features of some clients' test examples in a plane (t-SNE),
without and with memory. The default data are scikit-learn's digits, four classes per client; other
datasets are found by name below the folder that HOPFED_DATA names, or with
``--set data=path/to/mnist.npz``.

Run it with ``hopfed run sohip --preset default --out sohip.h5``. The paper's setting, ``--preset
paper``, needs a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hopfed._lib.settings import require
from hopfed.experiments import Record, Table
from hopfed.experiments.shared import cell_tables
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import TABLE, Bench, Cell

SWEEPS = {
    "m": ("m", (8, 32, 128)),
    "classes": ("partition", ("classes:2", "classes:4", "classes:6", "classes:8")),
    "dirichlet": ("partition", ("dirichlet:0.1", "dirichlet:0.3", "dirichlet:0.5")),
    "participation": ("rate", (0.2, 0.5, 1.0)),
    "learning rate": ("lr", (0.003, 0.01, 0.03)),
    "initialisation": ("init", ("auto", "own")),
    "augmentation": ("augment", (False, True)),
}
ALONE = tuple(section for section in SWEEPS if section != "m")  # also play `standalone`
WORDS = {("augment", False): "no", ("augment", True): "yes", ("init", "auto"): "he"}
SECTIONS = (TABLE, "ablation", "mlp head", *SWEEPS)

# Row -> method and its options; {rounds} is the number of rounds.
METHODS = {
    "standalone": ("standalone", ""),
    "standalone-bias": ("standalone-bias", ""),
    "lg-fedavg": ("lg-fedavg", ""),
    "fedproto": ("fedproto", ""),
    "fedssa": ("fedssa", ""),
    "fedral": ("fedral", ""),
    "fedkd": ("fedkd", "rounds={rounds}"),
    "fedmrl": ("fedmrl", ""),
    "pfedes": ("pfedes", ""),
    "sohip": ("sohip", ""),
    "sohip not collective": ("sohip", "ablation=c"),
    "proposed: by class": ("sohip", "memory=class"),
    "proposed: by sample": ("sohip", "memory=sample"),
    "proposed: archetypes": ("sohip", "aggregation=hopfield"),
}
ABLATIONS = {"A": "ablation=a", "B": "ablation=b", "C": "ablation=c", "D": "ablation=d"}
MLP = {
    "standalone": ("sohip", "ablation=d,head=mlp"),
    "standalone-bias": ("standalone-bias", "head=mlp"),
    "sohip": ("sohip", "head=mlp"),
}
SWEPT = ("standalone", "fedmrl", "sohip")
DECIDING = (
    "standalone",
    "standalone-bias",
    "lg-fedavg",
    "fedssa",
    "fedmrl",
    "sohip",
    "proposed: by sample",
)
PICTURED = (f"{TABLE}/standalone", f"{TABLE}/sohip", f"{TABLE}/proposed: by sample")

# Values of Table 1 for CIFAR-100, 10 classes per client, by number of clients.
PAPER = {
    100: {
        "standalone": "53.59 ± .48",
        "fedproto": "53.54 ± .44",
        "fedssa": "47.39 ± .63",
        "fedral": "53.32 ± .46",
        "fedkd": "35.39 ± .82",
        "fedmrl": "60.26 ± .41",
        "pfedes": "50.02 ± .59",
        "sohip": "63.33 ± .36",
    },
    200: {
        "standalone": "47.35 ± .52",
        "fedproto": "45.25 ± .58",
        "fedssa": "42.98 ± .69",
        "fedral": "45.56 ± .51",
        "fedkd": "29.86 ± .91",
        "fedmrl": "48.77 ± .56",
        "pfedes": "46.71 ± .62",
        "sohip": "54.33 ± .42",
    },
    300: {
        "standalone": "42.92 ± .61",
        "fedproto": "43.90 ± .55",
        "fedssa": "41.04 ± .74",
        "fedral": "44.62 ± .59",
        "fedkd": "26.56 ± .96",
        "fedmrl": "42.39 ± .64",
        "pfedes": "42.44 ± .68",
        "sohip": "50.10 ± .48",
    },
}


@dataclass(frozen=True)
class Config(Bench):
    """Settings; see `hopfed.experiments.shared.cells.Bench`.

    Attributes
    ----------
    m : numbers in a memory.
    swept : rows of the sweeps, but that of `m`.
    """

    m: int = 64
    swept: tuple[str, ...] = SWEPT

    SECTIONS: ClassVar[tuple[str, ...]] = SECTIONS
    ALONE: ClassVar[tuple[str, ...]] = ALONE
    PICTURED: ClassVar[tuple[str, ...]] = PICTURED

    def __post_init__(self) -> None:
        known = ", ".join(METHODS)
        require(set(self.swept) <= set(METHODS), "swept", f"among {known}", ",".join(self.swept))
        super().__post_init__()

    def cells(self) -> tuple[Cell, ...]:
        """Cells of the requested sections, in their order."""
        table = METHODS if TABLE in self.sections else {}
        made = [self._row(TABLE, row, *table[row]) for row in table]
        if "ablation" in self.sections:
            made += [self._row("ablation", row, "sohip", o) for row, o in ABLATIONS.items()]
        if "mlp head" in self.sections:
            made += [self._row("mlp head", row, *MLP[row]) for row in MLP]
        for section in (s for s in self.sections if s in SWEEPS):
            setting, values = SWEEPS[section]
            rows = ("sohip",) if setting == "m" else self.swept
            for row in rows:
                for value in values:
                    made.append(self._swept(section, row, setting, value))
        return tuple(made)

    def _row(self, section: str, row: str, method: str, options: str) -> Cell:
        return self.cell(section, row, method=method, options=self._options(method, options))

    def _swept(self, section: str, row: str, setting: str, value: Any) -> Cell:
        method, options = METHODS[row]
        m = value if setting == "m" else self.m
        changes = {} if setting == "m" else {setting: value}
        at = WORDS.get((setting, value)) or str(value).rpartition(":")[2]
        options = self._options(method, options, m)
        return self.cell(section, row, at, method=method, options=options, **changes)

    def _options(self, method: str, options: str, m: int = 0) -> str:
        own = f"m={m or self.m}" if method == "sohip" else ""
        return ",".join(part for part in (options.format(rounds=self.rounds), own) if part)


CNNS = ("cnn-1", "cnn-2", "cnn-3", "cnn-4", "cnn-5")

PRESETS = {
    "quick": Config(clients=4, models=("cnn-4", "cnn-5"), examples=300, rounds=2, early=1, seeds=1),
    "default": Config(
        models=("cnn-3", "cnn-4", "cnn-5"),
        shares=(6.0, 1.0, 3.0),
        sections=(TABLE, "ablation", "mlp head", "m"),
    ),
    "deciding": Config(
        data="cifar100",
        partition="classes:10",
        clients=20,
        models=CNNS,
        examples=4000,
        shares=(6.0, 1.0, 3.0),
        rounds=16,
        early=8,
        every=4,
        rate=0.5,
        sections=(TABLE, "initialisation", "learning rate", "augmentation", "participation"),
        rows=DECIDING,
        swept=DECIDING,
        lax=True,
        seeds=3,
    ),
    "paper": Config(
        data="cifar100",
        partition="classes:10",
        clients=100,
        models=CNNS,
        rounds=500,
        early=50,
        every=10,
        rate=0.1,
        momentum=0.0,
        epochs=10,
        batch=512,
        sections=SECTIONS,
        seeds=3,
    ),
}

# Parts of the question that a CPU finishes in hours, each a row of experiments/README.md.
PRESETS |= {
    "sweeps": replace(
        PRESETS["default"],
        sections=("classes", "dirichlet", "participation", "learning rate"),
        seeds=5,
    ),
    "cifar100": replace(
        PRESETS["default"],
        data="cifar100",
        partition="classes:10",
        clients=20,
        models=CNNS,
        examples=10_000,
        rounds=24,
        early=8,
        every=4,
        rate=0.5,
        epochs=2,
        batch=64,
        rows=("standalone", "standalone-bias", "fedmrl", "sohip", "proposed: by sample"),
        sections=(TABLE,),
        seeds=3,
    ),
}
PRESETS["sweeps_fedmrl"] = replace(PRESETS["sweeps"], swept=("standalone", "fedmrl"))
PRESETS["clients100"] = replace(PRESETS["paper"], sections=(TABLE,), lax=True)

RECORD = Record(
    claim="memories of a few numbers, averaged by a server, help heterogeneous clients",
    source="SoHip, Table 1, Figs. 3-7",
    minutes={
        "quick": 0.5,
        "default": 25,
        "deciding": 58,
        "clients100": 18_000,
        "paper": 140_000,
        "sweeps": 67,
        "sweeps_fedmrl": 15,
        "cifar100": 38,
    },
)

run_round = _cells.play
summarise = _cells.summarise


def tables(config: Config, summary: dict[str, Any]) -> list[Table]:
    """The table of methods, with the paper's numbers if the setting is the paper's; the sweeps."""
    theirs = "cifar100" in config.data and config.partition == "classes:10" and config.rate == 0.1
    paper = PAPER.get(config.clients) if theirs else None
    return cell_tables.tables(config, summary, paper)
