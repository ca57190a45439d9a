"""Training, validation and test examples of each client, stratified by class or in whole groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed._lib.random import stream
from hopfed.errors import DataError
from hopfed.neural.data.dataset import Dataset

Own = list[np.ndarray]  # rows of each client
Shares = Sequence[float] | np.ndarray  # relative sizes of the parts
TRAIN, VALIDATION, TEST = range(3)


def assign_parts(
    dataset: Dataset, own: Own, shares: np.ndarray, training: np.ndarray | None, seed: int
) -> np.ndarray:
    """Divide rows into parts: training, validation, test; a shared group is in one for all."""
    parts, lots = np.full(len(dataset), TEST), dict[int | str, np.ndarray](enumerate(own))
    group = np.arange(len(dataset)) if dataset.group is None else dataset.group
    if dataset.group is not None:
        each = np.concatenate([np.unique(group[rows]) for rows in own])
        lots = lots if len(np.unique(each)) == len(each) else {"all": np.concatenate(own)}
    for client, rows in lots.items():
        if training is not None:  # all other examples are test examples
            rows, shares = rows[training[rows]], shares[:2]
        _, first, code = np.unique(group[rows], return_index=True, return_inverse=True)
        if len(first) < len(shares):
            whose = "all clients" if client == "all" else f"client {client} of {len(own)}"
            units = "examples" if dataset.group is None else "groups of examples"
            fault = f"{len(first)} {units} cannot be split into {len(shares)} parts ({whose})"
            raise DataError(f"partition: {fault}")
        rng, labels = stream(seed, "split", client), dataset.labels[rows]
        if (labels[first][code] == labels).all():
            parts[rows] = stratify_parts(labels[first], shares, rng)[code]
        else:
            parts[rows] = group_parts(code, shares, rng)
    return parts


def stratify_parts(labels: np.ndarray, shares: Shares, rng: np.random.Generator) -> np.ndarray:
    """Divide examples into parts by class: counts differ from their shares by less than 1."""
    n = len(labels)
    sizes = np.diff(np.rint(np.cumsum(shares) / np.sum(shares) * n).astype(int), prepend=0)
    while sizes.min() == 0:  # each part gets at least one example
        sizes[sizes.argmax()] -= 1
        sizes[sizes.argmin()] += 1
    parts = np.zeros(n, dtype=np.int64)
    classes, code = np.unique(labels, return_inverse=True)
    line = np.lexsort((rng.random(n), rng.permutation(len(classes))[code]))
    for part in range(len(shares) - 1, 0, -1):
        size, n = sizes[part], len(line)
        picks = (np.arange(size) * n + rng.integers(n)) // size
        parts[line[picks]] = part
        line = np.delete(line, picks)
    return parts


def group_parts(group: np.ndarray, shares: Shares, rng: np.random.Generator) -> np.ndarray:
    """Divide examples into training and other parts, (n,) ints; groups 0, 1, ... stay whole."""
    counts = np.bincount(group)
    order = rng.permutation(len(counts))
    middle = np.cumsum(counts[order]) - counts[order] / 2
    bounds = np.cumsum(shares)[:-1] / np.sum(shares) * len(group)
    of_group = np.empty(len(counts), dtype=np.int64)
    of_group[order] = np.searchsorted(bounds, middle)
    for part in range(len(shares)):
        if not (of_group == part).any():
            present = np.bincount(of_group, minlength=len(shares))
            donors = np.flatnonzero(of_group == present.argmax())
            of_group[donors[counts[donors].argmin()]] = part
    return of_group[group]
