"""What clients that lie can do at the defaults of `hopfed serve`, with noise and without."""

from dataclasses import replace

import numpy as np
import pytest
from federations import played, private_patterns
from helpers import rest_slow
from hypothesis import given, settings
from hypothesis import strategies as st
from liars import against, assert_found, claiming, close, lying, noise, overlap, own, owners, served

from hopfed import simulate
from hopfed.archetypes.overlap import retrieval
from hopfed.experiments.serve import Config, measure_round, remarks
from hopfed.federation.contract import EVERYONE, Context, Fault
from hopfed.federation.engines import LocalEngine
from hopfed.federation.rounds import FederationState
from hopfed.hopfield.byzantine_guard import Guard
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.example_sources import ArchetypeStream
from hopfed.hopfield.operator_messages import unpack_patterns
from hopfed.hopfield.pattern_channel import _operator_complaint
from hopfed.privacy.integer_noise import noise_bound

BELIEVING = {"byzantine": 0.0, "claim": 10.0, "support": 0.0, "check": False}
MANY = 3_000_000  # times 300 rows: a claim of about 10^9
N = 200
U = rademacher(1, N, np.random.default_rng(99))[0]


@pytest.mark.parametrize("quality", rest_slow([0.8, 1.0], 1))
@pytest.mark.parametrize("honest", rest_slow([4, 9, 2], 1))
def test_one_client_that_claims_a_billion_examples_does_not_tell_its_own_archetype(honest, quality):
    attack = [own(r=quality)], honest, claiming(MANY)
    assert overlap(served(*attack, settings=BELIEVING)[1], U) > 0.9
    xi, told, arrays = served(*attack)
    assert_found(told, xi)
    assert overlap(told, U) < 0.3
    lines = remarks(arrays)
    assert lines[0] == "client 0 claims 900000000 examples and counts for 900"
    assert "archetypes are withheld: too few clients support them (client 0: " in lines[1]
    assert int(arrays["withheld/unconfirmed"]) >= 1


BLUR = [noise(), against(), close(share=0.05), close(share=0.2)]
BLURS = [*((make, 2) for make in BLUR), *((make, 9) for make in BLUR[1:]), (BLUR[0], 9)]


@pytest.mark.parametrize(("make", "honest"), rest_slow(BLURS, len(BLURS) - 1))
def test_one_client_does_not_take_archetypes_away_or_blur_them(make, honest):
    xi, told, _ = served([make], honest, claiming(MANY))
    assert_found(told, xi)


def test_one_client_does_not_turn_archetypes_into_their_negatives():
    def negative(xi, rng):
        return -draw_examples(xi, 300, 1.0, rng)[0]

    settings = {"votes": False}
    xi, told, _ = served([negative], 2, claiming(MANY), settings=BELIEVING | settings)
    assert (told.astype(int) @ xi.T).min() < -0.9 * N
    for votes in (True, False):
        xi, told, _ = served([negative], 2, claiming(MANY), settings={"votes": votes})
        assert ((told.astype(int) @ xi.T).max(axis=1) > 0.9 * N).all()
        assert len(told) == 3


def test_a_tenth_of_many_that_lie_together_is_held():
    attack = [own(60), own(60), own(60)], 27, claiming(MANY)
    assert overlap(served(*attack, M=60, settings=BELIEVING)[1], U) > 0.9
    xi, told, _ = served(*attack, M=60)
    assert overlap(told, U) < 0.3
    assert retrieval(told, xi).magnetisation.min() == 1


def test_where_nobody_can_know_who_lies_the_log_says_who_supports_what():
    """One of two: such a federation cannot tell them apart."""
    _, told, arrays = served([own()], 1, claiming(MANY))
    lines = remarks(arrays)
    assert "client 0 supports 1 of the 4 archetypes found" in lines
    assert len(told) == 0
    assert any("(client 0: 1, client 1: 3)" in line for line in lines)


