import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf

from hopfed import kernels
from hopfed.theory import storage

CAPACITY = {
    0: 0.137905566494931738,
    0.01: 0.140593,
    0.1: 0.165140,
    0.25: 0.206532,
    0.5: 0.273104,
    1: 0.386596,
    2: 0.540440,
    5: 0.747361,
    10: 0.869653,
    20: 0.954654,
}
MAGNETISATION = {0.05: 0.9999922281, 0.10: 0.9979992663, 0.13: 0.9872118908, 0.137: 0.9754441294}
DREAMT = {
    (0.30, 1): 0.99875,
    (0.34, 1): 0.99643,
    (0.37, 1): 0.99170,
    (0.8, 10): 0.99978,
    (0.84, 10): 0.99910,
}
LINE = {0.01: 0.801018, 0.05: 0.542255, 0.1: 0.315432, 0.12: 0.215087}


def test_capacities():
    np.testing.assert_allclose(storage.capacity(list(CAPACITY)), list(CAPACITY.values()), atol=6e-7)
    # A maximum, of a dozen roundings; it is flat, so its place has half of the digits.
    assert storage.capacity() == pytest.approx(0.137905566494931738, rel=1e-13)
    assert storage.critical_magnetisation() == pytest.approx(0.967417115685291592, rel=1e-8)


def test_magnetisations_and_the_line_of_temperatures():
    np.testing.assert_allclose(
        storage.magnetisation(list(MAGNETISATION)), list(MAGNETISATION.values()), atol=6e-11
    )
    for (alpha, t), m in DREAMT.items():
        assert storage.magnetisation(alpha, t) == pytest.approx(m, abs=6e-6)
    found = storage.thermal_capacity(list(LINE.values()))
    np.testing.assert_allclose(found, list(LINE), atol=2e-6)


@given(fraction=st.floats(0.05, 0.98), t=st.just(0.0) | st.floats(0.01, 20))
def test_magnetisation_solves_the_saddle_point_equations(fraction, t):
    # The five equations themselves, from which the explicit form was reduced, with s unknown.
    from scipy.optimize import brentq
    from scipy.special import erfinv

    alpha = fraction * storage.capacity(t)
    m = storage.magnetisation(alpha, t)
    if m > 1 - 1e-12:
        return  # erfinv has no digits left
    y = erfinv(m)

    def residuals(s):
        M = np.sqrt(2) * s * y
        D = m / M - t
        p = np.exp(-(y**2)) / (np.sqrt(2 * np.pi) * s)
        u = 1 / (1 - (2 * p - t) / D)
        size = M * m + s * np.sqrt(2 / np.pi) * np.exp(-(y**2))
        q = (1 - 2 * t * size + t**2 * (M**2 + s**2)) / D**2
        return D - 1 - alpha * t * u, (s**2 - alpha * q * u**2) / s**2

    top = m / (np.sqrt(2) * y) / (1 + t)
    trial = top * np.linspace(0.3, 1 + 1e-9, 200)
    first = np.array([residuals(s)[0] for s in trial])
    crossings = np.flatnonzero(np.sign(first[:-1]) != np.sign(first[1:]))
    roots = [brentq(lambda s: residuals(s)[0], *trial[[k, k + 1]], xtol=1e-15) for k in crossings]
    assert min(abs(residuals(s)[1]) for s in roots) < 1e-5


@pytest.mark.parametrize("n", [3, 4, 6])
def test_magnetisation_solves_its_equation_and_ends_at_capacity(n):
    last = storage.dense_capacity(n)
    load = np.linspace(0.01, last, 30)
    m = storage.dense_magnetisation(load, n)
    np.testing.assert_allclose(m, erf(m ** (n - 1) / np.sqrt(2 * load)), atol=1e-9)
    assert (np.diff(m) < 0).all()
    assert storage.dense_magnetisation(last * 1.001, n) == 0
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
    np.testing.assert_allclose(found, storage.dense_magnetisation([0.1, 0.15], 3), atol=0.006)


def test_the_sum_of_random_terms_is_as_predicted():
    """log sum_mu exp(beta a_mu) / N for K = exp(rate N) random patterns, on both sides."""
    N, rng = 60, np.random.default_rng(0)
    for beta, rate in ((0.3, 0.2), (1.0, 0.15)):
        K = round(np.exp(rate * N))
        a = 2 * rng.binomial(N, 0.5, (8, K)) - N  # overlaps are binomial: no patterns are needed
        most = a.max(axis=1, keepdims=True)
        total = (beta * most[:, 0] + np.log(np.exp(beta * (a - most)).sum(axis=1))) / N
        assert total.mean() / beta == pytest.approx(storage.exponential_reach(rate, beta), abs=0.06)
