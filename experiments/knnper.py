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

from collections.abc import Sequence
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

STREAM, WEIGHTS = "stream", "weight by size"
READ = f"{TABLE}/knn-per"  # the cell whose trained model is used for readings


class Config(Bench):
    """Settings.

    kNN-Per chooses the weight of its memory on the validation examples. So the last round is
    reported, not the round with the best validation accuracy.
    """

    choose: str = "last"
    shift: Annotated[str, "partition of `feature shift`"] = "rotation:0,72,144,216,288"
    steps: Annotated[int, "of a stream"] = 10
    before: Annotated[int, lambda s: within(f"[1, {s.steps})"), "steps before the change"] = 4

    COMPARED: ClassVar[tuple[str, ...]] = ("fedavg",)

    @property
    def arrivals(self) -> tuple[int, ...]:
        """Steps of a stream."""
        return tuple(range(self.steps))

    def score(
        self, readings: Sequence[Reading], method: Any, state: FederationState
    ) -> list[np.ndarray]:
        """Test accuracy (clients,) by each reading; a stream is played once for all its steps."""
        found = super().score([r for r in readings if r.section != STREAM], method, state)
        for own in dict.fromkeys(r.options for r in readings if r.section == STREAM):
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
    for n in asked_sizes(config):
        means = [weights[sizes == n].mean() for sizes, weights in found if n in sizes]
        if means:
            summary[f"{WEIGHTS}/best/{n}"] = mean_and_sd(np.array(means))
    return summary


def asked_sizes(config: Config) -> list[int]:
    """Sizes of the stores of the section, by their rows."""
    held = (r.row.partition(" ")[0] for r in _cells.readings_of(config) if r.section == WEIGHTS)
    return [*dict.fromkeys(map(int, held))]


def best_weights(config: Config, arrays: Arrays) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sizes (n,) of stores, and the weight (n,) that is best on a client's test, for each seed.

    Of weights that tie the middle one is taken, as clients do. A client with fewer examples than
    asked for counts once, with all that it has.
    """
    base = [each.key for each in _cells.cells_of(config)].index(READ)
    asked = {i: r.at for i, r in enumerate(_cells.readings_of(config)) if r.section == WEIGHTS}
    sizes, shared = np.array(asked_sizes(config)), np.array([*dict.fromkeys(asked.values())], float)
    scores = arrays["readings"][:, (base + 1) * config.rounds - 1, [*asked]]
    scores = scores.reshape(-1, len(sizes), len(shared), config.clients)
    found = []
    for seed, score in enumerate(scores):
        held = np.minimum(sizes[:, None], arrays["sizes"][seed, 0, :, 0])
        best = score == score.max(axis=1, keepdims=True)
        nth = (best.sum(axis=1, keepdims=True) + 1) // 2
        middle = (best & (best.cumsum(axis=1) == nth)).argmax(axis=1)
        fresh = np.diff(held, axis=0, prepend=0) > 0
        found.append((held[fresh], shared[middle][fresh]))
    return found
