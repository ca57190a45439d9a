"""What resolves an archetype, and what stands out of noise whose flips are rare."""

import numpy as np
import pytest

from hopfed.theory.resolution import expected_overlap, majority_overlap, resolving_samples
from hopfed.theory.spikes import overlap, rare_flip_edge, spike_strength, strength_from_cosine


@pytest.mark.parametrize("q", [0.05, 1.0, 8.0])
def test_strength_and_samples_invert_the_overlap(q):
    kappa = np.sqrt(q) * np.array([1.01, 2.0, 30.0])
    np.testing.assert_allclose(strength_from_cosine(overlap(kappa, q), q), kappa, rtol=1e-9)
    for level in (0.3, 0.9, 0.99):
        M = resolving_samples(kappa, 400, level)
        np.testing.assert_allclose(expected_overlap(overlap(kappa, 400 / M)), level, rtol=1e-9)


def test_the_expected_overlap_is_that_of_eigenvectors():
    rng = np.random.default_rng(0)
    N, r, K = 600, 0.12, 1
    M = int(resolving_samples(spike_strength(r, 1 / K, N), N, 0.9))
    found = []
    for _ in range(15):
        x = np.where(rng.random((M, N)) < (1 + r) / 2, 1.0, -1.0)
        v = np.linalg.svd(x, full_matrices=False)[2][0]
        found.append(abs(np.sign(v).mean()))
    assert np.mean(found) == pytest.approx(0.9, abs=0.015)


@pytest.mark.parametrize("r", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 21])
def test_the_majority_is_the_simulated_one(n, r):
    rng = np.random.default_rng([n, round(10 * r)])
    sums = np.where(rng.random((n, 50_000)) < (1 + r) / 2, 1, -1).sum(axis=0)
    assert majority_overlap(n, r) == pytest.approx(np.sign(sums).mean(), abs=0.01)


@pytest.mark.parametrize(
    ("M", "N", "r"), [(2000, 200, 0.995), (400, 400, 0.995), (500, 1000, 0.99)]
)
def test_columns_of_many_flips_stand_out_where_predicted(M, N, r):
    rng = np.random.default_rng(1)
    tops = []
    for _ in range(25):
        flips = rng.random((M, N)) < (1 - r) / 2
        E = np.where(flips, -(1 + r), 1 - r)
        tops.append(np.linalg.eigvalsh(E.T @ E / M if N < M else E @ E.T / M)[-1])
    edge = rare_flip_edge(r, M, N, 1e-3)
    assert (np.array(tops) > edge).mean() <= 0.05
    assert max(tops) > 0.75 * edge > 0.75 * rare_flip_edge(r, M, N, 0.05)
