"""Plasticity: sign agreement by its definition, and what rules make of noise and novelty."""

import numpy as np
import pytest
from helpers import sample
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from hopfed.federation.contract import Context
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.clients import PatternClient
from hopfed.hopfield.plasticity import (
    Agreement,
    Broadcast,
    Entropy,
    Fixed,
    Structure,
    expected_agreement,
    explained,
    sign_agreement,
)
from hopfed.hopfield.stream import Batches
from hopfed.kernels import pack


def dense_agreement(eta, xi):
    """(46) as it is written, with N x N arrays."""
    A, B = (np.sign(x.T.astype(float) @ x) for x in (xi, eta))
    pairs = np.triu_indices(xi.shape[1], 1)
    return ((1 + A * B) / 2)[pairs].mean()


@given(st.integers(1, 6), st.integers(2, 40), st.integers(1, 70), st.integers(0, 2**32))
def test_all_pairs_are_the_definition(K, N, M, seed):
    rng = np.random.default_rng(seed)
    xi, eta = rademacher(K, N, rng), rademacher(M, N, rng)
    p = sign_agreement(pack(eta), xi)
    assert p == pytest.approx(dense_agreement(eta, xi), abs=1e-12)


@pytest.mark.parametrize("M", [63, 64, 5_000])  # the last in several pieces
def test_a_sample_of_pairs_is_within_its_error_of_all(M):
    xi, eta = sample(3, 300, M, 0.05, 1)
    p = sign_agreement(pack(eta), xi, seed=2)
    assert abs(p - dense_agreement(eta, xi)) < 4 * 0.0036  # of 20,000 pairs


@given(st.integers(1, 400), st.floats(0, 1))
def test_one_archetype_is_the_binomial_majority(M, r):
    x = (1 + r**2) / 2
    want = binom.sf(M / 2, M, x) + (binom.pmf(M // 2, M, x) / 2 if M % 2 == 0 else 0)
    xi = np.ones((1, 7), np.int8)
    assert expected_agreement(r, M, xi) == pytest.approx(want, abs=1e-9)
    assert expected_agreement(r, M, xi, exposures=np.ones(1)) == pytest.approx(want, abs=1e-9)


EVERY = [Fixed(0.3), Entropy(), Agreement(), Structure()]
SIZES = [(300, 800), (1000, 400)]  # (N, M) on either side of q = 1


def batch(N, M, quality, seed, *, old=1.0, K=3, new=3):
    """Examples, a share `old` of them from the K remembered archetypes, and those archetypes."""
    exposures = np.r_[np.full(K, old / K), np.full(new, (1 - old) / new)]
    xi, eta = sample(K + new, N, M, quality, seed, exposures=exposures)
    return pack(eta), xi[:K]


@given(
    *(st.integers(1, 6), st.integers(2, 40), st.integers(1, 70), st.integers(0, 2**32)),
    st.floats(0.01, 1),
)
def test_weights_and_shares_stay_in_their_ranges(K, N, M, seed, quality):
    rng = np.random.default_rng(seed)
    xi = rademacher(K, N, rng)
    known = draw_examples(xi, M, rng.random(), rng)[0]  # some of the examples are near them
    eta = np.where(rng.random((M, 1)) < rng.random(), known, rademacher(M, N, rng))
    for rule_ in EVERY:
        assert 0 <= rule_(pack(eta), Broadcast(xi, quality), 1) <= 1
    shares = explained(pack(eta), xi)
    assert min(shares) >= 0
    assert sum(shares) <= 1 + 1e-9


ZERO, ONE = pytest.approx(0, abs=0.06), pytest.approx(1, abs=0.02)
FAMILIAR = pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("N", "M"), SIZES)
@pytest.mark.parametrize(
    ("quality", "old", "entropy", "agreement", "structure"),
    [
        (0.0, 1.0, ONE, ZERO, ZERO),  # noise
        (0.9, 0.0, ONE, ZERO, ONE),  # novelty, which neither of the first two tells from it
        (0.9, 1.0, pytest.approx(0, abs=1e-9), pytest.approx(1, abs=1e-9), FAMILIAR),
    ],
)
def test_the_papers_rules_contradict_each_other_on_noise(
    N, M, quality, old, entropy, agreement, structure
):
    """At p = 1/2 the entropy rule follows the noise, the agreement rule shuts it out."""
    for seed in range(2):
        rows, xi = batch(N, M, quality, seed, old=old)
        rules = Entropy(), Agreement(), Structure()
        weights = [rule_(rows, Broadcast(xi, 0.9), seed) for rule_ in rules]
        assert weights == [entropy, agreement, structure]


@pytest.mark.parametrize(("N", "M"), SIZES)
@pytest.mark.parametrize(("quality", "old"), [(0.9, 1.0), (0.5, 0.3), (0.3, 0.0)])
def test_structure_reads_the_shares_of_a_mixture(N, M, quality, old):
    batches = [batch(N, M, quality, seed, old=old) for seed in range(5)]
    # sampling of the labels: .5 / sqrt(400) = .025 for one batch, five here
    memory, novelty = np.mean([explained(rows, xi) for rows, xi in batches], axis=0)
    assert memory == pytest.approx(old * quality**2, abs=0.04 * quality**2)
    assert novelty == pytest.approx((1 - old) * quality**2, abs=0.04 * quality**2)
    weight = np.mean([Structure()(rows, Broadcast(xi, quality), 0) for rows, xi in batches])
    assert weight == pytest.approx(0.5 + 0.5 * (1 - old), abs=0.03)


def test_smoothing_by_hand():
    rows = rademacher(4, 40, np.random.default_rng(0))
    for before, weight in (({}, 1.0), ({"plasticity": np.array(0.2)}, 0.6)):
        client = PatternClient(Batches((pack(rows),)), 40, Fixed(1.0), ema=0.5)
        state, message, _ = client.client_step(before, {}, Context(0, 0, 0, 0))
        assert state["plasticity"] == message["weight"] == pytest.approx(weight)
