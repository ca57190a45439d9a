"""Public data (the seed set): a share of every node's examples that all nodes know in advance.

Source: theory/NOTES.md, "Domains and public data".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.neural.data import splits
from hopfed.neural.data.partitions import Rows
from hopfed.neural.training.task import TaskSpec, task_of


@dataclass(frozen=True, eq=False)
class SeedSet:
    """Training examples of every node, divided into private and public ones.

    Attributes
    ----------
    private, public : one sorted index array per node; the two together are its training examples.
    """

    private: Rows = field(repr=False)
    public: Rows = field(repr=False)

    def batches(self, seed: int, t: int, size: int) -> Rows:
        """Draw a minibatch of each node's public examples for round `t`, without replacement.

        All nodes draw the same rows from the seed of the run, so they send no indices.
        """
        return _batches(self, seed, t, size)


@lru_cache(8)
def seed_set(task: TaskSpec, share: float) -> SeedSet:
    """Divide the training examples of a task's clients.

    Parameters
    ----------
    share : public examples of a client as a share of all its examples, which includes validation
        and test. This is alpha of FedH2L (arXiv:2101.11296), "compared with all data". Public
        examples are drawn from each client's training examples, stratified by class: at least
        one, or none if the share is 0.

    Raises
    ------
    DataError : a client would have no private example left.

    Examples
    --------
    >>> found = seed_set(TaskSpec(clients=2, partition="iid", examples=100), 0.1)
    >>> [len(rows) for rows in found.private], [len(rows) for rows in found.public]
    ([35, 35], [5, 5])
    """
    require(0 <= share < 1, "public", "at least 0 and below 1", share)
    split = task_of(task).split
    private, public = [], []
    for client, rows in enumerate(split.train):
        count = max(1, round(share * split.sizes[client].sum())) if share else 0
        if count >= len(rows):
            who = f"client {client} of {len(split)} has {len(rows)} training examples"
            raise DataError(f"public: {who}, too few to show {count} and keep one")
        shown = np.zeros(len(rows), dtype=bool)
        if count:
            parts = len(rows) - count, count
            rng = stream(task.seed, "public", client)
            shown = splits.stratified(split.dataset.labels[rows], parts, rng) == 1
        private.append(rows[~shown])
        public.append(rows[shown])
    return SeedSet(tuple(private), tuple(public))


@lru_cache(4)  # all clients of a round ask for the same batches
def _batches(seeds: SeedSet, seed: int, t: int, size: int) -> Rows:
    return tuple(
        draw(rows, size, stream(seed, "public batch", t, node))
        for node, rows in enumerate(seeds.public)
    )


def draw(rows: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `size` rows without replacement; return all rows if there are fewer."""
    return rng.choice(rows, min(size, len(rows)), replace=False)
