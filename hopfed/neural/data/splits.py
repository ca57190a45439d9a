"""`Partition`: the rows of a dataset that each client has, and how they are split into parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.neural.data.dataset import Dataset

Rows = tuple[np.ndarray, ...]
PARTS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)


@dataclass(frozen=True, eq=False)
class Partition:
    """The rows of a dataset that each client has for training, validation and test.

    Attributes
    ----------
    scheme, seed : the arguments of `partition`.
    dataset : the dataset to which rows refer: the given one, or its rotations.
    train, validation, test : one sorted index array per client, all disjoint and none empty.

    Examples
    --------
    >>> from hopfed.neural.data.partitions import partition
    >>> from hopfed.neural.data.sources import digits
    >>> part = partition("iid", digits(), clients=3)
    >>> len(part), [len(rows) for rows in part.train], part.dataset.classes
    (3, [479, 479, 479], 10)
    """

    scheme: str
    seed: int
    dataset: Dataset
    train: Rows = field(repr=False)
    validation: Rows = field(repr=False)
    test: Rows = field(repr=False)

    def __len__(self) -> int:
        return len(self.train)

    @property
    def sizes(self) -> np.ndarray:
        """(clients, 3) numbers of training, validation and test examples."""
        return np.array([[len(rows) for rows in getattr(self, part)] for part in PARTS]).T

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the clients: their domain or writer if the scheme uses it, else their number."""
        data, kind = self.dataset, re.split("[:@]", self.scheme)[0]
        code, words = None, data.domain_names
        if kind in ("domain", "rotation"):
            code = data.domain
        elif kind in ("writer", "role") or self.scheme == "given":
            code, words = data.writer, data.writer_names
        return tuple(
            str(k) if code is None else words[code[rows[0]]] for k, rows in enumerate(self.train)
        )

    @property
    def unused(self) -> int:
        """Number of examples that no client has."""
        return len(self.dataset) - int(self.sizes.sum())

    def counts(self, part: str = "all") -> np.ndarray:
        """(clients, classes) numbers of examples in a part: "train", "validation", "test", "all".

        Examples
        --------
        >>> from hopfed.neural.data.partitions import partition
        >>> from hopfed.neural.data.sources import digits
        >>> partition("classes:2", digits(), clients=5).counts("test").astype(bool).sum(axis=1)
        array([2, 2, 2, 2, 2])
        """
        require(part in (*PARTS, "all"), "part", f"one of {', '.join(PARTS)} or all", repr(part))
        labels, classes = self.dataset.labels, self.dataset.classes
        parts = [getattr(self, name) for name in (PARTS if part == "all" else (part,))]
        own = (labels[np.concatenate(rows)] for rows in zip(*parts, strict=True))
        return np.stack([np.bincount(y, minlength=classes) for y in own])

    @property
    def held(self) -> dict[str, np.ndarray]:
        """The `client` of each row, -1 for none, and its `part`, both (n,)."""
        client, part = np.full(len(self.dataset), -1), np.zeros(len(self.dataset), np.int8)
        for number, name in enumerate(PARTS):
            for k, rows in enumerate(getattr(self, name)):
                client[rows], part[rows] = k, number
        return {"client": client, "part": part}

    def save(self, path: str | Path) -> None:
        """Write client and part of each row to the .npz file `path`, for the scheme given:FILE."""
        np.savez_compressed(path, client=self.held["client"], part=self.held["part"])


def split(
    labels: np.ndarray, group: np.ndarray | None, shares: Sequence[float], rng: np.random.Generator
) -> np.ndarray:
    """Return the part of each example, (n,) ints: stratified by class, no group in two parts.

    If every group has one label, as the rotations of an image have, groups are stratified like
    examples. If groups have several labels, as the windows of a speech have, each is dealt whole.
    """
    if group is None:
        return stratified(labels, shares, rng)
    _, first, code = np.unique(group, return_index=True, return_inverse=True)
    if (labels[first][code] == labels).all():
        return stratified(labels[first], shares, rng)[code]
    return grouped(code, shares, rng)


def stratified(labels: np.ndarray, shares: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """Return the part of each example, (n,) ints; every part has its share of every class.

    In each part the count of a class differs from its share by less than one: examples are sorted
    by class, and a part takes them at even intervals.
    """
    n = len(labels)
    if n < len(shares):
        raise DataError(f"partition: {n} examples cannot be split into {len(shares)} parts")
    sizes = np.diff(np.rint(np.cumsum(shares) / np.sum(shares) * n).astype(int), prepend=0)
    while sizes.min() == 0:  # each part has an example
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


def grouped(group: np.ndarray, shares: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """Return the part of each example, (n,) ints; groups 0, 1, ... are dealt whole."""
    counts = np.bincount(group)
    if len(counts) < len(shares):
        fault = f"{len(counts)} groups of examples cannot be split into {len(shares)} parts"
        raise DataError(f"partition: {fault}")
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


def parts_of(
    dataset: Dataset,
    own: list[np.ndarray],
    shares: Sequence[float],
    training: np.ndarray | None,
    seed: int,
) -> np.ndarray:
    """Return the part of each row of the dataset, client by client.

    If several clients hold rows of one group, such as the rotations of one image, the group is in
    the same part at all of them: no client trains on a test example of another client.
    """
    parts = np.full(len(dataset), TEST)
    shared = False
    if dataset.group is not None:
        each = np.concatenate([np.unique(dataset.group[rows]) for rows in own])
        shared = len(np.unique(each)) < len(each)
    for client, rows in enumerate([np.concatenate(own)] if shared else own):
        rng = stream(seed, "split", "all" if shared else client)
        if training is not None:  # other examples stay test examples
            rows = rows[training[rows]]
        group = None if dataset.group is None else dataset.group[rows]
        fractions = shares if training is None else shares[:2]
        try:
            parts[rows] = split(dataset.labels[rows], group, fractions, rng)
        except DataError as error:
            whose = "all clients" if shared else f"client {client} of {len(own)}"
            raise DataError(f"{error} ({whose})") from None
    return parts
