"""Copies, rows that follow each other, and rates near 1: what keeps an answer from "ok"."""

import numpy as np
import pytest

import hopfed
from hopfed.errors import ArgumentError


def test_rates_of_small_tables_are_not_certain():
    rng = np.random.default_rng(3)
    side = np.repeat([1, -1], [6, 5])
    x = np.stack([side] * 3 + [np.where(rng.random(11) < 0.5, 1, -1)], axis=1)
    found = hopfed.recover(x)
    assert len(found) == 2
    sure = np.abs(found.means[:, :3]) > 0.9
    assert (found.errors[:, :3][sure] > 0.1).all()


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


def test_a_question_that_is_asked_twice_is_named():
    """Rows of two classes were said to be of four, for two columns depend on each other."""
    rng = np.random.default_rng(1)
    means, of = rng.uniform(-0.9, 0.9, (2, 30)), rng.choice(2, 1_500, p=[0.6, 0.4])
    rows = np.where(rng.random((1_500, 30)) < (1 + means[of]) / 2, 1, -1)
    assert hopfed.recover(rows).status == "ok"
    again = rng.random(1_500) < 0.8
    rows[again, 1] = rows[again, 0]
    found = hopfed.recover(rows)
    assert found.status == "structure, but not classes"
    assert "columns 1, 2 alone" in found.advice


@pytest.mark.parametrize("gaps", [(0.3, 0.3, 0.3), (0.05, 0.3, 0.6)])
def test_gaps_that_depend_on_the_class_are_named(gaps):
    rng = np.random.default_rng(1000)
    means, of = rng.uniform(-0.9, 0.9, (3, 25)), rng.choice(3, 2_000, p=[0.5, 0.3, 0.2])
    rows = np.where(rng.random((2_000, 25)) < (1 + means[of]) / 2, 1.0, -1.0)
    rows[rng.random(rows.shape) < np.array(gaps)[of][:, None]] = np.nan
    found = hopfed.recover(rows)
    assert found.status == "ok"
    assert ("shares may be off" in found.advice) == (gaps[0] != gaps[2])
