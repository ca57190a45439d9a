"""What the experiments share: statistics, counts over white noise, fits of noise."""

import numpy as np
import pytest
from scipy import stats

from hopfed.experiments.shared.counting import count_white, white_mean, white_threshold
from hopfed.experiments.shared.noise import Autoregressive, Blocks, autoregressive, fit_noise
from hopfed.experiments.shared.statistics import (
    kolmogorov,
    mean_and_sd,
    r_squared,
    wilson,
    with_spread,
)
from hopfed.theory import marchenko_pastur


def test_r_squared_by_axis():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 2, 3))
    y = x + 0.1 * rng.standard_normal(x.shape)
    by_column = r_squared(x, y, axis=0)
    assert by_column.shape == (2, 3)
    assert by_column[1, 2] == pytest.approx(float(r_squared(x[:, 1, 2], y[:, 1, 2])))
    assert float(r_squared(x, np.full_like(x, x.mean()))) == pytest.approx(0)
    assert np.isnan(r_squared(np.ones(3), np.ones(3)))


def test_spread_is_the_standard_error_over_seeds():
    x = np.random.default_rng(0).standard_normal(400)
    value, spread = with_spread(lambda i: x[i].mean(), len(x))
    assert value == x.mean()
    assert spread == pytest.approx(x.std() / 20, rel=0.2)
    assert with_spread(lambda i: x[i].mean(), len(x)) == (value, spread)
    assert with_spread(lambda i: x[i].mean(), 1) == (x[0], None)
    assert mean_and_sd(x[:1]) == (x[0], None)


def test_wilson_agrees_with_scipy():
    for k, n in ((0, 10), (5, 100), (40, 40)):
        want = stats.binomtest(k, n).proportion_ci(method="wilson")
        got = wilson(np.array(k), n, z=stats.norm.ppf(0.975))
        assert got == pytest.approx((want.low, want.high), abs=1e-12)


def test_kolmogorov_agrees_with_scipy_and_counts_an_atom():
    x = np.sort(np.random.default_rng(0).random(50))
    assert kolmogorov(x, x) == pytest.approx(stats.kstest(x, "uniform").statistic)
    # Half of the mass at 0, the rest uniform: an exact sample of it is as near as it can be.
    middle = (np.arange(10) + 0.5) / 10
    assert kolmogorov(middle, 0.5 + middle / 2, zeros=10) == pytest.approx(0.025)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_counting_does_not_depend_on_the_scale(scale):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((400, 100))
    x[:, 0] *= 3
    values = scale * np.linalg.eigvalsh(x.T @ x / 400)[::-1]
    k, threshold = count_white(values, 100, 400, 0.01)
    assert k == 1
    assert values[0] > threshold >= values[1]


def test_white_levels_are_in_order():
    edge = float(marchenko_pastur.edges(0.25)[1])
    mean = white_mean(100, 400)
    assert mean < edge < white_threshold(100, 400, 0.01)
    assert white_threshold(100, 400, 0.05) < white_threshold(100, 400, 0.01)


def spiked(covariance, strength, M, rng):
    """Second moment, and its eigenpairs, of noise of this covariance with one archetype."""
    N = len(covariance)
    xi = rng.choice([-1.0, 1.0], N)
    noise = rng.standard_normal((M, N)) @ np.linalg.cholesky(covariance).T
    x = noise + strength * rng.choice([-1.0, 1.0], M)[:, None] * xi
    second = x.T @ x / M
    values, vectors = np.linalg.eigh(second)
    return second, values[::-1], vectors[:, ::-1]


@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_autoregressive_noise_is_fitted_beside_a_spike(strength):
    rng = np.random.default_rng(2)
    truth = autoregressive(0.5, 2.0, 150)
    fit = fit_noise(*spiked(truth, strength, 600, rng), 600, Autoregressive(), 0.01)
    assert fit.n_detected == (strength > 0)
    assert fit.covariance[0, 0] == pytest.approx(2.0, rel=0.03)
    assert fit.covariance[0, 1] / fit.covariance[0, 0] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_block_variances_are_fitted_beside_a_spike(strength):
    rng = np.random.default_rng(3)
    truth = np.repeat([0.5, 1.0, 3.0], 50)
    fit = fit_noise(*spiked(np.diag(truth), strength, 600, rng), 600, Blocks(3), 0.01)
    assert fit.n_detected == (strength > 0)
    np.testing.assert_allclose(np.diag(fit.covariance), truth, rtol=0.06)
