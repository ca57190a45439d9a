"""What an answer that is "ok" says of the order of rows, of rates near 1."""

import numpy as np
import pytest
from helpers import rest_slow

import hopfed
from hopfed.archetypes.channel import open_rates
from hopfed.archetypes.votes import runs


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
