"""The engine `pool` gives what `local` gives, and bears workers that die."""

from dataclasses import fields, replace

import numpy as np
import pytest
from federations import played
from helpers import assert_same
from owners import Stepped
from owners import federation as method

from hopfed.errors import ArgumentError, HopfedError
from hopfed.federation.contract import Context
from hopfed.federation.engines import Call, shares
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.engines.workers import PoolEngine
from hopfed.federation.faults import Fault
from hopfed.federation.participation import Participation


class Unloadable:
    """Pickles here; fails where it is loaded."""

    def __call__(self, *_):
        """Settings take what can be called for a rule."""

    def __reduce__(self):
        return exec, ("raise ImportError('no such module here')",)


def stepped(mood=None):
    made = method(mood)
    told = {f.name: getattr(made.client, f.name) for f in fields(made.client)}
    vars(made)["client"] = Stepped(**told)
    return made


def play(engine, what, rounds=3):
    who = Participation(rate=0.8, late=0.2, delay=2)
    return played(what, rounds, seed=3, engine=engine, participation=who)


@pytest.fixture(scope="module")
def pool():
    with PoolEngine(2) as engine:
        yield engine


def test_local_and_pool_agree_to_the_last_bit(pool):
    a, b = play(LocalEngine(), method()), play(pool, method())
    assert_same(a.state.arrays() | a.arrays(), b.state.arrays() | b.arrays())
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
    assert_same(a.state.arrays() | a.arrays(), b.state.arrays() | b.arrays())


@pytest.mark.slow
def test_a_worker_that_dies_takes_no_other_client_along():
    with PoolEngine(2) as engine:
        first = played(method("die"), seed=3, engine=engine)
        assert first.faults.codes.tolist() == [0, 0, Fault.DIED, 0]
        second = played(method("die"), 1, first.state, 1, seed=3, engine=engine)
        assert not second.faults.codes.any()
    assert_same(played(method("raise"), 2, seed=3).state.arrays(), second.state.arrays())


def test_bad_settings():
    with pytest.raises(ArgumentError, match="workers must be at least 1"):
        PoolEngine(0)
