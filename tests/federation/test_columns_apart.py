"""Rows that a column or two set apart from all others are in the exact table: not sent."""

from dataclasses import replace

import numpy as np
import pytest
from asking import N, ask, method, refused, rows_in, signs, site

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.hopfield.encoding import symmetric
from hopfed.hopfield.leaks.columns_apart import set_apart
from hopfed.kernels import PackedBits


def lone(M=400):
    """Rows of which one alone has -1 in column 3."""
    rows = signs(M).copy()
    rows[:, 3] = 1
    rows[17, 3] = -1
    return rows


def test_a_row_with_a_value_of_its_own_is_in_the_operator_and_is_not_sent(tmp_path):
    """Ten times as many rows as columns: column sums less a row of the counts are that row."""
    rows = lone()
    sent = ask(site(tmp_path / "open", rows, smallest_set=1), method()).up
    S = symmetric(sent["counts"], N, len(rows))
    assert rows_in(rows[17:18], [(sent["columns"] - S[3]) / 2]) == 1
    for form in ("counts", "factors", "sketch"):
        asked = method()
        asked = replace(asked, encoding=replace(asked.encoding, form=form, width=N))
        reply = ask(site(tmp_path / form, rows), asked)
        refused(reply, "fewer than 3 rows of this batch")
        assert "column 4" not in reply.reason


def test_a_row_in_which_two_columns_differ_is_in_the_operator_and_is_not_sent(tmp_path):
    rows = signs(400).copy()
    rows[:, 5] = -rows[:, 3]
    rows[20, 5] = rows[20, 3]
    sent = ask(site(tmp_path / "open", rows, smallest_set=1), method()).up
    S = symmetric(sent["counts"], N, len(rows))
    half = (S[3] + S[5]) / 2
    assert rows_in(rows[20:21], [half, -half]) == 1
    refused(ask(site(tmp_path, rows), method()), "fewer than 3 rows of this batch")


def test_the_columns_are_named_to_the_owner_alone(tmp_path, hopfed):
    np.save(tmp_path / "d.npy", lone())
    arguments = ("join", "--data", tmp_path / "d.npy", "--dry-run")
    status, _, error = hopfed(*arguments)
    assert status == 2
    assert "column 4 set fewer than 3 rows apart" in error
    assert hopfed(*arguments, "--epsilon", 1)[0] == 0
    assert hopfed(*arguments, "--smallest-set", 1)[0] == 0


@pytest.mark.parametrize("least", [2, 3, 7])
def test_few_rows_are_found_by_brute_force(least):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.choice([-1, 1], (int(rng.integers(4, 40)), int(rng.integers(2, 300))))
        some = rng.integers(0, x.shape[1], 3)
        x[:, some] = np.where(rng.random((len(x), 3)) < 0.1, -1, 1)
        found = set_apart(kernels.pack(x), least)
        for columns in found:
            values = x[:, columns[0]] * (x[:, columns[1]] if len(columns) > 1 else 1)
            assert 0 < min((values > 0).sum(), (values < 0).sum()) < least
        alone = np.minimum((x > 0).sum(axis=0), (x < 0).sum(axis=0))
        assert {c for c, *more in found if not more} == set(
            np.flatnonzero((alone > 0) & (alone < least))
        )
        differ = (len(x) - np.abs(x.T @ x)) // 2
        pairs = np.triu((differ > 0) & (differ < least), 1).any(axis=1)
        assert {c for c, *more in found if more} == set(np.flatnonzero(pairs))


def test_pairs_of_columns_are_looked_at_in_wide_tables(tmp_path):
    """Two columns that differ in one row, of more columns than are few."""
    rng = stream(4, "wide")
    rows = np.where(rng.random((60, 4200)) < 0.5, 1, -1).astype(np.int8)
    rows[:, 4150] = rows[:, 4000]
    rows[7, 4150] *= -1
    assert (4000, 4150) in set_apart(kernels.pack(rows), 3)


def test_a_row_among_many_millions_is_counted():
    """Sums in single precision lost one row of 33 million, which an exact table holds."""
    M = 2**25 + 2
    few = kernels.pack(np.array([[1, 1, 1], [1, -1, 1]])).words
    words = np.repeat(few[:1], M, axis=0)
    words[M // 2] = few[1]
    rows = PackedBits(words, 3)
    assert set_apart(rows, 3) == [(1,), (0, 1), (1, 2)]
