"""Memory of a client whose examples change while the global model stays (kNN-Per, Fig. 14).

Source: arXiv:2111.09360, Fig. 14.

At first a client's store holds half of its training examples. The other half comes in `before`
equal batches. Then its stream and its test examples change to those of the next client, whose
training examples come in the remaining batches of all `steps`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.federation.contract import EVERYONE
from hopfed.federation.rounds import FederationState


def scores(method: Any, state: FederationState, steps: int, before: int) -> np.ndarray:
    """Test accuracy (steps, clients) after the batch of each step, by kNN-Per's `method`.

    The method must have a `capacity` of half of the examples, so that the store is full at the
    start, and a given lambda, because no validation examples fit both sides of the change.
    """
    from hopfed.neural.training.evaluation import correct

    down, task = state.down[EVERYONE], method.loaded
    found = np.empty((steps, len(task.split)))
    for c in range(len(task.split)):
        other = (c + 1) % len(task.split)
        mine, theirs = arriving(method, c), arriving(method, other)
        first, rest = np.array_split(mine, [(len(mine) + 1) // 2])
        store = method.remember(down, c, first)
        batches = [*np.array_split(rest, before), *np.array_split(theirs, steps - before)]
        for t, batch in enumerate(batches):
            store = method.remember(down, c, batch, store)
            test = task.split.test[c if t < before else other]
            found[t, c] = correct(method.mixed(store, down, c), task.tensors, test).mean()
    return found


def arriving(method: Any, client: int) -> np.ndarray:
    """Return the training examples of a client in the order in which they come."""
    from hopfed._lib.random import stream

    rows = method.loaded.split.train[client]
    return rows[stream(method.task.seed, "stream", client).permutation(len(rows))]
