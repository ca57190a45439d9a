"""Seeds and clients as tasks on Dask's workers give the results of one process, to the last bit."""

import numpy as np
import pytest
from toy_experiments import Stop, stop_after

from hopfed._lib.cluster import cluster
from hopfed.errors import ArgumentError, HopfedError
from hopfed.experiments.runner.execute import execute
from hopfed.federation.contract import Context
from hopfed.federation.engines import Call
from hopfed.federation.engines.dask import DaskEngine
from hopfed.federation.faults import Fault
from hopfed.runs import Run

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


def test_a_run_goes_on_where_it_stopped(rounds, tmp_path, client):
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    execute(rounds, rounds.Config(seeds=3), out=one)
    with pytest.raises(Stop):
        execute(rounds, rounds.Config(seeds=3), out=two, engine="dask", report=stop_after(4))
    assert not Run.load(two).complete
    execute(rounds, rounds.Config(seeds=3), out=two, engine="dask", resume=True)
    assert two.read_bytes() == one.read_bytes()


def test_a_seed_that_fails_is_one_line(walk, client):
    with pytest.raises(HopfedError, match="seed must be one that works, got 2"):
        execute(walk, walk.Config(fail=2), engine="dask")


class Doubling:
    """Clients that answer with twice their number; one of them cannot."""

    def client_step(self, state, down, context):
        if context.client == 2:
            raise OSError("the disk is gone")
        return {"x": state["x"] + 1}, {"twice": np.int64(2 * context.client)}, {}


def test_clients_answer_in_order_and_one_that_fails_costs_no_other_its_answer(client):
    calls = [Call({"x": np.zeros(2)}, {}, Context(0, 0, 0, client=c)) for c in (3, 2, 1)]
    with DaskEngine() as engine:
        found = engine.step(Doubling(), calls)
        again = engine.step(Doubling(), calls[:1])
    assert [outcome.fault for outcome in found] == [Fault.NONE, Fault.RAISED, Fault.NONE]
    assert [found[i].message["twice"] for i in (0, 2)] == [6, 2]
    assert found[0].state["x"].tolist() == again[0].state["x"].tolist() == [1, 1]
    assert found[1].reason == "OSError: the disk is gone"


class Unloadable:
    """Pickles here; fails where it is loaded."""

    def __reduce__(self):
        return exec, ("raise ImportError('no such module here')",)


def test_a_method_that_no_worker_can_load_is_told_in_words(client):
    with DaskEngine() as engine, pytest.raises(HopfedError, match="importable from a module"):
        engine.step(Unloadable(), [Call({}, {}, Context(0, 0, 0, client=0))])


def test_an_address_needs_the_engine(hopfed):
    status, _, error = hopfed("run", "mp", "--dask", "tcp://127.0.0.1:1")
    assert status == 2
    assert "--dask must be given together with --engine dask" in error


@pytest.mark.slow
def test_the_command_has_processes_of_its_own(hopfed, tmp_path):
    options = ("run", "mp", "--preset", "quick", "--seeds", "3")
    assert hopfed(*options, "--out", tmp_path / "a.h5")[0] == 0
    more = ("--engine", "dask", "--dask", "local", "--workers", "2", "--out", tmp_path / "b.h5")
    assert hopfed(*options, *more)[0] == 0
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


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


def test_what_is_no_federation_has_no_pool_of_clients(walk):
    with pytest.raises(ArgumentError, match="local or dask: this is not a federation"):
        execute(walk, walk.Config(), engine="pool")
