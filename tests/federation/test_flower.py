"""The engine `flower` gives what `local` gives; states stay with the nodes."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from flwr.app import Message as FlowerMessage
from flwr.app.error import Error
from flwr.common.constant import ErrorCode
from flwr.supercore.task_identity import TaskIdentity
from owners import Moody

from hopfed.errors import ArgumentError, BackendError
from hopfed.federation.contract import Context
from hopfed.federation.engines import Call, flower
from hopfed.federation.engines.flower import engine as engines
from hopfed.federation.engines.flower.engine import HELD, FlowerEngine
from hopfed.federation.engines.flower.kept_states import KeptStates
from hopfed.federation.engines.flower.node import Node
from hopfed.federation.engines.flower.simulation import FlowerSimulation
from hopfed.federation.engines.flower.wire import write_reply
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.faults import Fault
from hopfed.federation.messages import Field
from hopfed.federation.participation import Participation
from hopfed.federation.recipes import describe
from hopfed.federation.rounds import play_round
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.plasticity.rules import Smoothing, Structure
from hopfed.hopfield.stream import ArchetypeStream


def hopfield(mood=None):
    xi = rademacher(3, 120, np.random.default_rng(0))
    source = ArchetypeStream(xi, np.full((4, 4, 3), 1 / 3), 100, 0.8, 0)
    source = source if mood is None else Moody(source, 2, mood)
    rule, smoothing = Structure(), Smoothing(ema=0.5)
    return HopfieldFederation(source, Encoding(120), rule=rule, smoothing=smoothing)


def play(engine, what, rounds=3):
    state, arrays = None, {}
    for t in range(rounds):
        who = Participation(rate=0.8, late=0.2, delay=2)
        played = play_round(what, state, t, seed=3, clients=4, engine=engine, participation=who)
        state = played.state
        arrays |= {f"{t}/{name}": array for name, array in played.arrays().items()}
    return arrays | state.flatten()


@pytest.fixture(scope="module")
def simulation():
    with FlowerSimulation() as engine:
        yield engine


def test_local_and_flower_agree_to_the_last_bit(simulation):
    a, b = play(LocalEngine(), hopfield()), play(simulation, hopfield())
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype, name
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    assert len(a["server/memory/patterns"]) == 3


def test_a_client_that_raises_costs_no_other_its_answer(simulation):
    played = play_round(hopfield("raise"), None, 0, seed=3, clients=4, engine=simulation)
    assert played.faults.codes.tolist() == [0, 0, Fault.RAISED, 0]
    assert played.faults.reasons[2] == b"OSError: the disk is gone"


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
    sent = []
    send = simulation.grid.send_and_receive

    def spy(messages, *, timeout=None):
        replies = list(send(messages, timeout=timeout))
        sent.extend([*messages, *replies])
        return replies

    monkeypatch.setattr(simulation.grid, "send_and_receive", spy)
    outcomes = simulation.step(Counter(), calls_of([Counter().client_start(c, 0) for c in (0, 1)]))
    assert [int(o.state["steps"]) for o in outcomes] == [1, 1]
    assert len(outcomes[1].state["own"]) == 5000
    for message in sent:
        held = sum(len(a.data) for a in message.content["arrays"].values())
        assert held < 1000, "a state of 20 kB went along"


class Connections:
    """A grid before one node, which may lose, spoil or repeat what passes."""

    def __init__(self, node, spoil=lambda attempt, reply: reply):
        self.node, self.spoil, self.attempts = node, spoil, 0

    def send_and_receive(self, messages, *, timeout=None):
        self.attempts += 1
        replies = []
        for message in messages:
            reply = FlowerMessage(write_reply(self.node.answer(message)), reply_to=message)
            replies.append(self.spoil(self.attempts, reply))
        return [r for r in replies if r is not None]


@pytest.fixture
def identity():
    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1


def remote(grid, there=lambda c: 7, **options):
    return FlowerEngine(grid, there, "run", timeout=options.pop("timeout", 5.0), **options)


def test_the_federation_holds_the_name_of_a_state_that_is_elsewhere(identity, tmp_path):
    engine = remote(Connections(Node(KeptStates(tmp_path), trusted=None)))
    state = {}
    for t in range(3):
        (outcome,) = engine.step(Counter(), calls_of([state], t))
        assert int(outcome.message["steps"]) == t + 1
        assert list(outcome.state) == [HELD]
        state = outcome.state


def test_a_node_that_is_restarted_goes_on_and_a_request_made_again_gets_its_answer(
    identity, tmp_path
):
    """Even one from before the last answer, as of a server that was resumed."""
    names = [{}]
    for t in range(3):  # a new process each time
        engine = remote(Connections(Node(KeptStates(tmp_path), trusted=None)))
        names.append(engine.step(Counter(), calls_of([names[-1]], t))[0].state)
    for t in (1, 2, 2):
        outcome = engine.step(Counter(), calls_of([names[t]], t))[0]
        assert outcome.state[HELD].tolist() == names[t + 1][HELD].tolist()
        assert int(outcome.message["steps"]) == t + 1


def test_states_of_long_ago_are_dropped_and_that_is_told_in_words(identity, tmp_path):
    engine = remote(Connections(Node(KeptStates(tmp_path), trusted=None)))
    states = [{}]
    for t in range(12):
        states.append(engine.step(Counter(), calls_of([states[-1]], t))[0].state)
    assert len(list(tmp_path.rglob("*.state"))) == 8
    outcome = engine.step(Counter(), calls_of([states[1]], 1))[0]
    assert outcome.fault == Fault.RAISED
    assert "no longer has the state" in outcome.reason


def test_what_is_lost_is_asked_again_and_what_never_comes_times_out(identity, tmp_path):
    lost = Connections(
        Node(KeptStates(), trusted=None), lambda attempt, r: r if attempt > 1 else None
    )
    assert remote(lost).step(Counter(), calls_of([{}]))[0].fault == Fault.NONE
    never = Connections(Node(KeptStates(), trusted=None), lambda attempt, reply: None)
    outcome = remote(never, timeout=0.3).step(Counter(), calls_of([{}]))[0]
    assert outcome.fault == Fault.TIMED_OUT
    assert outcome.reason.endswith("it is silent")
    gone = Error(ErrorCode.NODE_UNAVAILABLE, "node is offline")
    offline = Connections(
        Node(KeptStates(), trusted=None),
        lambda _, reply: FlowerMessage(gone, reply_to=asked(reply)),
    )
    outcome = remote(offline, timeout=0.3).step(Counter(), calls_of([{}]))[0]
    assert outcome.reason.endswith("node is offline")


def asked(reply):
    return FlowerMessage(reply.content, 7, "query")


def test_a_client_that_is_not_there_is_waited_for_a_little_only(identity, monkeypatch):
    monkeypatch.setattr(engines, "GRACE", 0.2)
    engine = remote(Connections(None), lambda c: None, timeout=60.0)
    outcome = engine.step(Counter(), calls_of([{}]))[0]
    assert outcome.fault == Fault.TIMED_OUT
    assert outcome.reason.endswith("it is not there")


def test_an_answer_that_is_none_is_malformed(identity):
    def spoil(attempt, reply):
        reply.content["arrays"]["up"].data = b"hopfed-1" + b"\xff" * 40
        return reply

    outcome = remote(Connections(Node(KeptStates(), trusted=None), spoil)).step(
        Counter(), calls_of([{}])
    )[0]
    assert outcome.fault == Fault.MALFORMED


def test_a_site_keeps_the_words_of_errors_that_may_quote_its_examples(identity):
    class Quoting(Counter):
        def client_step(self, state, down, context):
            raise ValueError("bad example 1 0 1 1")

    def private(method, _):
        return Quoting()

    told = []
    node = Node(
        KeptStates(),
        private,
        lambda _, reply: told.append(reply.reason),
        trusted=None,
        private=True,
    )
    outcome = remote(Connections(node)).step(Counter(), calls_of([{}]))[0]
    assert outcome.reason == "ValueError"
    assert told == ["ValueError: bad example 1 0 1 1"]


def test_settings_and_a_missing_extra_are_errors_in_words(monkeypatch):
    with pytest.raises(ArgumentError, match="timeout must be above 0"):
        FlowerEngine(None, lambda c: 0, "run", timeout=0.0)
    monkeypatch.setattr(flower, "find_spec", lambda name: None)
    with pytest.raises(BackendError, match=r"pip install 'hopfed\[flower\]'"):
        flower._prepare()


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
            arrays, state, _ = fl.play(config, 0, t, state, engine)
            found |= {f"{t}/{name}": array for name, array in arrays.items()}
        return found | state.flatten()


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedavg", "sohip", "fedh2l"])
def test_neural_runs_agree_with_the_pool(simulation, name):
    from hopfed.federation.engines.pool import PoolEngine

    with PoolEngine(2) as pool:
        assert_close(Neural(name).play(pool), Neural(name).play(simulation))


def assert_close(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert (a[name].dtype, a[name].shape) == (b[name].dtype, b[name].shape), name
        if a[name].dtype.kind == "f":
            np.testing.assert_allclose(a[name], b[name], rtol=0, atol=1e-5, err_msg=name)
        elif not name.startswith("last/"):  # digests of messages that agree to 1e-5 only
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_a_run_on_flower_is_resumed_to_the_same_bits(tmp_path):
    from hopfed.experiments import find
    from hopfed.experiments.runner.execute import execute
    from hopfed.runs import Run

    drift = find("drift")
    config = replace(drift.PRESETS["quick"], rounds=3, seeds=1)
    whole = execute(drift, config)
    with FlowerSimulation() as engine:

        def stop(done, planned):
            if done == 2:
                raise KeyboardInterrupt

        out = tmp_path / "run.h5"
        with pytest.raises(KeyboardInterrupt):
            execute(drift, config, out=out, engine=engine, report=stop)
        execute(drift, config, out=out, engine="flower", resume=True)
    run = Run.load(out, complete=True)
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(run.arrays[name], array, err_msg=name)


def test_flower_takes_one_worker():
    from hopfed.experiments import find
    from hopfed.experiments.runner.execute import execute

    drift = find("drift")
    with pytest.raises(ArgumentError, match="workers must be 1 with this engine"):
        execute(drift, drift.PRESETS["quick"], engine="flower", workers=2)


def test_describing_costs_nothing_twice(simulation):
    method = hopfield()
    simulation._request(method, calls_of([{}])[0])
    before = simulation._described[1]
    simulation._request(method, calls_of([{}])[0])
    assert simulation._described[1] is before
    assert before[0] == describe(method)[0]
