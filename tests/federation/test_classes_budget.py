"""The budget of answers about classes with noise is charged first, and never exceeded."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from asking import N, ask, refused, site
from federations import of_classes, private_classes
from graded_tables import classes
from helpers import rest_slow

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.hopfield import noise as noisy
from hopfed.hopfield.batches import Batches, Elsewhere
from hopfed.hopfield.clients import question_name
from hopfed.hopfield.ledger import Ledger
from hopfed.hopfield.noise import ClassNoise, exact_sums
from hopfed.privacy.discrete_gaussian import concentrated_rho
from hopfed.tables.examples import as_examples

E, M = 40, 400


def table(seed=0):
    return classes(3, N, M, seed, missing=0.2)[2]


def asked(**settings):
    return private_classes(Elsewhere(1), N, **{"epsilon": 1.0, **settings})


def client(folder, rows, home):
    ledger = Ledger(home / "privacy")
    return site(folder, rows, epsilon=1.0, ledger=ledger)


def question(rng, row, other):
    """Ask of classes of a server's choice: two rows that it wants to tell apart, or anything."""
    K = int(rng.integers(1, 6))
    means = rng.uniform(-1, 1, (K, N))
    if K > 1 and rng.random() < 0.7:
        sure = rng.uniform(0.9, 1)
        means[:2] = sure * row, sure * other
    return {"means": means.astype(np.float32), "shares": np.full(K, 1 / K, np.float32)}


@pytest.mark.parametrize("seed", rest_slow(range(3), 1))
def test_whatever_is_asked_two_tables_that_differ_in_a_row_stay_as_near_as_is_said(tmp_path, seed):
    """An audit: the privacy loss of all answers, for rows as unlike as can be."""
    rng = np.random.default_rng(seed)
    rows = table(seed)
    rows[0] = rng.choice([-1, 1], N)
    other = -rows[0] if seed else rng.choice([-1, 1], N)
    node = client(tmp_path, rows, tmp_path)
    first = ask(node, asked())
    assert first.message
    noise, loss, answered = ClassNoise(N, 1.0, 1e-5, 12), 0.0, 0
    asking = [(0, {"means": np.zeros((1, N), np.float32), "shares": np.ones(1, np.float32)})]
    asking += [(int(rng.integers(1, 9)), question(rng, rows[0], other)) for _ in range(20)]
    for exchange, down in asking:
        reply = first if exchange == 0 else ask(node, asked(), 0, exchange, first.state, down)
        if reply.fault:
            continue
        answered += 1
        step = asked().client.round_steps[exchange]
        ours, theirs = (
            exact_sums(step, kernels.pack_masked(x[None].astype(np.int8)), down)
            for x in (rows[0], other)
        )
        for name, array in ours.items():
            loss += ((array - theirs[name]) ** 2).sum() / (2 * noise.variances[name])
    assert 5 < answered < 12
    rho = concentrated_rho(1.0, 1e-5)
    assert 0.2 * rho < loss <= rho


def test_questions_at_once_under_two_keys_do_not_spend_more_than_there_is(tmp_path):
    rows, rng = table(), np.random.default_rng(0)
    nodes = [client(tmp_path / str(i), rows[rng.permutation(M)], tmp_path) for i in range(2)]
    states = [ask(node, asked()).state for node in nodes]
    downs = [question(rng, rows[0], rows[1]) for _ in range(24)]

    def one(i):
        return ask(nodes[i % 2], asked(), 0, 1, states[i % 2], downs[i])

    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(one, range(24)))
    assert sum(not reply.fault for reply in replies) == 10
    (entry,) = json.loads((tmp_path / "privacy" / "ledger").read_text())["released"]
    assert sum(entry["spent"]["0"].values()) == 12


def test_rows_with_gaps_that_had_noise_do_not_leave_without_it(tmp_path):
    rows = table()
    assert not ask(client(tmp_path, rows, tmp_path), asked()).fault
    ledger = Ledger(tmp_path / "privacy")
    trusting = site(tmp_path / "b", rows[:300], ledger=ledger)
    refused(ask(trusting, of_classes(Elsewhere(1), N, looks=2)), "have a privacy budget")


def test_no_words_hold_the_secret_of_the_noise(tmp_path):
    """The secret is a number of 256 bits, which was no whole number to a check, and named by it."""
    rows = as_examples(table(), gaps=True)
    secret = 2**255 + 12345
    asking = private_classes(Batches((rows,)), N, 1.0, secret=secret)
    assert str(secret) not in repr(asking)
    for wrong in ({"looks": 0}, {"byzantine": 2.0}, {"delta": 3.0}, {"steps": "x"}):
        with pytest.raises(ArgumentError) as error:
            private_classes(Batches((rows,)), N, **{"epsilon": 1.0, "secret": secret} | wrong)
        assert str(secret) not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 1e-300},
        {"epsilon": float("nan")},
        {"delta": 2e-5},
        {"secret": 1},
    ],
    ids=lambda change: ",".join(f"{k}={v}" for k, v in change.items()),
)
def test_recipes_out_of_bounds_are_refused_in_a_line_and_charge_nothing(tmp_path, change):
    from hopfed.federation.recipes import describe

    text = describe(asked().client)[0]
    for name, value in change.items():
        text = re.sub(f'"{name}": [-0-9.e]+', f'"{name}": {json.dumps(value)}', text)
    reply = ask(client(tmp_path, table(), tmp_path), text)
    assert reply.fault
    assert "\n" not in reply.reason
    assert not reply.message
    assert not (tmp_path / "privacy" / "ledger").exists()


def test_answers_that_would_fill_the_memory_are_refused_and_cost_nothing(tmp_path):
    wide = np.random.default_rng(0).choice([-1, 1], (60, 700)).astype(np.int8)
    node = client(tmp_path, wide, tmp_path)
    asking = private_classes(Elsewhere(1), 700, 1.0)
    state = ask(node, asking).state
    down = {"means": np.zeros((90, 700), np.float32), "shares": np.full(90, 1 / 90, np.float32)}
    refused(ask(node, asking, 0, 4, state, down), "too many for one answer")
    (entry,) = json.loads((tmp_path / "privacy" / "ledger").read_text())["released"]
    assert list(entry["spent"]["0"].values()) == [2]


@pytest.mark.parametrize("step", ["sums", "pairs"])
def test_sums_of_many_rows_are_made_block_by_block(monkeypatch, step):
    """Memberships of all rows in 200 classes were held at once: kilobytes for each row."""
    rng = np.random.default_rng(0)
    rows = kernels.pack_masked(rng.choice([-1, 0, 1], (50, 9)))
    down = {"means": rng.uniform(-0.9, 0.9, (3, 9)), "shares": np.full(3, 1 / 3)}
    whole = noisy.exact_sums(step, rows, down)
    monkeypatch.setattr(noisy, "ROWS", 7)
    for name, array in noisy.exact_sums(step, rows, down).items():
        np.testing.assert_array_equal(array, whole[name])
        assert array.dtype == np.int64


def test_zero_has_one_sign_in_the_name_of_a_question():
    shares = np.ones(1, np.float32)
    names = {
        question_name("sums", {"means": np.full((1, 4), zero, np.float32), "shares": shares})
        for zero in (0.0, -0.0)
    }
    assert len(names) == 1
