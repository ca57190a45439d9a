"""Servers that lie: each of these works on a client that does as it is told."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from asking import M, N, ask, known, method, refused, rows_in, signs, site

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.errors import ArgumentError
from hopfed.federation.contract import Context
from hopfed.federation.faults import Fault
from hopfed.federation.messages import digest
from hopfed.federation.recipes import describe
from hopfed.hopfield.batches import Batches, Elsewhere
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.encoding import Encoding, symmetric
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.plasticity.rules import Agreement, Fixed
from hopfed.hopfield.site.limits import Limits
from hopfed.tables.examples import as_examples


def of_two_rows(message, columns):
    """Rebuild two rows from their column sums and products."""
    products = symmetric(message["counts"], columns, 2)
    sums = message["columns"]
    first = np.where(sums == 0, np.sign(products[(sums == 0).argmax()]), np.sign(sums))
    return first, np.where(sums == 0, -first, first)


def test_a_server_cannot_deal_the_rows_out_in_pairs(tmp_path):
    rows, guesses = signs(60), []
    node = site(tmp_path, rows)
    asked = method(30, groups=0, votes=False)
    replies = [ask(node, asked, t) for t in range(30)]
    for reply in replies:
        if reply.up:
            guesses += of_two_rows(reply.up, N)
    assert rows_in(rows, guesses) == 0, "rows rebuilt from operators alone"
    assert all(refused(r, "batches of fewer than the 50 rows") for r in replies)


def test_a_number_that_is_an_array_is_refused(tmp_path):
    reply = ask(site(tmp_path), _array_as_rounds())
    assert reply.fault == Fault.RAISED
    assert not reply.up
    with pytest.raises(ArgumentError, match="rounds must be a whole number"):
        Elsewhere(np.array([1]))


def _array_as_rounds():
    """Return a method whose number of rounds is an array of one number, which divides at 1."""
    made = method(groups=0, votes=False)
    object.__setattr__(made.source, "rounds", np.array([1]))
    return made


@pytest.mark.parametrize("rounds", ["true", "1.0", "-1", "0", "NaN", "Infinity", '"2"', "null"])
def test_a_number_of_another_type_is_refused(tmp_path, rounds):
    text, _ = describe(method())
    text = text.replace('"rounds": 1', f'"rounds": {rounds}')
    assert rounds in text
    refused(ask(site(tmp_path), text), "Elsewhere.rounds is not a whole number from 1")


def test_the_weight_answers_no_questions(tmp_path):
    asked = method(rule=Agreement())
    where = {"down": known(rademacher(2, N, stream(0, "asked")))}
    reply = ask(site(tmp_path), asked, **where)
    refused(reply, "weighs its examples by Fixed, not by Agreement")
    agreed = ask(site(tmp_path / "agreed", weight=True), asked, **where)
    assert not agreed.fault, agreed.reason


def test_metrics_stay(tmp_path):
    for each in (method(), method(rule=Fixed(0.5))):
        reply = ask(site(tmp_path), each, down=known(rademacher(2, N, stream(0, "asked"))))
        assert not reply.fault
        assert reply.metrics == {}


def test_two_dealings_cannot_be_subtracted(tmp_path):
    """Nor under another name, by a new process, or under another number."""
    rows = signs(200)
    first = ask(site(tmp_path, rows), method(2))
    assert not first.fault
    for rounds in (1, 3, 4):
        node = site(tmp_path, rows)
        reply = ask(node, method(rounds), run="another", client=rounds)
        refused(reply, "dealt over 2 round(s)")
    again = ask(site(tmp_path, rows), method(2), run="another", client=5)
    assert digest(again.up) == digest(first.up)


def test_with_noise_there_is_one_dealing_too(tmp_path):
    rows = signs(200)
    node = site(tmp_path, rows, epsilon=1.0)
    assert not ask(node, PrivateFederation(Elsewhere(2), N, 1.0)).fault
    other = ask(site(tmp_path, rows, epsilon=1.0), PrivateFederation(Elsewhere(3), N, 1.0))
    refused(other, "2 round(s), and are not released on other terms")


def test_a_group_of_one_row_is_not_answered(tmp_path):
    """Groups as many as rows: in each the products of a row with itself, from which it follows."""
    rows, node = signs(), site(tmp_path, most_numbers=10**6)
    asked = method(groups=M)
    started = ask(node, asked)
    basis = {"basis": np.eye(N, dtype=np.float32)}
    reply = ask(node, asked, 0, 1, started.state, basis)
    alone = reply.up["groups"][reply.up["sizes"] == 1] if reply.up else np.zeros((0, 0))
    lower = np.tri(N, dtype=bool)
    guesses = []
    for triangle in alone:
        matrix = np.zeros((N, N))
        matrix[lower] = triangle
        guesses += [np.sign(matrix[:, 0]), -np.sign(matrix[:, 0])]
    assert rows_in(rows, guesses) == 0, "rows rebuilt from projections"
    assert reply.up["sizes"].sum() == M
    assert reply.up["sizes"][reply.up["sizes"] > 0].min() >= 50


def test_groups_cannot_be_drawn_again(tmp_path):
    """Other groups of the same rows, and other directions, would be further equations."""
    node, asked = site(tmp_path), method()
    bases, sums = (np.eye(N, dtype=np.float32)[:, i : i + 3] for i in (0, 3)), []
    first, other = bases
    asks = [(first, 0, 0), (first, 1, 0), (first, 0, 1), (other, 0, 0), (first, 0, 0)]
    for i, (basis, seed, client) in enumerate(asks):
        where = {"run": f"run{i}", "seed": seed, "client": client}
        started = ask(node, asked, **where)
        assert not started.fault
        reply = ask(node, asked, 0, 1, started.state, {"basis": basis}, **where)
        if i in (0, 4):
            sums.append(reply.up["groups"])
        else:
            refused(reply, "answer 1 different question(s) by projections")
    np.testing.assert_array_equal(*sums)


def test_huge_groups_and_bases_are_refused_before_they_are_made(tmp_path):
    node = site(tmp_path)
    for groups, width in ((2**20, 4), (4, 4000)):
        asked = method(groups=groups)
        started = ask(node, asked)
        down = {"basis": np.zeros((N, width), np.float32)}
        refused(ask(node, asked, 0, 1, started.state, down), "numbers more")
    text, _ = describe(method())
    huge = text.replace('"groups": 4', '"groups": 1000000000')
    refused(ask(node, huge, run="another"), "groups is not")


def test_a_pattern_of_one_row_gets_no_vote(tmp_path):
    """The server names a pattern that a single row resembles, and one for all the others."""
    rows = signs(quality=0.9)
    rows[5] = rademacher(1, N, stream(0, "a person"))[0]
    node, asked = site(tmp_path, rows, smallest_set=2), method()  # with 3 the row is too odd
    started = ask(node, asked)
    down = known(rows[5:6] * np.where(np.arange(N) < 3, -1, 1))
    reply = ask(node, asked, 0, 2, started.state, down)
    assert rows_in(rows[5:6], np.sign(reply.up["votes"])) == 0
    assert reply.up["voters"].tolist() == [0]
    assert not reply.up["votes"].any()


def test_the_one_who_did_not_vote_does_not_follow_from_the_sums(tmp_path):
    """All rows but one vote, all of them for: column sums less the votes are that row."""
    rng = stream(0, "all but one")
    rows = draw_examples(rademacher(1, N, rng), M, 0.9, rng)[0]
    rows[5] = rademacher(1, N, stream(0, "a person"))[0]
    node, asked = site(tmp_path, rows, smallest_set=1), method()
    started = ask(node, asked)
    reply = ask(node, asked, 0, 2, started.state, known(np.sign(rows.sum(axis=0))[None]))
    left = started.up["columns"] - reply.up["votes"].sum(axis=0)
    assert rows_in(rows, [left]) == 0
    assert reply.up["voters"].sum() <= M - 10  # nine votes at least are left out beside that row


def test_votes_on_two_sets_of_patterns_cannot_be_subtracted(tmp_path):
    """A little more quality, and one row fewer votes: the difference is that row."""
    rows, found = signs(quality=0.9), []
    pattern = np.sign(rows.sum(axis=0))[None] + 0
    pattern[pattern == 0] = 1
    node, asked, sums = site(tmp_path, rows, smallest_set=2), method(), []
    for i, quality in enumerate(np.linspace(0.2, 1.0, 30)):
        started = ask(node, asked, run=f"run{i}")
        reply = ask(node, asked, 0, 2, started.state, known(pattern, quality), run=f"run{i}")
        if not reply.fault:
            sums.append(reply.up["votes"][0])
    for a, b in pairwise(sums):
        found += [a - b, b - a]
    assert rows_in(rows, found) == 0
    assert len(sums) == 1
    refused(reply, "answer 1 different question(s) by votes")


def test_rows_of_one_round_are_not_grouped_as_those_of_another(tmp_path):
    """The state that a request names is that of its round."""
    node, asked = site(tmp_path, signs(200)), method(2)
    started = ask(node, asked, 0)
    basis = {"basis": np.eye(N, dtype=np.float32)[:, :2]}
    refused(ask(node, asked, 1, 1, started.state, basis), "not that of this round")
    refused(ask(node, asked, 0, 1, b"", basis), "not that of this round")
    refused(ask(node, asked, 2, 0), "round must be in 0 .. 1")
    refused(ask(node, asked, 0, 3, started.state, basis), "exchange must be one of the round")


def test_only_so_many_numbers_leave(tmp_path):
    """Forms, widths and seeds without end; the same question is free."""
    node, sent, free = site(tmp_path), 0, 0
    for seed in range(200):
        encoding = Encoding(N, "sketch", 20, seed=seed)
        reply = ask(node, replace(method(), encoding=encoding), run=f"r{seed}")
        sent += sum(a.size for a in reply.up.values())
    refused(reply, "may leave about a row")
    assert 0 < sent <= Limits().numbers(N)
    for _ in range(3):
        again = ask(site(tmp_path), replace(method(), encoding=Encoding(N, "sketch", 20)))
        free += not again.fault
    assert free == 3


def test_the_name_of_a_state_does_not_confirm_a_guess(tmp_path):
    rows = as_examples(signs())
    reply = ask(site(tmp_path), method())
    state, _, _ = replace(method(), source=Batches((rows,))).client_step({}, {}, Context(0, 0, 0))
    assert digest(state) != reply.state


def rebuilt(operator, rows):
    """Rows of +-1 that lie in the range of an operator, as independent components of it."""
    values, vectors = np.linalg.eigh(operator)
    U = vectors[:, values > 1e-3].astype(np.float32)
    found, rng = set(), np.random.default_rng(0)
    for _ in range(20):
        Y = U @ rng.standard_normal((U.shape[1], 1000)).astype(np.float32)
        for _ in range(10):
            Y /= np.sqrt((Y * Y).mean(axis=0))
            Y = U @ (U.T @ (Y * np.clip(3 - Y * Y, -3, 3)))
        for _ in range(30):
            Y = U @ (U.T @ np.sign(Y))
        Z = np.where(Y < 0, -1, 1)
        inside = np.abs(Z - U @ (U.T @ Z)).max(axis=0) < 0.1
        found |= {tuple(z * z[0]) for z in Z.T[inside]}
        if len(found) >= rows:
            break
    return found


def test_an_operator_of_few_rows_gives_them_away_and_is_not_sent(tmp_path):
    columns = 784
    rows = signs(600, columns, 0.6)
    few = kernels.unpack(Batches((as_examples(rows),), 12).examples(3, 0))
    found = rebuilt((few.T.astype(float) @ few), len(few))
    assert {tuple(r * r[0]) for r in few.astype(int)} == found
    reply = ask(site(tmp_path, rows, smallest_batch=0), method(12, columns, groups=0, votes=False))
    refused(reply, "batches of fewer than the 1568 rows")
    mine = site(tmp_path, rows, smallest_batch=150)
    assert not ask(mine, method(4, columns, groups=0, votes=False)).fault
