"""Rows that rare values give away: put together by an attack, and not sent."""

import re

import numpy as np
import pytest
from asking import ask, method, refused, rows_in, site

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.encoding import symmetric
from hopfed.hopfield.leaks.columns_apart import set_apart
from hopfed.hopfield.leaks.rare_values import given_away

WORDS = "rare values give rows of this batch away"


def sparse(rows, columns, values, rng):
    """Rows of so many rare values, of which each column has as many as any other."""
    deck = np.concatenate([rng.permutation(columns) for _ in range(rows * values // columns + 1)])
    x = -np.ones((rows, columns), np.int8)
    for m in range(rows):
        x[m, deck[m * values : (m + 1) * values]] = 1
    return x


def put_together(up):
    """Rows as a server puts them together: cliques of columns that occur together."""
    M, c = int(up["examples"]), up["columns"].astype(int)
    turned = np.where(c > 0, -1, 1)
    S, c = symmetric(up["counts"], len(c), M).astype(int) * turned[:, None] * turned, c * turned
    together = (M + c[:, None] + c + S) // 4
    occur = together > 0
    np.fill_diagonal(occur, False)
    found = set()
    for i, j in np.argwhere(np.triu(together == 1, 1)):
        clique, left = [i, j], occur[i] & occur[j]
        while left.any():
            at = np.flatnonzero(left)
            clique.append(at[occur[np.ix_(at, at)].sum(axis=1).argmax()])
            left &= occur[clique[-1]]
        found.add(tuple(sorted(map(int, clique))))
    return [turned * (2 * np.isin(np.arange(len(c)), each) - 1) for each in found]


def test_rows_of_a_sparse_table_are_put_together_and_are_not_sent(tmp_path):
    """No column and no two set a few apart, rows are thrice the columns, and all are read off."""
    rows = sparse(900, 300, 4, stream(0, "sparse"))
    assert not set_apart(kernels.pack(rows), 3)
    open_ = site(tmp_path / "open", rows, questions=0, smallest_set=1)
    up = ask(open_, method(columns=300, groups=0, votes=False)).up
    assert rows_in(rows, put_together(up)) > 850
    refused(ask(site(tmp_path / "default", rows, questions=0), method(columns=300)), WORDS)


@pytest.mark.parametrize("archetypes", [1, 2, 3])
def test_rows_near_to_their_archetypes_are_not_sent(tmp_path, archetypes):
    """What is rare is to differ from the others of an archetype, in 2 columns of 100."""
    rng = stream(1, "near", archetypes)
    rows = draw_examples(rademacher(archetypes, 300, rng), 500, 0.96, rng)[0]
    open_ = site(tmp_path / "open", rows, questions=0, smallest_set=1)
    up = ask(open_, method(columns=300)).up
    if archetypes == 1:
        assert rows_in(rows, put_together(up)) > 100
    assert given_away(kernels.pack(rows), 3) > 100
    default = site(tmp_path / "default", rows, questions=0)
    refused(ask(default, method(columns=300)), "of this batch")


def test_dense_columns_do_not_hide_rare_ones():
    rng = stream(2, "mixed")
    dense = np.where(rng.random((900, 60)) < 0.4, 1, -1)
    rows = np.concatenate([dense, sparse(900, 300, 5, rng)], axis=1)
    assert given_away(kernels.pack(rows), 3) > 800


def test_rows_with_many_values_off_and_rows_of_three_alike_are_sent(tmp_path):
    rng = stream(3, "dense")
    for archetypes, quality, M, N in ((1, 0.8, 1568, 784), (3, 0.7, 400, 100), (7, 0.6, 1600, 784)):
        rows = draw_examples(rademacher(archetypes, N, rng), M, quality, rng)[0]
        assert given_away(kernels.pack(rows), 3) == 0
        where = tmp_path / str(archetypes)
        assert not ask(site(where, rows, questions=0, smallest_batch=0), method(columns=N)).fault
    thrice = np.repeat(sparse(300, 200, 4, rng), 3, axis=0)
    assert given_away(kernels.pack(thrice), 3) == 0


def test_the_owner_is_told_how_many_before_a_server_is_asked(hopfed, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rows = sparse(900, 300, 4, stream(0, "sparse"))
    np.save(tmp_path / "sparse.npy", rows)
    status, _, error = hopfed("join", "--data", tmp_path / "sparse.npy", "--dry-run")
    assert status == 2
    assert int(re.search(r"(\d+) of 900 rows can be put together", error)[1]) > 850
    assert not (tmp_path / "home").exists()
    noisy = "join", "--data", tmp_path / "sparse.npy", "--dry-run", "--epsilon", 1
    assert hopfed(*noisy)[0] == 0


WITHHELD = "of this batch"


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
    refused(ask(site(tmp_path / "default", rows, questions=0), method(columns=340)), WITHHELD)


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
