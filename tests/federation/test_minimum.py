"""How many clients must answer, and how many of them may lie."""

import numpy as np
import pytest
from helpers import rest_slow
from liars import claiming, own, served

from hopfed.experiments.serve import Config
from hopfed.federation.contract import Fault, Outcome
from hopfed.federation.engines import LocalEngine
from hopfed.federation.machines.keys import make_keys
from hopfed.hopfield.channel import rademacher


class OnlyThese(LocalEngine):
    """The first clients answer, and the others are not there."""

    def __init__(self, heard):
        self.heard = heard

    def step(self, method, calls):
        missing = Outcome(fault=Fault.TIMED_OUT, reason="it is not there")
        there = [call for call in calls if call.context.client < self.heard]
        return super().step(method, there) + [missing] * (len(calls) - len(there))


def test_more_than_half_must_answer_unless_said_otherwise(tmp_path, hopfed):
    assert [Config(clients=L).least for L in (1, 2, 3, 4, 9, 10)] == [1, 2, 2, 3, 5, 6]
    assert Config(clients=10, minimum=1).least == 1
    make_keys(tmp_path / "keys", 10, ["127.0.0.1"])
    serve = ["serve", "--keys", tmp_path / "keys", "--columns", 40, "--out", tmp_path / "run.h5"]
    serve += ["--wait", 0.2, "--listen", "127.0.0.1:0", "--clients", 10]
    for options, least in (((), 6), (("--minimum", 1), 1)):
        said = hopfed(*serve, *options)[2]
        assert f"0 of at least {least} clients joined within 0.2 s; start the others" in said
    assert not (tmp_path / "run.h5").exists()


@pytest.mark.parametrize("heard", rest_slow([16, 30], 1))
def test_a_tenth_of_all_may_lie_wherever_the_others_are(heard):
    """Counted from those heard, three of thirty were more than a tenth when fourteen were late."""
    xi, told, _ = served([own(seed=7)] * 3, 27, engine=OnlyThese(heard), N=100, M=200)
    lie = rademacher(1, 100, np.random.default_rng(7))
    assert len(told) == 3
    assert (np.abs(told @ xi.T.astype(int)).max(axis=1) == 100).all()
    assert np.abs(told @ lie.T.astype(int)).max() < 60


@pytest.mark.parametrize(
    ("liars", "clients", "told"),
    rest_slow([(1, 3, 3), (1, 2, 0), (2, 4, 4), (1, 10, 3), (2, 10, 4), (3, 30, 3), (4, 30, 4)], 4),
)
def test_how_many_liars_the_page_for_owners_speaks_of(liars, clients, told):
    """Archetypes of which three are true; where there are four, one is that of the liars."""
    M = 60 if clients == 30 else 300
    xi, found, _ = served([own(M)] * liars, clients - liars, claiming(3_000_000), M=M)
    assert len(found) == told
    assert (np.abs(found.astype(int) @ xi.T) == 200).sum() == min(told, 3)
