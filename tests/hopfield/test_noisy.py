"""A federation of noisy operators on the common contract."""

import numpy as np
import pytest
from federations import played, private_patterns
from liars import lying

from hopfed.federation.contract import Context
from hopfed.federation.messages import digest, malformed
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import lower
from hopfed.hopfield.stream import ArchetypeStream
from hopfed.spectral.operators import DenseOperator
from hopfed.tables.examples import as_examples
from hopfed.theory import private

XI = rademacher(3, 100, np.random.default_rng(0))


def method(epsilon=3.0, rounds=2, **options):
    source = ArchetypeStream(XI, np.full((rounds, 3, 3), 1 / 3), 2000, 0.7, seed=0)
    return private_patterns(source, 100, epsilon, **options)


class Same:
    """Every client has the same examples in every round."""

    def examples(self, t, client):
        return method().source.examples(0, 0)


def exact(made):
    rows = as_examples(made.source.examples(0, 0))
    return lower(np.asarray(DenseOperator.from_examples(rows).matrix)).astype(int)


def released(made, client=0):
    """What a client sends in the first round."""
    return made.client.client_step({}, {}, Context(1, 0, 0, client))[1]


def test_a_release_is_integers_with_the_noise_of_its_budget():
    made = method(epsilon=1.0)
    message = released(made)
    assert message["counts"].dtype == np.int32
    noise = message["counts"] - exact(made)
    assert np.std(noise) == pytest.approx(100 * private.noise_multiplier(1.0, 1e-5), rel=0.04)
    assert abs(noise.mean()) < 4 * np.std(noise) / np.sqrt(len(noise))


def test_shuffled_rows_are_released_with_the_same_noise():
    class Shuffled(Same):
        def examples(self, t, client):
            return np.random.default_rng(3).permutation(super().examples(t, client))

    made = [private_patterns(source(), 100, 3.0, secret=7) for source in (Same, Shuffled)]
    assert len({digest(released(each)) for each in made}) == 1


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
    noise = made.client.mechanism.variance
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
    limit = int(good["examples"]) + int(made.client.mechanism.reach())
    counts = good["counts"].astype(np.int64)
    counts[17] = -(limit - 1) if least else limit - 1
    assert malformed(good | {"counts": counts}, spec) is None
    for worst in (limit + 100, 2**62, 2**63 - 1):
        counts[17] = -worst - 1 if least else worst
        assert "above examples + " in malformed(good | {"counts": counts}, spec)
    assert "dtype float64" in malformed(good | {"counts": counts / 2}, spec)
