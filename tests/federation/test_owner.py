"""What an owner takes part in, what leaves it, and what a server is told and not told."""

import numpy as np
import pytest
from asking import N, ask, known, method, refused, signs, site
from federations import of_patterns, private_classes, private_patterns

from hopfed import kernels
from hopfed.errors import DataError
from hopfed.experiments import serve
from hopfed.federation.messages import digest
from hopfed.hopfield.clients import client_of
from hopfed.hopfield.ledger import Ledger, Terms
from hopfed.hopfield.owner import Owner
from hopfed.hopfield.stream import Batches, Elsewhere
from hopfed.tables.examples import as_examples


def test_an_owner_takes_part_in_what_was_agreed_and_in_no_more(tmp_path):
    def owned(folder, *terms):
        return Owner(as_examples(signs(40, 30)), Ledger(tmp_path / folder), *terms)

    plain = serve.Config(columns=30, rounds=2).make().client
    private = serve.Config(columns=30, rounds=2, epsilon=1.0).make().client
    trusting, careful = owned("a"), owned("b", 1.0)
    assert trusting.asked(plain.recipe).source.examples(0, 2).shape == (20, 30)
    assert careful.asked(private.recipe).noise.secret > 2**128
    for owner, asked, words in (
        (careful, plain, "with noise only"),
        (owned("c", 0.5), private, "more than this client's epsilon"),
        (owned("c", 1.0, 1e-7), private, "more than this client's epsilon"),
        (trusting, private, "agreed to no epsilon"),
        (trusting, serve.Config(columns=31).make().client, "31 columns"),
    ):
        with pytest.raises(DataError, match=words):
            owner.asked(asked.recipe)


def test_huge_groups_and_bases_are_refused_before_they_are_made(tmp_path):
    node = site(tmp_path)
    for groups, width in ((2**20, N), (4, 4000)):
        asked = method(groups=groups)
        started = ask(node, asked)
        down = {"basis": np.zeros((N, width), np.float32)}
        refused(ask(node, asked, 0, 1, started.state, down), "too many")
    down = known(np.ones((1, N))) | {"sure": np.ones(100_000, np.float32)}
    down["patterns"] = np.zeros((100_000, -(-N // 8)), np.uint8)  # unpacking made 34 MB of them
    refused(ask(node, method(), down=down), "100,000 patterns of 40 columns, which are too many")


@pytest.mark.parametrize("ways", [(), ("--trust-server", "--epsilon", "1")], ids=["none", "both"])
def test_taking_part_needs_one_of_two_ways(tmp_path, hopfed, ways):
    np.save(tmp_path / "mine.npy", signs())
    error = hopfed.refused("join", "--data", tmp_path / "mine.npy", *ways, "--dry-run")
    assert "--epsilon E" in error
    assert "--trust-server" in error


def test_with_epsilon_one_noisy_table_leaves_and_nothing_else(tmp_path):
    """Whatever is asked, in whatever order: counts with noise, and how many rows these are of."""

    def private(rounds, epsilon=1.0, delta=1e-5):
        return private_patterns(Elsewhere(rounds), N, epsilon, delta)

    rows = signs(300)
    node = site(tmp_path, rows, epsilon=1.0)
    asked = [private(2), *(method(r, groups=g) for r in (1, 2) for g in (0, 4)), private(2, 0.5)]
    asked += [private(1), private(2, 1.0, 1e-6), private(2, 2.0), private(2)]
    downs = {}, {"basis": np.eye(N, 2, dtype="f4")}, known(rows[:3])
    sent = []
    for i, each in enumerate(asked):
        for t in range(2):
            for exchange, down in enumerate(downs):
                sent.append(ask(node, each, t, exchange, None, down, client=i).message)
    sent = [up for up in sent if up]
    assert all(set(up) == {"counts", "examples"} for up in sent)
    assert len(sent) == 4
    assert len({digest(up) for up in sent}) == 2
    order = Ledger(tmp_path / "privacy").charge(as_examples(rows), Terms(1.0, 1e-5, 2))[0]
    x = kernels.unpack(Batches((order,), 2).examples(0, 0)).astype(int)
    noise = sent[0]["counts"] - (x.T @ x)[np.tri(N, k=-1, dtype=bool)]
    scale = private(2).client.variance ** 0.5
    assert 0.8 * scale < noise.std() < 1.2 * scale


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{",
        '{"n_sites": 40, "\\u001b[2J": 1}',
        '{"n_sites": [[40]]}',
        '["hopfed.__main__:cli", {}]',
        "x" * 10_000_000,
    ],
)
def test_a_damaged_recipe_is_one_line_and_the_client_goes_on(tmp_path, text):
    node = site(tmp_path)
    reply = ask(node, text)
    refused(reply, "")
    assert reply.reason.isprintable()
    assert len(reply.reason) < 400
    assert not ask(node, method()).fault


def test_every_field_has_a_type_and_a_range(tmp_path):
    text, node = method().client.recipe, site(tmp_path)
    for old, new, words in (
        ('"delta": 1e-05', '"delta": NaN', "delta"),
        ('"votes": true', '"votes": true, "secret": 1', "of the fields"),
        ('"n_sites": 40', '"n_sites": 40.0', "n_sites"),
        ('"rounds": 1', '"rounds": 0', "rounds"),
    ):
        assert old in text
        refused(ask(node, text.replace(old, new)), words)


def test_a_malformed_question_is_one_line(tmp_path):
    node, asked = site(tmp_path), method()
    state = ask(node, asked).state
    for basis in (np.zeros((N, 2), np.int32), np.full((N, 2), np.nan, "f4"), np.zeros((N + 1, 2))):
        reply = ask(node, asked, 0, 1, state, {"basis": basis})
        refused(reply, "malformed message from the server")


def test_a_client_comes_back_equal():
    for made in (
        of_patterns(Elsewhere(3), 50, groups=0),
        private_classes(Elsewhere(2), 9, 1.5),
    ):
        assert client_of(made.client.recipe) == made.client
    with pytest.raises(DataError, match="cannot be sent to another machine"):
        of_patterns(object(), 50).client.recipe  # noqa: B018
