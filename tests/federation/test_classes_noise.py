"""Answers about classes with noise: budgets, and servers that look for single rows."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from asking import N, ask, refused, site, slices
from federations import of_classes, private_classes, private_patterns
from graded_tables import classes

from hopfed.errors import ArgumentError
from hopfed.federation.messages import digest
from hopfed.hopfield import clients
from hopfed.hopfield.ledger import Ledger
from hopfed.hopfield.noise import ClassNoise
from hopfed.hopfield.stream import Elsewhere

M = 400  # rows


def asked(rounds=1, epsilon=1.0, **settings):
    return private_classes(Elsewhere(rounds), N, epsilon, **settings)


def table(gaps=0.2, seed=0):
    return classes(3, N, M, seed, missing=gaps)[2]


def client(folder, rows=None, home=None):
    """Return a client that agreed to noise of epsilon 1 and trusts nobody."""
    rows = table() if rows is None else rows
    return site(folder, rows, epsilon=1.0, ledger=Ledger((home or folder) / "privacy"))


def spent(folder):
    """What the ledger of a home says of the first batch."""
    (entry,) = json.loads((folder / "privacy" / "ledger").read_text())["released"]
    return list(entry["spent"]["0"].values())


def told(shift=0.0, K=2):
    means = np.random.default_rng(1).uniform(-0.9, 0.9, (K, N)) * (1 - shift)
    return {"means": means.astype(np.float32), "shares": np.full(K, 1 / max(K, 1), np.float32)}


def test_questions_are_charged_until_the_budget_is_spent_and_repeats_are_free(tmp_path):
    node = client(tmp_path)
    first = ask(node, asked())  # pairs, two units of twelve
    replies = [ask(node, asked(), 0, 1, first.state, told(0.01 * i)) for i in range(12)]
    assert [bool(r.fault) for r in replies] == [False] * 10 + [True] * 2
    started = ask(node, asked(), seed=5, client=3)
    assert digest(started.message) == digest(first.message)
    for state, where in ((first.state, {}), (started.state, {"seed": 5, "client": 3})):
        again = ask(node, asked(), 0, 1, state, told(), **where)
        assert digest(again.message) == digest(replies[0].message)


@pytest.mark.parametrize("change", ["order", "home", "terms", "operator", "row", "gap"])
def test_no_way_around_the_ledger_gives_fresh_noise(tmp_path, change):
    rows = table()
    if change == "gap":  # of complete rows nothing is another row because one beside has a gap
        rows = np.where(rows == 0, 1, rows)
    first = ask(client(tmp_path, rows), asked())
    asking = {
        "home": asked(byzantine=0.3, discount=0.5),
        "terms": asked(epsilon=1 - 1e-9),
        "operator": private_patterns(Elsewhere(1), N, 1.0),
    }.get(change, asked())
    again = {
        "order": rows[np.random.default_rng(3).permutation(M)],
        "row": np.concatenate([rows, table(seed=1)[:1]]),
        "gap": np.vstack([table()[:1], rows[1:]]),
    }.get(change, rows)
    reply = ask(client(tmp_path / "b", again, home=tmp_path), asking)
    if change in ("order", "home"):  # the same noise: of another order, or started again
        np.testing.assert_array_equal(reply.message["pairs"], first.message["pairs"])
    else:
        refused(reply, "have gaps" if change == "operator" else "released")


def test_the_ledger_holds_what_was_spent_before_an_answer_leaves(tmp_path, monkeypatch):
    node, held = client(tmp_path), []

    def answer(self, *arguments):
        held.append(spent(tmp_path))
        raise KeyboardInterrupt

    monkeypatch.setattr(ClassNoise, "answer", answer)
    with pytest.raises(KeyboardInterrupt):
        ask(node, asked())
    assert held == [[2]]


def test_a_server_that_is_trusted_can_read_rows_off_as_the_page_says(tmp_path):
    rows, found = table(gaps=0), []
    there = {tuple(row) for row in rows.astype(int)}
    for seed in range(2):  # each of them a server that knows nothing, in one round
        node, asking = site(tmp_path / str(seed), rows), of_classes(Elsewhere(1), N)
        state = ask(node, asking).state

        def question(means, shares, node=node, asking=asking, state=state):
            down = {"means": np.float32(means), "shares": np.float32(shares)}
            return ask(node, asking, 0, 1, state, down)

        found.append(len(slices(rows, question, seed) & there))
    assert sum(found) >= 4  # nothing stops this but not to join


WRONG = {
    "malformed message": [
        *(told(K=0), told(K=201), told() | {"more": np.ones(3)}),
        told() | {"shares": np.full(2, 0.9, np.float32)},
        *(told() | {"means": np.full((2, N), mean, np.float32)} for mean in (1.5, np.nan)),
    ],
    "too many for one answer": [told(K=180)],
}


@pytest.mark.parametrize(("words", "down"), [(w, down) for w in WRONG for down in WRONG[w]])
def test_what_is_no_question_is_refused_and_costs_nothing(tmp_path, words, down, monkeypatch):
    monkeypatch.setattr(clients, "NUMBERS", 10**5)
    node = client(tmp_path)
    state = ask(node, asked()).state
    refused(ask(node, asked(), 0, 4, state, down), words)
    assert spent(tmp_path) == [2]


def test_questions_at_once_under_two_keys_do_not_spend_more_than_there_is(tmp_path):
    rows, rng = table(), np.random.default_rng(0)
    nodes = [client(tmp_path / str(i), rows[rng.permutation(M)], tmp_path) for i in range(2)]
    states = [ask(node, asked()).state for node in nodes]
    downs = [told(0.01 * i) for i in range(24)]

    def one(i):
        return ask(nodes[i % 2], asked(), 0, 1, states[i % 2], downs[i])

    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(one, range(24)))
    assert sum(not reply.fault for reply in replies) == 10
    assert sum(spent(tmp_path)) == 12


def test_no_words_hold_the_secret_of_the_noise():
    asking = private_classes(Elsewhere(1), N, 1.0, secret=2**255 + 12345)
    assert str(asking.noise.secret) not in repr(asking)
    with pytest.raises(ArgumentError) as error:
        replace(asking.noise, delta=3.0)
    assert str(asking.noise.secret) not in str(error.value)
