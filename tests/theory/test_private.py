import numpy as np
import pytest
from helpers import rest_slow
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.theory import covariance, planning, private, spikes
from hopfed.theory.covariance import Population

epsilons = st.floats(0.01, 50)
deltas = st.floats(-12, -0.5).map(lambda x: 10.0**x)


@pytest.mark.parametrize(("epsilon", "z"), [(0.1, 2.0), (1.0, 1.0), (1.0, 3.7), (4.0, 0.5)])
def test_delta_is_the_hockey_stick_divergence(epsilon, z):
    def excess(x):
        return max(norm.pdf(x, 1, z) - np.exp(epsilon) * norm.pdf(x, 0, z), 0.0)

    meet = z**2 * epsilon + 0.5  # where the two densities have the ratio e^epsilon
    integral = quad(excess, meet, meet + 40 * z, epsabs=1e-14)[0]
    assert private.gaussian_delta(epsilon, z) == pytest.approx(integral, rel=1e-7)


@given(epsilon=epsilons, delta=deltas, rounds=st.integers(1, 1000))
def test_calibration_is_exact_and_composes(epsilon, delta, rounds):
    z = private.noise_multiplier(epsilon, delta)
    assert private.gaussian_delta(epsilon, z) == pytest.approx(delta, rel=1e-7)
    assert private.gaussian_epsilon(z, delta) == pytest.approx(epsilon, rel=1e-7)
    many = private.noise_multiplier(epsilon, delta, rounds)
    assert many == pytest.approx(z * np.sqrt(rounds), rel=1e-12)
    assert private.gaussian_epsilon(many, delta, rounds) == pytest.approx(epsilon, rel=1e-7)


def test_no_privacy_and_perfect_privacy_are_values():
    assert private.noise_multiplier(np.inf, 1e-5) == 0.0
    assert private.gaussian_epsilon(0.0, 1e-5) == np.inf
    assert private.gaussian_epsilon(1e9, 1e-5) == 0.0


@given(r=st.floats(0.1, 0.9), q=st.floats(0.01, 5), radius=st.floats(1e-3, 50))
def test_the_boundary_solves_its_closed_equation(r, q, radius):
    s2 = 1 - r**2
    kappa = covariance.upper_edge(Population.flat(s2), q, radius).critical / s2 - 1
    t = (radius / (2 * s2)) ** 2
    assert (kappa**2 - q) * (kappa + q) ** 2 == pytest.approx(kappa**2 * t, rel=1e-6)


def test_without_noise_everything_is_as_in_planning_and_spikes():
    rng = np.random.default_rng(0)
    xi = rng.choice([-1, 1], size=(3, 200))
    got = spikes.finite_size(xi, [0.5, 0.3, 0.2], 0.3, 600, 1e-12)
    want = spikes.finite_size(xi, [0.5, 0.3, 0.2], 0.3, 600)
    np.testing.assert_allclose(got.outliers, want.outliers, rtol=1e-12)
    np.testing.assert_allclose(got.overlaps, want.overlaps, rtol=1e-10)
    assert got.rank == want.rank == 3
    for r in (0.1, 0.5, 0.9):
        level = private.noise_threshold(1 - r**2, 200, 300, 0.0, 0.05)
        assert level == pytest.approx(planning.noise_threshold(r, 200, 300, 0.05), rel=2e-3)
    power = private.detection_power(0.3, 0.1, 200, 150, 0.0)
    assert power == pytest.approx(planning.detection_power(0.3, 0.1, 200, 150), abs=0.01)
    samples = private.plan(0.3, [0.5, 0.1, 0.01], 400, 0.0).samples
    np.testing.assert_allclose(
        samples, planning.plan(0.3, [0.5, 0.1, 0.01], 400).samples, rtol=0.01
    )


def privacy_noise(rng, N, radius):
    upper = np.triu(rng.standard_normal((N, N)), 1)
    return radius / (2 * np.sqrt(N)) * (upper + upper.T)


@pytest.mark.parametrize(("r", "radius"), rest_slow([(0.0, 0.5), (0.8, 0.3), (0.0, 4.0)], 2))
def test_false_alarm_rate_of_the_threshold(r, radius):
    # 600 draws at 10%: three standard errors are 3.7 points. Without the shift for the diagonal,
    # and for the kurtosis of +-1 noise, the rates are near 5% at r = 0 and 28% at r = .8.
    rng = np.random.default_rng(4)
    N, M, draws = 60, 240, 600
    level = private.noise_threshold(1 - r**2, N, M, radius, 0.1)
    tops = []
    for _ in range(draws):
        noise = np.where(rng.random((M, N)) < (1 + r) / 2, 1.0, -1.0) - r
        tops.append(np.linalg.eigvalsh(noise.T @ noise / M + privacy_noise(rng, N, radius))[-1])
    assert np.mean(np.array(tops) > level) == pytest.approx(0.1, abs=0.037)


@pytest.mark.parametrize("radius", rest_slow([2.0, 1.0], 1))
def test_predictions_for_a_draw_match_simulation(radius):
    rng = np.random.default_rng(5)
    N, M, r, shares = 200, 2000, 0.4, np.array([0.5, 0.3, 0.2])
    values, cosines, foreseen = [], [], []
    for _ in range(20):
        xi = rademacher(3, N, rng)
        x, labels = draw_examples(xi, M, r, rng, exposures=shares)
        x = x.astype(float)
        value, vector = np.linalg.eigh(x.T @ x / M + privacy_noise(rng, N, radius))
        theory = spikes.finite_size(xi, np.bincount(labels, minlength=3) / M, r, M, radius)
        values.append(value[:-4:-1])
        cosines.append((vector[:, :-4:-1].T @ xi.T) ** 2 / N)
        foreseen.append((theory.outliers, theory.overlaps))
    outliers, overlaps = (np.mean([f[i] for f in foreseen], axis=0) for i in range(2))
    np.testing.assert_allclose(np.mean(values, axis=0), outliers, rtol=0.02)
    np.testing.assert_allclose(np.mean(cosines, axis=0), overlaps, atol=0.02)


def test_power_matches_simulation():
    rng = np.random.default_rng(33)
    N, M, r, pi, radius, draws = 120, 600, 0.3, np.array([0.6, 0.4]), 6.0, 200
    level = private.noise_threshold(1 - r**2, N, M, radius, 0.05, stronger=1)
    hits = 0
    for _ in range(draws):
        x = draw_examples(rademacher(2, N, rng), M, r, rng, exposures=pi)[0].astype(float)
        hits += np.linalg.eigvalsh(x.T @ x / M + privacy_noise(rng, N, radius))[-2] > level
    predicted = private.detection_power(r, 0.4, N, M, radius, 0.05, stronger=1)
    assert 0.8 < predicted < 1  # neither hopeless nor certain
    assert hits / draws == pytest.approx(predicted, abs=0.05 + 3 * np.sqrt(0.1 / draws))


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-300), (1.0, 1e-300), (1e6, 1e-300)])
def test_a_tiny_delta_has_its_multiplier(epsilon, delta):
    """SciPy's own error came out, of a bracket whose end is no number."""
    z = private.noise_multiplier(epsilon, delta)
    assert float(private._log_delta(epsilon, z)) == pytest.approx(np.log(delta), rel=1e-3)
    assert private.gaussian_delta(epsilon, 1e200) == 0
