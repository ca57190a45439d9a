"""Spikes of graded classes in coordinates of unit noise, and the closed forms for two classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.theory import graded, spikes
from hopfed.theory.graded import Classes


def mixture(seed, K=3, N=40, low=0.2):
    """Uniform means, unequal shares, and columns that are observed unequally often."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(K, 4.0))
    return Classes(rng.uniform(-0.95, 0.95, (K, N)), shares, rng.uniform(low, 1, N))


def second_moment(classes):
    """(N, N) population second moment of zero-filled rows, entry by entry from the channel."""
    p, T = classes.observed, classes.means
    pairs = np.einsum("m,mi,mj->ij", classes.shares, p * T, p * T)
    return np.where(np.eye(p.size) == 1, p, pairs)


@given(seed=st.integers(0, 10**6), K=st.integers(1, 5))
def test_the_whitened_population_is_one_plus_the_signal(seed, K):
    classes = mixture(seed, K)
    scale = np.sqrt(classes.noise)
    values = np.linalg.eigvalsh(second_moment(classes) / scale[:, None] / scale)[::-1]
    np.testing.assert_allclose(values[:K] - 1, classes.strengths, atol=1e-11 * values[0])
    np.testing.assert_allclose(values[K:], 1, atol=1e-11 * values[0])
    np.testing.assert_allclose(classes.shares @ classes.profile, 1, rtol=1e-12)


@pytest.mark.parametrize("predict", [graded.predict_white, graded.predict])
@pytest.mark.parametrize(("N", "M", "r"), [(300, 500, 0.4), (400, 90, 0.7), (60, 2000, 0.2)])
def test_signs_of_one_quality_give_the_numbers_of_archetypes(predict, N, M, r):
    rng = np.random.default_rng(N)
    xi, shares = rng.choice([-1.0, 1.0], (4, N)), np.array([0.5, 0.3, 0.15, 0.05])
    want = spikes.finite_size(xi, shares, r, M)
    got = predict(Classes(r * xi, shares), M)
    assert got.q == want.q
    np.testing.assert_allclose(got.strengths, want.strengths, rtol=1e-12)
    np.testing.assert_allclose((1 - r**2) * got.outliers, want.outliers, rtol=1e-9)
    np.testing.assert_array_equal(got.detectable, want.detectable)
    np.testing.assert_allclose(got.overlaps, want.overlaps, atol=1e-9)
    np.testing.assert_allclose(got.scores, want.scores, atol=1e-9)
    assert got.rank == want.rank


@pytest.mark.parametrize("p", [1.0, 0.6, 0.1])
def test_a_gap_of_signs_is_a_loss_of_quality(p):
    r, shares = 0.5, np.array([0.8, 0.2])
    xi = np.array([[1, 1, 1, 1], [1, -1, 1, -1]] * 1, dtype=float).repeat(25, axis=1)
    want = spikes.spike_strength(r * np.sqrt(p), shares, 100)
    np.testing.assert_allclose(Classes(r * xi, shares, p).strengths, want, rtol=1e-12)
