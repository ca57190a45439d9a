import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.theory import covariance, marchenko_pastur
from hopfed.theory.covariance import Population

# Population, aspect, edge, Tracy-Widom scale.
REFERENCE = [
    (Population([1, 3]), 0.5, 7.071272162420762, 6.472573201147166),
    (Population([1, 3]), 2.0, 13.19880488947917, 7.571027871711151),
    (Population([1, 10], [0.9, 0.1]), 0.1, 12.19899979742707, 24.45483987909934),
    (Population([1, 3, 7]), 0.1, 9.984083138114296, 15.37507682420037),
    (Population([0.7, 1, 1.5, 2]), 0.5, 4.389957260676696, 4.113587229924616),
    (Population.ar1(0.3), 0.5, 3.59266226097, 3.65323706408),
    (Population.ar1(0.6), 0.5, 6.02335437236, 8.32138811667),
]


@st.composite
def populations(draw, smallest=0.05, largest=20.0):
    n = draw(st.integers(1, 5))
    t = draw(st.lists(st.floats(smallest, largest), min_size=n, max_size=n, unique=True))
    w = draw(st.lists(st.floats(0.1, 1.0), min_size=n, max_size=n))
    return Population(t, w)


aspects = st.floats(0.01, 20)


@pytest.mark.parametrize(("population", "q", "location", "scale"), REFERENCE)
def test_reference_values(population, q, location, scale):
    edge = covariance.upper_edge(population, q)
    assert edge.location == pytest.approx(location, rel=2e-12)
    assert edge.scale == pytest.approx(scale, rel=2e-12)


@given(q=st.floats(1e-6, 1e6), variance=st.floats(1e-3, 1e3), copies=st.integers(1, 4))
def test_flat_spectrum_is_the_classical_law(q, variance, copies):
    population = Population([variance] * copies)
    edge = covariance.upper_edge(population, q)
    lower, upper = marchenko_pastur.edges(q, variance)
    assert edge.location == pytest.approx(upper, rel=1e-12)
    root = np.sqrt(q)
    johnstone = variance * (1 + root) * (1 + 1 / root) ** (1 / 3)
    assert edge.scale == pytest.approx(johnstone, rel=1e-12)
    assert edge.critical == pytest.approx(variance * (1 + root), rel=1e-12)
    ends = covariance.support(population, q)
    np.testing.assert_allclose(ends, [[lower, upper]], rtol=1e-12, atol=1e-12 * variance * (1 + q))


@given(population=populations(), q=aspects)
def test_edge_solves_el_karouis_equations(population, q):
    edge = covariance.upper_edge(population, q)
    t, w, c = population.eigenvalues, population.weights, 1 / edge.critical
    ratio = t * c / (1 - t * c)
    assert w @ ratio**2 == pytest.approx(1 / q, rel=1e-8)
    assert edge.location == pytest.approx((1 + q * (w @ ratio)) / c, rel=1e-10)
    assert edge.scale**3 == pytest.approx((1 + q * (w @ ratio**3)) / c**3, rel=1e-8)


def sample_spectrum(rng, population, N, M, radius=0.0):
    t = np.repeat(population.eigenvalues, N // population.eigenvalues.size)
    X = rng.standard_normal((M, N)) * np.sqrt(t)
    W = rng.standard_normal((N, N))
    return np.linalg.eigvalsh(X.T @ X / M + radius / 2 * (W + W.T) / np.sqrt(2 * N))


@pytest.mark.parametrize(("q", "radius"), [(0.05, 0.0), (0.05, 0.5), (3.0, 0.3)])
def test_no_eigenvalue_outside_the_support(q, radius):
    population = Population([1.0, 5.0, 20.0]) if q < 1 else Population.flat()
    N = 300
    spectrum = sample_spectrum(np.random.default_rng(2), population, N, round(N / q), radius)
    ends = covariance.support(population, q, radius)
    slack = 0.03 * (ends[:, 1] - ends[:, 0])
    inside = [
        np.sum((spectrum > a - s) & (spectrum < b + s))
        for (a, b), s in zip(ends, slack, strict=True)
    ]
    if radius == 0:
        assert inside == [100, 100, 100]
    assert sum(inside) == N
    if q == 3.0:
        assert inside == [200, 100]  # the smeared atom holds 1 - 1/q
