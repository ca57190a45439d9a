"""kNN-Per, its baselines, and the client's label prior (`fedavg-prior`, without neighbours).

See theory/NOTES.md, "kNN-Per interpolation" and "Label prior". Sections; those with a star are
readings of one trained model: `methods`; `heterogeneity`, by Dirichlet concentration; `feature
shift`, equal labels, by `shift`; `unseen clients`, of whom a fifth never takes part; `k`*,
`sigma`*, `lambda`*, `capacity`* (share of examples that a memory keeps); `weight by size`* (Figs.
2, 8), best weight of the neighbours by size of the store; `global model`*, by round of training;
`hardware`*, where half of the clients keep a share 1/2 - x of their examples, the others 1/2 + x;
`stream`* (Fig. 14), where after `before` batches examples change to those of the next client, and
stores replace old ones (fifo), keep all (concatenate), or keep the first (fixed).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import with_settings
from hopfed.experiments import Arrays
from hopfed.experiments.settings import within
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import TABLE, Bench, Reading, measure_round, panels, tables
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import EVERYONE
from hopfed.federation.rounds import FederationState

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

HETEROGENEITY, SHIFT, UNSEEN, STREAM = "heterogeneity", "feature shift", "unseen clients", "stream"
WEIGHTS, QUALITY = "weight by size", "global model"
QUALITIES = {"global model": "lam=0", "neighbours": "lam=1", "knn-per": "lam=-1"}
TRAINED = (1, 2, 3, 5, 10, 20, 50, 100, 200)  # rounds at which the global model is read
CONCENTRATIONS = (0.1, 1.0, 10.0)
SWEPT = ("fedavg", "fedavg-prior", "knn-per")
_PLAIN = (
    "standalone", "fedavg", "fedavg-prior", "fedavg+", "clustered-fl", "ditto", "fedrep", "apfl",
    "pfedgp", "knn-per",
)  # fmt: skip
METHODS = {
    **{name: (name, "") for name in _PLAIN},
    "proposed: hopfield": ("knn-per", "store=hopfield"),
}
BESIDE = ("standalone", *SWEPT, "proposed: hopfield")  # features shift
OUTSIDE = ("fedavg", "fedavg-prior", "fedavg+", "pfedgp", "knn-per", "proposed: hopfield")
SHARE = 0.2  # share of the clients that are unseen
CAPACITIES = (0.05, 0.1, 0.25, 0.5, 1.0)
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
    "capacity": ({"neighbours": "", "prototypes": "store=prototypes"}, "capacity", CAPACITIES),
    "hardware": (
        {"neighbours": "capacity=0.5,lam=1", "knn-per": "capacity=0.5"},
        "spread",
        (0, 0.1, 0.2, 0.3, 0.4, 0.5),
    ),
}
RULES = {  # of the store -> options; it is full at the start, lambda is .5 before and after
    "fifo": "rule=fifo,capacity=0.5,lam=0.5",
    "concatenate": "rule=concatenate,lam=0.5",
    "fixed": "rule=fixed,capacity=0.5,lam=0.5",
    "fedavg": "rule=fixed,capacity=0.5,lam=0",
}
SIZES = (5, 10, 25, 50, 100, 250)  # of stores; a client with fewer examples keeps them all
SHARED_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SECTIONS = (TABLE, HETEROGENEITY, SHIFT, UNSEEN, *SWEEPS, WEIGHTS, QUALITY, STREAM)


class Config(Bench):
    """Settings.

    kNN-Per chooses the weight of its memory on the validation examples. So the last round is
    reported, not the round with the best validation accuracy.
    """

    choose: str = "last"
    shift: Annotated[str, "partition of `feature shift`"] = "rotation:0,72,144,216,288"
    steps: Annotated[int, "of a stream"] = 10
    before: Annotated[int, lambda s: within(f"[1, {s.steps})"), "steps before the change"] = 4

    SECTIONS: ClassVar[tuple[str, ...]] = SECTIONS
    COMPARED: ClassVar[tuple[str, ...]] = ("fedavg",)

    def planned(self) -> Iterator[Any]:
        """Cells that are trained."""
        rows = {row: {"method": m, "options": o} for row, (m, o) in METHODS.items()}
        for row, what in rows.items():
            yield TABLE, row, "", what
        for row, alpha in product(SWEPT, CONCENTRATIONS):
            where = {"partition": f"dirichlet:{alpha:g}"}
            yield HETEROGENEITY, row, f"{alpha:g}", rows[row] | where
        for row in BESIDE:
            yield SHIFT, row, "", rows[row] | {"partition": self.shift}
        for row in OUTSIDE:
            yield UNSEEN, row, "", rows[row] | {"unseen": SHARE}

    def readings(self) -> tuple[Reading, ...]:
        """Readings of the model of `knn-per` after training or, in one section, during it."""
        made, last = [], self.rounds
        for section in (s for s in self.sections if s in SWEEPS):
            rows, name, values = SWEEPS[section]
            for (row, options), value in product(rows.items(), values):
                own = ",".join(part for part in (options, f"{name}={value:g}") if part)
                made.append(Reading(section, row, f"{value:g}", READ, own, last))
        for n, lam in product(SIZES, SHARED_WEIGHTS) if WEIGHTS in self.sections else ():
            own, at = f"capacity={n},lam={lam:g}", f"{lam:g}"
            made.append(Reading(WEIGHTS, f"{n} examples", at, READ, own, last))
        if QUALITY in self.sections:
            for row, own in QUALITIES.items():
                at_rounds = (t for t in TRAINED if t <= last)
                made += [Reading(QUALITY, row, str(t), READ, own, t) for t in at_rounds]
        if STREAM in self.sections:
            for row, own in RULES.items():
                made += [Reading(STREAM, row, str(t), READ, own, last) for t in range(self.steps)]
        return tuple(made)

    def score(
        self, readings: Sequence[Reading], method: Any, state: FederationState
    ) -> list[np.ndarray]:
        """Test accuracy (clients,) by each reading; a stream is played once for all its steps."""
        found = super().score([r for r in readings if r.section != STREAM], method, state)
        for row, own in RULES.items():
            if any((r.section, r.row) == (STREAM, row) for r in readings):
                made = with_settings(method, own.split(","))
                found += [*_streamed(made, state, self.steps, self.before)]
        return found


def _streamed(method: Any, state: FederationState, steps: int, before: int) -> np.ndarray:
    """Test accuracy (steps, clients) after the batch of each step.

    The method must have a `capacity` of half of the examples, so that the store is full at the
    start, and a given lambda, because no validation examples fit both sides of the change.
    """
    from hopfed.neural.training.evaluation import correct

    down, task = state.down[EVERYONE], method.loaded
    found = np.empty((steps, len(task.split)))
    come = [_arriving(method, c) for c in range(len(task.split))]
    for c, mine in enumerate(come):
        other = (c + 1) % len(come)
        first, rest = np.array_split(mine, [(len(mine) + 1) // 2])
        store = method.remember(down, c, first)
        batches = [*np.array_split(rest, before), *np.array_split(come[other], steps - before)]
        for t, batch in enumerate(batches):
            store = method.remember(down, c, batch, store)
            test = task.split.test[c if t < before else other]
            found[t, c] = correct(method.mixed(store, down, c), task.tensors, test).mean()
    return found


def _arriving(method: Any, client: int) -> np.ndarray:
    """The training examples of a client in the order in which they come."""
    rows = method.loaded.split.train[client]
    return rows[stream(method.task.seed, "stream", client).permutation(len(rows))]


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Means and deviations; gains are over `fedavg`. And the best weights by size of the store."""
    summary = _cells.summarise(config, arrays)
    if WEIGHTS not in config.sections or READ not in {c.key for c in _cells.cells_of(config)}:
        return summary
    found = best_weights(config, arrays)
    for n in SIZES:
        means = [weights[sizes == n].mean() for sizes, weights in found if n in sizes]
        if means:
            summary[f"{WEIGHTS}/best/{n}"] = mean_and_sd(np.array(means))
    return summary


def best_weights(config: Config, arrays: Arrays) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sizes (n,) of stores, and the weight (n,) that is best on a client's test, for each seed.

    Of weights that tie the middle one is taken, as clients do. A client with fewer examples than
    asked for counts once, with all that it has.
    """
    base = [each.key for each in _cells.cells_of(config)].index(READ)
    asked = [i for i, r in enumerate(_cells.readings_of(config)) if r.section == WEIGHTS]
    scores = arrays["readings"][:, (base + 1) * config.rounds - 1, asked]
    scores = scores.reshape(-1, len(SIZES), len(SHARED_WEIGHTS), config.clients)
    found = []
    for seed, score in enumerate(scores):
        held = np.minimum(np.array(SIZES)[:, None], arrays["sizes"][seed, 0, :, 0])
        best = score == score.max(axis=1, keepdims=True)
        nth = (best.sum(axis=1, keepdims=True) + 1) // 2
        middle = (best & (best.cumsum(axis=1) == nth)).argmax(axis=1)
        fresh = np.diff(held, axis=0, prepend=0) > 0
        found.append((held[fresh], np.array(SHARED_WEIGHTS)[middle][fresh]))
    return found
