import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard

from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.theory import marchenko_pastur, spikes

aspects = st.floats(1e-6, 1e6)
variances = st.floats(1e-6, 1e6)
# Strength over the threshold: from just above 1, over twelve decades.
ratios = st.floats(0.0005, 12).map(lambda e: 10.0**e)


@given(q=st.floats(1e-3, 1e3), ratio=ratios, variance=variances)
def test_strength_inverts_outlier(q, ratio, variance):
    kappa = ratio * spikes.threshold(q)
    eigenvalue = spikes.outlier(kappa, q, variance)
    assert spikes.strength(eigenvalue, q, variance) == pytest.approx(kappa, rel=1e-10)


@given(q=aspects, variance=variances, ratio=st.floats(1e-6, 1))
def test_below_threshold_a_spike_stays_in_the_bulk(q, variance, ratio):
    kappa = ratio * spikes.threshold(q)
    edge = marchenko_pastur.edges(q, variance)[1]
    assert spikes.outlier(kappa, q, variance) == pytest.approx(edge, rel=1e-14)
    assert spikes.overlap(kappa, q) == 0
    assert spikes.outlier_sd(kappa, q, 100, variance, exposure=0.3) == 0
    assert np.isnan(spikes.strength(edge * (1 - 1e-9), q, variance))


@given(q=aspects, ratio=ratios)
def test_overlap_is_the_published_formula(q, ratio):
    kappa = ratio * np.sqrt(q)
    value = spikes.overlap(kappa, q)
    assert 0 < value <= 1
    expected = (1 - q / kappa**2) / (1 + q / kappa)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert spikes.overlap(1.01 * kappa, q) >= value - 1e-15  # a few roundings, of numbers near 1


@given(q=st.floats(0.01, 100), ratio=st.floats(1.01, 100), pi=st.floats(0.01, 1))
def test_outlier_sd_limits(q, ratio, pi):
    kappa = ratio * np.sqrt(q)
    gauss = spikes.outlier_sd(kappa, q, 500, 2.0)
    paul = 2.0 * (1 + kappa) * np.sqrt(2 * (1 - q / kappa**2) / 500)
    assert gauss == pytest.approx(paul, rel=1e-10)
    # pi = 1/3 has the fourth moment of a Gaussian.
    assert spikes.outlier_sd(kappa, q, 500, 2.0, 1 / 3) == pytest.approx(gauss, rel=1e-12)
    far = spikes.outlier_sd(1e9, q, 500, exposure=pi)
    assert far == pytest.approx((1 + 1e9) * np.sqrt((1 / pi - 1) / 500), rel=1e-3, abs=1e4)


def draw(rng, N, exposures, r, M):
    xi = rademacher(3, N, rng)
    examples, owner = draw_examples(xi, M, r, rng, exposures=exposures)
    return xi, examples.astype(np.float64), np.bincount(owner, minlength=3) / M


def test_outlier_sd_of_mixtures_matches_simulation():
    rng = np.random.default_rng(11)
    N, M, r, pi = 200, 300, 0.35, np.array([0.5, 0.3, 0.2])
    top, conditional = [], []
    for _ in range(100):
        xi, examples, shares = draw(rng, N, pi, r, M)
        top.append(np.linalg.eigvalsh(examples.T @ examples / M)[:-4:-1])
        conditional.append(top[-1] - spikes.finite_size(xi, shares, r, M).outliers)
    kappa, variance = spikes.spike_strength(r, pi, N), 1 - r**2
    mixture = spikes.outlier_sd(kappa, N / M, M, variance, pi)
    noise = spikes.outlier_sd(kappa, N / M, M, variance, 1.0)
    # A standard deviation from 100 draws is known to 7%; three of them, and the formula's own
    # finite-size error.
    np.testing.assert_allclose(np.std(top, axis=0), mixture, rtol=0.2)
    np.testing.assert_allclose(np.std(conditional, axis=0), noise, rtol=0.2)
    assert mixture[0] < 0.8 * spikes.outlier_sd(kappa, N / M, M, variance)[0]


def test_finite_size_prediction_beats_the_plain_one():
    rng = np.random.default_rng(4)
    N, M, r, pi = 300, 600, 0.5, np.array([0.5, 0.3, 0.2])
    plain = spikes.outlier(spikes.spike_strength(r, pi, N), N / M, 1 - r**2)
    measured, predicted, scores, score_predictions = [], [], [], []
    for _ in range(30):
        xi, examples, shares = draw(rng, N, pi, r, M)
        values, vectors = np.linalg.eigh(examples.T @ examples / M)
        prediction = spikes.finite_size(xi, shares, r, M)
        assert prediction.rank == 3
        leading = vectors[:, :-4:-1]
        measured.append(values[:-4:-1])
        predicted.append(prediction.outliers)
        scores.append(((leading.T @ xi.T) ** 2).sum(axis=0) / N)
        score_predictions.append(prediction.scores)
    measured, predicted = np.array(measured), np.array(predicted)
    spread = ((measured - measured.mean(axis=0)) ** 2).sum(axis=0)
    explained = 1 - ((measured - predicted) ** 2).sum(axis=0) / spread
    assert explained.min() > 0.8
    assert 1 - ((measured - plain) ** 2).sum() / spread.sum() < 0.2
    np.testing.assert_allclose(
        np.mean(scores, axis=0), np.mean(score_predictions, axis=0), atol=5e-3
    )


def test_finite_size_of_orthogonal_archetypes_is_the_plain_formula():
    shares = np.array([0.6, 0.3, 0.0])
    prediction = spikes.finite_size(hadamard(32)[:3], shares, 0.6, 128)
    kappa = spikes.spike_strength(0.6, shares[:2], 32)
    np.testing.assert_allclose(prediction.strengths[:2], kappa, rtol=1e-13)
    np.testing.assert_allclose(
        prediction.outliers[:2], spikes.outlier(kappa, 0.25, 0.64), rtol=1e-13
    )
    np.testing.assert_allclose(prediction.scores[:2], spikes.overlap(kappa, 0.25), rtol=1e-13)
    assert prediction.rank == 2
    assert prediction.scores[2] == pytest.approx(0, abs=1e-13)


def test_kurtosis_of_the_channel():
    # The noise eta - r at quality r is two-valued: its moments are sums of two terms.
    for r in (0.0, 0.3, 0.8):
        weights, values = np.array([(1 + r) / 2, (1 - r) / 2]), np.array([1 - r, -1 - r])
        second, fourth = weights @ values**2, weights @ values**4
        assert spikes.excess_kurtosis(r) == pytest.approx(fourth / second**2 - 3, rel=1e-12)
