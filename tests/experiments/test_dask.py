"""Seeds and clients as tasks on Dask's workers give the results of one process, to the last bit."""

import os
import signal

import numpy as np
import pytest

from hopfed._lib.dask_cluster import cluster
from hopfed.errors import HopfedError
from hopfed.experiments import fl
from hopfed.experiments.machinery.runner import execute
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


@pytest.mark.parametrize("kind", ["walk", "federation"])
def test_the_run_file_is_the_same_to_the_last_byte(kind, request, tmp_path, client):
    experiment = request.getfixturevalue(kind)
    one, two, three = (tmp_path / f"{name}.h5" for name in ("one", "two", "three"))
    execute(experiment, experiment.Config(seeds=4), out=one)
    execute(experiment, experiment.Config(seeds=4), out=two, engine="dask")
    assert two.read_bytes() == one.read_bytes()
    if kind != "walk":  # more workers than seeds: the clients of a round are tasks
        execute(experiment, experiment.Config(seeds=4), out=three, engine="dask", workers=8)
        assert three.read_bytes() == one.read_bytes()


def test_what_goes_wrong_is_one_line(walk, client, hopfed):
    with pytest.raises(HopfedError, match="seed must be one that works, got 2"):
        execute(walk, walk.Config(fail=2), engine="dask")
    error = hopfed.refused("run", "mp", "--dask", "tcp://127.0.0.1:1")
    assert "--dask must be given together with --engine dask" in error


def test_an_error_beside_a_client_in_use_is_itself(client):
    with pytest.raises(ValueError, match="not a number"), cluster(None):
        float("not a number")


class Growing:
    """Clients with a state of some size, and one message for all; the process of one may end."""

    ends = -1

    def client_step(self, state, down, context):
        if context.client == self.ends:
            os._exit(1)
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
def test_steps_of_a_worker_that_was_killed_are_made_by_another_unless_it_ends_again_and_again():
    def kill(t):
        if t == 2:
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)

    with cluster("local", 2) as client, DaskEngine() as engine:
        found = played(engine, 4, kill)
        np.testing.assert_array_equal(found, played(LocalEngine(), 4))
        method = Growing()
        method.ends = 1
        down = {"rate": np.ones(1)}
        calls = [Call({"w": np.ones(2)}, down, Context(0, 0, 0, client=c)) for c in range(3)]
        faults = [outcome.fault for outcome in engine.step(method, calls)]
    assert faults[1] == Fault.DIED
    assert Fault.NONE in faults


@pytest.mark.slow
def test_networks_on_workers_are_those_of_one_process(tmp_path, client, caplog):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    config = fl.Config(method="ditto", clients=4, rounds=3)
    one, two = (execute(fl, config, engine=engine).arrays for engine in ("local", "dask"))
    assert one.keys() == two.keys()
    for name, array in one.items():  # a loss of clients together is summed in another order
        if array.dtype.kind == "f":
            rtol = 1e-6 if name == "client/loss" else 0
            np.testing.assert_allclose(two[name], array, rtol=rtol)
        elif array.dtype != np.uint8:  # networks as bytes
            np.testing.assert_array_equal(two[name], array)
    assert "ERROR" not in {record.levelname for record in caplog.records}, "on its way out"
