"""A federation of noisy operators on the common contract."""

import numpy as np
import pytest
from federations import played, private_patterns
from liars import lying

from hopfed.federation.contract import Context
from hopfed.federation.messages import malformed
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.stream import ArchetypeStream

XI = rademacher(3, 100, np.random.default_rng(0))


def method(epsilon=3.0, rounds=2, **options):
    source = ArchetypeStream(XI, np.full((rounds, 3, 3), 1 / 3), 2000, 0.7, seed=0)
    return private_patterns(source, 100, epsilon, **options)


def released(made, client=0):
    """What a client sends in the first round."""
    return made.client.client_step({}, {}, Context(1, 0, 0, client))[1]


def test_absurd_claims_are_not_believed_and_cannot_stop_the_server():
    made = method()
    context = Context(1, 0, 0)
    good, spec = released(made), made.client.expects({}, context)
    assert malformed(good | {"examples": np.array(-5)}, spec) == "examples is -5, below 2"
    bad = good | {"examples": np.array(10**15)}
    assert made.client.expects({}, context)["counts"].kinds == "i"
    assert malformed(bad, spec) == "examples is 1000000000000000, above 1.09951e+12"
    bad = good | {"examples": np.array(10**12)}
    assert malformed(bad, spec) is None, "so it reaches the server"
    loud = lying(made, lambda *_: {"examples": np.array(10**12)})
    result = played(loud, seed=1, clients=3)
    each, state = float(good["examples"]), result.state.server
    assert result.server_metrics["examples"] == 12 * each
    noise = made.client.variance
    assert 2 <= state["evidence/mass"][2] / noise < 2 + 1e-9, "scaled, and its noise with it"
    assert result.server_metrics["claims"].tolist()[0] == [0, 1e12, 10 * each]


@pytest.mark.parametrize("least", [False, True])
def test_counts_beyond_what_examples_and_noise_give_are_malformed(least):
    """Such as 2^63, which used to reach the sums; an honest release is never refused."""
    made, context = method(), Context(1, 0, 0)
    spec = made.client.expects({}, context)
    for client in range(3):
        assert malformed(released(made, client), spec) is None
    good = released(made)
    limit = int(good["examples"]) + int(spec["counts"].beyond)
    counts = good["counts"].astype(np.int64)
    counts[17] = -(limit - 1) if least else limit - 1
    assert malformed(good | {"counts": counts}, spec) is None
    for worst in (limit + 100, 2**62, 2**63 - 1):
        counts[17] = -worst - 1 if least else worst
        assert "above examples + " in malformed(good | {"counts": counts}, spec)
    assert "dtype float64" in malformed(good | {"counts": counts / 2}, spec)
