"""Rows that break relations of columns that others keep are read off, and are not sent."""

import numpy as np
import pytest
from asking import ask, method, refused, rows_in, site

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.encoding import symmetric
from hopfed.hopfield.leaks.broken_relations import broken_by
from hopfed.hopfield.leaks.columns_apart import set_apart
from hopfed.hopfield.leaks.rare_values import given_away


def answered(rows, questions, kinds, rng):
    """Rows that give one of so many answers to each question, a column for every answer."""
    given = rng.integers(0, kinds, (rows, questions))
    x = given[:, :, None] == np.arange(kinds)
    return np.where(x.reshape(rows, -1), 1, -1).astype(np.int8)


def unanswered(up, columns):
    """The rows without any of these answers, added up: all rows but those that have one."""
    S = symmetric(up["counts"], len(up["columns"]), int(up["examples"]))
    own = up["columns"].astype(float)
    return own - ((own + S[columns]) / 2).sum(axis=0)


def test_the_row_that_breaks_a_relation_is_in_the_operator_and_is_not_sent(tmp_path):
    """One row of 3,000 without an answer; no column and no two set fewer than three apart."""
    rows = answered(3000, 40, 5, stream(2, "answers"))
    rows[17, :5] = -1
    assert not set_apart(kernels.pack(rows), 3)
    assert not given_away(kernels.pack(rows), 3)
    asked = method(columns=200)
    up = ask(site(tmp_path / "open", rows, questions=0, smallest_set=1), asked).up
    assert rows_in(rows[17:18], [unanswered(up, np.arange(5))]) == 1
    default = site(tmp_path / "default", rows, questions=0, smallest_batch=0)
    refused(ask(default, asked), "rows of this batch break relations of its columns")


def any_of(rows, rng):
    """Four columns: any kind, and three kinds, of which one row alone has another."""
    x = draw_examples(rademacher(3, 100, rng), rows, 0.3, rng)[0]
    kind = rng.integers(0, 8, rows)
    x[:, 0] = np.where(kind < 3, 1, -1)
    x[:, 1:4] = np.where(kind[:, None] == np.arange(3), 1, -1)
    x[66, :4] = [1, -1, -1, -1]
    return x, [66]


def two_of(rows, rng):
    """Two rows without an answer, of different questions."""
    x = answered(rows, 20, 5, rng)
    x[17, :5] = x[30, 5:10] = -1
    return x, [17, 30]


def both_of(rows, rng):
    """Two rows without an answer, of one question."""
    x = answered(rows, 20, 5, rng)
    x[[17, 30], :5] = -1
    return x, [17, 30]


@pytest.mark.parametrize("make", [any_of, two_of, both_of])
def test_rows_that_break_relations_are_found(make, hopfed, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rows, alone = make(1200, stream(3, make.__name__))
    assert not set_apart(kernels.pack(rows), 3)
    assert broken_by(kernels.pack(rows), 3).tolist() == alone
    assert set(broken_by(kernels.pack(rows), 2)) <= set(alone)
    assert broken_by(kernels.pack(rows), 1).tolist() == []
    np.save(tmp_path / "d.npy", rows)
    status, _, error = hopfed("join", "--data", tmp_path / "d.npy", "--dry-run")
    assert status == 2
    assert f"row {', '.join(str(m + 1) for m in alone)} break relations" in " ".join(error.split())
    assert hopfed("join", "--data", tmp_path / "d.npy", "--dry-run", "--epsilon", 1)[0] == 0
    assert len(broken_by(kernels.pack(np.delete(rows, alone, axis=0)), 3)) == 0


@pytest.mark.parametrize(
    ("M", "columns", "r"), [(400, 100, 0.7), (1568, 784, 0.8), (809, 800, 0.6)]
)
def test_rows_that_share_no_relation_are_sent(M, columns, r):
    rng = stream(4, "sent", M)
    rows = draw_examples(rademacher(3, columns, rng), M, r, rng)[0]
    assert len(broken_by(kernels.pack(rows), 3)) == 0
    whole = answered(900, 20, 5, rng)
    assert len(broken_by(kernels.pack(whole), 3)) == 0
    whole[[17, 30, 31], :5] = -1
    assert len(broken_by(kernels.pack(whole), 3)) == 0, "three rows are not a few"


@pytest.mark.parametrize(("answers", "found"), [((0, 3, 5), 1), ((0, 3, 5, 8), 1), ((2, 2, 2), 0)])
@pytest.mark.parametrize(("rows", "columns"), [(1000, 60), (2000, 200)])
def test_rows_that_break_a_relation_by_different_amounts_are_digits(rows, columns, answers, found):
    """Of 2,000 rows with one answer of eight, those with none, three and five were read off."""
    draws = stream(0, "tables")
    x = draws.choice([-1, 1], (rows, columns))
    given = np.ones(rows, int)
    who = np.arange(len(answers))
    given[who] = answers
    x[:, :8] = np.where(draws.random((rows, 8)).argsort(axis=1) < given[:, None], 1, -1)
    weights = (x[:, :8].sum(axis=1) + 6) / 2
    assert (np.flatnonzero(weights) == who).all()
    if found:  # -1, 2, 4 and 7: of the sum, the sign of the largest weight is that of its row
        assert (np.sign(weights @ x) == x[who[-1]]).mean() > 0.8
    assert (len(broken_by(kernels.pack(x), 3)) > 0) == bool(found)
    assert len(broken_by(kernels.pack(x), 2)) == 0


@pytest.mark.parametrize("questions", [2, 4, 8])
def test_relations_that_others_break_too_do_not_hide_each_other(questions):
    draws = stream(0, "tables")
    parts = [draws.choice([-1, 1], (3000, 20))]
    for k in range(questions):
        given = np.ones(3000, int)
        given[3 * k : 3 * k + 3] = 0, 3, 5
        order = draws.random((3000, 8)).argsort(axis=1)
        parts.append(np.where(order < given[:, None], 1, -1))
    found = broken_by(kernels.pack(np.hstack(parts)), 3)
    assert set(3 * np.arange(questions) + 2) <= set(found.tolist())


def test_the_row_without_an_answer_among_five_hundred_is_found():
    """Of 40,000 rows, the one that breaks the relation was lost in rounding, and is in the table.

    The sum of the columns of all answers is the same in every row but that.
    """
    answers, M, at = 500, 40_000, 12_345
    rng = np.random.default_rng(0)
    x = np.hstack([2 * np.eye(answers)[np.arange(M) % answers] - 1, rng.choice([-1, 1], (M, 5))])
    x[at, :answers] = -1
    S, columns = x.T @ x, x.sum(axis=0)
    told = S[:, :answers].sum(axis=1) + (answers - 2) * columns
    assert (told / -2 == x[at]).all()
    rows = kernels.pack(x)
    assert set_apart(rows, 3) == []
    assert broken_by(rows, 3).tolist() == [at]


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
