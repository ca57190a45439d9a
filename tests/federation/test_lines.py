"""Votes less two lines of the operator: what is left of the rows in which two columns differ."""

from itertools import product

import numpy as np
from asking import ask, known, method, rows_in, site

from hopfed import kernels
from hopfed.data.channel import draw_examples, rademacher
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
