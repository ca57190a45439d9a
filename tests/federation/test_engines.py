"""The engine `pool` gives what `local` gives, and bears workers that die."""

from dataclasses import fields, replace

import numpy as np
import pytest
from federations import of_patterns
from helpers import arrays_of
from owners import Moody, Stepped

from hopfed.errors import ArgumentError, HopfedError
from hopfed.federation.contract import Context
from hopfed.federation.engines import Call, shares
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.engines.workers import PoolEngine
from hopfed.federation.faults import Fault
from hopfed.federation.participation import Participation
from hopfed.federation.rounds import play_round
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.plasticity import Smoothing, Structure
from hopfed.hopfield.stream import ArchetypeStream


class Unloadable:
    """Pickles here; fails where it is loaded."""

    def __call__(self, *_):
        """Settings take what can be called for a rule."""

    def __reduce__(self):
        return exec, ("raise ImportError('no such module here')",)


def method(mood=None, seed=0):
    xi = rademacher(3, 120, np.random.default_rng(seed))
    source = ArchetypeStream(xi, np.full((4, 4, 3), 1 / 3), 100, 0.8, seed)
    source = source if mood is None else Moody(source, 2, mood)
    rule, smoothing = Structure(), Smoothing(ema=0.5)
    return of_patterns(source, Encoding(120), rule=rule, smoothing=smoothing)


def stepped(mood=None):
    made = method(mood)
    told = {f.name: getattr(made.client, f.name) for f in fields(made.client)}
    vars(made)["client"] = Stepped(**told)
    return made


def play(engine, what, rounds=3):
    state = None
    for t in range(rounds):
        who = Participation(rate=0.8, late=0.2, delay=2)
        played = play_round(what, state, t, seed=3, clients=4, engine=engine, participation=who)
        state = played.state
    return played


@pytest.fixture(scope="module")
def pool():
    with PoolEngine(2) as engine:
        yield engine


def test_local_and_pool_agree_to_the_last_bit(pool):
    a, b = play(LocalEngine(), method()), play(pool, method())
    one, two = arrays_of(a.state) | a.arrays(), arrays_of(b.state) | b.arrays()
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)
    assert len(a.state.server["memory/patterns"]) == 3


def test_methods_take_turns_in_the_same_workers(pool):
    play(pool, method(), rounds=1)
    before = pool._pool
    a = play(pool, method(), rounds=1).state.server["memory/patterns"]
    b = play(pool, method(seed=1), rounds=1).state.server["memory/patterns"]
    assert pool._pool is before
    assert not np.array_equal(a, b)


def test_a_method_that_no_worker_can_load_is_told_in_words(pool):
    broken = replace(method(), channel=replace(method().channel, rule=Unloadable()))
    with pytest.raises(HopfedError, match="must be importable from a module"):
        play(pool, broken, rounds=1)


def test_workers_are_handed_shares_of_clients_that_are_alike():
    clients = [Call({}, {}, Context(0, 0, 0, c)) for c in range(7)]

    class Alike:
        def client_steps(self, calls):
            return []

        def alike(self, client):
            return client % 3 == 0

    assert shares(Alike(), clients, 2) == [[0, 6], [3], [1, 4], [2, 5]]
    assert shares(method(), clients, 2) == [[c] for c in range(7)]


def test_clients_stepped_together_in_workers_give_what_they_give_alone(pool):
    """And one that fails costs no other its answer."""
    a = play(LocalEngine(), method("raise"), rounds=2)
    b = play(pool, stepped("raise"), rounds=2)
    assert a.faults.codes.tolist() == b.faults.codes.tolist()
    found = arrays_of(b.state) | b.arrays()
    for name, array in (arrays_of(a.state) | a.arrays()).items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.slow
def test_a_worker_that_dies_takes_no_other_client_along():
    with PoolEngine(2) as engine:
        first = play_round(method("die"), None, 0, seed=3, clients=4, engine=engine)
        assert first.faults.codes.tolist() == [0, 0, Fault.DIED, 0]
        second = play_round(method("die"), first.state, 1, seed=3, clients=4, engine=engine)
        assert not second.faults.codes.any()
    local = play_round(method("raise"), None, 0, seed=3, clients=4, engine=LocalEngine())
    local = play_round(method("raise"), local.state, 1, seed=3, clients=4, engine=LocalEngine())
    for name, array in arrays_of(local.state).items():
        np.testing.assert_array_equal(arrays_of(second.state)[name], array, err_msg=name)


def test_bad_settings():
    with pytest.raises(ArgumentError, match="workers must be at least 1"):
        PoolEngine(0)
