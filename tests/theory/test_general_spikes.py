import numpy as np
import pytest
from helpers import rest_slow
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.theory import covariance, general_spikes, marchenko_pastur, spikes
from hopfed.theory.covariance import Population

populations = st.lists(st.floats(0.1, 10), min_size=1, max_size=5, unique=True).map(Population)
aspects = st.floats(0.01, 20)
radii = st.just(0.0) | st.floats(1e-2, 5)


@given(
    q=st.floats(1e-3, 1e3),
    ratio=st.floats(0.001, 12).map(lambda e: 10.0**e),
    variance=st.floats(1e-3, 1e3),
)
def test_flat_spectrum_is_the_classical_law(q, ratio, variance):
    flat = Population.flat(variance)
    kappa = ratio * np.sqrt(q)
    ell = variance * (1 + kappa)
    eigenvalue = spikes.outlier(kappa, q, variance)
    assert general_spikes.outlier(ell, flat, q) == pytest.approx(eigenvalue, rel=1e-11)
    assert general_spikes.overlap(ell, flat, q) == pytest.approx(
        spikes.overlap(kappa, q), rel=1e-8, abs=1e-10
    )
    assert general_spikes.threshold(flat, q) == pytest.approx(
        variance * (1 + np.sqrt(q)), rel=1e-12
    )


@given(
    population=populations,
    q=aspects,
    radius=radii,
    factor=st.floats(0.01, 12).map(lambda e: 10.0**e),
)
def test_inverse_round_trip(population, q, radius, factor):
    top = population.eigenvalues[-1]
    ell = top + factor * (general_spikes.threshold(population, q, radius) - top)
    eigenvalue = general_spikes.outlier(ell, population, q, radius)
    back = general_spikes.population_eigenvalue(eigenvalue, population, q, radius)
    # The slope of the map is what the rounding of the eigenvalue is magnified by.
    step = 1e-6 * (ell - top)
    slope = (general_spikes.outlier(ell + step, population, q, radius) - eigenvalue) / step
    assert back == pytest.approx(ell, rel=1e-10, abs=1e-14 * eigenvalue / slope)


@given(population=populations, q=aspects, radius=radii, ratio=st.floats(0.01, 0.999))
def test_below_threshold_a_spike_stays_in_the_bulk(population, q, radius, ratio):
    edge = covariance.upper_edge(population, q, radius).location
    ell = ratio * general_spikes.threshold(population, q, radius)
    assert general_spikes.outlier(ell, population, q, radius) == pytest.approx(edge, rel=1e-12)
    assert general_spikes.overlap(ell, population, q, radius) == 0
    below = edge - 1e-6 * abs(edge)
    assert np.isnan(general_spikes.population_eigenvalue(below, population, q, radius))


@given(population=populations, q=aspects, radius=radii)
def test_outlier_leaves_the_edge_and_its_vector_turns(population, q, radius):
    threshold = general_spikes.threshold(population, q, radius)
    ell = threshold * np.geomspace(1.001, 1e4, 60)
    eigenvalue = general_spikes.outlier(ell, population, q, radius)
    overlap = general_spikes.overlap(ell, population, q, radius)
    assert (np.diff(eigenvalue) > 0).all()
    assert eigenvalue[0] > covariance.upper_edge(population, q, radius).location
    assert (np.diff(overlap) > 0).all()
    assert ((overlap > 0) & (overlap < 1)).all()


def test_semicircle_lowers_the_overlap():
    population, ell = Population([1.0, 3.0]), np.array([6.0, 10.0, 30.0])
    bare = general_spikes.overlap(ell, population, 0.5)
    noisy = general_spikes.overlap(ell, population, 0.5, 3.0)
    assert (noisy < bare).all()
    faint = general_spikes.overlap(ell, population, 0.5, 1e-4)
    np.testing.assert_allclose(faint, bare, rtol=1e-6)


def test_pure_semicircle_limit():
    # Covariance noise of almost no variance: a spike theta in Wigner noise of variance s lands at
    # theta + s / theta with overlap 1 - s / theta^2.
    tiny, s = Population.flat(1e-6), 0.25
    theta = np.array([0.6, 1.0, 4.0])
    eigenvalue = general_spikes.outlier(theta, tiny, 0.5, 1.0)
    np.testing.assert_allclose(eigenvalue, theta + s / theta, rtol=1e-5)
    overlap = general_spikes.overlap(theta, tiny, 0.5, 1.0)
    np.testing.assert_allclose(overlap, 1 - s / theta**2, rtol=1e-5)


