"""Functions that divide one client's examples into training, validation and test parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed.errors import ArgumentError, DataError

TRAIN, VALIDATION, TEST = range(3)


def check_shares(shares: Sequence[float]) -> tuple[float, ...]:
    """Return three `shares` above 0 as fractions that add up to one; ArgumentError for others."""
    fractions = np.asarray(shares, dtype=np.float64)
    if fractions.shape != (3,) or not np.isfinite(fractions).all() or fractions.min() <= 0:
        rule = "three numbers above 0: training, validation, test"
        raise ArgumentError("shares", rule, tuple(shares))
    return tuple((fractions / fractions.sum()).tolist())


def split(
    labels: np.ndarray,
    group: np.ndarray | None,
    shares: Sequence[float],
    rng: np.random.Generator,
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
    parts = np.zeros(len(labels), dtype=np.int64)
    classes, code = np.unique(labels, return_inverse=True)
    line = np.lexsort((rng.random(len(labels)), rng.permutation(len(classes))[code]))
    sizes = _sizes(len(labels), shares)
    for part in range(len(shares) - 1, 0, -1):
        size, n = sizes[part], len(line)
        picks = (np.arange(size) * n + rng.integers(n)) // size
        parts[line[picks]] = part
        line = np.delete(line, picks)
    return parts


def grouped(group: np.ndarray, shares: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """Return the part of each example, (n,) ints, such that no group is in two parts.

    Groups 0, 1, ... are dealt in random order; their sizes limit how exactly shares are met.
    """
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


def _sizes(n: int, shares: Sequence[float]) -> list[int]:
    """Whole sizes, all above 0, in proportion to `shares`; they add up to n."""
    if n < len(shares):
        raise DataError(f"partition: {n} examples cannot be split into {len(shares)} parts")
    cuts = np.rint(np.cumsum(shares) / np.sum(shares) * n).astype(int)
    sizes = np.diff(cuts, prepend=0)
    while sizes.min() == 0:
        sizes[sizes.argmax()] -= 1
        sizes[sizes.argmin()] += 1
    return sizes.tolist()
