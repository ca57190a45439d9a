"""The spectrum where classes differ in noise: against simulation, and against white noise."""

import numpy as np
import pytest

from hopfed.theory import graded
from hopfed.theory.graded import Classes


def healthy_and_sick(N=200, seed=1):
    """Nine in ten show next to nothing; the tenth shows about half of everything."""
    rng = np.random.default_rng(seed)
    return np.array([2 * rng.beta(1, 12, N) - 1, 2 * rng.beta(3, 4, N) - 1])


def draws(means, shares, M, count, rng, most=3):
    """Leading eigenvalues of tables with exact shares, and the signal in their eigenvectors."""
    K, N = means.shape
    labels = np.repeat(np.arange(K), np.round(np.array(shares) * M).astype(int))
    own = Classes(means, np.bincount(labels) / M)
    root = np.sqrt(own.shares)[:, None]
    directions = np.linalg.svd(root * own.signals, full_matrices=False)[2]
    for _ in range(count):
        rows = np.where(rng.random((M, N)) < (1 + means[labels]) / 2, 1.0, -1.0)
        rows /= np.sqrt(own.noise * M)
        values, axes = np.linalg.eigh(rows.T @ rows)
        yield values[: -most - 1 : -1], np.sum((directions @ axes[:, : -K - 1 : -1]) ** 2, axis=0)


def test_unequal_noise_moves_bulk_outliers_and_overlaps_as_predicted():
    means, M, count = healthy_and_sick(300), 600, 30
    classes = Classes(means, [0.9, 0.1])
    found, white = graded.predict(classes, M), graded.predict_white(classes, M)
    seen = list(draws(means, classes.shares, M, count, np.random.default_rng(2)))
    values, aligned = (np.array(x) for x in zip(*seen, strict=True))
    error = values.std(axis=0, ddof=1) / np.sqrt(count)
    gap = values.mean(axis=0)[:2] - found.outliers
    assert (np.abs(gap) < 4 * error[:2]).all()
    assert abs(values.mean(axis=0)[1] - white.outliers[1]) > 6 * error[1]
    assert aligned.mean(axis=0) == pytest.approx(found.alignments, abs=0.012)
    assert white.alignments[1] - aligned.mean(axis=0)[1] > 0.05
    # The largest noise eigenvalue is just below the edge, and far above that of white noise.
    assert values[:, 2].mean() == pytest.approx(found.edge, rel=0.08)
    assert values[:, 2].min() > 1.2 * white.edge


def test_equal_noise_is_white():
    rng = np.random.default_rng(4)
    xi = rng.choice([-1.0, 1.0], (3, 90))
    classes = Classes(0.4 * xi, [0.6, 0.3, 0.1], observed=rng.uniform(0.3, 1, 90))
    found, white = graded.predict(classes, 150), graded.predict_white(classes, 150)
    assert found.edge == pytest.approx(white.edge, rel=1e-9)
    np.testing.assert_allclose(found.margins, white.margins, rtol=1e-4)
    for name in ("strengths", "outliers", "alignments", "overlaps"):
        np.testing.assert_allclose(getattr(found, name), getattr(white, name), atol=1e-8)