@given(population=populations, theta=st.floats(-3, 6).map(lambda e: 10.0**e))
def test_population_spike_solves_the_secular_equation(population, theta):
    ell, alignment = general_spikes.population_spike(theta, population)
    gap = ell - population.eigenvalues
    assert (gap > 0).all()
    assert 0 < alignment <= 1 + 1e-12
    if gap[-1] > 1e-6 * ell:
        assert general_spikes.signal_strength(ell, population) == pytest.approx(theta, rel=1e-8)
    flat = general_spikes.population_spike(theta, Population.flat(2.0))
    assert flat[0] == pytest.approx(2 + theta, rel=1e-12)
    assert flat[1] == pytest.approx(1, rel=1e-12)


def test_population_spike_matches_a_matrix():
    rng = np.random.default_rng(0)
    t = np.repeat([1.0, 3.0], 500)
    u = rng.choice([-1.0, 1.0], 1000) / np.sqrt(1000)
    values, vectors = np.linalg.eigh(np.diag(t) + 4.0 * np.outer(u, u))
    ell, alignment = general_spikes.population_spike(4.0, Population([1.0, 3.0]))
    assert values[-1] == pytest.approx(ell, rel=1e-12)
    assert (vectors[:, -1] @ u) ** 2 == pytest.approx(alignment, rel=1e-10)


@pytest.mark.parametrize("radius", rest_slow([2.0, 0.0], 1))
def test_predictions_match_simulation(radius):
    rng = np.random.default_rng(12)
    N, M, rho, theta, draws = 300, 600, 0.6, 15.0, 25
    covariance_matrix = rho ** np.abs(np.subtract.outer(np.arange(N), np.arange(N)))
    factor = np.linalg.cholesky(covariance_matrix).T
    population = Population.ar1(rho)
    eigenvalues, overlaps = [], []
    for _ in range(draws):
        u = rng.choice([-1.0, 1.0], N) / np.sqrt(N)
        X = rng.standard_normal((M, N)) @ factor
        X += np.sqrt(theta) * rng.standard_normal((M, 1)) * u
        W = rng.standard_normal((N, N))
        values, vectors = np.linalg.eigh(X.T @ X / M + radius / 2 * (W + W.T) / np.sqrt(2 * N))
        eigenvalues.append(values[-1])
        overlaps.append((vectors[:, -1] @ u) ** 2)
    ell, alignment = general_spikes.population_spike(theta, population)
    predicted = general_spikes.outlier(ell, population, N / M, radius)
    # The Gaussian signal makes an outlier fluctuate by sqrt(2 / M) of itself.
    assert np.mean(eigenvalues) == pytest.approx(predicted, rel=4 * np.sqrt(2 / M / draws))
    overlap = alignment * general_spikes.overlap(ell, population, N / M, radius)
    assert np.mean(overlaps) == pytest.approx(overlap, abs=0.01)


def test_arrays_keep_their_shape():
    ell = np.array([[4.0, 8.0], [16.0, 0.5]])
    population = Population([1.0, 3.0])
    for function in (general_spikes.outlier, general_spikes.overlap):
        table = function(ell, population, 0.5)
        assert table.shape == (2, 2)
        assert table[1, 0] == function(16.0, population, 0.5)
    back = general_spikes.population_eigenvalue(ell, population, 0.5)
    assert back.shape == (2, 2)
    assert np.isnan(back[1, 1])
    assert general_spikes.population_spike(ell, population)[1].shape == (2, 2)
    assert general_spikes.signal_strength(ell, population).shape == (2, 2)
    assert general_spikes.signal_strength(0.5, population) == 0


def test_no_spike_hides_below_the_classical_edge():
    edge = marchenko_pastur.edges(0.5)[1]
    back = general_spikes.population_eigenvalue(edge * (1 + 1e-12), Population.flat(), 0.5)
    assert back == pytest.approx(1 + np.sqrt(0.5), rel=1e-5)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: general_spikes.outlier(0.0, Population.flat(), 0.5), "ell"),
        (lambda: general_spikes.overlap(2.0, Population.flat(), -0.5), "q"),
        (lambda: general_spikes.threshold(2.0, 0.5), "population"),
        (
            lambda: general_spikes.population_eigenvalue(np.nan, Population.flat(), 0.5),
            "eigenvalue",
        ),
        (lambda: general_spikes.population_spike(0.0, Population.flat()), "theta"),
        (lambda: general_spikes.population_spike(1.0, 2.0), "population"),
        (lambda: general_spikes.signal_strength(-1.0, Population.flat()), "ell"),
    ],
)
def test_bad_arguments_are_named(call, argument):
    with pytest.raises(ArgumentError) as raised:
        call()
    assert raised.value.argument == argument
