"""Rounds in one call, the federation as a whole over rounds, and streams of examples."""

from dataclasses import replace

import numpy as np
import pytest
from federations import of_patterns, played
from helpers import assert_same

import hopfed
from hopfed.archetypes.overlap import retrieval
from hopfed.errors import ArgumentError, DataError
from hopfed.federation.messages import flatten, part_of
from hopfed.federation.rounds import FederationState, Participation
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.example_sources import ArchetypeStream, BatchSource
from hopfed.hopfield.pattern_memory import PatternMemory
from hopfed.hopfield.plasticity import Fixed, Structure
from hopfed.kernels.examples import as_examples


@pytest.fixture(scope="module")
def owners():
    rng = np.random.default_rng(0)
    xi = rademacher(3, 150, rng)
    return xi, [draw_examples(xi, 300, 0.8, rng)[0] for _ in range(3)]


def test_it_is_the_loop_to_the_bit(owners):
    xi, tables = owners
    half = Participation(rate=0.7)
    found = hopfed.simulate(tables, 3, seed=4, participation=half, discount=0.8, persistence=2)
    source = BatchSource(tuple(as_examples(x) for x in tables), 3)
    method = of_patterns(source, 150, discount=0.8, persistence=2)
    last = played(method, 3, seed=4, clients=3, participation=half)
    assert_same(last.state.arrays(), found.state.arrays())
    assert sorted(found.patterns.tolist()) == sorted(xi.tolist())
    assert len(found.metrics) == 3


def test_a_stream_is_played_to_its_end_or_as_far_as_is_asked(owners):
    xi, _ = owners
    source = ArchetypeStream(xi, np.full((4, 2, 3), 1 / 3), 80, 0.8, seed=0)
    assert [len(hopfed.simulate(source, rounds).metrics) for rounds in (None, 2)] == [4, 2]
    with pytest.raises(ArgumentError, match="rounds must be 1 to the 4 of the source, got 5"):
        hopfed.simulate(source, 5)


def test_operators_of_many_columns_travel_as_leading_factors():
    """Exact counts would be 4.4 MB a client."""
    rng = np.random.default_rng(0)
    xi = rademacher(3, 2_100, rng)
    found = hopfed.simulate([draw_examples(xi, 150, 0.8, rng)[0] for _ in range(3)])
    assert sorted(found.patterns.tolist()) == sorted(xi.tolist())
    assert found.verdict[0] == "not judged"
    assert 64 * 2_100 * 4 < found.traffic.up.max() < 6e5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"clients": []}, "clients must be examples of at least one client"),
        ({"clients": np.ones((4, 3))}, "in a list"),
        ({"clients": [np.ones((4, 3)), np.ones((4, 2))]}, "of the same columns"),
        ({"rounds": 151}, "half the examples of the smallest owner"),
        ({"speed": 3}, "settings must be some of rule, ema, .* got speed"),
        ({"factors": 151}, "factors must be 0 to the 150 columns, got 151"),
        ({"rule": "structure"}, "rule must be a rule of plasticity"),
        ({"engine": "pool"}, "engine must be an engine"),
        ({"channel": "graded", "looks": 0}, "looks must"),
        ({"channel": "graded", "epsilon": 1e-9}, "epsilon must be larger"),
        ({"clients": [np.ones((2, 2)), [[1.0, np.nan], [-1.0, 1.0]]]}, r"clients\[1\]: .*missing"),
        ({"clients": [np.array([[1, 7], [1, 1]])]}, r"clients\[0\]: .*got 7"),
    ],
)
def test_wrong_arguments_are_refused_in_a_line(owners, arguments, words):
    with pytest.raises((ArgumentError, DataError), match=words):
        hopfed.simulate(**{"clients": owners[1]} | arguments)


def test_graded_classes_are_judged_by_the_rows_of_all_clients():
    rng = np.random.default_rng(0)
    T = rng.uniform(-1, 1, (2, 30))
    x = np.where(rng.random((600, 30)) < (1 + T[rng.integers(2, size=600)]) / 2, 1, -1)
    gappy = np.where(rng.random((300, 30)) < 0.1, 0, x[300:])
    found = hopfed.simulate([x[:300], gappy], channel="graded")
    assert str(found).startswith("2 classes after 1 round of 2 clients")
    assert found.verdict[0] == "ok"
    fewer = replace(found, classes=found.classes.select(np.array([0])))
    assert fewer.verdict[0] == "structure, but not classes"
    assert "the federation found fewer classes than there are" in fewer.verdict[1]
    unknown = replace(found, tables=())
    assert unknown.verdict == ("not judged", "A source drew the rows, which are not kept.")


K, N, T, L = 4, 30, 3, 2
XI = rademacher(K, N, np.random.default_rng(0))


def streamed(sizes=20, qualities=0.8, seed=5, mixtures=None):
    if mixtures is None:
        mixtures = np.random.default_rng(seed).dirichlet(np.ones(K), (T, L))
    return ArchetypeStream(XI, mixtures, sizes, qualities, seed)


def test_the_order_of_calls_and_the_number_of_clients_change_nothing():
    data = streamed()
    later = data.examples(2, 1)
    fewer = streamed(mixtures=data.mixtures[:2, :1])
    np.testing.assert_array_equal(fewer.examples(np.int32(1), np.int64(0)), data.examples(1, 0))
    np.testing.assert_array_equal(streamed().examples(2, 1), later)


