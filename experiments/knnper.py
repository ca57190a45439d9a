"""kNN-Per, its baselines, and the client's label prior (Tables 2-3, Figs. 1-14).

Source: arXiv:2111.09360; theory/NOTES.md, "kNN-Per interpolation" and "Label prior".

A client that sees few classes gains much from any memory of these classes. `fedavg-prior`, the
global model times the frequencies of the client's labels, uses no neighbours at all. The gain from
neighbours shows where the prior cannot help: with equal labels and other features, in the section
`feature shift`. The whole table on such data: ``--set partition=rotation:0,72,144,216,288``, or the
domains of PACS, ``--set data=pacs --set partition=domain --set clients=4``.

FedAvg, its prior, FedAvg+ and the rows of kNN-Per only read one federation in different ways, so in
every setting they share one training; the costs of a row are what it would cost alone.

Sections, chosen by ``--set sections=methods,...``. Those with a star are readings of one trained
model, by other settings of kNN-Per:

- `methods`: all methods on one task; gains over `fedavg` are paired by seed.
- `heterogeneity`: other Dirichlet concentrations.
- `feature shift`: equal labels and other features, by the partition `shift`.
- `unseen clients`: a fifth of the clients never takes part; their accuracy is shown separately.
- `k`*, `sigma`*, `lambda`* (kernels of the paper and of the authors' program, probabilities and
  logits), `capacity`* (share of a client's examples that its memory keeps, by kind of memory).
- `weight by size`* (Figs. 2, 8): stores of some numbers of examples, and weights lambda that all
  clients share. The summary has the best weight of each client on its test examples, mean over
  clients with stores of one size, and its rank correlation with the size.
- `capacity by heterogeneity`* (Fig. 6): the share of its examples that a memory keeps, at the
  concentrations of `heterogeneity`, which must be among the sections.
- `capacity by method`* (Fig. 10): a client has a share of its examples as kNN-Per's memory, or to
  tune FedAvg+ on. The paper's third, Ditto, trains on its share over all rounds: no reading.
- `global model`*: accuracy of the global model, of neighbours alone, and of the mixture, by round.
- `hardware`*: half of the clients are weak and keep a share 1/2 - x of their examples, the others
  1/2 + x; neighbours alone, and mixed.
- `stream`*: clients keep receiving examples, from some step on those of another client. They
  replace old by new ones (fifo), keep all (concatenate), or keep the first ones (fixed).

Measured (default preset: digits, ten clients by Dirichlet(.3), LeNet; six paired seeds, accuracy +-
deviation, last round). FedAvg has 91.9 +- 3.2, kNN-Per 95.5 +- 1.7, and the prior alone 95.4 +-
1.4: under label shift neighbours add nothing to the prior. kNN-Per's gain over FedAvg grows with
heterogeneity, as in the paper, from +1.4 points at concentration 10 to +12.1 at .1, where the prior
reaches 93.4 and kNN-Per 95.5. pFedGP is best with 96.5 +- 1.2. Ditto and FedAvg+ fall below FedAvg
at this learning rate, which was not tuned for each method. lambda tuned on a handful of validation
examples costs a point; .5 for all clients has 96.6 +- 1.1. At a twentieth of the capacity, learned
prototypes lose a point, randomly chosen neighbours two and a half.

Equal labels and other features (ten clients of five rotations): FedAvg 53.4 +- 4.1, the prior 53.5,
training alone 76.9 +- 4.2, kNN-Per 79.2 +- 2.7 (+25.8 +- 1.7 over FedAvg, paired), Hopfield
retrieval 78.3, class archetypes 67.8. Clients that never took part: FedAvg 85.6 +- 7.1, the prior
91.6, kNN-Per 94.2 +- 2.3, pFedGP 96.4. When a client's stream changes to another client's examples,
a fixed store falls from 95.1 to 80.7; fifo has 96.2 before, 92.5 just after and 95.3 at the end,
concatenate 96.6, 92.0 and 95.9.

Section `hardware`: neighbours alone fall from 92.3 +- 1.3 (x = 0) to 86.3 +- 2.6 (x = .4), as in
the paper. At x = .5 they have 93.4 +- 2.3, because weak clients then keep nothing and use the
global model. Mixed with it (lambda from validation) nothing is lost: 94.2 to 95.0. Neighbours are
better on features of a better global model (Fig. 3): alone they have 80.9 +- 1.4 after one round,
when the model has 16.1; 88.5 after five (67.5); 94.5 +- .8 after twenty (91.9).

CIFAR-10, ten clients with 8,000 images in all, 30 rounds of LeNet, three paired seeds: FedAvg 36.5
+- 1.7, training alone 54.7, kNN-Per 58.1 +- .6, the prior 59.8 +- .6. At concentrations .1, .3, 1
and 10 kNN-Per gains +43.0 +- 4.2, +21.6 +- 1.3, +5.2 +- 1.2 and +.1 +- .3 points over FedAvg, and
the prior +43.3, +23.3, +8.9 and +1.2. So with the features of such a weak model neighbours show
only the label shift, and not all of it. CIFAR-100 by pachinko, 10,000 images, otherwise equal:
FedAvg 10.0 +- .7, training alone 12.6 +- 1.7, kNN-Per 17.4 +- 1.7, the prior 19.8 +- 1.2; 40 more
rounds improve none of them (9.6, 10.3, 15.9, 18.8).

PACS, four clients of one domain each, 3,000 images, 20 rounds, three seeds: FedAvg 39.7 +- 2.0;
over it the prior gains .7 +- .4, kNN-Per 3.0 +- 1.6, Hopfield retrieval 3.8 +- 1.0, training alone
4.3 +- 1.0. Next character of Shakespeare, 15 speakers of 11 to 5,600 examples, an LSTM of 64 units,
16 rounds: FedAvg 36.0 +- 2.8, kNN-Per 1.5 +- .6 points below it, the prior 3.3 +- .3 below. The 23
speakers with fewer than 60 validation examples lose 2.8 points on average, the other 22 lose .2 +-
.3, because accuracy on a handful of examples chooses a wrong weight.

The posterior mean of lambda (``tune=posterior``) instead of the best lambda on validation examples:
95.5 +- 1.4 on digits, the same; 80.0 +- 2.5 instead of 79.2 +- 2.7 with shifted features (six seeds
each); 35.8 +- 3.1 instead of 34.5 +- 3.0 for the speakers, as FedAvg.

In trials (validation accuracy, lambda by leave-one-out, three paired seeds) kNN-Per gains +9.5 to
+15 points over the prior on rotations of 2,000 images of MNIST, and +.3 to +11 on the domains of
PACS (1,200 images, 15 rounds). The gain is smaller with a better global model: after 60 rounds on
rotated digits +5.3 and +.6 (two seeds).

Clustered FL is FedAvg to the digit in the table of digits, because it never splits: the largest
update of a client is 1.31 in round 1 and below .88 after (seed 0), and the programs' ``tol_2`` is
1.6. Tolerances at which it splits are worse here, where clients differ in their labels: validation
92.0 with ``tol_1=.3,tol_2=.8`` and 91.6 with ``tol_1=.35,tol_2=.5``, against 95.0 (two seeds).

The sections of Figs. 2, 6, 8 and 10 are ``--preset sizes``, about eight minutes. Over six seeds the
best weight of the neighbours is .3 where a client keeps 5 examples and .5 where it keeps 250, so it
grows with size as in the paper; a weight of .7 costs 26 points with 5 examples and 1.5 with 250.
With a twentieth of its examples kNN-Per loses 6 points at concentration .1, and 1 at 1 and 10; it
is above FedAvg+ at every share and concentration.

Run it with ``hopfed run knnper --preset default --out knnper.h5``. The paper's setting, ``--preset
paper``, needs a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hopfed._lib.settings import require, with_settings
from hopfed.experiments import Arrays, Record
from hopfed.experiments.shared import cell_tables
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared import store_sizes as _sizes
from hopfed.experiments.shared import stream as _stream
from hopfed.experiments.shared.cells import TABLE, Bench, Cell, Reading
from hopfed.experiments.shared.store_sizes import WEIGHTS
from hopfed.federation.rounds import FederationState

BY_ALPHA, BY_METHOD = "capacity by heterogeneity", "capacity by method"
HETEROGENEITY, SHIFT, UNSEEN, STREAM = "heterogeneity", "feature shift", "unseen clients", "stream"
QUALITY = "global model"
QUALITIES = {"global model": "lam=0", "neighbours": "lam=1", "knn-per": "lam=-1"}
TRAINED = (1, 2, 3, 5, 10, 20, 50, 100, 200)  # rounds at which the global model is read
CONCENTRATIONS = (0.1, 1.0, 10.0)
SWEPT = ("fedavg", "fedavg-prior", "knn-per")
PROPOSED = ("proposed: hopfield", "proposed: archetypes")
BESIDE = ("standalone", *SWEPT, *PROPOSED)  # on shifts of features
OUTSIDE = ("fedavg", "fedavg-prior", "fedavg+", "pfedgp", "knn-per", "proposed: hopfield")
SHARE = 0.2  # share of the clients that are unseen

METHODS = {
    "standalone": ("standalone", ""),
    "fedavg": ("fedavg", ""),
    "fedavg-prior": ("fedavg-prior", ""),
    "fedavg+": ("fedavg+", ""),
    "clustered-fl": ("clustered-fl", ""),
    "ditto": ("ditto", ""),
    "fedrep": ("fedrep", ""),
    "apfl": ("apfl", ""),
    "pfedgp": ("pfedgp", ""),
    "knn-per": ("knn-per", ""),
    "proposed: hopfield": ("knn-per", "store=hopfield"),
    "proposed: archetypes": ("knn-per", "store=archetypes"),
}
CAPACITIES = (0.05, 0.1, 0.25, 0.5, 1.0)
LEARNERS = {"knn-per": "knn-per", "fedavg+": "fedavg+"}
READ = f"{TABLE}/knn-per"  # the cell whose trained model is used for readings

# Section -> (row -> options), the swept setting, and its values.
SWEEPS: dict[str, tuple[dict[str, str], str, tuple[float, ...]]] = {
    "k": ({"knn-per": ""}, "k", (1, 3, 10, 30, 100)),
    "sigma": ({"knn-per": ""}, "sigma", (0.1, 0.3, 1, 3, 10)),
    "lambda": (
        {
            "paper's kernel": "",
            "program's kernel": "kernel=program,k=7",
            "program's, logits": "kernel=program,k=7,mixing=logits",
        },
        "lam",
        (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1),
    ),
    "capacity": (
        {
            "neighbours": "",
            "prototypes": "store=prototypes",
        },
        "capacity",
        (0.05, 0.1, 0.25, 0.5, 1),
    ),
    "hardware": (
        {
            "neighbours": "capacity=0.5,lam=1",
            "knn-per": "capacity=0.5",
        },
        "spread",
        (0, 0.1, 0.2, 0.3, 0.4, 0.5),
    ),
}
# Rule of the store -> options. The store is full at the start; lambda is .5 before and after.
RULES = {
    "fifo": "rule=fifo,capacity=0.5,lam=0.5",
    "concatenate": "rule=concatenate,lam=0.5",
    "fixed": "rule=fixed,capacity=0.5,lam=0.5",
    "fedavg": "rule=fixed,capacity=0.5,lam=0",
}
BY_SIZE = (WEIGHTS, BY_ALPHA, BY_METHOD)
SECTIONS = (TABLE, HETEROGENEITY, SHIFT, UNSEEN, *SWEEPS, *BY_SIZE, QUALITY, STREAM)


@dataclass(frozen=True)
class Config(Bench):
    """Settings; see `hopfed.experiments.shared.cells.Bench`.

    kNN-Per chooses the weight of its memory on the validation examples. So the last round is
    reported, not the round with the best validation accuracy.

    Attributes
    ----------
    shift : partition of the section `feature shift`; the clients are a multiple of its domains.
    steps, before : number of steps of a stream, and of those before its examples change.
    """

    choose: str = "last"
    shift: str = "rotation:0,72,144,216,288"
    steps: int = 10
    before: int = 4

    SECTIONS: ClassVar[tuple[str, ...]] = SECTIONS
    COMPARED: ClassVar[tuple[str, ...]] = ("fedavg",)

    def __post_init__(self) -> None:
        require(0 < self.before < self.steps, "before", "from 1 to below steps", self.before)
        needed = {BY_ALPHA, BY_METHOD} & set(self.sections)
        whole = not needed or HETEROGENEITY in self.sections
        require(whole, "sections", f"with {HETEROGENEITY} where these are", self.sections)
        super().__post_init__()

    def cells(self) -> tuple[Cell, ...]:
        """Cells that are trained."""
        rows = {row: {"method": m, "options": o} for row, (m, o) in METHODS.items()}
        made = [self.cell(TABLE, row, **what) for row, what in rows.items()]
        if HETEROGENEITY in self.sections:
            for row in (*SWEPT, *(["fedavg+"] if BY_METHOD in self.sections else [])):
                for alpha in CONCENTRATIONS:
                    where = {"partition": f"dirichlet:{alpha:g}"}
                    made.append(self.cell(HETEROGENEITY, row, f"{alpha:g}", **rows[row], **where))
        for section, compared, changes in (
            (SHIFT, BESIDE, {"partition": self.shift}),
            (UNSEEN, OUTSIDE, {"unseen": SHARE}),
        ):
            if section in self.sections:
                made += [self.cell(section, row, **rows[row], **changes) for row in compared]
        return tuple(made)

    def readings(self) -> tuple[Reading, ...]:
        """Readings of the model of `knn-per` after training or, in one section, during it."""
        made, last = [], self.rounds
        for section in (s for s in self.sections if s in SWEEPS):
            rows, setting, values = SWEEPS[section]
            for row, options in rows.items():
                for value in values:
                    own = ",".join(part for part in (options, f"{setting}={value:g}") if part)
                    made.append(Reading(section, row, f"{value:g}", READ, own, last))
        made += self._by_size()
        if QUALITY in self.sections:
            for row, own in QUALITIES.items():
                at = (t for t in TRAINED if t <= last)
                made += [Reading(QUALITY, row, str(t), READ, own, t) for t in at]
        if STREAM in self.sections:
            for row, own in RULES.items():
                made += [Reading(STREAM, row, str(t), READ, own, last) for t in range(self.steps)]
        return tuple(made)

    def _by_size(self) -> list[Reading]:
        """Readings with fewer examples: by weight, by concentration, by method."""
        made, last = [], self.rounds
        if WEIGHTS in self.sections:
            made += _sizes.readings(READ, last)
        for section in (s for s in (BY_ALPHA, BY_METHOD) if s in self.sections):
            for row in LEARNERS if section == BY_METHOD else ("knn-per",):
                for alpha in CONCENTRATIONS:
                    base = f"{HETEROGENEITY}/{row}/{alpha:g}"
                    name = f"{row} at {alpha:g}" if section == BY_METHOD else f"alpha {alpha:g}"
                    made += [
                        Reading(section, name, f"{share:g}", base, f"capacity={share:g}", last)
                        for share in CAPACITIES
                    ]
        return made

    def score(
        self, readings: Sequence[Reading], method: Any, state: FederationState
    ) -> list[np.ndarray]:
        """Test accuracy (clients,) by each reading; a stream is played once for all its steps."""
        found = super().score([r for r in readings if r.section != STREAM], method, state)
        for row, own in RULES.items():
            if any((r.section, r.row) == (STREAM, row) for r in readings):
                made = with_settings(method, own.split(","))
                found += [*_stream.scores(made, state, self.steps, self.before)]
        return found


PRESETS = {
    "quick": Config(
        clients=4,
        partition="dirichlet:0.3",
        models=("mlp",),
        examples=300,
        rounds=2,
        early=1,
        lr=0.05,
        shift="rotation:0,180",
        sections=(TABLE, "k", "hardware", QUALITY, STREAM),
        seeds=1,
    ),
    "default": Config(
        partition="dirichlet:0.3",
        models=("lenet",),
        lr=0.03,
        shares=(6.0, 1.0, 3.0),
        sections=tuple(s for s in SECTIONS if s not in BY_SIZE),
    ),
    "sizes": Config(
        partition="dirichlet:0.3",
        models=("lenet",),
        lr=0.03,
        shares=(6.0, 1.0, 3.0),
        every=20,
        rows=("fedavg", "fedavg+", "knn-per"),
        sections=(TABLE, HETEROGENEITY, *BY_SIZE),
    ),
    "paper": Config(
        data="cifar10",
        partition="dirichlet:0.3",
        clients=200,
        unseen=0.2,
        models=("mobilenet-v2",),
        norm="batch",
        rounds=200,
        early=20,
        every=10,
        batch=64,
        sections=SECTIONS,
        seeds=3,
    ),
}

_FEW = replace(
    PRESETS["default"],
    every=5,
    rows=("standalone", "fedavg", "fedavg-prior", "knn-per"),
    sections=(TABLE,),
    seeds=3,
)
# Parts of the question that a CPU finishes in hours, each a row of experiments/README.md.
PRESETS |= {
    "cifar10": replace(
        _FEW,
        data="cifar10",
        examples=8000,
        rounds=30,
        early=10,
        sections=(TABLE, HETEROGENEITY),
    ),
    "pacs": replace(
        _FEW,
        data="pacs",
        partition="domain",
        clients=4,
        examples=3000,
        rows=(*_FEW.rows, "proposed: hopfield"),
    ),
    "cifar100": replace(
        _FEW, data="cifar100", partition="pachinko", examples=10_000, rounds=30, early=10
    ),
    "shakespeare": replace(
        _FEW,
        data="shakespeare",
        partition="writer",
        clients=15,
        models=("lstm:64",),
        examples=300_000,
        rounds=16,
        early=8,
        every=8,
        batch=64,
        optimizer="adam",
        lr=0.01,
        rows=SWEPT,
    ),
}

RECORD = Record(
    claim="a memory of its own examples makes a global model personal",
    source="kNN-Per, Tables 2-3, Figs. 1-14",
    minutes={
        "quick": 0.3,
        "default": 16,
        "sizes": 6,
        "paper": 6000,
        "cifar10": 44,
        "pacs": 23,
        "cifar100": 14,
        "shakespeare": 45,
    },
)


run_round = _cells.play_quietly
tables = cell_tables.tables


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Means and deviations; gains are over `fedavg`. And the best weights by size of the store."""
    summary = _cells.summarise(config, arrays)
    if WEIGHTS not in config.sections or READ not in {c.key for c in _cells.cells_of(config)}:
        return summary
    return summary | _sizes.summarise(config, arrays, READ)
