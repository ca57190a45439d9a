import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.theory import covariance, marchenko_pastur, tracy_widom
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
radii = st.just(0.0) | st.floats(1e-3, 5)


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


def test_flat_threshold_is_mas():
    for N, M in ((100, 400), (30, 10)):
        centre, scale = tracy_widom.wishart_scaling(M, N)
        expected = 2.0 * (centre + scale * tracy_widom.isf(0.01)) / M
        value = covariance.noise_threshold(Population.flat(2.0), N, M, 0.01)
        assert value == pytest.approx(expected, rel=1e-12)


@given(population=populations(), q=aspects)
def test_edge_solves_el_karouis_equations(population, q):
    edge = covariance.upper_edge(population, q)
    t, w, c = population.eigenvalues, population.weights, 1 / edge.critical
    ratio = t * c / (1 - t * c)
    assert w @ ratio**2 == pytest.approx(1 / q, rel=1e-8)
    assert edge.location == pytest.approx((1 + q * (w @ ratio)) / c, rel=1e-10)
    assert edge.scale**3 == pytest.approx((1 + q * (w @ ratio**3)) / c**3, rel=1e-8)


@given(population=populations(), q=aspects, radius=radii, factor=st.floats(0.1, 10))
def test_edges_scale_with_the_noise(population, q, radius, factor):
    scaled = Population(population.eigenvalues * factor, population.weights)
    base, big = (
        covariance.upper_edge(population, q, radius),
        covariance.upper_edge(scaled, q, radius * factor),
    )
    assert big.location == pytest.approx(factor * base.location, rel=1e-10)
    assert big.scale == pytest.approx(factor * base.scale, rel=1e-8)
    np.testing.assert_allclose(
        covariance.support(scaled, q, radius * factor),
        factor * covariance.support(population, q, radius),
        rtol=1e-8,
        atol=1e-8 * factor,
    )


@given(population=populations(), q=aspects, radius=st.floats(0.01, 5))
def test_semicircle_widens_the_support(population, q, radius):
    bare, wide = covariance.support(population, q), covariance.support(population, q, radius)
    lowest = 0.0 if q > 1 else bare[0, 0]  # the atom
    assert lowest - radius - 1e-9 <= wide[0, 0] < lowest + 1e-12
    assert bare[-1, 1] < wide[-1, 1] <= bare[-1, 1] + radius + 1e-9
    assert len(wide) <= len(bare) + (q > 1)  # the atom may become an interval of its own
    assert (np.diff(wide.ravel()) > 0).all()
    assert wide[-1, 1] == pytest.approx(
        covariance.upper_edge(population, q, radius).location, rel=1e-12
    )


def test_edge_is_continuous_in_the_radius():
    for q in (0.5, 1.0, 3.0):
        bare = covariance.upper_edge(Population([1, 3]), q)
        tiny = covariance.upper_edge(Population([1, 3]), q, 1e-5)
        assert tiny.location == pytest.approx(bare.location, rel=1e-9)
        assert tiny.scale == pytest.approx(bare.scale, rel=1e-6)


def test_wide_semicircle_dominates():
    # Noise of radius R with the small covariance as a perturbation: edge R + mean, scale R/2 in
    # units of N^(-2/3), that is R/2 q^(-2/3) in those of M.
    edge = covariance.upper_edge(Population.flat(1e-4), 0.5, 2.0)
    assert edge.location == pytest.approx(2.0 + 1e-4, abs=1e-7)
    assert edge.scale == pytest.approx(0.5 ** (-2 / 3), rel=1e-3)


def test_clusters_separate_and_merge():
    population = Population([1.0, 5.0, 20.0])
    assert covariance.support(population, 0.05).shape == (3, 2)
    assert covariance.support(population, 0.05, 6.0).shape == (2, 2)
    assert covariance.support(population, 2.0).shape == (1, 2)
    assert covariance.support(Population.flat(), 3.0, 0.3).shape == (2, 2)
    assert covariance.support(Population.flat(), 3.0, 3.0).shape == (1, 2)


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


def largest_autoregressive(rng, rho, N, M):
    from scipy.signal import lfilter

    noise = rng.standard_normal((M, N))
    noise[:, 1:] *= np.sqrt(1 - rho**2)
    return largest(lfilter([1.0], [1.0, -rho], noise, axis=1))


