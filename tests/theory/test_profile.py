import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.theory import covariance, marchenko_pastur, profile, spikes


@given(r=st.floats(0.05, 0.95), q=st.floats(1e-2, 1e2), clients=st.integers(1, 6))
def test_equal_qualities_have_the_classical_edge(r, q, clients):
    edge = profile.profile_edge([r] * clients, q)
    variance = 1 - r**2
    assert edge.location == pytest.approx(marchenko_pastur.edges(q, variance)[1], rel=1e-11)
    flat = covariance.upper_edge(covariance.Population.flat(variance), q)
    assert edge.scale == pytest.approx(flat.scale, rel=1e-10)


@given(
    r=st.floats(0.05, 0.95),
    pi=st.floats(1e-3, 1.0),
    N=st.integers(10, 10**4),
    M=st.integers(10, 10**4),
)
def test_equal_qualities_have_the_classical_spikes(r, pi, N, M):
    prediction = profile.profile_spikes([r, r], [[pi], [pi]], N, M)
    kappa, q = spikes.spike_strength(r, pi, N), N / M
    assert prediction.margin[0] == pytest.approx(kappa / np.sqrt(q), rel=1e-9)
    assert prediction.outliers[0] == pytest.approx(spikes.outlier(kappa, q, 1 - r**2), rel=1e-9)
    assert prediction.overlaps[0] == pytest.approx(spikes.overlap(kappa, q), abs=1e-6)


@given(
    seed=st.integers(0, 2**32),
    clients=st.integers(1, 5),
    K=st.integers(1, 4),
    N=st.integers(20, 900),
    M=st.integers(20, 900),
)
def test_order_of_clients_does_not_matter(seed, clients, K, N, M):
    rng = np.random.default_rng(seed)
    r, weights = rng.uniform(0, 0.95, clients), rng.uniform(0.1, 1, clients)
    exposures = rng.dirichlet(np.ones(K), clients)
    base = profile.profile_spikes(r, exposures, N, M, weights)
    order = rng.permutation(clients)
    other = profile.profile_spikes(r[order], exposures[order], N, M, weights[order])
    np.testing.assert_allclose(other.outliers, base.outliers, rtol=1e-9)
    np.testing.assert_allclose(other.overlaps, base.overlaps, atol=1e-6)
    # Merging a client with its twin changes nothing.
    split = profile.profile_spikes(
        np.append(r, r[0]),
        np.vstack([exposures, exposures[:1]]),
        N,
        M,
        np.append(weights, weights[0] / 2) - np.eye(clients + 1)[0] * weights[0] / 2,
    )
    np.testing.assert_allclose(split.outliers, base.outliers, rtol=1e-9)
    assert (base.outliers >= base.edge * (1 - 1e-12)).all()
    assert ((base.overlaps >= 0) & (base.overlaps <= 1)).all()
    assert np.array_equal(base.margin > 1, base.overlaps > 0)


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


def test_noise_edge_matches_simulation():
    rng = np.random.default_rng(7)
    N, M, draws = 200, 400, 40
    r = np.array([0.9, 0.0])
    scale = np.sqrt(np.repeat(1 - r**2, M // 2))[:, None]
    tops = [np.linalg.norm(rng.standard_normal((M, N)) * scale, 2) ** 2 / M for _ in range(draws)]
    edge = profile.profile_edge(r, N / M)
    scaled = (np.array(tops) - edge.location) * M ** (2 / 3) / edge.scale
    assert np.mean(scaled) == pytest.approx(-1.2065, abs=3.5 * np.sqrt(1.608 / draws) + 0.3)
    assert np.std(scaled) == pytest.approx(1.268, rel=0.4)


def test_archetype_that_nobody_has_is_not_found():
    prediction = profile.profile_spikes([0.5, 0.8], [[0.5, 0.0], [0.5, 0.0]], 100, 100)
    assert prediction.margin[1] == 0
    assert prediction.outliers[1] == prediction.edge
    assert prediction.overlaps[1] == 0


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: profile.profile_edge([0.5, 1.0], 0.5), "qualities"),
        (lambda: profile.profile_edge([[0.5]], 0.5), "qualities"),
        (lambda: profile.profile_edge([0.5], 0.0), "q"),
        (lambda: profile.profile_edge([0.5], 0.5, [0.0]), "weights"),
        (lambda: profile.profile_edge([0.5], 0.5, [0.5, 0.5]), "weights"),
        (lambda: profile.profile_spikes([0.5], [0.5], 10, 10), "exposures"),
        (lambda: profile.profile_spikes([0.5], [[0.8, 0.8]], 10, 10), "exposures"),
        (lambda: profile.profile_spikes([0.5], [[0.8]], 0, 10), "N"),
    ],
)
def test_bad_arguments_are_named(call, argument):
    with pytest.raises(ArgumentError) as raised:
        call()
    assert raised.value.argument == argument


def test_no_clients_are_refused_by_the_name_of_theirs():
    with pytest.raises(ArgumentError, match="qualities must be a list of one number or more"):
        profile.profile_edge([], 0.5)
