"""Rows that follow each other in time are named; a table that is sorted by its classes is none."""

import numpy as np

import hopfed


def test_rows_that_follow_each_other_are_named():
    """They were said to be columns that depend on each other, to be merged or left out."""
    rng = np.random.default_rng(0)
    slow = np.cumprod(np.where(rng.random((160, 12)) < 0.05, -1, 1), axis=0)
    found = hopfed.recover(slow, seed=0)
    assert found.status == "structure, but not classes"
    assert "Rows depend on their neighbours" in found.advice
    assert "Merge or leave out" not in found.advice


def test_a_table_sorted_by_its_classes_is_no_such_case():
    rng = np.random.default_rng(1)
    rates = rng.uniform(0.1, 0.9, (2, 16))
    rows = np.where(rng.random((240, 16)) < np.repeat(rates, 120, axis=0), 1, -1)
    rows[:, 1] = np.where(rng.random(240) < 0.93, rows[:, 0], -rows[:, 0])  # columns that depend
    found = hopfed.recover(rows, seed=0)
    assert found.status == "structure, but not classes"
    assert "neighbours" not in found.advice