def test_bad_input_is_named_in_one_line():
    for build, message in (
        (lambda: streamed().examples(T, 0), "round must be in 0 .. 2, got 3"),
        (lambda: streamed(qualities=1.2), "qualities must be a number in"),
        (lambda: streamed(mixtures=np.ones((T, L, K))), "mixtures must be rows of shares"),
    ):
        with pytest.raises(ArgumentError, match=message):
            build()


def test_exposures_and_qualities_are_those_of_the_draw():
    data = streamed(sizes=np.array([[10, 30], [0, 5], [0, 0]]))
    counts = sum(np.bincount(data.labels(0, c), minlength=K) for c in range(L))
    np.testing.assert_allclose(data.pooled_exposures(0), counts / 40, rtol=1e-12)
    np.testing.assert_array_equal(data.pooled_exposures(2), 0)
    assert data.examples(2, 0).shape == (0, N)
    data = streamed(sizes=2_000, qualities=(0.9, 0.0))
    for c, r in enumerate(data.qualities):
        agree = (data.examples(0, c) * XI[data.labels(0, c)]).mean()
        assert abs(agree - r) < 5 * np.sqrt((1 - r**2) / (2_000 * N))


WIDE, CLIENTS = 150, 3


def drawn(K=3, rounds=6, mixture=None, M=120, r=0.8, seed=0, clients=CLIENTS):
    xi = rademacher(K, WIDE, np.random.default_rng(seed))
    mixture = np.full((rounds, K), 1 / K) if mixture is None else mixture
    return ArchetypeStream(xi, np.repeat(mixture[:, None], clients, axis=1), M, r, seed)


def play(method, rounds, **how):
    """All rounds that are played."""
    out = []
    played(method, rounds, each=out.append, **({"clients": CLIENTS} | how))
    return out


def remembered(played):
    return played.state.server["memory/patterns"]


def test_what_is_kept_apart_is_not_forgotten_and_what_is_blended_with_w_1_is():
    source = drawn(mixture=np.repeat(np.eye(3), 2, axis=0), rounds=6)
    apart = play(of_patterns(source, WIDE, discount=0.0), 6)[-1]
    assert retrieval(remembered(apart), source.archetypes).magnetisation.min() > 0.99
    blended = of_patterns(source, WIDE, memory="common", discount=0.0, rule=Fixed(1.0))
    m = retrieval(remembered(play(blended, 6)[-1]), source.archetypes).magnetisation
    assert (m[2] > 0.99, m[:2].max() < 0.5) == (True, True)


def test_novelty_is_found_when_it_comes_and_nothing_false_before():
    ramp = [0.5, 0.5, 0, 0], [0.375, 0.375, 0.125, 0.125], [0.25] * 4
    source = drawn(K=4, mixture=np.repeat(ramp, [4, 1, 3], axis=0), rounds=8)
    method = of_patterns(source, WIDE, rule=Structure(), ema=0.5, discount=0.0)
    rounds_ = play(method, 8)
    counts = [len(remembered(p)) for p in rounds_]
    assert counts[:4] == [2] * 4
    assert counts[5:] == [4] * 3


def test_a_pattern_that_no_example_resembles_is_dropped():
    source = drawn()
    method = of_patterns(source, WIDE)
    first = play(method, 1)[0]
    server = dict(first.state.server)
    memory = PatternMemory(**part_of(server, "memory"))
    false = rademacher(1, WIDE, np.random.default_rng(77))
    server |= {f"memory/{k}": v for k, v in flatten(memory.learn(false, np.ones(1), 0)).items()}
    server["memory/rounds"] = server["memory/rounds"] + 1
    state = replace(first.state, server=server)
    second = play(method, 1, state=state, start=1)[0]
    assert len(remembered(second)) == 3
    assert retrieval(remembered(second), source.archetypes).false_discoveries == 0


def test_what_was_found_in_thin_evidence_is_renewed_when_there_is_more():
    """Examples too noisy to vote: the evidence alone makes the patterns better."""
    source = drawn(K=2, r=0.12, M=150, rounds=16)
    rounds_ = play(of_patterns(source, WIDE, discount=1.0), 16)
    m = [retrieval(remembered(p), source.archetypes).magnetisation.mean() for p in rounds_]
    full = next(t for t, p in enumerate(rounds_) if len(remembered(p)) == 2)
    assert m[full] < 0.9
    assert m[-1] > max(0.97, m[full] + 0.1)
    np.testing.assert_allclose(m[-1], rounds_[-1].state.server["memory/sure"].mean(), atol=0.03)


def test_the_server_keeps_a_secret_and_tells_nobody():
    method = of_patterns(drawn(), WIDE, quorum=0.5)
    a, b = (play(method, 1, seed=seed)[0].state for seed in (0, 1))
    assert a.server["secret"] != b.server["secret"]
    for down in a.down.values():
        assert set(down) == {"patterns", "sure", "quality"}


def test_a_run_resumed_from_its_flat_state_goes_on_to_the_same_bits():
    source = drawn(mixture=np.repeat(np.eye(3), 2, axis=0), rounds=6)
    method = of_patterns(source, WIDE, rule=Structure(), discount=0.7)
    half = FederationState.of_arrays(play(method, 3)[-1].state.arrays())
    rest = play(method, 3, state=half, start=3)[-1].state.arrays()
    assert_same(play(method, 6)[-1].state.arrays(), rest)
