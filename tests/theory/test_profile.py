import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.theory import covariance, marchenko_pastur, profile


@given(r=st.floats(0.05, 0.95), q=st.floats(1e-2, 1e2), clients=st.integers(1, 6))
def test_equal_qualities_have_the_classical_edge(r, q, clients):
    edge = profile.profile_edge([r] * clients, q)
    variance = 1 - r**2
    assert edge.location == pytest.approx(marchenko_pastur.edges(q, variance)[1], rel=1e-11)
    flat = covariance.upper_edge(covariance.Population.flat(variance), q)
    assert edge.scale == pytest.approx(flat.scale, rel=1e-10)


def test_predictions_match_simulation():
    rng = np.random.default_rng(6)
    N, M, draws = 300, 900, 25
    r, pi = np.array([0.8, 0.3, 0.1]), np.array([0.6, 0.3, 0.1])
    tops, overlaps, edges = [], [], []
    for _ in range(draws):
        xi = rng.choice([-1.0, 1.0], size=(3, N))
        quality = np.repeat(r, M // 3)
        flips = np.where(rng.random((M, N)) < (1 + quality[:, None]) / 2, 1.0, -1.0)
        examples = xi[rng.choice(3, size=M, p=pi)] * flips
        values, vectors = np.linalg.eigh(examples.T @ examples / M)
        tops.append(values[:-4:-1])
        edges.append(values[-4])
        overlaps.append(((vectors[:, :-4:-1].T @ xi.T / np.sqrt(N)) ** 2).max(axis=0))
    prediction = profile.profile_spikes(r, np.tile(pi, (3, 1)), N, M)
    np.testing.assert_allclose(np.mean(tops, axis=0), prediction.outliers, rtol=0.05)
    np.testing.assert_allclose(np.mean(overlaps, axis=0), prediction.overlaps, atol=0.04)
    assert np.mean(edges) == pytest.approx(prediction.edge, rel=0.05)
    # The edge of noise with the mean variance in every sample would be visibly lower.
    assert marchenko_pastur.edges(N / M, np.mean(1 - r**2))[1] < 0.97 * prediction.edge
