"""Exact draws of spiked tables: the law of dense ones, below, at and above the threshold."""

import numpy as np
import pytest
from helpers import rest_slow

from hopfed.theory import spiked, spikes

N, M = 40, 80  # a threshold of .71


def dense(kappa, size, rng, fixed):
    """Leading eigenvalues and squared products of dense tables, the spikes along the first axes."""
    K, values, overlaps = len(kappa), [], []
    for _ in range(size):
        X = rng.standard_normal((M, N))
        if fixed:
            X[np.arange(K), np.arange(K)] += np.sqrt(M * np.array(kappa))
        else:
            X[:, :K] *= np.sqrt(1 + np.array(kappa))
        w, V = np.linalg.eigh(X.T @ X / M)
        values.append(w[::-1][:K])
        overlaps.append(V[:K, ::-1][:, :K].T ** 2)
    return np.array(values), np.array(overlaps)


@pytest.mark.parametrize(
    ("kappa", "fixed"),
    rest_slow([([2.0, 1.5], False), ([0.71], True), ([0.35], False), ([1.1], True)], 2),
    ids=str,
)
def test_draws_have_the_law_of_dense_tables(kappa, fixed):
    rng = np.random.default_rng([1, fixed])
    for found, wanted in zip(
        spiked.draws(kappa, N, M, 400, rng, fixed=fixed), dense(kappa, 400, rng, fixed), strict=True
    ):
        error = np.sqrt((found.var(axis=0) + wanted.var(axis=0)) / 400)
        assert (np.abs(found.mean(axis=0) - wanted.mean(axis=0)) < 4 * error).all()
        assert np.allclose(found.std(axis=0), wanted.std(axis=0), rtol=0.25)


def test_below_the_threshold_an_eigenvalue_spreads_and_near_spikes_repel():
    """The laws of large tables say the edge without a spread, and overlaps of .70 and .58."""
    below = spiked.predict(0.3, N, M, size=400)
    edge = float(spikes.outlier(0.3, N / M))
    assert below.eigenvalue[0] < edge - below.eigenvalue_sd[0] / 2
    assert below.eigenvalue_sd[0] > 0.05
    assert 0 < below.overlap[0, 0] < 0.2
    near = spiked.predict([2.0, 1.5], N, M, false_alarm=0.05, size=400)
    assert (near.overlap.diagonal() < spikes.overlap([2.0, 1.5], N / M) - 0.05).all()
    assert near.power[0] > near.power[1]


def test_far_above_the_threshold_it_is_the_law_of_large_tables():
    """Of 4,000 columns only those are drawn that carry the top."""
    found = spiked.predict(20.0, 4000, 8000, variance=2.0, size=200)
    sd = float(spikes.outlier_sd(20.0, 0.5, 8000, 2.0))
    assert abs(found.eigenvalue[0] - spikes.outlier(20.0, 0.5, 2.0)) < 4 * sd / np.sqrt(200)
    assert abs(found.eigenvalue_sd[0] / sd - 1) < 0.2
    assert abs(found.overlap[0, 0] - spikes.overlap(20.0, 0.5)) < 0.003
    assert np.isfinite(spiked.draws(0.71, 20_000, 40_000, 3, np.random.default_rng(3))[0]).all()


def test_a_mixture_adds_the_spread_of_its_shares():
    noise = spiked.predict(10.0, N, M, exposures=1.0, size=400)
    mixture = spiked.predict(10.0, N, M, exposures=0.2, size=400)
    assert mixture.eigenvalue_sd[0] > 2 * noise.eigenvalue_sd[0]
