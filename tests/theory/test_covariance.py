import numpy as np
import pytest
from helpers import rest_slow
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


CASES = [
    (Population([1, 3]), 0.5),
    (Population.flat(), 3.0),
    (Population([1, 5, 20]), 0.05),
    (Population([1, 2.0]), 0.02),  # two intervals next to each other
    (Population.ar1(0.6, nodes=32), 0.5),
    (Population.ar1(0.6, nodes=32), 2.0),
    (Population([1, 3]), 1.0),
]

NODES = np.polynomial.legendre.leggauss(200)


@pytest.mark.parametrize(("population", "q"), rest_slow(CASES, 4))
def test_cdf_is_the_integral_of_the_density(population, q):
    ends = covariance.support(population, q)
    nodes, weights = NODES
    for low, high in ends:
        for u in (0.3, 0.8):
            theta = u * np.pi / 2 * (nodes + 1)
            x = low + (high - low) * np.sin(theta / 2) ** 2
            rate = covariance.density(x, population, q) * (high - low) / 2 * np.sin(theta)
            integral = u * np.pi / 2 * np.sum(weights * rate)
            top = low + (high - low) * np.sin(u * np.pi / 2) ** 2
            between = covariance.cdf([low, top], population, q)
            assert between[1] - between[0] == pytest.approx(integral, abs=1e-11)


@given(q=st.floats(0.05, 5), u=st.floats(0.001, 0.999))
def test_flat_density_and_mass_are_the_classical_ones(q, u):
    (low, high), flat = marchenko_pastur.edges(q), Population.flat()
    x = low + u * (high - low)
    want = marchenko_pastur.pdf(x, q)
    assert covariance.density(x, flat, q) == pytest.approx(want, rel=1e-8)
    assert covariance.cdf(x, flat, q) == pytest.approx(marchenko_pastur.cdf(x, q), abs=1e-10)


def test_eigenvalues_follow_the_law_and_none_lies_outside():
    population, N, M = Population([1.0, 5.0, 20.0]), 300, 6000
    X = np.random.default_rng(2).standard_normal((M, N)) * np.sqrt(np.repeat([1, 5, 20], 100))
    spectrum = np.linalg.eigvalsh(X.T @ X / M)
    distance = covariance.cdf(spectrum, population, N / M) - (np.arange(N) + 0.5) / N
    assert np.abs(distance).max() < 0.01
    low, high = covariance.support(population, N / M).T
    slack = 0.03 * (high - low)
    inside = (spectrum > (low - slack)[:, None]) & (spectrum < (high + slack)[:, None])
    assert inside.sum(axis=1).tolist() == [100, 100, 100]


radii = st.just(0.0) | st.floats(1e-2, 5)


@given(population=populations(0.1, 10.0), q=aspects, radius=radii, ratio=st.floats(0.01, 0.999))
def test_below_threshold_a_spike_stays_in_the_bulk(population, q, radius, ratio):
    edge = covariance.upper_edge(population, q, radius).location
    ell = ratio * covariance.upper_edge(population, q, radius).critical
    assert covariance.outlier(ell, population, q, radius) == pytest.approx(edge, rel=1e-12)
    assert covariance.overlap(ell, population, q, radius) == 0
    below = edge - 1e-6 * abs(edge)
    assert np.isnan(covariance.population_eigenvalue(below, population, q, radius))


@given(population=populations(0.1, 10.0), q=aspects, radius=radii)
def test_outlier_leaves_the_edge_and_its_vector_turns(population, q, radius):
    threshold = covariance.upper_edge(population, q, radius).critical
    ell = threshold * np.geomspace(1.001, 1e4, 60)
    eigenvalue = covariance.outlier(ell, population, q, radius)
    overlap = covariance.overlap(ell, population, q, radius)
    assert (np.diff(eigenvalue) > 0).all()
    assert eigenvalue[0] > covariance.upper_edge(population, q, radius).location
    assert (np.diff(overlap) > 0).all()
    assert ((overlap > 0) & (overlap < 1)).all()
