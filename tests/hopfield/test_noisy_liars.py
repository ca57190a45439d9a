"""What clients that lie can do to a federation of noisy operators."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from federations import played, private_patterns
from helpers import rest_slow
from liars import lying, overlap, own, served

from hopfed.archetypes.overlap import retrieval
from hopfed.experiments.serve import Config, remarks
from hopfed.federation.contract import Context, Fault
from hopfed.federation.messages import malformed
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.patterns import _operator_complaint
from hopfed.hopfield.stream import ArchetypeStream
from hopfed.privacy.discrete_gaussian import reach

N, M = 100, 3000
U = rademacher(1, N, np.random.default_rng(99))[0]
BELIEVING = {"byzantine": 0.0, "claim": 10.0}


def noisy(made_up, honest, change=None, rounds=1, **settings):
    """Serve with epsilon 4."""
    settings = {"epsilon": 4.0, **settings}
    return served(made_up, honest, change, rounds, settings, N=N, M=M)


@pytest.mark.parametrize(("honest", "rounds"), rest_slow([(2, 1), (9, 2), (4, 2)], 1))
def test_one_client_does_not_tell_its_own_archetype(honest, rounds):
    """Its rows are all one pattern, and it claims 3 medians of them."""
    attack = [own(3 * M)], honest
    assert overlap(noisy(*attack, rounds=rounds, **BELIEVING)[1], U) > 0.9
    xi, told, arrays = noisy(*attack, rounds=rounds)
    assert overlap(told, U) < 0.4
    assert retrieval(told, xi).magnetisation.min() > 0.9
    assert "archetypes are withheld: too few clients support them" in remarks(arrays)[0]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_pattern_in_the_room_of_the_noise_is_refused(sign):
    """It claims two examples, and uses all the room that the noise leaves to each count."""
    variance = Config(columns=N, epsilon=4.0).make().client.variance
    most = sign * (int(2 + reach(variance, N * (N - 1) // 2)) - 1)
    counts = np.outer(U, U)[np.tri(N, k=-1, dtype=bool)].astype(np.int64) * most
    lie = {"counts": counts, "examples": np.array(2)}
    xi, told, arrays = noisy([own()], 3, lambda *_: lie, **BELIEVING)
    assert arrays["faults/code"].tolist() == [Fault.MALFORMED, 0, 0, 0]
    assert b"examples and noise" in arrays["faults/reason"][0]
    assert retrieval(told, xi).magnetisation.min() > 0.9
    assert overlap(told, U) < 0.4


@pytest.mark.parametrize(
    ("epsilon", "quality", "releases"),
    rest_slow([(0.1, 0.0, 1), (10.0, 1.0, 1), *product((0.1, 1.0, 10.0), (0.0, 1.0), (5,))], 2),
)
def test_honest_releases_are_not_refused(epsilon, quality, releases):
    """Rows of nothing, and rows that are all alike."""
    rng = np.random.default_rng(0)
    for examples in (2, 50, 3000):
        rows = rademacher(examples, N, rng) if quality == 0 else np.repeat(U[None], examples, 0)

        class Rows:
            def examples(self, t, client, rows=rows):
                return rows

        made = Config(columns=N, epsilon=epsilon).make(Rows())
        for secret in range(1, releases + 1):
            mine = replace(made, noise=replace(made.noise, secret=secret)).client
            _, message, _ = mine.client_step({}, {}, Context(0, 0, 0, 0))
            assert _operator_complaint(mine, made.guard, message) is None


CONTEXT = Context(1, 0, 0)


def releasing():
    """A federation of noisy operators, and what three of its clients send in the first round."""
    xi = rademacher(3, N, np.random.default_rng(0))
    source = ArchetypeStream(xi, np.full((2, 3, 3), 1 / 3), 2000, 0.7, seed=0)
    made = private_patterns(source, N, 3.0)
    return made, [made.client.client_step({}, {}, Context(1, 0, 0, c))[1] for c in range(3)]


def test_absurd_claims_are_not_believed_and_cannot_stop_the_server():
    made, (good, *_) = releasing()
    spec = made.client.expects({}, CONTEXT)
    assert malformed(good | {"examples": np.array(-5)}, spec) == "examples is -5, below 2"
    bad = good | {"examples": np.array(10**15)}
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
