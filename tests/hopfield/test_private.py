"""A federation of noisy operators on the common contract."""

import numpy as np
import pytest

from hopfed.data.channel import rademacher
from hopfed.data.stream import ArchetypeStream
from hopfed.errors import ArgumentError
from hopfed.federation.contract import Context
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.messages import malformed
from hopfed.federation.rounds import play_round
from hopfed.hopfield.private import PrivateFederation
from hopfed.metrics import retrieval

XI = rademacher(3, 100, np.random.default_rng(0))


def method(epsilon=3.0, rounds=2, **options):
    source = ArchetypeStream(XI, np.full((rounds, 3, 3), 1 / 3), 2000, 0.7, seed=0)
    return PrivateFederation(source, 100, epsilon, **options)


def play(made, rounds=2):
    state = None
    for t in range(rounds):
        played = play_round(made, state, t, seed=1, clients=3, engine=LocalEngine())
        state = played.state
    return played


def test_rounds_add_up():
    first, second = play(method(), 1), play(method(), 2)
    assert second.server_metrics["examples"] == 2 * first.server_metrics["examples"] == 12000
    found = retrieval(second.state.server["memory/patterns"], XI)
    assert (found.magnetisation > 0.95).all()
    assert found.false_discoveries == 0


def test_noise_hides_what_theory_says_it_hides():
    assert play(method(epsilon=0.05), 1).server_metrics["khat"] == 0


def test_the_noise_is_known_by_who_has_the_secret_only():
    one, again, other = (
        method(secret=s).client_step({}, {}, Context(0, 0, 0, 0))[1]["counts"] for s in (5, 5, 6)
    )
    assert (one == again).all()
    assert not np.isclose(one, other).any()


def test_absurd_claims_are_not_believed_and_cannot_stop_the_server():
    made = method()
    context = Context(1, 0, 0)
    _, good, _ = made.client_step({}, {}, Context(1, 0, 0, 0))
    spec = made.expects({}, context)
    assert malformed(good | {"examples": np.array(-5)}, spec) == "examples is -5, below 2"
    bad = good | {"examples": np.array(10**15)}
    assert malformed(bad, spec) is None, "so it reaches the server"
    state, _, metrics = made.server_step({}, {0: good, 1: bad, 2: good}, context)
    assert metrics["examples"] == 2 * float(good["examples"])
    assert int(state["releases"]) == 2
    assert made.server_step({}, {}, context)[2]["archetypes"] == 0


@pytest.mark.parametrize("change", [{"epsilon": 0.0}, {"epsilon": np.inf}, {"delta": 2.0}])
def test_bad_settings(change):
    with pytest.raises(ArgumentError):
        method(**change)
