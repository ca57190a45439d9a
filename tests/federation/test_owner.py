"""What an owner takes part in and what leaves it; servers that look for single rows."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from asking import N, ask, known, method, refused, signs, site, slices
from federations import of_classes, of_patterns, private_classes, private_patterns
from graded_tables import classes

from hopfed import kernels
from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import serve
from hopfed.federation.contract import Call, Context
from hopfed.federation.messages import digest
from hopfed.hopfield import class_questions, clients, example_sources
from hopfed.hopfield.clients import client_from_recipe
from hopfed.hopfield.example_sources import BatchSource, RemoteSource
from hopfed.hopfield.noise import ClassNoise
from hopfed.hopfield.owner import Owner
from hopfed.hopfield.privacy_ledger import Ledger, Terms
from hopfed.kernels.examples import as_examples

M = 400  # rows


def asked(rounds=1, epsilon=1.0, **settings):
    return private_classes(RemoteSource(rounds), N, epsilon, **settings)


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
        "operator": private_patterns(RemoteSource(1), N, 1.0),
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
        node, asking = site(tmp_path / str(seed), rows), of_classes(RemoteSource(1), N)
        state = ask(node, asking).state

        def question(means, shares, node=node, asking=asking, state=state):
            down = {"means": np.float32(means), "shares": np.float32(shares)}
            return ask(node, asking, 0, 1, state, down)

        found.append(len(slices(rows, question, seed) & there))
    assert sum(found) >= 4  # nothing stops this but not to join


WRONG = [
    *(told(K=0), told(K=201), told(K=180), told() | {"more": np.ones(3)}),
    told() | {"shares": np.full(2, 0.9, np.float32)},
    *(told() | {"means": np.full((2, N), mean, np.float32)} for mean in (1.5, np.nan)),
]


def test_what_is_no_question_is_refused_and_costs_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(clients, "NUMBERS", 10**5)  # fewer than of 180 classes
    node = client(tmp_path)
    for down in WRONG:
        words = "too many for one answer" if len(down["shares"]) == 180 else "malformed message"
        refused(ask(node, asked(), 0, 4, None, down), words)
    for t, exchange in ((1, 0), (0, 9)):  # which there are not
        refused(ask(node, asked(), t, exchange), "")
    assert not (tmp_path / "privacy" / "ledger").exists(), "nor does it set terms"


def test_questions_at_once_under_two_keys_do_not_spend_more_than_there_is(tmp_path):
    rows, rng = table(), np.random.default_rng(0)
    nodes = [client(tmp_path / str(i), rows[rng.permutation(M)], tmp_path) for i in range(2)]
    states = [ask(node, asked()).state for node in nodes]

    def one(i):
        return ask(nodes[i % 2], asked(), 0, 1, states[i % 2], told(0.01 * i))

    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(one, range(24)))
    assert sum(not reply.fault for reply in replies) == 10
    assert sum(spent(tmp_path)) == 12


def test_no_words_hold_the_secret_of_the_noise():
    asking = private_classes(RemoteSource(1), N, 1.0, secret=2**255 + 12345)
    assert str(asking.noise.secret) not in repr(asking)
    with pytest.raises(ArgumentError) as error:
        replace(asking.noise, delta=3.0)
    assert str(asking.noise.secret) not in str(error.value)


def test_an_owner_takes_part_in_what_was_agreed_and_in_no_more(tmp_path):
    def owned(folder, *terms):
        return Owner(as_examples(signs(40, 30)), Ledger(tmp_path / folder), *terms)

    plain = serve.Config(columns=30, rounds=2).make().client
    private = serve.Config(columns=30, rounds=2, epsilon=1.0).make().client
    trusting, careful = owned("a"), owned("b", 1.0)
    call = Call({}, {}, Context(0, 0, 0, 0))
    assert trusting.asked(plain.recipe, (), call).source.examples(0, 2).shape == (20, 30)
    assert careful.asked(private.recipe, (), call).noise.secret > 2**128
    for owner, asked, words in (
        (careful, plain, "with noise only"),
        (owned("c", 0.5), private, "more than this client's epsilon"),
        (owned("c", 1.0, 1e-7), private, "more than this client's epsilon"),
        (trusting, private, "agreed to no epsilon"),
        (trusting, serve.Config(columns=31).make().client, "31 columns"),
    ):
        with pytest.raises(DataError, match=words):
            owner.asked(asked.recipe, (), call)


@pytest.mark.parametrize("ways", [(), ("--trust-server", "--epsilon", "1")], ids=["none", "both"])
def test_taking_part_needs_one_of_two_ways(tmp_path, hopfed, ways):
    np.save(tmp_path / "mine.npy", signs())
    error = hopfed.refused("join", "--data", tmp_path / "mine.npy", *ways, "--dry-run")
    assert "--epsilon E" in error
    assert "--trust-server" in error
    budget = ("--epsilon", "1", "--delta", "2")
    assert "delta must" in hopfed.refused("join", "--data", tmp_path / "mine.npy", *budget)


def test_with_epsilon_one_noisy_table_leaves_and_nothing_else(tmp_path):
    """Whatever is asked, in whatever order: counts with noise, and how many rows these are of."""
    rows = signs(300)
    node = site(tmp_path, rows, epsilon=1.0)
    terms = [(2, 1.0, 1e-5), (2, 0.5, 1e-5), (1, 1.0, 1e-5), (2, 1.0, 1e-6), (2, 2.0, 1e-5)]
    asked = [private_patterns(RemoteSource(r), N, *budget) for r, *budget in [*terms, terms[0]]]
    asked[1:1] = [method(r, groups=g) for r in (1, 2) for g in (0, 4)]
    downs = {}, {"basis": np.eye(N, 2, dtype="f4")}, known(rows[:3])
    sent = [
        ask(node, each, t, exchange, None, down, client=i).message
        for i, each in enumerate(asked)
        for t in range(2)
        for exchange, down in enumerate(downs)
    ]
    sent = [up for up in sent if up]
    assert [set(up) for up in sent] == [{"counts", "examples"}] * 4
    assert len({digest(up) for up in sent}) == 2
    order = Ledger(tmp_path / "privacy").charge(as_examples(rows), Terms(1.0, 1e-5, 2))[0]
    x = kernels.unpack(BatchSource((order,), 2).examples(0, 0)).astype(int)
    noise = sent[0]["counts"] - (x.T @ x)[np.tri(N, k=-1, dtype=bool)]
    assert noise.std() == pytest.approx(asked[0].client.variance ** 0.5, rel=0.2)


RECIPE = method().client.recipe
RECIPES = [
    *("[" * 100_000, "{", '{"n_sites": 40, "\\u001b[2J": 1}', '{"n_sites": [[40]]}'),
    *('["hopfed.__main__:cli", {}]', "x" * 10_000_000, RECIPE.replace("1e-05", "NaN")),
    *(RECIPE.replace("true", 'true, "secret": 1'), RECIPE.replace("40", "40.0")),
]
MANY = {"patterns": np.zeros((100_000, 5), np.uint8), "sure": np.ones(100_000, np.float32)}
DOWNS = [  # the basis of a question after the first, the groups that are asked for, what is said
    (np.zeros((N, 2), np.int32), 4, "malformed message"),
    (np.full((N, 2), np.nan, "f4"), 4, "malformed message"),
    (np.zeros((N + 1, 2), "f4"), 4, "malformed message"),
    (np.zeros((N, 4000), "f4"), 4, "too many"),
    (np.zeros((N, N), "f4"), 2**13, "too many"),
]


@pytest.mark.parametrize("text", RECIPES, ids=lambda text: text[:20])
def test_a_damaged_recipe_is_one_line_and_the_client_goes_on(tmp_path, text):
    node = site(tmp_path)
    reply = ask(node, text)
    refused(reply, "")
    assert reply.reason.isprintable()
    assert len(reply.reason) < 400
    assert not ask(node, method()).fault


@pytest.mark.parametrize(("basis", "groups", "words"), DOWNS)
def test_a_question_that_is_none_or_too_large_is_one_line(tmp_path, basis, groups, words):
    node, asked = site(tmp_path), method(groups=groups)
    refused(ask(node, asked, 0, 1, ask(node, asked).state, {"basis": basis}), words)
    many = known(np.ones((1, N))) | MANY
    refused(ask(node, asked, down=many), "100,000 patterns of 40 columns, which are too many")
    for more, lacking in ({"question": np.array(3)}, "above"), ({"seed": np.array(3)}, "number"):
        down = told() | more
        refused(
            ask(node, of_classes(RemoteSource(1), N), 0, 1, None, down), f"{lacking} is missing"
        )


def test_a_question_takes_as_many_rows_at_once_as_there_is_room_for(tmp_path, monkeypatch):
    sizes, learn, node = [], class_questions.Owner.learn, site(tmp_path)
    monkeypatch.setattr(
        class_questions.Owner, "learn", lambda o, *c: sizes.append(len(o.rows)) or learn(o, *c)
    )
    graded, along = of_classes(RemoteSource(1), N), {"directions": np.ones((2, N), np.float32)}
    asked = [
        *((graded, 1, told()), (graded, 1, told() | along | {"question": np.array(1)})),
        *((method(), 1, {"basis": np.eye(N, 2, dtype="f4")}), (method(), 2, known(signs()[:3]))),
    ]
    whole = [ask(node, each, 0, e, None, down).message for each, e, down in asked]
    monkeypatch.setattr(example_sources, "ROOM", 1000)
    for (each, e, down), answer in zip(asked, whole, strict=True):
        parts = ask(node, each, 0, e, None, down).message
        for name, array in answer.items():
            np.testing.assert_allclose(parts[name], array, rtol=1e-5, atol=1e-4)
    assert set(sizes) == {120, 10}


def test_what_is_kept_of_classes_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(class_questions.OWNERS, "room", M * 50 * 20)
    node, down = site(tmp_path, table()), told(K=50)
    down |= {"of": down["means"], "of_shares": down["shares"], "seed": np.array(0)}
    for i in range(5):
        ask(node, of_classes(RemoteSource(1), N), 0, 1, None, down | {"number": np.array(i)})
    assert len(class_questions.OWNERS.held) < 3


def test_a_client_comes_back_equal():
    for made in (
        of_patterns(RemoteSource(3), 50, groups=0),
        private_classes(RemoteSource(2), 9, 1.5),
    ):
        assert client_from_recipe(made.client.recipe) == made.client
    with pytest.raises(DataError, match="cannot be sent to another machine"):
        of_patterns(object(), 50).client.recipe  # noqa: B018
