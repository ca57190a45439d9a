"""What an owner takes part in, and what a server is told and not told."""

import numpy as np
import pytest
from asking import N, ask, method, refused, signs, site

from hopfed.errors import DataError
from hopfed.experiments import serve
from hopfed.federation.contract import Context
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.messages import digest
from hopfed.hopfield.ledger import Ledger
from hopfed.hopfield.owner import Owner
from hopfed.tables.examples import as_examples


def examples():
    return as_examples(signs(40, 30))


def owned(rows, folder, *terms):
    return Owner(rows, Ledger(folder), *terms)


def test_an_owner_takes_part_in_what_was_agreed_and_in_no_more(tmp_path):
    rows = examples()
    plain = serve.Config(columns=30, rounds=2).make().client
    private = serve.Config(columns=30, rounds=2, epsilon=1.0).make().client
    trusting, careful = owned(rows, tmp_path / "a"), owned(rows, tmp_path / "b", 1.0)
    assert trusting.adapt(plain).source.examples(0, 2).shape == (20, 30)
    assert careful.adapt(private).client.noise.secret > 2**128
    for owner, asked, words in (
        (careful, plain, "with noise only"),
        (owned(rows, tmp_path, 0.5), private, "more than this client's epsilon"),
        (owned(rows, tmp_path, 1.0, 1e-7), private, "more than this client's epsilon"),
        (trusting, private, "agreed to no epsilon"),
        (trusting, serve.Config(columns=31).make().client, "31 columns"),
        (trusting, trusting.adapt(plain), "does not leave the examples where they are"),
        (trusting, LocalEngine(), "does not take part in LocalEngine"),
    ):
        with pytest.raises(DataError, match=words):
            owner.adapt(asked)


def test_a_release_that_is_repeated_has_the_same_noise_and_another_owner_has_other(tmp_path):
    rows = examples()
    asked = serve.Config(columns=30, epsilon=1.0).make().client

    def released(home):
        agreed = owned(rows, tmp_path / home, 1.0).adapt(asked)
        _, message, metrics = agreed.client_step(agreed.client_start(0, 0), {}, Context(0, 0, 0, 0))
        assert set(message) == {"counts", "examples"}, "column sums and weights are releases too"
        assert metrics == {}
        return message

    assert digest(released("a")) == digest(released("a")) != digest(released("b"))
    noise = released("a")["counts"].astype(float) - released("b")["counts"]
    assert np.std(noise) == pytest.approx(np.sqrt(2) * asked.mechanism.scale, rel=0.1)


def test_huge_groups_and_bases_are_refused_before_they_are_made(tmp_path):
    node = site(tmp_path)
    for groups, width in ((2**20, N), (4, 4000)):
        asked = method(groups=groups)
        started = ask(node, asked)
        down = {"basis": np.zeros((N, width), np.float32)}
        refused(ask(node, asked, 0, 1, started.state, down), "too many")


@pytest.mark.parametrize("ways", [(), ("--trust-server", "--epsilon", "1")], ids=["none", "both"])
def test_taking_part_needs_one_of_two_ways(tmp_path, hopfed, ways):
    np.save(tmp_path / "mine.npy", signs())
    status, _, err = hopfed("join", "--data", tmp_path / "mine.npy", *ways, "--dry-run")
    assert status == 2
    assert "--epsilon E" in err
    assert "--trust-server" in err
    assert err.count("\n") == 1
