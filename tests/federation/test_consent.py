"""What an owner agrees to, what is recorded of it, and what is withheld."""

import json
import shutil
import stat
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from asking import M, N, Sites, ask, known, method, refused, signs, site

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import serve
from hopfed.federation.contract import Context
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.faults import Fault
from hopfed.federation.messages import digest
from hopfed.hopfield.batches import Batches
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.client import discreet, unpack_patterns, vote
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.plasticity.rules import Broadcast, Fixed, Smoothing
from hopfed.hopfield.site.budget import Ledger
from hopfed.hopfield.site.consent import Owner
from hopfed.hopfield.site.inventory import inventory, worst
from hopfed.hopfield.site.limits import Limits
from hopfed.hopfield.site.released import Released
from hopfed.tables.examples import as_examples


def test_limits_are_those_of_the_owner(tmp_path):
    rows = signs(200)
    for limits, asked, words in (
        ({"rounds": 2}, method(1), "over 2 round(s), not over 1"),
        ({"smallest_batch": 101}, method(2), "fewer than the 101 rows"),
        ({"most_numbers": 700}, method(), "may leave about a row"),
    ):
        refused(ask(site(tmp_path, rows, Released(), **limits), asked), words)
    assert not ask(site(tmp_path, rows, Released(), rounds=2), method(2)).fault
    few = {"smallest_batch": 2, "smallest_vote": 2, "smallest_set": 1}
    open_ = site(tmp_path / "open", rows, Released(), **few)
    started = ask(open_, method(100))
    assert not started.fault
    groups = ask(open_, method(100), 0, 1, started.state, {"basis": np.eye(N, 1, dtype="f4")})
    assert groups.up["sizes"].tolist() == [2, 0, 0, 0]
    for wrong in ({"rounds": -1}, {"smallest_batch": 1}, {"smallest_vote": 1}, {"smallest_set": 0}):
        with pytest.raises(ArgumentError):
            Limits(**wrong)


def test_two_sets_are_answered_where_the_owner_says_so(tmp_path):
    node, asked = site(tmp_path, questions=2), method()
    started = ask(node, asked)
    faults = []
    for i in range(3):
        patterns = rademacher(2, N, stream(i, "asked"))
        faults.append(bool(ask(node, asked, 0, 2, started.state, known(patterns)).fault))
    assert faults == [False, False, True]


# The record.


