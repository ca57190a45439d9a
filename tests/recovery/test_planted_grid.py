"""Planted classes over a wide grid: how often their number is exact, and the means as good as can be.

Run as a program it prints a line for each case: ``python tests/recovery/test_planted_grid.py 500 600``.
"""

import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # of a program; pytest knows it
from graded_tables import classes, error, known

from hopfed.archetypes.graded.em import iterate
from hopfed.archetypes.graded.mixture import ClassSums, Prior
from hopfed.archetypes.graded.owners import Owners
from hopfed.recovery.recover import run_recovery

SHAPES = ((1, 1), (0.3, 0.3), (5, 5), (1, 4), (0.5, 5))
SIZES = (
    *((3, 150, 1000), (3, 50, 3000), (8, 200, 2000), (20, 500, 5000), (3, 1000, 200)),
    *((5, 200, 2000), (10, 300, 4000), (30, 1000, 10_000), (50, 1000, 10_000), (50, 2000, 20_000)),
)
MISSING = (0.0, 0.05, 0.2, 0.5, 0.8)


class Case(NamedTuple):
    """What was planted, and what came of it."""

    seed: int
    size: tuple[int, int, int]
    shape: tuple[float, float]
    missing: float
    found: int
    status: str
    error: float
    known: float
    gained: float
    seconds: float

    @property
    def exact(self):
        return self.found == self.size[0]

    @property
    def near(self):
        """Whether the means are within 3% of those with true labels."""
        return self.exact and self.error <= 1.03 * self.known


def play(seed):
    """Draw the case of a seed from the grid, and recover it."""
    rng = np.random.default_rng([seed, 22])
    size, shape, missing = (many[rng.integers(len(many))] for many in (SIZES, SHAPES, MISSING))
    T, y, x = classes(*size, seed, shape=shape, missing=missing)
    began = time.perf_counter()
    found = run_recovery(x, seed=seed, channel="graded").graded
    seconds = time.perf_counter() - began
    owners = Owners.of([x], seed)
    member = np.eye(size[0])[y]
    sums = ClassSums(member.sum(0)[None], member.T @ x, member.T @ (x != 0))
    truth = iterate(owners, sums, Prior.of(owners), 60)
    return Case(
        *(seed, size, shape, missing, found.size, found.status),
        *(error(found.means, T), error(known(x, y, size[0]), T)),
        *(found.evidence - truth.evidence, seconds),
    )


def line(case):
    K, N, M = case.size
    word = "" if case.near else " means" if case.exact else " count"
    return (
        f"{case.seed} K={K} N={N} M={M} Beta{case.shape} missing {case.missing}: found "
        f"{case.found}, error {case.error:.4f} (labels known {case.known:.4f}), {case.status}, "
        f"evidence above the truth's {case.gained:.1f}, {case.seconds:.1f} s{word}"
    )


@pytest.mark.slow
def test_planted_classes_of_a_wide_grid_are_counted_and_estimated():
    cases = [play(seed) for seed in range(800, 820)]
    assert sum(case.exact for case in cases) >= 18, "\n".join(map(line, cases))
    assert sum(case.near for case in cases) >= 17, "\n".join(map(line, cases))


if __name__ == "__main__":
    every = []
    for each in range(*map(int, sys.argv[1:3])):
        every.append(play(each))
        print(line(every[-1]), flush=True)
    print(
        f"K exact in {np.mean([c.exact for c in every]):.0%} of {len(every)}, "
        f"means within 3% of known labels in {np.mean([c.near for c in every]):.0%}"
    )
