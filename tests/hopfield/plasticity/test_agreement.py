import numpy as np
import pytest
from helpers import sample
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.plasticity import expected_agreement, nearest_shares, sign_agreement
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


@pytest.mark.parametrize(("K", "M"), [(1, 31), (2, 30), (3, 1), (5, 2)])
def test_expected_agreement_of_drawn_labels_is_that_of_simulation(K, M):
    xi = rademacher(K, 60, np.random.default_rng(K))
    rng = np.random.default_rng(100 + M)
    p = [sign_agreement(pack(draw_examples(xi, M, 0.5, rng)[0]), xi) for _ in range(150)]
    error = np.std(p) / np.sqrt(150)
    assert abs(np.mean(p) - expected_agreement(0.5, M, xi)) < 4 * error


def test_nearest_shares_are_the_exposures():
    xi = rademacher(4, 300, np.random.default_rng(0))
    exposures = np.array([0.6, 0.3, 0.1, 0.0])
    rng = np.random.default_rng(1)
    eta, labels = draw_examples(xi, 500, 0.5, rng, exposures=exposures)
    true = np.bincount(labels, minlength=4) / 500
    signs = rademacher(1, 4, rng).T
    np.testing.assert_allclose(nearest_shares(pack(eta), xi * signs), true, atol=1e-12)
