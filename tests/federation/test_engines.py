"""The engines `pool`, `dask` and `flower` give what `local` gives, also where a client fails."""

from contextlib import ExitStack, suppress
from dataclasses import fields, replace

import numpy as np
import pytest
from federations import played
from helpers import assert_same
from owners import Stepped
from owners import federation as method

from hopfed.errors import HopfedError
from hopfed.federation.contract import Fault
from hopfed.federation.engines import LocalEngine
from hopfed.federation.engines.flower import FlowerEngine
from hopfed.federation.engines.workers import DaskEngine, PoolEngine
from hopfed.federation.rounds import Participation


class Unloadable:
    """Pickles here; fails where it is loaded."""

    def __call__(self, *_):
        """Settings take what can be called for a rule."""

    def __reduce__(self):
        return exec, ("raise ImportError('no such module here')",)


def play(engine, what, rounds=3):
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
    a, b = play(LocalEngine(), method(mood)), play(engine, method(mood))
    assert_same(a, b)
    assert {n: array.dtype for n, array in a.items()} == {n: array.dtype for n, array in b.items()}
    pool = getattr(engine, "_pool", None)
    other = play(engine, method(seed=1), 1)["server/memory/patterns"]
    assert not np.array_equal(other, a["server/memory/patterns"])  # methods take turns
    assert getattr(engine, "_pool", None) is pool


@pytest.mark.parametrize("name", ["pool", "dask"])
def test_a_method_that_no_worker_can_load_is_told_in_words(engine, name):
    broken = replace(method(), channel=replace(method().channel, rule=Unloadable()))
    with pytest.raises(HopfedError, match="must be importable from a module"):
        play(engine, broken, rounds=1)


def test_clients_stepped_together_in_workers_give_what_they_give_alone(engines):
    """And one that fails costs no other its answer."""
    made = method("raise")
    told = {f.name: getattr(made.client, f.name) for f in fields(made.client)}
    vars(made)["client"] = Stepped(**told)
    assert_same(play(LocalEngine(), method("raise"), 2), play(engines["pool"], made, 2))


@pytest.mark.slow
def test_a_worker_that_dies_takes_no_other_client_along():
    with PoolEngine(2) as engine:
        first = played(method("die"), seed=3, engine=engine)
        assert first.faults.codes.tolist() == [0, 0, Fault.DIED, 0]
        second = played(method("die"), 1, first.state, 1, seed=3, engine=engine)
        assert not second.faults.codes.any()
    assert_same(played(method("raise"), 2, seed=3).state.arrays(), second.state.arrays())
