"""FedH2L and its baselines on domains: peers learn from each other's predictions (Tables II-VIII).

Source: arXiv:2101.11296, Section IV; theory/NOTES.md, "Domains and public data".

Every node holds a domain and shows a share alpha of it to all nodes. ACC is a node's accuracy on
the test examples of all domains, WDP on its own domain, CDP on the other domains; all are means
over nodes. In a round a node of FedH2L learns from four minibatches (its own and one of each peer),
a node of AGG from a single one. The row `agg equal images` gives AGG as many images.

Sections, chosen by ``--set sections=methods,...``:

- `methods`: all methods; IND trains alone, AGG trains on own and all public examples.
- `averaging`: FedAvg and FedProx, with one architecture only. They train an epoch on all examples
  in a round, and so see several times the images of the other rows.
- `bandwidth`: these two after some rounds, and after as many as need the bytes of FedH2L's run
  ("matched"; of a ladder of rounds the largest that does not need more, at least one).
- `variants`: without KL, without projection, with PCGrad, unlabelled public data, random pairs.
- `local steps`: values of E; it is 1 in the table of methods.
- `alpha`: other shares of public examples.

The default is Rotated MNIST: 100 images of every class, rotated by 0, 20, 40 and 60 degrees. All
domains show the same images, split once, so that no domain trains on a test image. The dataset is
found below the folder that HOPFED_DATA names, or with ``--set data=mnist.npz``. The last round is
reported, because a node's own validation examples do not represent the other domains. The paper
evaluates "using the validation data every 50 rounds" and keeps "the model with the maximal ACC",
which is accuracy on all domains: ``--set choose=acc``, as in the preset `paper`, reports the round
with the highest mean over nodes. For that nodes would have to show each other their validation
examples, beyond those that are public.

Measured (default preset, 500 rounds, six seeds; ACC / WDP / CDP, +- deviation): IND 66.9 +- 1.7 /
91.7 / 58.6, AGG 86.2 +- 2.5 / 92.1 / 84.3, at equal images 87.0 +- 2.4 / 92.7 / 85.1, FedH2L 87.8
+- 2.2 / 91.9 / 86.4, FedMD 89.5 +- 2.4 / 92.3 / 88.6. This reproduces the paper's order of IND, AGG
and FedH2L, and its numbers for FedH2L within 1.4 points, in a twentieth of its 10,000 rounds. Half
of FedH2L's 1.5 points over AGG disappear when AGG sees as many images (+.76 +- .20 are left,
paired). FedMD is best (+2.5 +- .3), although the paper has it below AGG and FedH2L: it makes 200
steps before the first round, and also learns from its own public images.

Parts, after 200 rounds (three seeds; ACC, and the paired gain over AGG at equal images, +- standard
error): FedH2L 86.6, -.5 +- .3 (it leads only later); without KL 85.9, -1.1 +- .4; without
projection 86.3, -.7 +- .7; PCGrad 86.8, -.3 +- .2; unlabelled 86.0, -1.1 +- .3; random pairs 86.0,
-1.0 +- .2. So KL and labels of the public images give half a point each, projection and PCGrad are
equal, and no difference exceeds the spread of seeds (2 points). With 5% public images FedH2L has
84.0 and AGG at equal images 83.1; with 15% 87.5 and 88.2. So learning from peers helps when few
images are shared. Five and ten local steps a round have 87.2 and 87.5, and WDP 91.8 and 92.7; one
step has WDP 90.4.

Averaging of weights (preset `bandwidth`: one architecture, the round of the highest ACC of 500,
three seeds): FedAvg 92.8 +- 2.3 and FedProx 93.4 +- 1.4 with 148 and 214 MB a client, FedH2L 86.8
+- 2.3 with 1.6 MB. With the bytes of FedH2L's whole run they play 5 rounds, and have 82.8 +- 3.0
and 83.4 +- 3.5. So where all clients have one architecture and bytes do not matter, weights carry
more than predictions; byte for byte predictions are ahead.

PACS at 64 x 64, LeNet from scratch, 100 rounds, three seeds: IND 29.5 / 53.2 / 21.2, AGG at equal
images 46.9 / 57.5 / 42.4, FedH2L 46.5 / 52.6 / 44.2. FedH2L is better on other domains and worse on
the own domain. The paper does not say which weights its networks start from.

Run it with ``hopfed run fedh2l --preset default --out fedh2l.h5``. PACS instead, 64 x 64, with one
architecture or several: ``--set data=pacs --set partition=domain --set clients=4`` and ``--set
models=resnet-18`` or ``--set models=resnet-18,resnet-34,mobilenet-v2``; ``data=office-home``
likewise. The last part of the figure shows the features of all domains in node 0's model (Fig. 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hopfed._lib.settings import require
from hopfed.experiments import Arrays, Record, Table
from hopfed.experiments.fl import DOMAINS, by_domain
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cell_tables import percent
from hopfed.experiments.shared.cells import TABLE, Bench, Cell, Reading
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.rounds import FederationState

EQUAL = "agg equal images"
ALPHAS = (0.05, 0.15)
STEPS = (5, 10)
AVERAGING, BANDWIDTH = "averaging", "bandwidth"
AVERAGES = ("fedavg", "fedprox")
LADDER = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500)  # rounds
SECTIONS = (TABLE, AVERAGING, BANDWIDTH, "variants", "local steps", "alpha")

VARIANTS = {
    "no KL": "kl=false",
    "no projection": "conflict=ignore",
    "PCGrad": "conflict=pcgrad",
    "unlabelled": "labelled=false",
    "random pairs": "pairs=true",
}

# ACC / WDP / CDP of Tables II, V and VI, Rotated MNIST, by cell.
PAPER = {
    "methods/ind": "68.45 / 92.56 / 60.47",
    "methods/agg": "85.25 / 92.00 / 83.00",
    "methods/fedmd": "85.09 / 91.17 / 83.06",
    "methods/fedh2l": "89.13 / 93.33 / 87.72",
    "variants/no KL": "86.79 / 91.67 / 84.50",
    "variants/no projection": "88.46 / 92.67 / 87.45",
    "variants/PCGrad": "88.34 / 92.67 / 86.89",
    "variants/random pairs": "88.21 / 92.17 / 86.89",
    "alpha/agg/0.05": "85.13 / 92.33 / 82.73",
    "alpha/fedh2l/0.05": "86.79 / 92.83 / 85.11",
    "alpha/agg/0.15": "87.83 / 92.36 / 86.22",
    "alpha/fedh2l/0.15": "89.63 / 92.67 / 88.61",
}
ROTATED = "rotation:0,20,40,60:100:same"
PICTURED = (f"{TABLE}/ind", f"{TABLE}/{EQUAL}", f"{TABLE}/fedh2l")


@dataclass(frozen=True)
class Config(Bench):
    """Settings; see `hopfed.experiments.shared.cells.Bench`.

    Attributes
    ----------
    alpha : share of a node's examples that all nodes know.
    """

    data: str = "mnist"
    partition: str = ROTATED
    clients: int = 4
    models: tuple[str, ...] = ("lenet",)
    shares: tuple[float, ...] = (75.0, 10.0, 15.0)
    domains: bool = True
    rounds: int = 500
    early: int = 50
    optimizer: str = "amsgrad"
    lr: float = 1e-3
    weight_decay: float = 1e-4
    every: int = 50
    choose: str = "last"
    alpha: float = 0.10

    SECTIONS: ClassVar[tuple[str, ...]] = SECTIONS
    COMPARED: ClassVar[tuple[str, ...]] = ("ind", EQUAL)
    PICTURED: ClassVar[tuple[str, ...]] = PICTURED
    PLANE: ClassVar[tuple[str, str]] = ("domains", "pca")

    def __post_init__(self) -> None:
        require(self.domains, "domains", "true, because domains are compared", self.domains)
        whole = BANDWIDTH not in self.sections or AVERAGING in self.sections
        require(whole, "sections", f"with {AVERAGING} where {BANDWIDTH} is", self.sections)
        super().__post_init__()

    def cells(self) -> tuple[Cell, ...]:
        """Cells of the requested sections, in their order."""
        made = [self.cell(TABLE, row, **what) for row, what in self._methods(self.alpha).items()]
        if AVERAGING in self.sections:
            made += [self.cell(AVERAGING, name, method=name) for name in AVERAGES]
        share = f"public={self.alpha:g}"
        if "variants" in self.sections:
            for row, options in VARIANTS.items():
                own = ",".join(part for part in (share, options) if part)
                made.append(self.cell("variants", row, method="fedh2l", options=own))
        if "local steps" in self.sections:
            for E in STEPS:
                own = f"{share},steps={E}"
                made.append(self.cell("local steps", "fedh2l", E, method="fedh2l", options=own))
        if "alpha" in self.sections:
            for row in ("agg", EQUAL, "fedh2l"):
                for alpha in ALPHAS:
                    what = self._methods(alpha)[row]
                    made.append(self.cell("alpha", row, f"{alpha:g}", **what))
        return tuple(made)

    def readings(self) -> tuple[Reading, ...]:
        """FedAvg and FedProx after some rounds."""
        due = [t for t in LADDER if t <= self.rounds] if BANDWIDTH in self.sections else []
        return tuple(
            Reading(BANDWIDTH, name, str(t), f"{AVERAGING}/{name}", "", t)
            for name in AVERAGES
            for t in due
        )

    def score(
        self, readings: Sequence[Reading], method: Any, state: FederationState
    ) -> list[np.ndarray]:
        """ACC of each node."""
        return [by_domain(method, state)["domains/acc"]] * len(readings)

    def _methods(self, alpha: float) -> dict[str, dict[str, str]]:
        """Row -> method and options."""
        share, images = f"public={alpha:g}", self.clients * self.batch
        rows = {
            "ind": ("agg", "public=0"),
            "agg": ("agg", share),
            EQUAL: ("agg", f"{share},images={images}"),
            "fedmd": ("fedmd", share),
            "fedh2l": ("fedh2l", share),
        }
        return {row: {"method": m, "options": o} for row, (m, o) in rows.items()}


PRESETS = {
    "quick": Config(
        data="digits",
        partition="rotation:0,20,40:20:same",
        clients=3,
        models=("mlp",),
        rounds=6,
        early=3,
        every=3,
        seeds=1,
    ),
    "default": Config(),
    "bandwidth": Config(choose="acc", sections=(TABLE, AVERAGING, BANDWIDTH), seeds=3),
    "paper": Config(rounds=10_000, early=500, choose="acc", sections=SECTIONS),
}

_SHORT = replace(PRESETS["default"], rounds=200, early=100, every=100, seeds=3)
_PAIR = ("ind", "agg equal images", "fedh2l")
# Parts of the question that a CPU finishes in hours, each a row of experiments/README.md.
PRESETS |= {
    "parts": replace(
        _SHORT,
        rows=(
            "ind",
            "agg",
            *_PAIR[1:],
            "no KL",
            "no projection",
            "PCGrad",
            "unlabelled",
            "random pairs",
        ),
        sections=(TABLE, "variants", "alpha"),
    ),
    "steps": replace(_SHORT, rows=_PAIR, sections=(TABLE, "local steps")),
    "pacs": replace(
        PRESETS["default"], data="pacs", partition="domain", rounds=100, rows=_PAIR, seeds=3
    ),
}

RECORD = Record(
    claim="predictions on a few public examples improve models on each other's domains",
    source="FedH2L, Tables II-VIII",
    minutes={
        "quick": 0.3,
        "default": 25,
        "bandwidth": 50,
        "paper": 2000,
        "parts": 18,
        "steps": 11,
        "pacs": 8,
    },
)

run_round = _cells.play


def scores(config: Config, arrays: Arrays) -> dict[str, np.ndarray]:
    """ACC, WDP and CDP of every cell, (seeds, 3), as means over nodes."""
    found = {}
    for key, a in _cells.by_cell(config, arrays).items():
        best, _ = _cells.counted_round(config, a)
        parts = [a[f"domains/{name}"][np.arange(len(best)), best].mean(axis=1) for name in DOMAINS]
        found[key] = np.stack(parts, axis=1)
    return found


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """ACC, WDP, CDP, and the paired gain in ACC over `agg equal images` with standard error."""
    found = scores(config, arrays)
    base = found[f"{TABLE}/{EQUAL}"]
    summary = _cells.summarise(config, arrays)
    for key, values in found.items():
        for i, name in enumerate(DOMAINS):
            summary[f"{key}/{name}"] = mean_and_sd(values[:, i])
        summary[f"{key}/gain"] = _cells.mean_and_error(values[:, 0] - base[:, 0])
    return summary | _matched(config, arrays)


def _matched(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Round at which FedAvg and FedProx need the bytes of FedH2L, and their ACC there."""
    cells = _cells.by_cell(config, arrays)
    found: dict[str, Any] = {}
    own = f"{TABLE}/fedh2l"
    for name in AVERAGES if own in cells else ():
        read = [r for r in _cells.readings_of(config) if (r.section, r.row) == (BANDWIDTH, name)]
        most = _megabytes(cells[own])[-1]
        spent = _megabytes(cells[read[0].base]) if read else np.zeros(0)
        for reading in [r for r in read if r.round == 1 or spent[r.round - 1] <= most]:
            found[f"{BANDWIDTH}/{name}/matched"] = reading.round
            values = _cells.read(config, arrays)[reading.key]
            found[f"{BANDWIDTH}/{name}/acc"] = mean_and_sd(values)
    return found


