"""Votes less one line of the operator, or two: what is left of the rows in which columns differ."""

from itertools import product

import numpy as np
import pytest
from asking import ask, known, method, rows_in, site

from hopfed import kernels
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.client import vote
from hopfed.hopfield.encoding import symmetric
from hopfed.hopfield.leaks.columns_apart import lines_apart
from hopfed.hopfield.plasticity.rules import Broadcast


def test_votes_less_two_lines_do_not_leave_a_row(tmp_path):
    """In eleven rows two columns differ; ten of them vote for one pattern, and leave the last."""
    rng, columns, M = np.random.default_rng(3), 60, 200
    named, other = rademacher(2, columns, rng)
    rows = draw_examples(other[None], M, 0.8, rng)[0]
    rows[:10] = draw_examples(named[None], 10, 0.9, rng)[0]
    rows[10] = rademacher(1, columns, rng)[0]
    rows[:, 1] = rows[:, 0]
    rows[:11, 0], rows[:11, 1] = 1, -1
    node, asked = site(tmp_path, rows, smallest_set=1), method(columns=columns)
    started = ask(node, asked)
    up = ask(node, asked, 0, 2, started.state, known(named[None])).up
    S = symmetric(started.up["counts"], columns, M)
    guesses = [
        sign * ((S[0] - S[1]) / 2 - way * up["votes"][0]) for sign in (1, -1) for way in (1, -1)
    ]
    assert rows_in(rows[10:11], guesses) == 0
    assert up["voters"].tolist() == [0]


def test_what_two_lines_and_votes_leave_is_found_by_brute_force():
    least, found = 4, 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        M, N, K = int(rng.integers(6, 26)), int(rng.integers(2, 7)), int(rng.integers(1, 4))
        x, chosen = rng.choice([-1, 1], (M, N), p=[0.3, 0.7]), np.zeros((M, K))
        draw = rng.choice([-1, 0, 1], M, p=[0.15, 0.25, 0.6])
        chosen[np.arange(M), rng.integers(0, K, M)] = draw
        if seed % 2:  # votes that a pair of columns sorts, too
            chosen[:, 0] = np.where(rng.random(M) < 0.8, (x[:, 0] - x[:, 1]) / 2, 0)
            chosen[:, 1:][chosen[:, 0] != 0] = 0
        chosen[:, np.abs(chosen).sum(axis=0) < least] = 0
        brute = any(0 < n < least for n in left(x, chosen))
        got = lines_apart(kernels.pack(x), chosen, least)
        assert (got is not None) == brute, seed
        assert got is None or chosen[:, got].any()
        found += brute
    assert 50 < found < 250


def left(x, chosen):
    """Rows that any two lines leave with any votes, however they are signed."""
    some = np.abs(chosen).sum(axis=0) > 0
    for i, j, sign in product(range(x.shape[1]), range(x.shape[1]), (1, -1)):
        for ways in product((-1, 0, 1), repeat=chosen.shape[1]):
            if i < j and (np.array(ways)[some] != 0).any():
                yield np.count_nonzero((x[:, i] + sign * x[:, j]) / 2 - chosen @ np.array(ways))


def test_votes_of_rows_that_no_two_columns_sort_are_as_they_were():
    rng = np.random.default_rng(0)
    xi = rademacher(3, 200, rng)
    rows = kernels.pack(draw_examples(xi, 300, 0.6, rng)[0])
    free, held = (vote(rows, Broadcast(xi, 0.6), np.ones(3), least) for least in (1, 10))
    assert (free["voters"] - held["voters"]).sum() <= 10


@pytest.mark.parametrize("seed", [15, 32, 34, 36])
def test_votes_less_a_line_of_the_operator_do_not_leave_a_row(tmp_path, seed):
    """Patterns in pairs that differ in one column sort all voters by it, as the operator does.

    For these 4 of 40 seeds one row alone voted for nothing, and the difference was that row.
    """
    rng, columns, M = np.random.default_rng(seed), 120, 150
    rows = draw_examples(rademacher(3, columns, rng), M, 0.7, rng)[0]
    node, asked = site(tmp_path, rows), method(columns=columns)
    started = ask(node, asked)
    first = rademacher(2, columns, rng)
    patterns = np.repeat(first, 2, axis=0)
    patterns[1::2, 0] *= -1
    down = known(patterns, 1.0) | {"sure": np.full(4, 0.035, np.float32)}
    up = ask(node, asked, 0, 2, started.state, down).up
    away = M - int(up["voters"].sum())
    assert away == 0 or away >= 10
    line = symmetric(started.up["counts"], columns, M)[0]
    left = line - patterns[:, 0] @ up["votes"]
    assert rows_in(rows, [left, -left]) == 0


def test_votes_that_agree_in_a_column_but_for_one_row_do_not_leave_it(tmp_path):
    """An honest question about rows of much quality left such a row, too."""
    rng, columns, M = np.random.default_rng(1), 60, 300
    rows = draw_examples(rademacher(3, columns, rng), M, 0.6, rng)[0]
    pattern = rademacher(1, columns, rng)[0]
    overlap = rows[:, 1:] @ pattern[1:].astype(int)
    rows[:, 0] = np.sign(overlap) * pattern[0]
    rows[np.abs(overlap).argmax(), 0] *= -1
    node, asked = site(tmp_path, rows), method(columns=columns)
    started = ask(node, asked)
    assert not started.fault
    down = known(pattern[None], 1.0) | {"sure": np.full(1, 1e-3, np.float32)}
    up = ask(node, asked, 0, 2, started.state, down).up
    line = symmetric(started.up["counts"], columns, M)[0]
    half = (line - pattern[0] * up["votes"][0]) / 2
    assert rows_in(rows, [half, -half]) == 0
    assert up["voters"].sum() <= M - 10


def test_votes_are_looked_at_in_either_precision(monkeypatch):
    rows = kernels.pack(np.random.default_rng(0).choice([-1, 1], (200, 12)))
    votes = np.where(np.arange(200) < 90, 1.0, 0.0)[:, None]
    cases = [(votes, 2), (votes, 120), (votes[:, :0], 2)]
    single = [lines_apart(rows, *case) for case in cases]
    monkeypatch.setattr("hopfed.hopfield.leaks.columns_apart.EXACT", 0)
    assert [lines_apart(rows, *case) for case in cases] == single == [None, 0, None]
