"""The Hopfield federation as a whole, over rounds."""

from dataclasses import replace

import federations
import numpy as np
from federations import of_patterns
from helpers import assert_same

from hopfed.archetypes.overlap import retrieval
from hopfed.federation.messages import below, flatten
from hopfed.federation.rounds import FederationState
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.plasticity import Fixed, Structure
from hopfed.hopfield.remembered import Remembered
from hopfed.hopfield.stream import ArchetypeStream

N, L = 150, 3


def stream(K=3, rounds=6, mixture=None, M=120, r=0.8, seed=0, clients=L):
    xi = rademacher(K, N, np.random.default_rng(seed))
    mixture = np.full((rounds, K), 1 / K) if mixture is None else mixture
    return ArchetypeStream(xi, np.repeat(mixture[:, None], clients, axis=1), M, r, seed)


def play(method, rounds, **how):
    """All rounds that are played."""
    out = []
    federations.played(method, rounds, each=out.append, **({"clients": L} | how))
    return out


def patterns(played):
    return played.state.server["memory/patterns"]


def test_votes_make_patterns_exact_that_the_operator_leaves_blurred():
    source = stream(r=0.3, M=40, rounds=8)
    with_votes = play(of_patterns(source, N, discount=1.0), 8)[-1]
    without = play(of_patterns(source, N, discount=0.0, votes=False), 8)[-1]
    sharp = retrieval(patterns(with_votes), source.archetypes).magnetisation.mean()
    blurred = retrieval(patterns(without), source.archetypes).magnetisation.mean()
    assert sharp > 0.995
    assert sharp > blurred + 0.01


def test_what_is_kept_apart_is_not_forgotten_and_what_is_blended_with_w_1_is():
    source = stream(mixture=np.repeat(np.eye(3), 2, axis=0), rounds=6)
    apart = play(of_patterns(source, N, discount=0.0), 6)[-1]
    assert retrieval(patterns(apart), source.archetypes).magnetisation.min() > 0.99
    blended = of_patterns(source, N, memory="common", discount=0.0, rule=Fixed(1.0))
    last = play(blended, 6)[-1]
    m = retrieval(patterns(last), source.archetypes).magnetisation
    assert m[2] > 0.99
    assert m[:2].max() < 0.5
    frozen = of_patterns(source, N, memory="common", discount=0.0, rule=Fixed(0.0))
    m = retrieval(patterns(play(frozen, 6)[-1]), source.archetypes).magnetisation
    assert m[0] > 0.99
    assert m[1:].max() < 0.5


def test_novelty_is_found_when_it_comes_and_nothing_false_before():
    ramp = [0.5, 0.5, 0, 0], [0.375, 0.375, 0.125, 0.125], [0.25] * 4
    source = stream(K=4, mixture=np.repeat(ramp, [4, 1, 3], axis=0), rounds=8)
    method = of_patterns(source, N, rule=Structure(), ema=0.5, discount=0.0)
    played = play(method, 8)
    counts = [len(patterns(p)) for p in played]
    assert counts[:4] == [2] * 4
    assert counts[5:] == [4] * 3


def test_a_pattern_that_no_example_resembles_is_dropped():
    source = stream()
    method = of_patterns(source, N)
    first = play(method, 1)[0]
    server = dict(first.state.server)
    memory = Remembered(**below(server, "memory"))
    false = rademacher(1, N, np.random.default_rng(77))
    server |= {f"memory/{k}": v for k, v in flatten(memory.learn(false, np.ones(1), 0)).items()}
    server["memory/rounds"] = server["memory/rounds"] + 1
    state = replace(first.state, server=server)
    second = play(method, 1, state=state, start=1)[0]
    assert len(patterns(second)) == 3
    assert retrieval(patterns(second), source.archetypes).false_discoveries == 0


def test_what_was_found_in_thin_evidence_is_renewed_when_there_is_more():
    """Examples too noisy to vote: the evidence alone makes the patterns better."""
    source = stream(K=2, r=0.12, M=150, rounds=16)
    played = play(of_patterns(source, N, discount=1.0), 16)
    m = [retrieval(patterns(p), source.archetypes).magnetisation.mean() for p in played]
    full = next(t for t, p in enumerate(played) if len(patterns(p)) == 2)
    assert m[full] < 0.9
    assert m[-1] > 0.97
    assert m[-1] > m[full] + 0.1
    assert len(patterns(played[-1])) == 2
    server = played[-1].state.server
    assert (server["memory/born"] < 15).all()
    assert not server["memory/voters"].any()
    expected = server["memory/sure"].mean()
    np.testing.assert_allclose(m[-1], expected, atol=0.03)


def test_the_server_keeps_a_secret_and_tells_nobody():
    method = of_patterns(stream(), N, quorum=0.5)
    a, b = (play(method, 1, seed=seed)[0].state for seed in (0, 1))
    assert a.server["secret"] != b.server["secret"]
    for down in a.down.values():
        assert set(down) == {"patterns", "sure", "quality"}


def test_a_run_resumed_from_its_flat_state_goes_on_to_the_same_bits():
    source = stream(mixture=np.repeat(np.eye(3), 2, axis=0), rounds=6)
    method = of_patterns(source, N, rule=Structure(), discount=0.7)
    half = FederationState.of_arrays(play(method, 3)[-1].state.arrays())
    rest = play(method, 3, state=half, start=3)[-1].state.arrays()
    assert_same(play(method, 6)[-1].state.arrays(), rest)
