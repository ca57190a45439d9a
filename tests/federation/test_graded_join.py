"""Graded classes across machines: what an owner answers about them, and whole federations."""

import numpy as np
import pytest
from asking import N, ask, method, refused, signs, site
from graded_tables import classes, error
from machines import COLUMNS, Machines

from hopfed.experiments import serve
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.graded import GradedFederation

E = 19  # exchanges of a round


def asked(rounds=1, columns=N, **settings):
    given = {"looks": 2, "products": 4, **settings}
    return GradedFederation(Elsewhere(rounds), columns, **given)


def told(K=2, **more):
    rng = np.random.default_rng(1)
    means = rng.uniform(-0.9, 0.9, (K, N)).astype(np.float32)
    return {"means": means, "shares": np.full(K, 1 / max(K, 1), np.float32), **more}


def gappy(rows=400):
    x = signs(rows).copy()
    x[np.random.default_rng(2).random(x.shape) < 0.3] = 0
    return x


def test_rows_with_gaps_answer_about_classes_and_send_no_operator(tmp_path):
    node = site(tmp_path, gappy())
    refused(ask(node, method()), "have gaps")
    reply = ask(node, asked())
    assert 0.65 < reply.up["seen"].sum() / (400 * N) < 0.75
    reply = ask(node, asked(), 0, 3, reply.state, told(directions=np.ones((2, N), np.float32)))
    assert set(reply.up) == {"products", "examples"}
    private = site(tmp_path / "private", signs(400), epsilon=1.0)
    refused(ask(private, asked()), "answers with noise only")


@pytest.mark.parametrize(
    "down",
    [
        {},
        told(K=0),
        told(K=201),
        told() | {"shares": np.ones(3, np.float32)},
        told() | {"means": np.full((2, N), 1.5, np.float32)},
        told() | {"means": np.full((2, N), np.nan, np.float32)},
        told() | {"means": np.zeros((2, N + 1), np.float32)},
        told(directions=np.ones((2, N), np.float32), halves=np.ones((2, N), np.float32)),
        told(more=np.ones(3)),
    ],
    ids=lambda down: ",".join(f"{k}{v.shape}" for k, v in down.items()) or "nothing",
)
def test_what_is_no_question_gets_no_answer(tmp_path, down):
    node = site(tmp_path, gappy())
    state = ask(node, asked()).state
    reply = ask(node, asked(), 0, 1, state, down)
    if down:
        refused(reply, "a malformed message from the server")
    assert not reply.up


def fill(machines, rows=500):
    """Give the clients rows of three graded classes, each with gaps of its own."""
    T, y, x = classes(3, COLUMNS, rows * machines.clients, 3)
    rng = np.random.default_rng(4)
    for c, part in enumerate(np.array_split(x, machines.clients)):
        gaps = rng.random(part.shape) < rng.uniform(0.05, 0.4, COLUMNS)
        np.save(machines.folder / f"{c}.npy", np.where(gaps, np.nan, part.astype(float)))
    return T


def assert_as_alone(machines, run):
    for name, array in machines.alone(run).items():
        np.testing.assert_array_equal(run.arrays[name], array, err_msg=name)


def test_three_owners_of_tables_with_gaps(tmp_path):
    with Machines(tmp_path, clients=3) as machines:
        T = fill(machines)
        machines.serve("--minimum", "3", "--graded")
        machines.join_all("--out", "found-@.npy")
        run = machines.run()
        assert machines.end("clients") == 0
    assert_as_alone(machines, run)
    found = np.load(tmp_path / "found-0.npy")
    assert found.shape == (3, COLUMNS)
    assert error(found, T) < 0.09
    np.testing.assert_array_equal(found, serve.told(serve.Config(graded=True), run.arrays).means)


@pytest.mark.slow
def test_a_server_of_classes_killed_and_resumed_loses_nothing(tmp_path):
    with Machines(tmp_path, clients=2) as machines:
        fill(machines)
        machines.serve("--rounds", "3", "--minimum", "2", "--graded")
        machines.join(0)
        machines.join(1)
        machines.wait("server", "round 1 exchange 0")
        machines.kill("server")
        machines.serve("--resume")
        run = machines.run()
        assert [machines.end(f"client-{c}") for c in range(2)] == [0, 0]
    assert machines.log("server").count("round 0 exchange 0") == 1, "a committed round again"
    assert_as_alone(machines, run)
