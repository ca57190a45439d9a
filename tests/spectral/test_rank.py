import numpy as np
import pytest
from helpers import sample

from hopfed.errors import ArgumentError
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import Sample, TracyWidom, noise_variance


def spectrum_of(K, N, M, quality, seed, **rest):
    op = FactorOperator.from_examples(sample(K, N, M, quality, seed, **rest)[1])
    return Sample(eigenpairs(op, 0).values, N, M)


@pytest.mark.parametrize(
    ("K", "N", "M", "quality"),
    [
        (0, 150, 300, 0.0),
        (3, 200, 400, 0.8),
        (10, 300, 150, 0.8),
        (40, 400, 4000, 0.8),
        (5, 100, 51, 0.9),
        (30, 200, 2000, 0.5),  # by the trace alone noise, at the first step
    ],
)
def test_khat_and_quality_well_above_the_threshold(K, N, M, quality):
    for seed in range(3):
        spectrum = spectrum_of(max(K, 1), N, M, quality, seed)
        found = TracyWidom()(spectrum)
        assert found.n_detected == K
        assert found.quality == pytest.approx(quality, abs=0.03)
        given = TracyWidom()(Sample(spectrum.values, N, M, quality=quality or None))
        assert (given.n_detected, given.variance) == (K, pytest.approx(1 - quality**2))


def rejections(K, N, M, quality, draws, alpha):
    rule = TracyWidom(alpha)
    drawn = max(K, 1)  # at quality 0 an archetype leaves no trace
    return (
        sum(rule(spectrum_of(drawn, N, M, quality, s)).n_detected > K for s in range(draws)) / draws
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("K", "N", "M", "quality"), [(3, 100, 200, 0.9), (0, 100, 200, 0.0), (0, 200, 100, 0.0)]
)
def test_false_alarms_near_the_stated_rate(K, N, M, quality):
    # 300 draws at 10%: three standard errors are 5 points.
    assert 0.04 < rejections(K, N, M, quality, 300, 0.10) < 0.16


def test_noise_that_is_no_signs_has_the_edge_of_its_own_kurtosis():
    """By that of signs Gaussian noise alarmed in 11 to 14% of draws at 5%, factors in dozens."""
    rng, alarms = np.random.default_rng(7), 0
    for _ in range(200):
        x = 3 * rng.standard_normal((100, 40))
        values = np.linalg.eigvalsh(x.T @ x / 100)[::-1]
        alarms += TracyWidom(0.05)(Sample(values, 40, 100, kurtosis=0.0)).n_detected > 0
    assert alarms <= 20  # 10 expected, with a deviation of 3
    factors = rng.standard_normal((300, 3)) * [3, 2, 1.5]
    x = rng.standard_normal((300, 100)) + factors @ np.linalg.qr(rng.standard_normal((100, 3)))[0].T
    values = np.linalg.eigvalsh(x.T @ x / 300)[::-1]
    found = TracyWidom()(Sample(values, 100, 300, kurtosis=0.0))
    assert (found.n_detected, abs(found.variance - 1) < 0.05) == (3, True)
    with pytest.raises(ArgumentError, match="values must be complete"):
        Sample(values[:5], 100, 300, complete=False, kurtosis=0.0)


def test_noise_variance_for_fewer_examples_than_sites():
    # Raw eigenvalues in the place of debiased spikes diverge here.
    values = spectrum_of(9, 300, 120, 0.7, 3).values
    assert noise_variance(values[:9], 300, 300 / 120) == pytest.approx(1 - 0.49, abs=0.03)


def test_two_examples_and_other_tiny_samples():
    for M, N in ((2, 2), (2, 50), (50, 2), (3, 1)):
        found = TracyWidom()(spectrum_of(1, N, M, 0.5, 0))
        assert 0 <= found.n_detected < max(min(M, N), 1)


def test_bad_arguments():
    with pytest.raises(ArgumentError, match="alpha must be a false-alarm rate"):
        TracyWidom(alpha=0)
    with pytest.raises(ArgumentError, match="quality must be in"):
        Sample(np.ones(3), 3, 3, quality=1.5)