def test_honest_clients_are_told_their_archetypes_in_silence():
    for options in ({"shares": [900, 300, 120]}, {"shares": [300] * 10, "r": 0.5, "K": 6}):
        xi, told, arrays = served([], len(options["shares"]), **options)
        assert retrieval(told, xi).magnetisation.min() == 1
        assert not remarks(arrays)


@pytest.mark.parametrize("votes", [True, False])
@pytest.mark.parametrize("factors", [0, 40])
def test_an_archetype_of_too_few_examples_is_withheld(factors, votes):
    """Of 1,500 rows, 50 are of one archetype."""

    def mixed(xi, rng):
        true = draw_examples(xi, 290, 0.8, rng)[0]
        return np.vstack([own(10, 0.8)(xi, rng), true])

    rare = [mixed] * 5
    for support, kept in ((70.0, False), (30.0, True)):
        settings = {"factors": factors, "votes": votes, "support": support}
        _, told, arrays = served(rare, 0, settings=settings)
        assert (overlap(told, U) > 0.9) == kept
        assert int(arrays["withheld/unsupported"]) == 1 - kept
        assert len(told) == 3 + kept
        if not kept:
            assert "1 archetypes are withheld: too few examples support them" in remarks(arrays)


HUGE = [2**62, 1e300, -1e308, np.nan, -(2**63), 255, -1, 0]
CHANGES = {  # an array, and a value -> what takes its place; None for nothing at all
    "all": lambda array, value: np.full(array.shape, value),
    "one": lambda array, value: np.where(np.indices(array.shape).sum(axis=0) % 9, array, value),
    "shape": lambda array, _: np.append(array.ravel(), array.ravel()[:1]),
    "gone": lambda *_: None,
    "scale": lambda array, value: array * float(value),
    "object": lambda array, _: np.full(array.shape, "x", dtype=object),
    **{
        d: lambda array, _, d=d: array.astype(d)
        for d in ("int8", "uint64", "float16", "longdouble")
    },
}


STEPS = ("operators", "projections", "votes")


@settings(max_examples=6)
@given(*map(st.sampled_from, (STEPS, range(9), list(CHANGES), HUGE, (0, 20), (True, False))))
def test_no_message_stops_the_server_or_costs_the_others_their_archetypes(
    step, which, kind, value, factors, careful
):
    """At the defaults, and without the checks that are there for the sake of the result."""

    def change(message, down, at, rng):
        name = sorted(message)[which % len(message)]
        with np.errstate(all="ignore"):
            return {name: CHANGES[kind](np.asarray(message[name]), value)} if at == step else {}

    xi, source = owners([close(120, 0.0)], 3, N=60, M=120, K=2)
    settings = {"factors": factors, "check": careful}
    config = Config(columns=60, clients=4, rounds=2, minimum=3, **settings)
    method = lying(config.make(source), change)
    state = FederationState(method.server_start(0))
    for t in range(2):
        arrays, after = measure_round(0, config, t, state, LocalEngine(), method)
        state = after or state
        state = FederationState.of_arrays(state.arrays())
        assert not arrays["faults/code"][1:].any(), arrays["faults/reason"]
    assert all(np.isfinite(x).all() for x in state.down[EVERYONE].values())
    number = int(arrays["archetypes/number"])
    told = unpack_patterns(arrays["archetypes/packed"][:number], 60)
    assert retrieval(told, xi).magnetisation.min() > 0.95


SITES, ROWS = 100, 3000
OWN = rademacher(1, SITES, np.random.default_rng(99))[0]
ALL_BELIEVED = {"byzantine": 0.0, "claim": 10.0}


def noisy(made_up, honest, change=None, rounds=1, **settings):
    """Serve with epsilon 4."""
    settings = {"epsilon": 4.0, **settings}
    return served(made_up, honest, change, rounds, settings, N=SITES, M=ROWS)


