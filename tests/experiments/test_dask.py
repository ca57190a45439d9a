"""Seeds and clients as tasks on Dask's workers give the results of one process, to the last bit."""

import os
import signal

import numpy as np
import pytest

from hopfed._lib.cluster import cluster
from hopfed.errors import HopfedError
from hopfed.experiments import fl
from hopfed.experiments.runner import execute
from hopfed.federation.contract import Call, Context, Fault
from hopfed.federation.engines import LocalEngine
from hopfed.federation.engines.workers import DaskEngine

distributed = pytest.importorskip("distributed", reason="distributed is not installed")


@pytest.fixture(scope="module")
def client():
    """Two workers in this process, which speak with the scheduler as those elsewhere do."""
    with distributed.Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as client:
        yield client


@pytest.mark.parametrize("kind", ["walk", "rounds", "federation"])
def test_the_run_file_is_the_same_to_the_last_byte(kind, request, tmp_path, client):
    experiment = request.getfixturevalue(kind)
    one, two, three = (tmp_path / f"{name}.h5" for name in ("one", "two", "three"))
    execute(experiment, experiment.Config(seeds=4), out=one)
    execute(experiment, experiment.Config(seeds=4), out=two, engine="dask")
    assert two.read_bytes() == one.read_bytes()
    if kind != "walk":  # more workers than seeds: the clients of a round are tasks
        execute(experiment, experiment.Config(seeds=4), out=three, engine="dask", workers=8)
        assert three.read_bytes() == one.read_bytes()


def test_a_seed_that_fails_is_one_line(walk, client):
    with pytest.raises(HopfedError, match="seed must be one that works, got 2"):
        execute(walk, walk.Config(fail=2), engine="dask")


def test_an_address_needs_the_engine(hopfed):
    status, _, error = hopfed("run", "mp", "--dask", "tcp://127.0.0.1:1")
    assert status == 2
    assert "--dask must be given together with --engine dask" in error


class Ending:
    """A client whose process ends."""

    def client_step(self, state, down, context):
        import os

        if context.client == 1:
            os._exit(1)
        return state, {"twice": np.int64(2 * context.client)}, {}


@pytest.mark.slow
def test_a_client_whose_worker_ends_again_and_again_has_died():
    calls = [Call({}, {}, Context(0, 0, 0, client=c)) for c in range(3)]
    with cluster("local", 2), DaskEngine() as engine:
        found = engine.step(Ending(), calls)
    assert found[1].fault == Fault.DIED
    assert sum(outcome.fault == Fault.NONE for outcome in found) >= 1


class Growing:
    """Clients with a state of some size, and one message for all."""

    def client_step(self, state, down, context):
        grown = np.roll(state["w"], 1) * down["rate"][0] + context.client
        return {"w": grown}, {"sum": grown.sum()}, {}


def played(engine, rounds, before=lambda t: None, clients=4):
    """States of all clients after some rounds."""
    states = {c: {"w": np.arange(20_000.0) + c} for c in range(clients)}
    for t in range(rounds):
        before(t)
        down = {"rate": np.full(20_000, 0.5 + t)}
        calls = [Call(states[c], down, Context(0, t, 0, c)) for c in states]
        found = engine.step(Growing(), calls)
        states = {c: outcome.state for c, outcome in zip(states, found, strict=True)}
    return np.stack([state["w"] for state in states.values()])


@pytest.mark.slow
def test_networks_on_workers_are_those_of_one_process(tmp_path, client, caplog):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    config = fl.Config(method="ditto", clients=4, rounds=3)
    one = execute(fl, config, out=tmp_path / "one.h5").arrays
    with DaskEngine() as engine:
        two = execute(fl, config, out=tmp_path / "two.h5", engine=engine).arrays
    assert one.keys() == two.keys()
    for name, array in one.items():  # a loss of clients together is summed in another order
        loss = {"rtol": 1e-6} if name == "client/loss" else {"rtol": 0}
        if array.dtype.kind == "f":
            np.testing.assert_allclose(two[name], array, **loss)
        elif array.dtype != np.uint8:  # networks as bytes
            np.testing.assert_array_equal(two[name], array)
    assert "ERROR" not in {record.levelname for record in caplog.records}, "on its way out"


@pytest.mark.slow
def test_steps_of_a_worker_that_was_killed_are_made_by_another():
    def kill(t):
        if t == 2:
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)

    with cluster("local", 2) as client, DaskEngine() as engine:
        found = played(engine, 4, kill)
    np.testing.assert_array_equal(found, played(LocalEngine(), 4))
