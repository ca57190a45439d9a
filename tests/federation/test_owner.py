"""What an owner takes part in, what leaves it, and what a server is told and not told."""

import numpy as np
import pytest
from asking import N, ask, known, method, refused, signs, site
from federations import of_patterns, private_classes, private_patterns

from hopfed import kernels
from hopfed.errors import DataError
from hopfed.experiments import serve
from hopfed.federation.engines import LocalEngine
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
    assert trusting.adapt(plain).source.examples(0, 2).shape == (20, 30)
    assert careful.adapt(private).noise.secret > 2**128
    for owner, asked, words in (
        (careful, plain, "with noise only"),
        (owned("c", 0.5), private, "more than this client's epsilon"),
        (owned("c", 1.0, 1e-7), private, "more than this client's epsilon"),
        (trusting, private, "agreed to no epsilon"),
        (trusting, serve.Config(columns=31).make().client, "31 columns"),
        (trusting, trusting.adapt(plain), "does not leave the examples where they are"),
        (trusting, LocalEngine(), "does not take part in LocalEngine"),
    ):
        with pytest.raises(DataError, match=words):
            owner.adapt(asked)


@pytest.mark.parametrize("ways", [(), ("--trust-server", "--epsilon", "1")], ids=["none", "both"])
def test_taking_part_needs_one_of_two_ways(tmp_path, hopfed, ways):
    np.save(tmp_path / "mine.npy", signs())
    error = hopfed.refused("join", "--data", tmp_path / "mine.npy", *ways, "--dry-run")
    assert "--epsilon E" in error
    assert "--trust-server" in error


def test_with_epsilon_one_noisy_table_leaves_and_nothing_else(tmp_path):
    """Whatever is asked, in whatever order: counts with noise, and how many rows these are of."""
    rows = signs(300)
    node = site(tmp_path, rows, epsilon=1.0)
    terms = [(2, 1.0, 1e-5), (2, 0.5, 1e-5), (1, 1.0, 1e-5), (2, 1.0, 1e-6), (2, 2.0, 1e-5)]
    asked = [private_patterns(Elsewhere(r), N, *budget) for r, *budget in [*terms, terms[0]]]
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
    x = kernels.unpack(Batches((order,), 2).examples(0, 0)).astype(int)
    noise = sent[0]["counts"] - (x.T @ x)[np.tri(N, k=-1, dtype=bool)]
    assert noise.std() == pytest.approx(asked[0].client.variance ** 0.5, rel=0.2)


RECIPE = method().client.recipe
RECIPES = [
    *("[" * 100_000, "{", '{"n_sites": 40, "\\u001b[2J": 1}', '{"n_sites": [[40]]}'),
    *('["hopfed.__main__:cli", {}]', "x" * 10_000_000),
    *(
        RECIPE.replace(f'"{name}": {value}', f'"{name}": {wrong}')
        for name, value, wrong in (
            ("weight", "1.0", "NaN"),
            ("votes", "true", 'true, "secret": 1'),
            ("n_sites", "40", "40.0"),
            ("rounds", "1", "0"),
        )
    ),
]
MANY = {"patterns": np.zeros((100_000, 5), np.uint8), "sure": np.ones(100_000, np.float32)}
MALFORMED = "malformed message from the server"
DOWNS = [  # the basis of a question after the first, the groups that are asked for, what is said
    (np.zeros((N, 2), np.int32), 4, MALFORMED),
    (np.full((N, 2), np.nan, "f4"), 4, MALFORMED),
    (np.zeros((N + 1, 2), "f4"), 4, MALFORMED),
    (np.zeros((N, 4000), "f4"), 4, "too many"),
    (np.zeros((N, N), "f4"), 2**20, "too many"),
]


@pytest.mark.parametrize("text", RECIPES, ids=lambda text: text[:20])
def test_a_damaged_recipe_is_one_line_and_the_client_goes_on(tmp_path, text):
    node = site(tmp_path)
    reply = ask(node, text)
    assert text != RECIPE
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


MADE = of_patterns(Elsewhere(3), 50, groups=0), private_classes(Elsewhere(2), 9, 1.5)


@pytest.mark.parametrize("made", MADE)
def test_a_client_comes_back_equal(made):
    assert client_of(made.client.recipe) == made.client
    with pytest.raises(DataError, match="cannot be sent to another machine"):
        of_patterns(object(), 50).client.recipe  # noqa: B018
