"""Rounds: what is heard, counted, averaged and carried on; engines give the same."""

import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from federations import played
from helpers import assert_same
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from owners import Stepped
from owners import federation as method

from hopfed.errors import ArgumentError, HopfedError
from hopfed.federation.aggregate import Mean, weighted_mean
from hopfed.federation.contract import EVERYONE, Fault, Method, TooFewClientsError
from hopfed.federation.engines import LocalEngine
from hopfed.federation.engines.flower import FlowerEngine, client_app
from hopfed.federation.engines.workers import DaskEngine, PoolEngine
from hopfed.federation.messages import Field
from hopfed.federation.rounds import FederationState, Participation

flwr = sys.modules["flwr.app"]  # as the engine loaded it, without warnings
LATE = Participation(late=0.4, delay=2)


TOO_LARGE = "x holds 2 values that are not finite, or too large"
WRONG = [  # what a client answers in place of x, and what is said of it
    (lambda x: 1 / 0, Fault.RAISED, "ZeroDivisionError: division by zero"),
    (lambda x: {"x": x * np.nan}, Fault.NOT_FINITE, TOO_LARGE),
    (lambda x: {"x": np.full(2, 1e30, np.float32)}, Fault.NOT_FINITE, TOO_LARGE),
    (lambda x: {"x": x[:1]}, Fault.MALFORMED, "x is of shape (1,), not (2)"),
    # for no terminal to obey
    (lambda x: {"\x1b[31m\ny": x}, Fault.MALFORMED, "x is missing, \\x1b[31m\\ny is unknown"),
    (lambda x: {"x": np.array(["a", "b"])}, Fault.MALFORMED, "x is of dtype <U1"),
    (lambda x: None, Fault.MALFORMED, "a message is a dict of arrays, this is a NoneType"),
    (lambda x: {"x": [1.0, 2.0]}, Fault.MALFORMED, "x is a list, not an array"),
]


@dataclass(frozen=True)
class Sum(Method):
    """A method in small: clients send a number of their own, the server answers with the sum."""

    wrong: Any = None  # what the third client answers
    exchanges: int = 2

    def client_start(self, client, seed):
        return {"steps": np.array(0)}

    def server_start(self, seed):
        return {"total": np.array(0.0)}

    def expects(self, down, context):
        return {"x": Field((2,), "f")}

    def client_step(self, state, down, context):
        steps, x = state["steps"] + 1, context.rng("x").standard_normal(2)
        lies = self.wrong is not None and context.client == 2
        return {"steps": steps}, self.wrong(x) if lies else {"x": x}, {"steps": int(steps)}

    def play(self, state, session):
        down, metrics, total = {}, {}, state["total"]
        for _ in range(self.exchanges):
            folded = []
            said = session.ask(down, fold=lambda c, m, to=folded: to.append(m["x"].sum()) or {})
            total = np.array(total + sum(folded))
            down = {EVERYONE: {"total": total}}
            metrics = {"heard": len(said), "who": list(said), "ages": dict(session.ages)}
        return {"total": total}, down, metrics


play = partial(played, seed=1)


def test_bytes_and_numbers_are_counted_in_both_directions():
    traffic = play(Sum()).traffic
    found = [x.tolist() for x in (traffic.up, traffic.parameters_up, traffic.down)]
    assert found == [[32] * 4, [4] * 4, [8] * 4]  # nothing before the first broadcast
    np.testing.assert_array_equal(play(Sum(), rounds=2).traffic.down, 2 * 8)


@pytest.mark.parametrize(("wrong", "fault", "reason"), WRONG)
def test_a_round_goes_on_without_a_client_that_fails_and_says_why(wrong, fault, reason):
    played = play(Sum(wrong))
    assert played.faults.codes.tolist() == [0, 0, fault, 0]
    assert played.faults.reasons[2].decode() == reason
    assert played.server_metrics["heard"] == 3
    assert played.traffic.up[2] == 0
    assert 2 not in played.state.clients  # its state is not trusted either
    assert np.isnan(played.client_metrics["steps"][2])

    class Others(Participation):
        def cohort(self, *_):
            return [0, 1, 3]

    without = play(Sum(), participation=Others())
    assert played.state.server["total"] == without.state.server["total"]


def test_an_answer_of_the_server_that_is_not_finite_ends_the_run_in_a_line():
    class Lost(Sum):
        def play(self, state, session):
            return state, {EVERYONE: {"total": np.array(np.nan)}}, {}

    with pytest.raises(HopfedError, match="the server's answer is of no use: total holds 1 values"):
        play(Lost())


