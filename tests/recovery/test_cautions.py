"""What an answer that is "ok" says of the order of rows, of rates near 1."""

import numpy as np
import pytest
from helpers import rest_slow

import hopfed
from hopfed.archetypes.channel import open_rates
from hopfed.archetypes.votes import Agreement, equal_pairs, runs
from hopfed.errors import ArgumentError


def three_kinds(seed, rows=600, columns=30):
    """Rows of three classes, and the class of each."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(3, size=rows)
    return rng.random((rows, columns)) < np.where(rng.random((3, columns)) < 0.5, 0.2, 0.8)[
        kinds
    ], kinds


@pytest.mark.parametrize("sizes", [(40, 8, 3), (1, 30)])
def test_moments_of_runs_are_those_of_random_orders(sizes):
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    _, expected, variance = runs(labels)
    drawn = [runs(rng.permutation(labels))[0] for _ in range(2_000)]
    assert np.mean(drawn) == pytest.approx(expected, abs=5 * np.std(drawn) / 2_000**0.5 + 1e-12)
    assert np.var(drawn) == pytest.approx(variance, rel=0.12)


@pytest.mark.parametrize("seed", rest_slow(range(3), 1))
@pytest.mark.parametrize("owners", [1, 3])
def test_a_sorted_table_is_told_and_a_mixed_one_is_not(seed, owners):
    """Twenty years of prices were two classes, the first ten years and the last, without a word."""
    x, kinds = three_kinds(seed)
    mixed = hopfed.recover(np.array_split(x, owners))
    assert mixed.status == "ok"
    assert "Rows next to" not in mixed.advice
    series = hopfed.recover(np.array_split(x[np.argsort(kinds, kind="stable")], owners))
    assert series.status == "ok"
    assert "Rows next to each other are mostly of one class" in series.advice
    assert len(series) == len(mixed) == 3


@pytest.mark.parametrize("rows", [5, 11, 40])
@pytest.mark.parametrize("rate", [0.9, 0.97, 0.995])
def test_intervals_of_few_rows_hold_rates_near_one(rows, rate):
    """Eleven rows gave 0.4% to each side."""
    rng = np.random.default_rng(2)
    seen = rng.binomial(rows, rate, 4_000) / rows
    usual = 2 * np.sqrt(seen * (1 - seen) / rows)
    error = np.maximum(usual, open_rates(seen, np.full(seen.shape, float(rows))))
    inside = np.abs(seen - rate) <= 1.96 * error / 2
    assert inside.mean() > 0.93


def test_rates_of_small_tables_are_not_certain():
    rng = np.random.default_rng(3)
    side = np.repeat([1, -1], [6, 5])
    x = np.stack([side] * 3 + [np.where(rng.random(11) < 0.5, 1, -1)], axis=1)
    found = hopfed.recover(x)
    assert len(found) == 2
    sure = np.abs(found.means[:, :3]) > 0.9
    assert (found.errors[:, :3][sure] > 0.1).all()


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


def test_rows_that_follow_each_other_are_named():
    """They were said to be columns that depend on each other, to be merged or left out."""
    rng = np.random.default_rng(0)
    slow = _slow(rng, 160)
    found = hopfed.recover(slow, seed=0)
    assert found.status == "structure, but not classes"
    assert "Rows depend on their neighbours" in found.advice
    assert "Merge or leave out" not in found.advice


def test_of_blocks_of_rows_the_first_is_taken():
    slow = _slow(np.random.default_rng(2), 1_200)
    found = hopfed.recover(slow, blocks=40)
    assert found.status in ("no signal", "one class", "too little data")
    # A table of 1/0 lies in blocks of repeated rows; counts say how often each is there.
    rates = np.random.default_rng(3).uniform(0.05, 0.95, (2, 30))
    rows = np.random.default_rng(4).random((200, 30)) < np.repeat(rates, 100, axis=0)
    whole, taken = hopfed.recover(rows), hopfed.recover(np.repeat(rows, 3, axis=0), blocks=3)
    np.testing.assert_array_equal(taken.patterns, whole.patterns)
    often = np.arange(600) % 3 == 0
    counted = hopfed.recover(np.repeat(rows, 3, axis=0), blocks=3, weights=often * 2)
    np.testing.assert_array_equal(
        counted.patterns, hopfed.recover(np.repeat(rows, 2, axis=0)).patterns
    )
    with pytest.raises(ArgumentError, match="blocks must be"):
        hopfed.recover(rows, blocks=0)


def _slow(rng, m):
    """Independent columns that seldom change from one row to the next."""
    return np.cumprod(np.where(rng.random((m, 12)) < 0.05, -1, 1), axis=0)


def test_a_table_sorted_by_its_classes_is_no_such_case():
    rng = np.random.default_rng(1)
    rates = rng.uniform(0.1, 0.9, (2, 16))
    rows = np.where(rng.random((240, 16)) < np.repeat(rates, 120, axis=0), 1, -1)
    rows[:, 1] = np.where(rng.random(240) < 0.93, rows[:, 0], -rows[:, 0])  # columns that depend
    found = hopfed.recover(rows, seed=0)
    assert found.status == "structure, but not classes"
    assert "neighbours" not in found.advice