def largest(X):
    """Top eigenvalue of (1/M) X^T X by Lanczos."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    M, N = X.shape
    product = LinearOperator((N, N), matvec=lambda v: X.T @ (X @ v) / M, dtype=np.float64)
    return float(eigsh(product, k=1, which="LA", v0=np.ones(N), tol=1e-6)[0][0])


def check_fluctuation(tops, population, N, M, slack):
    """The mean scaled deviation from the edge is Tracy-Widom's, within its error and `slack`."""
    edge = covariance.upper_edge(population, N / M)
    scaled = (np.array(tops) - edge.location) * M ** (2 / 3) / edge.scale
    law = tracy_widom.moments(1)
    error = np.sqrt(law.variance / len(tops))
    assert np.mean(scaled) == pytest.approx(law.mean, abs=3.5 * error + slack)


def test_edges_match_simulation_at_moderate_size():
    rng = np.random.default_rng(17)
    N, M = 300, 600
    check_fluctuation(
        [largest_autoregressive(rng, 0.6, N, M) for _ in range(30)], Population.ar1(0.6), N, M, 0.4
    )
    block = np.sqrt(np.repeat([1.0, 3.0], N // 2))
    tops = [largest(rng.standard_normal((M, N)) * block) for _ in range(30)]
    check_fluctuation(tops, Population([1.0, 3.0]), N, M, 0.4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ar1 0.3", "ar1 0.6", "blocks"])
def test_edges_match_simulation_at_four_thousand_sites(name):
    rng = np.random.default_rng(18)
    N, M, draws = 4000, 8000, 8
    if name == "blocks":
        block = np.sqrt(np.repeat([1.0, 3.0], N // 2))
        tops = [largest(rng.standard_normal((M, N)) * block) for _ in range(draws)]
        check_fluctuation(tops, Population([1.0, 3.0]), N, M, 0.15)
    else:
        rho = float(name.split()[1])
        tops = [largest_autoregressive(rng, rho, N, M) for _ in range(draws)]
        check_fluctuation(tops, Population.ar1(rho), N, M, 0.15)


@given(values=st.lists(st.floats(0.1, 10), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_population_is_a_law(values, seed):
    weights = np.random.default_rng(seed).uniform(0.1, 2, len(values))
    population = Population(values, weights)
    assert population.weights.sum() == pytest.approx(1, rel=1e-14)
    assert population.mean == pytest.approx(np.average(values, weights=weights), rel=1e-12)
    assert (np.diff(population.eigenvalues) > 0).all()
    order = np.random.default_rng(seed).permutation(len(values))
    shuffled = Population(np.array(values)[order], weights[order])
    np.testing.assert_allclose(shuffled.weights, population.weights, rtol=1e-13)


def test_toeplitz_matrix_has_the_autoregressive_spectrum():
    matrix = 0.6 ** np.abs(np.subtract.outer(np.arange(500), np.arange(500)))
    exact = covariance.upper_edge(Population.of_matrix(matrix), 0.5)
    limit = covariance.upper_edge(Population.ar1(0.6), 0.5)
    assert exact.location == pytest.approx(limit.location, rel=5e-3)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: Population([]), "eigenvalues"),
        (lambda: Population([1.0, 0.0]), "eigenvalues"),
        (lambda: Population([1.0, 2.0], [1.0]), "weights"),
        (lambda: Population([1.0], [-1.0]), "weights"),
        (lambda: Population.ar1(1.0), "rho"),
        (lambda: Population.flat(0.0), "variance"),
        (lambda: Population.of_matrix(np.ones((2, 3))), "covariance"),
        (lambda: Population.of_matrix([[1.0, 2.0], [0.0, 1.0]]), "covariance"),
        (lambda: covariance.upper_edge([1.0, 2.0], 0.5), "population"),
        (lambda: covariance.upper_edge(Population.flat(), 0.0), "q"),
        (lambda: covariance.upper_edge(Population.flat(), [0.5, 1.0]), "q"),
        (lambda: covariance.support(Population.flat(), 0.5, -1.0), "radius"),
        (lambda: covariance.noise_threshold(Population.flat(), 10, 10, 1.0), "false_alarm"),
    ],
)
def test_bad_arguments_are_named(call, argument):
    with pytest.raises(ArgumentError) as raised:
        call()
    assert raised.value.argument == argument
