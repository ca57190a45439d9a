"""kNN-Per, its baselines, and the client's label prior (`fedavg-prior`, without neighbours).

See theory/NOTES.md, "kNN-Per interpolation" and "Label prior". Sections; those with a star are
readings of one trained model: `methods`; `heterogeneity`, by Dirichlet concentration; `feature
shift`, equal labels, by `shift`; `unseen clients`, of whom a fifth never takes part; `k`*,
`sigma`*, `lambda`*, `capacity`* (share of examples that a memory keeps); `weight by size`* (Figs.
2, 8), of the neighbours by size of the store; `global model`*, by round; `hardware`*, where half of
the clients keep a share 1/2 - x of their examples, the others 1/2 + x; `stream`* (Fig. 14), where
after four of ten batches examples are those of the next client, and stores replace old ones (fifo),
keep all (concatenate), or keep the first (fixed).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import with_settings
from hopfed.experiments.shared.cells import (
    CellSettings,
    Place,
    measure_round,
    panels,
    summarise,
    tables,
)
from hopfed.federation.contract import EVERYONE
from hopfed.federation.rounds import FederationState

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

STREAM, STEPS, BEFORE = "stream", 10, 4  # number of batches, and of batches before the change


class Config(CellSettings):
    """Settings."""

    shift: Annotated[str, "partition of `feature shift`"]

    REFERENCE: ClassVar[str] = "fedavg"

    def score(
        self, readings: Sequence[Place], method: Any, state: FederationState
    ) -> list[np.ndarray]:
        """Test accuracy (clients,) by each reading; a stream is played once for all its steps."""
        found = super().score([r for r in readings if r.section != STREAM], method, state)
        for own in dict.fromkeys(r.options for r in readings if r.section == STREAM):
            made = with_settings(method, own.split(","))
            found += [*_streamed(made, state, STEPS, BEFORE)]
        return found


def _streamed(method: Any, state: FederationState, steps: int, before: int) -> np.ndarray:
    """Test accuracy (steps, clients) after the batch of each step.

    The method must have a `capacity` of half of the examples, so that the store is full at the
    start, and a given lambda, because no validation examples fit both sides of the change.
    """
    from hopfed.neural.training.evaluation import mark_correct

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
            found[t, c] = mark_correct(method.mixed(store, down, c), task.tensors, test).mean()
    return found


def _arriving(method: Any, client: int) -> np.ndarray:
    """Training examples of a client in the order of their arrival."""
    rows = method.loaded.split.train[client]
    return rows[stream(method.task.seed, "stream", client).permutation(len(rows))]