@pytest.mark.parametrize(("honest", "rounds"), rest_slow([(2, 1), (9, 2), (4, 2)], 1))
def test_one_client_does_not_tell_its_own_archetype(honest, rounds):
    """Its rows are all one pattern, and it claims 3 medians of them."""
    attack = [own(3 * ROWS)], honest
    assert overlap(noisy(*attack, rounds=rounds, **ALL_BELIEVED)[1], OWN) > 0.9
    xi, told, arrays = noisy(*attack, rounds=rounds)
    assert overlap(told, OWN) < 0.4
    assert retrieval(told, xi).magnetisation.min() > 0.9
    assert "archetypes are withheld: too few clients support them" in remarks(arrays)[0]


def test_majorities_that_one_client_shows_are_not_told_beside_what_they_are_made_of():
    """Their directions hold differences of the archetypes, which all the others show."""

    def majorities(xi, rng):
        two = np.sign(np.array([[-1, 1, -1], [1, -1, -1]]) @ xi.astype(int))
        return two[np.arange(300) % 2].astype(np.int8)

    xi, told, _ = noisy([majorities], 4)
    assert_found(told, xi, 0.95)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_pattern_in_the_room_of_the_noise_is_refused(sign):
    """It claims two examples, and uses all the room that the noise leaves to each count."""
    variance = Config(columns=SITES, epsilon=4.0).make().client.variance
    most = sign * (int(2 + noise_bound(variance, SITES * (SITES - 1) // 2)) - 1)
    counts = np.outer(OWN, OWN)[np.tri(SITES, k=-1, dtype=bool)].astype(np.int64) * most
    lie = {"counts": counts, "examples": np.array(2)}
    xi, told, arrays = noisy([own()], 3, lambda *_: lie, **ALL_BELIEVED)
    assert arrays["faults/code"].tolist() == [Fault.MALFORMED, 0, 0, 0]
    assert b"examples and noise" in arrays["faults/reason"][0]
    assert retrieval(told, xi).magnetisation.min() > 0.9
    assert overlap(told, OWN) < 0.4


@pytest.mark.parametrize(("epsilon", "quality"), [(0.1, 0.0), (10.0, 1.0)])
def test_honest_releases_are_not_refused(epsilon, quality):
    """Rows of nothing, and rows that are all alike."""
    rng = np.random.default_rng(0)
    for examples in (2, 50, 3000):
        rows = np.repeat(OWN[None], examples, 0) if quality else rademacher(examples, SITES, rng)

        class Rows:
            def examples(self, t, client, rows=rows):
                return rows

        made = Config(columns=SITES, epsilon=epsilon).make(Rows())
        _, message, _ = made.client.client_step({}, {}, Context(0, 0, 0, 0))
        assert _operator_complaint(made.client, made.guard, message) is None


def test_absurd_claims_are_not_believed_and_cannot_stop_the_server():
    xi = rademacher(3, SITES, np.random.default_rng(0))
    made = private_patterns(
        ArchetypeStream(xi, np.full((1, 3, 3), 1 / 3), 2000, 0.7, 0), SITES, 3.0
    )
    made = replace(made, guard=Guard(claim=10.0))
    result = played(lying(made, lambda *_: {"examples": np.array(10**12)}), seed=1, clients=3)
    assert result.server_metrics["examples"] == 12 * 2000
    added = result.state.server["evidence/mass"][2] / made.client.variance
    assert 2 <= added < 2 + 1e-9, "scaled, and its noise with it"
    assert result.server_metrics["claims"].tolist()[0] == [0, 1e12, 10 * 2000]


def test_a_simulation_gives_the_archetypes_that_are_broadcast():
    """The pattern of a liar was withheld, and given all the same."""
    rng = np.random.default_rng(0)
    xi, own = rademacher(3, SITES, rng), rademacher(1, SITES, rng)
    rows = [draw_examples(xi, 200, 0.7, rng)[0] for _ in range(9)]
    rows.append(draw_examples(own, 200, 0.95, rng)[0])
    found = simulate(rows, byzantine=0.1, claim=3.0, support=50.0, check=True)
    assert found.metrics[-1]["unconfirmed"] == 1
    assert len(found.patterns) == 3
    assert abs(found.patterns.astype(int) @ own[0]).max() < SITES / 2
