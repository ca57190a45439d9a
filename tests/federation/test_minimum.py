"""How many clients must answer, and how many of them may lie."""

import numpy as np
import pytest
from helpers import rest_slow
from liars import claiming, own, served

from hopfed.experiments.serve import Config
from hopfed.federation.contract import Fault, Outcome
from hopfed.federation.engines import LocalEngine
from hopfed.federation.machines.keys import make_keys


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


class Sixteen(LocalEngine):
    """The first sixteen clients answer, and the others are not there."""

    def step(self, method, calls):
        missing = Outcome(fault=Fault.TIMED_OUT, reason="it is not there")
        found = zip(calls, super().step(method, calls), strict=True)
        return [each if call.context.client < 16 else missing for call, each in found]


LIARS = [(1, 3, 3), (1, 2, 0), (2, 4, 4), (1, 10, 3), (2, 10, 4), (3, 30, 3), (4, 30, 4)]
CASES = [(*case, LocalEngine()) for case in LIARS]
CASES.append((3, 30, 3, Sixteen()))  # a tenth of all, not of those heard


@pytest.mark.parametrize(("liars", "clients", "told", "engine"), rest_slow(CASES, 4))
def test_how_many_liars_the_page_for_owners_speaks_of(liars, clients, told, engine):
    """Archetypes of which three are true; where there are four, one is that of the liars."""
    M = 60 if clients == 30 else 300
    how = {"M": M, "engine": engine}
    xi, found, _ = served([own(M)] * liars, clients - liars, claiming(3_000_000), **how)
    assert len(found) == told
    assert (np.abs(found.astype(int) @ xi.T) == 200).sum() == min(told, 3)
