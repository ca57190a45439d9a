"""The engine `flower` gives what `local` gives; states stay with the nodes."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from federations import played
from helpers import arrays_of, assert_same
from owners import federation

from hopfed.federation.contract import Context
from hopfed.federation.engines import Call
from hopfed.federation.engines.flower import ClientApp, FlowerEngine
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.faults import Fault
from hopfed.federation.messages import Field
from hopfed.federation.participation import Participation


def play(engine, what, rounds=3):
    arrays, who = [], Participation(rate=0.8, late=0.2, delay=2)
    more = {"each": lambda result: arrays.append(result.arrays()), "participation": who}
    last = played(what, rounds, seed=3, engine=engine, **more).state.arrays()
    return last | {f"{t}/{n}": a for t, each in enumerate(arrays) for n, a in each.items()}


@pytest.fixture(scope="module")
def simulation():
    with FlowerEngine() as engine:
        yield engine


def test_local_and_flower_agree_to_the_last_bit(simulation):
    a, b = play(LocalEngine(), federation()), play(simulation, federation())
    assert_same(a, b)
    assert {name: array.dtype for name, array in a.items()} == {n: x.dtype for n, x in b.items()}
    assert len(a["server/memory/patterns"]) == 3


def test_a_client_that_raises_costs_no_other_its_answer(simulation):
    faults = played(federation("raise"), engine=simulation).faults
    assert faults.codes.tolist() == [0, 0, Fault.RAISED, 0]
    assert faults.reasons[2] == b"OSError: the disk is gone"


@dataclass(frozen=True)
class Counter:
    """Counts its steps in a state that it never tells."""

    big: int = 5000

    def client_start(self, client, seed):
        return {"steps": np.array(0), "own": np.full(self.big, client, np.float32)}

    def client_step(self, state, down, context):
        steps = state["steps"] + 1
        return state | {"steps": steps}, {"steps": np.array(steps)}, {}

    def expects(self, down, context):
        return {"steps": Field((), "i")}


def calls_of(states, t=0):
    return [Call(s, {}, Context(0, t, 0, c)) for c, s in enumerate(states)]


def test_a_state_travels_in_neither_direction(simulation, monkeypatch):
    sent, call = [], ClientApp.__call__

    def spy(app, message, here):
        sent.extend([message, call(app, message, here)])
        return sent[-1]

    monkeypatch.setattr(ClientApp, "__call__", spy)
    outcomes = simulation.step(Counter(), calls_of([Counter().client_start(c, 0) for c in (0, 1)]))
    assert [int(o.state["steps"]) for o in outcomes] == [1, 1]
    assert len(outcomes[1].state["own"]) == 5000
    for message in sent:
        held = len(message.content["hopfed"]["hopfed"])
        assert held < 1000, "a state of 20 kB went along"


@dataclass(frozen=True)
class Neural:
    """Settings of a small run."""

    method: str
    changes: dict = field(default_factory=dict)

    def play(self, engine):
        fl = pytest.importorskip("hopfed.experiments.fl")
        config = replace(fl.Config(method=self.method, clients=4, rate=0.75), **self.changes)
        state, found = None, {}
        for t in range(2):
            arrays, state = fl.measure_round(0, config, t, state, engine)
            found |= {f"{t}/{name}": array for name, array in arrays.items()}
        return found | arrays_of(state)


@pytest.mark.slow
@pytest.mark.parametrize(
    "neural",
    [
        Neural("fedavg"),
        Neural("sohip"),
        Neural("fedh2l", {"models": ("cnn-1", "cnn-2")}),  # peers, relayed by the server
    ],
    ids=lambda neural: neural.method,
)
def test_neural_runs_agree(simulation, neural):
    pytest.importorskip("torch")
    assert_close(neural.play(LocalEngine()), neural.play(simulation))


def assert_close(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert (a[name].dtype, a[name].shape) == (b[name].dtype, b[name].shape), name
        if a[name].dtype.kind == "f":
            np.testing.assert_allclose(a[name], b[name], rtol=0, atol=1e-5, err_msg=name)
        elif not name.startswith("last/"):  # digests of messages that agree to 1e-5 only
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.slow
def test_a_run_on_flower_is_resumed_to_the_same_bits(tmp_path):
    from hopfed.experiments import find, preset
    from hopfed.experiments.runner import execute
    from hopfed.runs import Run

    drift = find("drift")
    config = replace(preset(drift, "quick"), rounds=3, seeds=2)
    whole = execute(drift, config)
    with FlowerEngine() as engine:

        def stop(done, planned):
            if done == 1:
                raise KeyboardInterrupt

        out = tmp_path / "run.h5"
        with pytest.raises(KeyboardInterrupt):
            execute(drift, config, out=out, engine=engine, report=stop)
        execute(drift, config, out=out, engine="flower", resume=True)
    run = Run.load(out, complete=True)
    assert_same(whole.arrays, run.arrays)
