"""Laws of the dense and the exponential memory: limits, reference values, simulations."""


import numpy as np
import pytest
from scipy.special import erf

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.theory import dense_storage as law


def test_pairings_are_moments_of_the_gaussian():
    z, weights = np.polynomial.hermite_e.hermegauss(40)
    for n in range(2, 9):
        moment = (weights * z ** (2 * n - 2)).sum() / weights.sum()
        assert law.pairings(n) == pytest.approx(moment)


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


def test_entropy_is_the_rate_of_large_overlaps():
    from scipy.stats import binom

    for x in (0.2, 0.5, 0.8):
        rates = [-binom.logsf(np.ceil(n * (1 + x) / 2) - 1, n, 0.5) / n for n in (150, 1_500)]
        assert rates[1] == pytest.approx(law.entropy_lost(x), abs=5e-3)
        assert abs(rates[1] - law.entropy_lost(x)) < abs(rates[0] - law.entropy_lost(x))


def test_reach_is_continuous_where_the_sum_freezes_and_meets_the_capacity():
    beta = np.array([0.3, 1.0, 2.0])
    frozen = law.entropy_lost(np.tanh(beta))
    left, right = (law.exponential_reach(frozen * s, beta) for s in (1 - 1e-7, 1 + 1e-7))
    np.testing.assert_allclose(left, right, atol=1e-5)
    np.testing.assert_allclose(law.exponential_reach(law.exponential_capacity(beta), beta), 1.0)
    assert law.exponential_capacity(200.0) == pytest.approx(np.log(2))
    assert (np.diff(law.exponential_reach(np.linspace(0, 0.5, 50), 1.0)) > 0).all()


def test_more_than_two_to_the_n_patterns_are_out_of_reach_at_any_temperature():
    reach = law.exponential_reach(np.log(2) + 0.01, [1.0, 100.0, 299.0, 301.0, 1e4])
    assert (reach > 1).all()
    np.testing.assert_allclose(reach[2:], 1 + 0.01 / np.array([299.0, 301.0, 1e4]))


def test_the_sum_of_random_terms_is_as_predicted():
    """log sum_mu exp(beta a_mu) / N for K = exp(rate N) random patterns, on both sides."""
    N, rng = 60, np.random.default_rng(0)
    for beta, rate in ((0.3, 0.2), (1.0, 0.15)):
        K = round(np.exp(rate * N))
        a = 2 * rng.binomial(N, 0.5, (8, K)) - N  # overlaps are binomial: no patterns are needed
        most = a.max(axis=1, keepdims=True)
        total = (beta * most[:, 0] + np.log(np.exp(beta * (a - most)).sum(axis=1))) / N
        assert total.mean() / beta == pytest.approx(law.exponential_reach(rate, beta), abs=0.06)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: law.pairings(1), "n"),
        (lambda: law.dense_capacity(2), "n"),
        (lambda: law.dense_magnetisation(-0.1, 3), "load"),
        (lambda: law.exponential_reach(0.1, 0.0), "beta"),
        (lambda: law.exponential_reach(-0.1, 1.0), "rate"),
        (lambda: law.exponential_capacity(0.0), "beta"),
        (lambda: law.entropy_lost(1.5), "x"),
    ],
)
def test_bad_arguments_name_themselves(call, argument):
    with pytest.raises(ArgumentError) as error:
        call()
    assert error.value.argument == argument
