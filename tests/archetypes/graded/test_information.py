"""Standard errors where rows are unsure of their class."""

from itertools import product

import numpy as np
import pytest
from graded_tables import classes, labelled
from scipy.optimize import linear_sum_assignment

import hopfed
from hopfed.archetypes.channel import lost


def exact(fit, rows):
    """Variances (K, N) of the means from the information of all rows that there can be."""
    T, counts = fit.classes.means, fit.sums.counts.sum(axis=0)
    K, N = T.shape
    every = np.array(list(product([-1.0, 1.0], repeat=N)))
    shares = counts / counts.sum()
    joint = np.array([((1 + every * t) / 2).prod(axis=1) for t in T]) * shares[:, None]
    chance, w = joint.sum(axis=0), joint / joint.sum(axis=0)
    scores = [w[k][:, None] * (every - T[k]) / (1 - T[k] ** 2) for k in range(K)]
    scores += [(w - shares[:, None]).T]
    S = np.hstack(scores)
    told = rows * (S.T * chance) @ S
    told[-K:, -K:] += np.eye(K)
    c = fit.prior.concentration
    told[: K * N, : K * N] += np.diag((c / (1 - T**2)).ravel())
    return np.diag(np.linalg.inv(told))[: K * N].reshape(K, N)


def test_it_is_that_of_all_rows_that_there_can_be():
    T = np.array([[0.6, 0.5, -0.4, 0.3, 0.7, -0.5], [-0.5, -0.6, 0.5, -0.2, 0.1, 0.6]])
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=20_000)
    x = np.where(rng.random((20_000, 6)) < (1 + T[y]) / 2, 1, -1).astype(np.float32)
    fit = labelled(x, y, 2)[1]
    sure = (1 - fit.classes.means**2) / (fit.prior.concentration + fit.sums.seen)
    ratio = lost(fit, seed=1) * sure / exact(fit, 20_000)
    np.testing.assert_allclose(ratio, 1, atol=0.1)
    assert (lost(fit, seed=1) > 1.5).any()


def test_rows_that_are_sure_lose_nothing():
    T, y, x = classes(3, 100, 900, 4)
    np.testing.assert_allclose(lost(labelled(x, y, 3)[1], seed=0), 1, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("K", "N", "M", "missing"), [(3, 16, 4000, 0.4), (4, 12, 6000, 0.0)])
def test_intervals_hold_as_often_as_they_say(K, N, M, missing):
    inside = []
    for seed in range(3):
        rng = np.random.default_rng([seed, K])
        p = rng.uniform(0.1, 0.9, (K, N))
        x = np.where(rng.random((M, N)) < p[rng.integers(K, size=M)], 1, -1)
        x[rng.random((M, N)) < missing] = 0
        found = hopfed.recover(np.where(x == 0, np.nan, x), seed=0)
        if len(found) != K:
            continue
        T = 2 * p - 1
        i, j = linear_sum_assignment(((found.means[:, None] - T[None]) ** 2).sum(axis=2))
        inside.append(np.abs(found.means[i] - T[j]) < 1.96 * found.errors[i])
    assert len(inside) >= 2
    assert 0.92 < np.mean(inside) <= 1


def test_levels_of_a_variable_are_not_taken_for_columns():
    """One variable of four levels and eight columns: errors stay near those of counted shares."""
    rng = np.random.default_rng(2)
    y = rng.integers(2, size=3000)
    level = np.where(rng.random(3000) < 0.7, y, rng.integers(4, size=3000))
    p = rng.uniform(0.1, 0.9, (2, 14))
    plain = np.where(rng.random((3000, 14)) < p[y], 1.0, -1.0)
    x = np.hstack([np.where(level[:, None] == np.arange(4), 1.0, -1.0), plain])
    fit = labelled(x.astype(np.float32), y, 2, groups=[(0, 1, 2, 3)])[1]
    found = lost(fit, seed=0)
    assert (found >= 1).all()
    assert found.max() < 3
