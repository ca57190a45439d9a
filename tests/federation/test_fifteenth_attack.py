"""Attacks on what leaves a site: rows that break nearly the same relations, and questions twice."""

import numpy as np
import pytest
from asking import ask, method, refused, site

from hopfed import kernels
from hopfed.federation.engines.flower.limited_log import MOST, Sparing
from hopfed.hopfield.encoding import symmetric
from hopfed.hopfield.graded.private import question_name
from hopfed.hopfield.leaks.broken_relations import broken_by

MIXED = tuple((6, k) for k in (3, 4, 6, 8, 10, 12, 15, 20, 25))
OTHERS = tuple((9, k) for k in (4, 6, 8, 12, 16, 20, 25, 30))
MANY = tuple((14, k) for k in (6, 8, 12, 16, 20, 25, 30, 36))


def survey(seed, rows, kinds, single, odd, people=1):
    """Questions, of which some are asked twice.

    Of `kinds` each is a number of questions that are asked twice, and how many people answer them
    in two ways. The first person does so in a share `odd` of them, too; so do the first `people`.
    """
    rng = np.random.default_rng(seed)
    n = sum(number for number, _ in kinds)
    share = rng.uniform(0.3, 0.7, n + single)
    classes = np.clip(share + rng.uniform(-0.25, 0.25, (3, n + single)), 0.1, 0.9)
    yes = rng.random((rows, n + single)) < classes[rng.integers(3, size=rows)]
    once = np.where(yes, 1, -1)
    again, at = once[:, :n].copy(), 0
    for number, wrong in kinds:
        for _ in range(number):
            again[rng.choice(np.arange(1, rows), wrong, replace=False), at] *= -1
            if rng.random() < odd:
                again[0, at] *= -1
            at += 1
    other = once[0, :n] != again[0]
    for person in range(1, people):
        again[person] = np.where(other, -1, 1) * once[person, :n]
    return np.hstack([once[:, :n], again, once[:, n:]]).astype(np.int8)


def guessed(S, rows):
    """A row, up to its sign, from an operator: what few rows break has a sum that is of one row."""
    apart = (rows - np.abs(S)) / 2
    np.fill_diagonal(apart, rows)
    best, found = 0.0, np.ones(len(S))
    for most in (3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30):
        pairs = np.argwhere(np.triu((apart > 0) & (apart <= most), 1))
        if not 4 <= len(pairs) <= 200:
            continue
        V = np.zeros((len(S), len(pairs)))
        for t, (i, j) in enumerate(pairs):
            V[i, t], V[j, t] = 0.5, -0.5 * np.sign(S[i, j])
        V /= np.sqrt(np.maximum(np.diag(V.T @ S @ V), 1))
        y = S @ (V @ np.linalg.eigh(V.T @ S @ V)[1][:, -1])
        alike = np.abs(y).mean() / np.sqrt(np.square(y).mean())
        if alike > best:
            best, found = alike, np.sign(y)
    return found


def right(row, guess):
    return max((row == guess).mean(), (row == -guess).mean())


@pytest.mark.parametrize(
    ("rows", "kinds", "single", "odd", "seed"),
    [
        (400, MIXED, 40, 0.4, 101),
        (500, OTHERS, 60, 0.5, 102),
        (600, MANY, 60, 0.3, 101),
        (400, ((18, 2), (40, 20)), 40, 1.0, 100),
    ],
)
def test_who_answers_otherwise_the_second_time_is_read_off_and_is_not_sent(
    tmp_path, rows, kinds, single, odd, seed
):
    x = survey(seed, rows, kinds, single, odd)
    S = x.T.astype(int) @ x.astype(int)
    assert right(x[0], guessed(S, rows)) > 0.9, "the attack works"
    node = site(tmp_path, x, questions=0, smallest_batch=0)  # as `hopfed join` at its defaults
    refused(ask(node, method(columns=x.shape[1])), "rows of this batch break relations")
    assert 0 in broken_by(kernels.pack(x), 3)


def test_where_nobody_stands_out_the_table_is_sent(tmp_path):
    x = survey(100, 600, MANY, 60, 0.0)
    node = site(tmp_path, x, questions=0, smallest_batch=0)
    reply = ask(node, method(columns=x.shape[1]))
    assert not reply.fault
    S = symmetric(reply.up["counts"], x.shape[1], len(x))
    assert right(x[0], guessed(S, len(x))) < 0.8


def test_two_who_answer_alike_are_found_where_columns_do_not_tell_them_apart():
    """What both have in common is read off, as the columns in which they agree."""
    kinds = tuple((5, k) for k in (10, 20, 30, 40, 60))
    x = survey(1, 2000, kinds, 20, 1.0, people=2)
    alike = x[0] == x[1]
    S = x.T.astype(int) @ x.astype(int)
    assert right(x[0][alike], guessed(S, len(x))[alike]) > 0.9
    assert broken_by(kernels.pack(x), 3).tolist() == [0, 1]
    assert broken_by(kernels.pack(x), 2).tolist() == []


def test_three_alone_in_columns_are_no_few():
    """Of any two of them a third has as much, and the sum over three may be had."""
    rng = np.random.default_rng(0)
    x = rng.choice([-1, 1], (2000, 30))
    rare = -np.ones((2000, 10), int)
    rare[rng.permutation(2000)[:30], np.repeat(np.arange(10), 3)] = 1
    assert len(broken_by(kernels.pack(np.hstack([x, rare])), 3)) == 0


@pytest.mark.parametrize("columns", [50, 200])
def test_ordinary_tables_are_sent(columns):
    rng = np.random.default_rng(0)
    level = rng.uniform(-1, 1, (3, columns))
    graded = (1 + level[rng.integers(3, size=400)]) / 2
    ability = rng.normal(size=(400, 1)) - rng.uniform(-1.5, 1.5, columns)
    quality = rng.uniform(0.3, 0.95, (400, 1))
    archetypes = rng.random((5, columns)) < 0.5
    chances = {
        "graded": graded,
        "a test": 1 / (1 + np.exp(-1.5 * ability)),
        "rows of any quality": 0.5 + quality * (archetypes[rng.integers(5, size=400)] - 0.5),
        "sparse": np.broadcast_to(rng.uniform(0.05, 0.3, columns), (400, columns)),
    }
    for name, chance in chances.items():
        x = np.where(rng.random((400, columns)) < chance, 1, -1)
        assert len(broken_by(kernels.pack(x), 3)) == 0, name


def test_a_server_that_asks_without_end_fills_no_log():
    said = []
    sparing = Sparing(said.append)
    for t in range(100):
        sparing(f"round {t}: not answered: rows are few", "rows are few")
    assert said == ["round 0: not answered: rows are few"]
    for t in range(2 * MOST):
        sparing(f"a request that is none: {t}")
    assert len(said) == MOST
    assert said[-1].endswith("no more follow")


def test_zero_has_one_sign_in_the_name_of_a_question():
    shares = np.ones(1, np.float32)
    names = {
        question_name("sums", {"means": np.full((1, 4), zero, np.float32), "shares": shares})
        for zero in (0.0, -0.0)
    }
    assert len(names) == 1
