"""Tables in which rows are there more than once are never taken for as many rows."""

import numpy as np
import pytest
from helpers import rest_slow

import hopfed
from hopfed.archetypes.votes import Agreement, equal_pairs


def noisy(n, columns, seed, quality=0.6):
    """Rows of three patterns."""
    rng = np.random.default_rng(seed)
    patterns = np.where(rng.random((3, columns)) < 0.5, 1, -1)
    kinds = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    flips = np.where(rng.random((n, columns)) < (1 - quality) / 2, -1, 1)
    return patterns, patterns[kinds] * flips


@pytest.mark.parametrize("columns", rest_slow([20, 60], 1))
def test_rows_that_are_there_once_are_ok(columns):
    assert hopfed.recover(noisy(500, columns, 31)[1], seed=1).status == "ok"


@pytest.mark.parametrize(
    ("columns", "part"), rest_slow([(20, 1.0), (60, 0.2), (20, 0.2), (60, 1.0)], 2)
)
def test_rows_that_are_there_twice_are_not(columns, part):
    """They were "ok" in the symmetric channel, of which they pass every other check."""
    rows = noisy(500, columns, 32)[1]
    found = hopfed.recover(np.vstack([rows, rows[: int(part * len(rows))]]), seed=1)
    assert found.status == ("copies" if part == 1 else "structure, but not classes")


def agreement(rows, patterns):
    """Sums of one client, each of its rows with the pattern that it resembles most."""
    products = rows @ patterns.T
    own, best = np.eye(len(patterns))[products.argmax(axis=1)], products.max(axis=1)
    sums = {
        "moments": np.array([len(best), best.sum(), (best**2).sum()]),
        "counts": own.sum(axis=0),
    }
    sums |= {"sums": own.T @ rows, "equal": np.zeros(2), "order": np.zeros(3)}
    return Agreement.of(patterns, sums)


@pytest.mark.parametrize("quality", [0.6, 0.8])
def test_pairs_of_equal_rows_are_as_many_as_expected(quality):
    drawn, expected = [], []
    for seed in range(8):
        patterns, rows = noisy(1500, 24, seed, quality)
        counts = np.unique(rows, axis=0, return_counts=True)[1]
        drawn.append((counts * (counts - 1) / 2).sum())
        expected.append(equal_pairs(agreement(rows, patterns), patterns))
    # The rows nearest to each pattern are fewer, and nearer, than its own.
    assert np.mean(expected) == pytest.approx(np.mean(drawn), rel=0.15)
    assert np.mean(expected) >= np.mean(drawn) * 0.95


def test_a_class_that_is_one_row_is_said_to_be():
    rows = noisy(600, 40, 33)[1]
    found = hopfed.recover(np.vstack([rows, np.repeat(rows[:2], 40, axis=0)]), seed=1)
    assert "2 of these classes are one row each that comes back" in found.advice


def test_squares_of_sums_over_many_rows_are_whole():
    patterns, sums = np.ones((1, 400), np.int8), np.full((1, 400), 3_000, np.int32)
    answer = {"moments": np.zeros(3), "counts": np.array([4_000.0]), "sums": sums}
    found = Agreement.of(patterns, answer | {"equal": np.zeros(2), "order": np.zeros(3)})
    assert (found.first[0], found.second[0]) == (400 * 3_000, 400 * 3_000**2)  # above 2^31