def test_too_few_clients_stop_the_run_and_say_who_failed():
    method = Sum(WRONG[0][0])
    with pytest.raises(TooFewClientsError, match=r"round 0: 3 of 4 .* client 2 raised: ZeroDiv"):
        play(method, minimum=4)
    with pytest.raises(ArgumentError, match="minimum must be between 0 and the 4"):
        play(method, minimum=5)


def test_late_messages_arrive_once_in_their_round_and_their_clients_are_busy_until_then():
    state, due, ages = None, {}, []
    for t in range(12):
        played = play(Sum(exchanges=1), state=state, start=t, participation=LATE)
        state = FederationState.of_arrays(played.state.arrays())  # as of a run file
        delays = LATE.delays(1, t, 4)
        arrive = {c: t - sent for c, (sent, when) in due.items() if when == t}
        asked = set(range(4)) - due.keys()
        due = {c: pair for c, pair in due.items() if c not in arrive}
        due |= {c: (t, t + delays[c]) for c in asked if delays[c]}
        at_once = {c for c in asked if not delays[c]}
        assert played.server_metrics["who"] == sorted(at_once | arrive.keys())
        assert played.server_metrics["ages"] == arrive
        ages += arrive.values()
        late_now = {c for c in range(4) if played.faults.codes[c] == Fault.LATE}
        assert late_now == set(range(4)) - at_once
    assert set(ages) == {1, 2}
    through = play(Sum(exchanges=1), rounds=12, participation=LATE)
    assert_same(through.state.arrays(), state.arrays())


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_cohorts_are_of_the_right_size_and_cover_everyone(rate):
    who = Participation(rate=rate)
    cohorts = [who.cohort(7, t, 10) for t in range(200)]
    assert {len(c) for c in cohorts} == {round(10 * rate)}
    counts = np.bincount(np.concatenate(cohorts), minlength=10) / 200
    assert np.abs(counts - rate).max() < 5 * np.sqrt(0.25 / 200)


class Unloadable:
    """Pickles here; fails where it is loaded."""

    def __call__(self, *_):
        """Settings take what can be called for a rule."""

    def __reduce__(self):
        return exec, ("raise ImportError('no such module here')",)


def lasted(engine, what, rounds=3):
    who = Participation(rate=0.8, late=0.2, delay=2)
    last = played(what, rounds, seed=3, engine=engine, participation=who)
    return last.state.arrays() | last.arrays()


@pytest.fixture(scope="module")
def engines():
    with ExitStack() as stack:
        made = {"pool": stack.enter_context(PoolEngine(2)), "flower": FlowerEngine()}
        with suppress(ImportError):  # two workers in this process, which speak as those elsewhere
            from distributed import Client

            where = {"processes": False, "dashboard_address": ":0"}
            stack.enter_context(Client(n_workers=2, threads_per_worker=1, **where))
            made["dask"] = stack.enter_context(DaskEngine())
        yield made


@pytest.fixture
def engine(engines, name):
    if name not in engines:
        pytest.skip(f"{name} is not installed")
    return engines[name]


@pytest.mark.parametrize("mood", [None, "raise"])
@pytest.mark.parametrize("name", ["pool", "flower", "dask"])
def test_engines_agree_to_the_last_bit_also_where_a_client_fails(engine, name, mood):
    a, b = lasted(LocalEngine(), method(mood)), lasted(engine, method(mood))
    assert_same(a, b)
    assert {n: array.dtype for n, array in a.items()} == {n: array.dtype for n, array in b.items()}
    pool = getattr(engine, "_pool", None)
    other = lasted(engine, method(seed=1), 1)["server/memory/patterns"]
    assert not np.array_equal(other, a["server/memory/patterns"])  # methods take turns
    assert getattr(engine, "_pool", None) is pool


class Nodes:
    """Stands in for the grid of Flower: four nodes, the last of which may answer as it likes."""

    def __init__(self, last):
        self.last, self.app = last, client_app(Sum())
        self.contexts = {
            n: flwr.Context(7, n, {}, flwr.RecordDict(), {}) for n in (52, 9, 1 << 60, 31)
        }

    def get_node_ids(self):
        return list(self.contexts)

    def create_message(self, content, kind, node, group):
        about = flwr.Metadata(7, "", 1, node, "", group, time.time(), 60.0, kind)
        return flwr.Message(content, metadata=about)

    def send_and_receive(self, messages):
        for message in reversed(messages):
            node = message.metadata.dst_node_id
            odd = self.last is not None and node == 1 << 60
            yield from self.last(message) if odd else [self.app(message, self.contexts[node])]


SAID = [  # what the last node of Flower answers
    (None, Fault.NONE, ""),
    (lambda m: [], Fault.TIMED_OUT, "no answer"),
    (lambda m: [flwr.Message(flwr.Error(1, "no memory"), reply_to=m)], Fault.RAISED, "no memory"),
    (
        lambda m: [flwr.Message(flwr.RecordDict(), reply_to=m)],
        Fault.MALFORMED,
        "not packed arrays of hopfed",
    ),
]


