import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.theory import concentration, marchenko_pastur


@given(r=st.floats(0.01, 1), K=st.integers(1, 6), N=st.integers(8, 64), seed=st.integers(0, 2**32))
def test_variance_proxy_bounds_the_operator(r, K, N, seed):
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.ones(K))
    # Orthogonal archetypes: the spectrum of the mean is known.
    basis, _ = np.linalg.qr(rng.standard_normal((N, K)))
    mean = r**2 * (basis * pi) @ basis.T + (1 - r**2) / N * np.eye(N)
    exact = np.linalg.norm(mean - mean @ mean, 2)
    proxy = concentration.variance_proxy(r, N, pi)
    assert proxy == pytest.approx(exact, rel=1e-9)
    assert proxy <= concentration.variance_proxy(r, N) * (1 + 1e-12) <= 0.25 * (1 + 1e-12)
    # Any archetypes: the general proxy still holds.
    units = rng.choice([-1.0, 1.0], size=(K, N)) / np.sqrt(N)
    mean = r**2 * (units.T * pi) @ units + (1 - r**2) / N * np.eye(N)
    loose = concentration.variance_proxy(r, N)
    assert np.linalg.norm(mean - mean @ mean, 2) <= loose * (1 + 1e-9)


@pytest.mark.parametrize("M", [100, 1000])
def test_bound_holds_for_the_channel(M):
    rng = np.random.default_rng(1)
    N, r, pi, draws = 60, 0.8, np.array([0.5, 0.3, 0.2]), 60
    xi = rademacher(3, N, rng)
    mean = r**2 * (xi.T * pi) @ xi / N + (1 - r**2) / N * np.eye(N)
    proxy = np.linalg.norm(mean - mean @ mean, 2)
    deviations = []
    for _ in range(draws):
        examples = draw_examples(xi, M, r, rng, exposures=pi)[0].astype(float)
        deviations.append(np.linalg.norm(examples.T @ examples / (N * M) - mean, 2))
    bound = concentration.bernstein_deviation(0.05, N, M, proxy)
    assert np.max(deviations) < bound
    assert bound < 6 * np.mean(deviations)  # explicit, and of the right size


@given(N=st.integers(10, 10**5), M=st.integers(10, 10**5), variance=st.floats(0.01, 10))
def test_bulk_band_holds_the_edges(N, M, variance):
    lower, upper = concentration.bulk_band(N, M, 0.05, variance, (1.0, 1.0))
    edges = marchenko_pastur.edges(N / M, variance)
    assert 0 <= lower <= edges[0]
    assert upper > edges[1]
    closed = concentration.bulk_band(N, M, 0.05, variance, constants=(0.0, 0.0))
    np.testing.assert_allclose(closed, edges)
    width = (
        concentration.bulk_band(N, M, 0.05, 1.0, (1.0, 1.0))[1] - marchenko_pastur.edges(N / M)[1]
    )
    expected = np.sqrt((np.log(20) + np.log(N)) / M) + np.log(N) ** 2 / N ** (2 / 3)
    assert width == pytest.approx(expected, rel=1e-9)