def _megabytes(arrays: Arrays) -> np.ndarray:
    """MB both ways of a node up to each round, in the first seed."""
    both = arrays["traffic/up"] + arrays["traffic/down"]
    return np.asarray(both[0].mean(axis=1).cumsum() / 1e6)


def tables(config: Config, summary: dict[str, Any]) -> list[Table]:
    """One table per section, with the paper's numbers if the setting is the paper's."""
    theirs = config.partition == ROTATED and config.alpha == 0.10 and config.models == ("lenet",)
    columns = ["ACC", "WDP", "CDP", "ACC gained over agg equal images", "kB/round"]
    made = []
    for section in dict.fromkeys(cell.section for cell in _cells.cells_of(config)):
        rows = []
        for cell in (c for c in _cells.cells_of(config) if c.section == section):
            s = {n: summary[f"{cell.key}/{n}"] for n in (*DOMAINS, "gain", "megabytes", "round")}
            kilobytes = 1e3 * s["megabytes"][0] / s["round"][0]
            row = [percent(s[n], 1) for n in DOMAINS]
            row += [percent(s["gain"], 2, sign=True), f"{kilobytes:.3g}"]
            rows.append((f"{cell.row} {cell.at}".strip(), *row))
            if theirs:
                rows[-1] += (PAPER.get(cell.key, ""),)
        made.append(Table(section, tuple(columns + ["paper"] * theirs), tuple(rows)))
    rows = []
    for name in AVERAGES:
        if f"{BANDWIDTH}/{name}/acc" in summary:
            at = summary[f"{BANDWIDTH}/{name}/matched"]
            rows.append((name, str(at), percent(summary[f"{BANDWIDTH}/{name}/acc"], 1)))
    matched = [Table("bytes of fedh2l", ("rounds", "ACC"), tuple(rows))] if rows else []
    return made + matched