@pytest.mark.parametrize(("last", "fault", "reason"), SAID)
def test_nodes_of_flower_give_the_same_bits_and_one_that_fails_is_a_fault(last, fault, reason):
    engine = FlowerEngine(Nodes(last))
    there, here = play(Sum(), 2, engine=engine), play(Sum(), 2)
    assert there.faults.codes.tolist() == [0, 0, 0, fault]
    assert there.faults.reasons[3].decode() == reason
    if last is None:
        assert_same(here.state.server | here.arrays(), there.state.server | there.arrays())
    with pytest.raises(ArgumentError, match="at most the 4 nodes there"):
        play(Sum(), clients=5, engine=engine)


@pytest.mark.parametrize("name", ["pool", "dask"])
def test_a_method_that_no_worker_can_load_is_told_in_words(engine, name):
    broken = replace(method(), channel=replace(method().channel, rule=Unloadable()))
    with pytest.raises(HopfedError, match="must be importable from a module"):
        lasted(engine, broken, rounds=1)


def test_clients_stepped_together_in_workers_give_what_they_give_alone(engines):
    """And one that fails costs no other its answer."""
    made = method("raise")
    told = {f.name: getattr(made.client, f.name) for f in fields(made.client)}
    vars(made)["client"] = Stepped(**told)
    assert_same(lasted(LocalEngine(), method("raise"), 2), lasted(engines["pool"], made, 2))


@pytest.mark.slow
def test_a_worker_that_dies_takes_no_other_client_along():
    with PoolEngine(2) as engine:
        first = played(method("die"), seed=3, engine=engine)
        assert first.faults.codes.tolist() == [0, 0, Fault.DIED, 0]
        second = played(method("die"), 1, first.state, 1, seed=3, engine=engine)
        assert not second.faults.codes.any()
    assert_same(played(method("raise"), 2, seed=3).state.arrays(), second.state.arrays())


numbers = st.floats(-1e6, 1e6, width=32)
stacks = st.integers(1, 6).flatmap(lambda n: arrays(np.float64, (n, 3), elements=numbers))


@given(stacks, st.data())
def test_the_weighted_mean_is_that_of_numpy(parts, data):
    weights = data.draw(st.lists(st.floats(0.01, 10), min_size=len(parts), max_size=len(parts)))
    expected = np.average(parts, axis=0, weights=weights)
    np.testing.assert_allclose(weighted_mean(list(parts), weights), expected, atol=1e-6)
    mean = Mean()
    for part, weight in zip(parts, weights, strict=True):
        mean.add({"x": part, "steps": np.array(3)}, weight)
    np.testing.assert_allclose(mean.result()["x"], expected, atol=1e-6)
    assert (mean.result()["steps"], mean.result()["steps"].dtype) == (3, int)
    one = Mean()
    one.add({"x": parts[0].astype(np.float32)}, 1_000_003)  # to the bit
    np.testing.assert_array_equal(one.result()["x"], parts[0].astype(np.float32))


@pytest.mark.parametrize("count", [1, 3, 7, 49])
def test_entries_are_averaged_over_those_who_hold_them(count):
    """What all hold as without masks, to the bit."""
    parts = list(np.random.default_rng(count).standard_normal((count, 4, 2)).astype(np.float32))
    masks = [np.array([True, True, c == 0, False]) for c in range(count)]
    default = np.full((4, 2), 9.0, np.float32)
    for w in (None, np.arange(1.0, count + 1)):
        plain = weighted_mean(parts, w)
        masked = weighted_mean(parts, w, masks=masks, default=default)
        np.testing.assert_array_equal(masked[:2], plain[:2])
        np.testing.assert_allclose(masked[2], parts[0][2], rtol=1e-5)
        np.testing.assert_array_equal(masked[3], default[3])
    with pytest.raises(ArgumentError, match="default"):
        weighted_mean(parts, masks=masks)


UNFIT = [
    (([np.ones(2)], [1, 2]), None, "weights must be 1 numbers"),
    (([np.ones(2)], [-1]), None, "weights must be 1 numbers of at least 0"),
    (([np.ones(2), np.ones(3)],), None, "parts must be of one shape"),
    (([np.ones(2)],), [np.ones(3, bool)], "masks must be over"),
]


@pytest.mark.parametrize(("arguments", "masks", "message"), UNFIT)
def test_bad_input_is_one_clear_line(arguments, masks, message):
    with pytest.raises(ArgumentError, match=message):
        weighted_mean(*arguments, masks=masks)
