"""Laws of the dense and the exponential memory: limits, reference values, simulations."""

import numpy as np
import pytest
from scipy.special import erf

from hopfed import kernels
from hopfed.theory import dense_storage as law


@pytest.mark.parametrize("n", [3, 4, 6])
def test_magnetisation_solves_its_equation_and_ends_at_capacity(n):
    last = law.dense_capacity(n)
    load = np.linspace(0.01, last, 30)
    m = law.dense_magnetisation(load, n)
    np.testing.assert_allclose(m, erf(m ** (n - 1) / np.sqrt(2 * load)), atol=1e-9)
    assert (np.diff(m) < 0).all()
    assert law.dense_magnetisation(last * 1.001, n) == 0
    # Just above, no magnetisation solves the equation, on a fine grid of them.
    grid = np.linspace(0.3, 1, 20_001)
    assert (erf(grid ** (n - 1) / np.sqrt(2 * last * 1.01)) < grid).all()


def test_a_simulation_sits_on_the_line():
    """Serial descent from a pattern at N = 150; runs share patterns, hence the width."""
    N, found = 150, []
    for load in (0.1, 0.15):
        K = round(load * N**2 / 3)
        overlaps = []
        for seed in range(4):
            xi = np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), (K, N))
            states = kernels.dense_sweep(xi[:20], xi, parameter=3).state
            overlaps.append((states * xi[:20].astype(int)).mean(axis=1))
        found.append(np.mean(overlaps))
    np.testing.assert_allclose(found, law.dense_magnetisation([0.1, 0.15], 3), atol=0.006)


def test_the_sum_of_random_terms_is_as_predicted():
    """log sum_mu exp(beta a_mu) / N for K = exp(rate N) random patterns, on both sides."""
    N, rng = 60, np.random.default_rng(0)
    for beta, rate in ((0.3, 0.2), (1.0, 0.15)):
        K = round(np.exp(rate * N))
        a = 2 * rng.binomial(N, 0.5, (8, K)) - N  # overlaps are binomial: no patterns are needed
        most = a.max(axis=1, keepdims=True)
        total = (beta * most[:, 0] + np.log(np.exp(beta * (a - most)).sum(axis=1))) / N
        assert total.mean() / beta == pytest.approx(law.exponential_reach(rate, beta), abs=0.06)
