import numpy as np
import pytest
from helpers import rest_slow
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hopfed.theory import covariance, density, marchenko_pastur
from hopfed.theory.covariance import Population

CASES = [
    (Population([1, 3]), 0.5, 0.0),
    (Population.flat(), 3.0, 0.3),
    (Population([1, 5, 20]), 0.05, 0.0),
    (Population([1, 5, 20]), 0.05, 0.5),
    (Population.ar1(0.6, nodes=32), 0.5, 0.0),
    (Population.ar1(0.6, nodes=32), 2.0, 1.0),
    (Population.flat(), 1.0, 1.0),
    (Population([1, 3]), 1.0, 0.0),
]

NODES = np.polynomial.legendre.leggauss(200)


@pytest.mark.parametrize(("population", "q", "radius"), rest_slow(CASES, 3))
def test_cdf_is_the_integral_of_the_density(population, q, radius):
    ends = covariance.support(population, q, radius)
    nodes, weights = NODES
    for low, high in ends:
        for u in (0.3, 0.8):
            theta = u * np.pi / 2 * (nodes + 1)
            x = low + (high - low) * np.sin(theta / 2) ** 2
            rate = density.density(x, population, q, radius) * (high - low) / 2 * np.sin(theta)
            integral = u * np.pi / 2 * np.sum(weights * rate)
            top = low + (high - low) * np.sin(u * np.pi / 2) ** 2
            between = density.cdf([low, top], population, q, radius)
            assert between[1] - between[0] == pytest.approx(integral, abs=1e-11)


@settings(max_examples=10)
@given(q=st.floats(0.05, 5), u=st.floats(0.05, 0.95), radius=st.floats(0.2, 3))
@example(q=2.359375, u=0.25, radius=0.5859375)  # a near cusp
@example(q=2.0, u=0.125, radius=0.375)  # nearer: 16,384 coefficients leave 7e-6
def test_density_solves_the_subordination_equation(q, u, radius):
    # m(z) = m_MP(z + s m(z)) with the classical transform: an equation the solver does not use.
    ends = covariance.support(Population.flat(), q, radius)
    low, high = ends[-1]
    x = low + u * (high - low)
    m = 0.5j
    for _ in range(4000):
        following = marchenko_pastur.stieltjes(x + 1e-9j + radius**2 / 4 * m, q)
        m = (m + following) / 2
        if abs(following - m) < 1e-13:
            break
    value = density.density(x, Population.flat(), q, radius)
    assert value == pytest.approx(m.imag / np.pi, rel=1e-5, abs=1e-5)


def test_eigenvalues_follow_the_law():
    rng = np.random.default_rng(9)
    population, N, M, radius = Population([1.0, 4.0]), 400, 800, 1.5
    X = rng.standard_normal((M, N)) * np.sqrt(np.repeat([1.0, 4.0], N // 2))
    W = rng.standard_normal((N, N))
    spectrum = np.linalg.eigvalsh(X.T @ X / M + radius / 2 * (W + W.T) / np.sqrt(2 * N))
    distance = density.cdf(spectrum, population, N / M, radius) - (np.arange(N) + 0.5) / N
    assert np.abs(distance).max() < 0.01
