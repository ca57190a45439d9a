"""The best mixture of the classes with other points: the best, whoever holds the rows."""

import numpy as np
import pytest
from scipy.optimize import minimize

from hopfed.archetypes.rivals import EXCHANGES, most_gained
from hopfed.archetypes.session import Owner, Session
from hopfed.federation.messages import Traffic


def table(*parts):
    """Session of rows whose ratios are given."""
    return Session([Owner(part, i) for i, part in enumerate(parts)], 0, Traffic(len(parts)))


def gained(*parts):
    owners = table(*parts)
    return most_gained(owners, lambda owner, _: owner.rows, {}), owners.exchanges


def best(r):
    """The same by a search over log parts."""

    def less(z):
        e = np.exp(z - z.max())
        return -np.log((e[0] + r @ e[1:]) / e.sum()).sum()

    starts = np.random.default_rng(0).normal(size=(5, r.shape[1] + 1))
    return max(-minimize(less, z, method="BFGS").fun for z in starts)


def ratios(seed, M=400, S=4, part=0.2):
    """Of rows of which a part lies at the first point: exp(n . s - s^2 / 2) for normal n."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(S, 3))
    rows = rng.normal(size=(M, 3)) + (rng.random((M, 1)) < part) * points[0]
    return np.exp(rows @ points.T - (points**2).sum(axis=1) / 2)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("part", [0.0, 0.05, 0.5, 1.0])
def test_the_gain_is_that_of_the_best_parts(seed, part):
    r = ratios(seed, part=part)
    found, exchanges = gained(r)
    assert found == pytest.approx(best(r), abs=0.03, rel=0.005)
    assert exchanges <= EXCHANGES


def test_points_that_are_alike_and_rows_that_fit_one_alone():
    r = ratios(7)
    twice = np.concatenate([r, r], axis=1)
    assert gained(twice)[0] == pytest.approx(gained(r)[0], abs=0.02)
    far = np.array([[1e20, 1e-9], [1e-9, 1e-9], [1e-9, 1e-9]])
    assert gained(far)[0] == pytest.approx(best(far), abs=0.1)


def test_owners_together_find_what_one_finds():
    r = ratios(8)
    assert gained(r[:100], r[100:])[0] == pytest.approx(gained(r)[0], abs=0.01)


def test_points_that_no_row_likes_gain_nothing():
    assert gained(np.full((50, 3), 0.5))[0] == pytest.approx(0, abs=0.02)
    assert gained(np.ones((50, 0)))[0] == 0
