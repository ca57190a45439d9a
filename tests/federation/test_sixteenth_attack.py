"""Attacks on what leaves a site: rare values beside common ones, and columns in another order."""

import numpy as np
import pytest
from asking import ask, method, refused, site

from hopfed import kernels
from hopfed.hopfield.encoding import symmetric
from hopfed.hopfield.leaks.columns_apart import set_apart
from hopfed.hopfield.leaks.rare_values import given_away

WORDS = "of this batch"


def diagnoses(rows, columns, values, common, chance, rng):
    """Rows with a few rare values each, beside common columns of a chance (one, or one each)."""
    rare = -np.ones((rows, columns), np.int8)
    for row in rare:
        row[rng.choice(columns, values, replace=False)] = 1
    others = np.where(rng.random((rows, common)) < chance, 1, -1)
    return np.hstack([rare, others]).astype(np.int8)


def named(S, sums, rows, columns):
    """Rare values of rows, of the first columns: pairs that occur once, and what is with both."""
    n = ((rows + sums[:, None] + sums + S) // 4)[:columns, :columns]
    np.fill_diagonal(n, 0)
    found = set()
    for i, j in np.argwhere(np.triu(n == 1)):
        others = np.flatnonzero((n[i] > 0) & (n[j] > 0))
        if len(others) <= 1:
            found.add(tuple(sorted((int(i), int(j), *others.tolist()))))
    return found


def right(rows, columns, found):
    """How many rows of a table are among those that were named."""
    return sum(tuple(np.flatnonzero(row > 0)) in found for row in rows[:, :columns])


def test_common_columns_hide_no_rare_ones(tmp_path):
    """Most rows have four common values or more, and none has as many rare ones."""
    rows = diagnoses(1500, 300, 3, 40, 0.22, np.random.default_rng(0))
    assert not set_apart(kernels.pack(rows), 3)
    open_ = site(tmp_path / "open", rows, questions=0, smallest_set=1)
    up = ask(open_, method(columns=340, groups=0, votes=False)).up
    S = symmetric(up["counts"], 340, 1500).astype(int)
    found = named(S, up["columns"].astype(int), 1500, 300)
    assert right(rows, 300, found) > 100, "the attack works"
    refused(ask(site(tmp_path / "default", rows, questions=0), method(columns=340)), WORDS)


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("common", [5, 100])
@pytest.mark.parametrize("chance", [0.1, 0.24, 0.3])
def test_nor_do_few_many_or_frequent_ones(values, common, chance):
    rng = np.random.default_rng(1)
    rows = diagnoses(600, 250, values, common, chance, rng)
    x = rows.astype(int)
    assert right(rows, 250, named(x.T @ x, x.sum(axis=0), 600, 250)) > 50, "the attack works"
    assert given_away(kernels.pack(rows), 3) > 50


def test_nor_do_columns_of_two_kinds():
    """Values of one row in a hundred and in ten, beside common ones of mixed chances."""
    rng = np.random.default_rng(2)
    chance = np.r_[np.full(60, 0.1), rng.uniform(0.1, 0.24, 60)]
    rows = diagnoses(600, 250, 3, 120, chance, rng)
    assert given_away(kernels.pack(rows), 3) > 100


def test_surveys_with_some_rare_answers_are_sent():
    """Pairs of eight rare columns in a row of a hundred say little about the row."""
    chance = np.r_[np.full(92, 0.4), np.linspace(0.02, 0.05, 8)]
    sent = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows = np.where(rng.random((600, 100)) < chance, 1, -1).astype(np.int8)
        sent += not given_away(kernels.pack(rows), 3)
    assert sent == 10


def test_the_order_of_columns_changes_nothing():
    """Columns near to two mirrored archetypes; others, near to half of these, went first."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.choice([-1, 1], (900, 1)), 340, axis=1).astype(np.int8)
    for row in rows:
        row[rng.choice(300, 4, replace=False)] *= -1
    rows[:, 300:] *= np.where(rng.random((900, 40)) < 0.25, -1, 1).astype(np.int8)
    last, first = np.arange(340), np.r_[300:340, :300]
    orders = [last, first, last[::-1], rng.permutation(340)]
    away = [given_away(kernels.pack(np.ascontiguousarray(rows[:, o])), 3) for o in orders]
    assert len(set(away)) == 1
    assert away[0] > 500