def test_a_record_is_the_owners_alone_and_survives(tmp_path):
    assert not ask(site(tmp_path), method()).fault
    (path,) = (tmp_path / "released").glob("*.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    held = json.loads(path.read_text())
    assert held["rounds"] == 1
    assert held["batches"]["0"]["numbers"] == N * (N - 1) // 2 + N + 2
    for damaged in ("", "{}", '{"rounds": 1, "batches": {"0": {}}}', "[1]", "nonsense"):
        path.write_text(damaged)
        refused(ask(site(tmp_path), method()), "has told its owner why")
    path.unlink()
    assert not ask(site(tmp_path), method()).fault


def test_nothing_is_sent_that_could_not_be_recorded(tmp_path, monkeypatch):
    node = site(tmp_path)
    shutil.rmtree(tmp_path / "released")
    (tmp_path / "released").write_text("")  # a file in the place of its folder
    reply = ask(node, method())
    assert reply.fault == Fault.RAISED
    assert not reply.up


def test_other_rows_have_another_record(tmp_path):
    rows = signs()
    assert not ask(site(tmp_path, rows), method()).fault
    assert not ask(site(tmp_path, rows[:-1]), method(2)).fault
    assert len(list((tmp_path / "released").glob("*.json"))) == 2


# Votes.


def test_what_is_left_out_leaves_no_few():
    """By brute force: no combination of the sums with their signs is over a few rows only."""
    least = 4
    for seed in range(100):
        rng = np.random.default_rng(seed)
        K = int(rng.integers(1, 4))
        chosen = np.zeros((int(rng.integers(4, 25)), K))
        at = rng.integers(0, K, len(chosen))
        chosen[np.arange(len(chosen)), at] = rng.choice([-1, 0, 1], len(chosen), p=[0.1, 0.1, 0.8])
        kept = discreet(chosen, rng.random(chosen.shape), least)
        support = np.abs(kept).sum(axis=0)
        assert ((support >= least) | (support == 0)).all()
        assert np.isin(kept, [0, *np.unique(chosen)]).all()
        for combination in product((-1, 0, 1), repeat=K):
            behind = np.count_nonzero(1 + kept @ np.array(combination))
            assert behind == 0 or behind >= least


def test_of_votes_with_many_behind_them_only_the_weakest_are_left_out():
    rng = stream(0, "votes")
    xi = rademacher(3, 200, rng)
    rows = kernels.pack(draw_examples(xi, 150, 0.8, rng)[0])
    free, held = (vote(rows, Broadcast(xi, 0.8), np.ones(3), least) for least in (1, 10))
    fewer = free["voters"] - held["voters"]
    assert fewer.min() >= 0
    assert fewer.sum() <= 10
    assert (np.abs(free["votes"] - held["votes"]) <= fewer[:, None]).all()


# What an owner agrees to.


def examples(n=40, columns=30):
    rng = stream(0, "owners")
    return as_examples(draw_examples(rademacher(2, columns, rng), n, 0.8, rng)[0])


def owner_of(rows, *given, **more):
    return Owner(rows, *given, limits=Limits(smallest_batch=5), **more)


def test_an_owner_agrees_to_what_was_agreed_and_no_more():
    rows = examples()
    plain = serve.Config(columns=30, rounds=2).make()
    private = serve.Config(columns=30, rounds=2, epsilon=1.0).make()
    open_, careful = owner_of(rows, 7), owner_of(rows, 7, epsilon=1.0)
    assert open_.adapt(plain).batches.examples(0, 2).shape == (20, 30)
    few = serve.Config(columns=30, rounds=2, groups=0, votes=False).make()
    quiet = Owner(rows, 7, limits=Limits(smallest_batch=5))
    assert quiet.adapt(few).batches.rounds == 2
    assert careful.adapt(private).method.secret == 7
    for owner, asked, words in (
        (careful, plain, "with noise only"),
        (owner_of(rows, 7, epsilon=0.5), private, "more than this client's epsilon"),
        (owner_of(rows, 7, epsilon=1.0, delta=1e-7), private, "more than this client's epsilon"),
        (open_, private, "agreed to no epsilon"),
        (open_, serve.Config(columns=31).make(), "31 columns"),
        (open_, open_.adapt(plain).method, "does not leave the examples where they are"),
        (open_, LocalEngine(), "does not take part in LocalEngine"),
    ):
        with pytest.raises(DataError, match=words):
            owner.adapt(asked)


def test_the_same_examples_are_not_released_on_other_terms(tmp_path):
    """Nor by a new process; on the same terms there is nothing against it."""
    owner = owner_of(examples(), 7, epsilon=2.0, ledger=Ledger(tmp_path))
    first = serve.Config(columns=30, epsilon=1.0)
    again = [owner.adapt(first.make()).method.secret for _ in range(2)]
    assert again[0] == again[1] != 7, "the noise is of the home's secret"
    for change in ({"epsilon": 0.5}, {"rounds": 2}, {"delta": 1e-6}, {"epsilon": 1 - 1e-9}):
        with pytest.raises(DataError):
            owner.adapt(replace(first, **change).make())
    with pytest.raises(DataError, match="have a privacy budget"):
        replace(owner, epsilon=None).adapt(serve.Config(columns=30).make())


def test_a_release_that_is_repeated_has_the_same_noise_and_another_owner_has_other():
    rows = examples()
    asked = serve.Config(columns=30, epsilon=1.0).make()

    def released(secret):
        agreed = owner_of(rows, secret, epsilon=1.0).adapt(asked)
        _, message, metrics = agreed.client_step(agreed.client_start(0, 0), {}, Context(0, 0, 0, 0))
        assert metrics == {}
        return message

    assert digest(released(7)) == digest(released(7)) != digest(released(8))
    noise = released(7)["counts"].astype(float) - released(8)["counts"]
    assert np.std(noise) == pytest.approx(np.sqrt(2) * asked.mechanism.scale, rel=0.1)


def test_what_a_message_reveals_is_said_of_every_array():
    rows = examples()
    for config in (serve.Config(columns=30), serve.Config(columns=30, form="factors", width=3)):
        made = config.make(Batches((rows,)))
        _, message, _ = made.client_step({}, {}, Context(0, 0, 0, 0))
        found = inventory(made, message)
        assert {name for name, *_ in found} == {k for k, array in message.items() if array.size}
        assert all(reveals for *_, reveals in found)
    made = serve.Config(columns=30, epsilon=2.0).make(Batches((rows,)))
    assert isinstance(made, PrivateFederation)
    _, message, _ = made.client_step({}, {}, Context(0, 0, 0, 0))
    assert set(message) == {"counts", "examples"}, "column sums and weights are releases too"
    assert "epsilon 2" in inventory(made, message)[0][-1]


def test_the_worst_is_no_better_than_what_can_be_had(tmp_path):
    """A server that takes all it can stays within what the dry run says."""
    limits = Limits(questions=1, smallest_batch=50, trust_server=True)
    lines = {line.exchange: line for line in worst((M, N), limits)}
    node, sent = site(tmp_path), {0: 0, 1: 0, 2: 0}
    asked = replace(method(2), encoding=Encoding(N, "factors", 1))
    started = ask(node, asked)
    for width in range(N + 20, 0, -1):
        reply = ask(node, asked, 0, 1, started.state, {"basis": np.eye(N, width, dtype="f4")})
        sent[1] += sum(a.size for a in reply.up.values())
        if reply.up:
            assert reply.up["sizes"][reply.up["sizes"] > 0].min() >= lines[1].rows
    assert 0 < sent[1] <= lines[1].numbers
    assert sum(a.size for a in started.up.values()) + sent[1] <= limits.numbers(N)
    assert lines[0].rows == M // 2


@pytest.mark.parametrize("asking", [{}, {"groups": 4, "votes": True}], ids=["default", "asking"])
def test_a_federation_of_owners_is_that_of_one_process_and_a_second_one_is_free(tmp_path, asking):
    """As in the README: 400, 300 and 500 rows of 784 columns over two rounds, to the bit."""
    rng = stream(0, "readme")
    xi, config = rademacher(7, 784, rng), serve.Config(columns=784, rounds=2, **asking)
    rows = [as_examples(draw_examples(xi, m, 0.6, rng)[0]) for m in (400, 300, 500)]
    records = [Released.of(tmp_path, each) for each in rows]
    limits = Limits(smallest_batch=150, questions=1 if asking else 0, trust_server=bool(asking))
    owners = [Owner(x, 1, limits=limits, released=r) for x, r in zip(rows, records, strict=True)]
    places = (
        (config.make(), Sites(owners)),
        (config.make(), Sites(owners)),
        (config.make(Batches(tuple(rows), 2)), LocalEngine()),
    )
    states, written = [None] * 3, []
    for t in range(2):
        for i, (made, engine) in enumerate(places):
            arrays, states[i] = serve.play(config, made, 0, t, states[i], engine)
            if i == 0:
                expected = arrays
            for name in expected:
                np.testing.assert_array_equal(arrays[name], expected[name], err_msg=name)
            written.append(records[0].path.read_text())
    found = unpack_patterns(arrays["archetypes/packed"][: int(arrays["archetypes/number"])], 784)
    assert sorted((found.astype(int) @ xi.T).max(axis=1)) == 7 * [784], "all seven, to the last bit"
    assert written[0] == written[1] != written[3] == written[4], "asked again, it is not new"
    most = max(b["numbers"] for b in json.loads(written[-1])["batches"].values())
    assert most < Limits().numbers(784) / 2, "no room"


def test_smoothing_tells_nothing_of_the_rows(tmp_path):
    """A fixed weight is the server's own number, however it is smoothed."""
    asked = method(2, rule=Fixed(0.3), smoothing=Smoothing(ema=0.5, momentum=0.5))
    weights = []
    for i, quality in enumerate((0.2, 0.9)):
        node = site(tmp_path / str(i), signs(200, quality=quality), smallest_set=1)
        started = ask(node, asked)
        after = ask(node, asked, 1, 0, started.state, known(rademacher(2, N, stream(0, "x"))))
        weights.append((float(started.up["weight"]), float(after.up["weight"])))
    assert weights[0] == weights[1]
