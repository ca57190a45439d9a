"""What rows gain by leaving their class: against derivatives of the likelihood, and its power."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from hopfed import kernels
from hopfed.archetypes.graded.owners import Owner
from hopfed.archetypes.graded.residuals import _between, leaning_sums
from hopfed.archetypes.graded.variables import Variables

K, N = 3, 7
GROUPS = [(0, 1, 2)]


def owner(seed, groups=(), rows=40, gaps=0.3):
    rng = np.random.default_rng(seed)
    means = rng.uniform(-0.8, 0.8, (K, N))
    x = np.where(rng.random((rows, N)) < 0.5, 1.0, -1.0)
    for group in groups:
        x[:, group] = 2 * np.eye(len(group))[rng.integers(len(group), size=rows)] - 1
    missing = rng.random((rows, N)) < gaps
    missing[:, [c for group in groups for c in group]] = False
    made = Owner(
        np.where(missing, 0, x).astype(np.float32), 0, Variables.of(groups, N) if groups else None
    )
    made.learn(means, np.full(K, 1 / K))
    return made


def likelihood(made, row, k, j, t):
    """Of a row whose rates lie at t between those of two classes."""
    rates = (1 + made.means) / 2
    if made.variables is not None:
        rates = made.variables.normalised(rates)
    p = (1 - t) * rates[k] + t * rates[j]
    inside = np.zeros(N, bool) if made.variables is None else made.variables.inside
    down = np.where(inside, 1, 1 - p)  # of the levels of a variable the one that a row has counts
    return float(np.where(row > 0, np.log(p), np.where(row < 0, np.log(down), 0)).sum())


@pytest.mark.parametrize("groups", [(), GROUPS])
def test_the_score_is_the_derivative_of_the_likelihood(groups):
    made = owner(1, groups)
    for k in range(K):
        by_sign, by_seen, _ = _between(made, k)
        score = made.rows @ by_sign + (made.rows != 0) @ by_seen
        for i, row in enumerate(made.rows[:10]):
            for j in range(K):
                wanted = approx_fprime(
                    [0.0], lambda t, j=j, k=k, r=row: likelihood(made, r, k, j, t[0])
                )
                assert score[i, j] == pytest.approx(wanted[0], abs=1e-4)


@pytest.mark.parametrize("groups", [(), GROUPS])
def test_the_information_is_the_expected_square_of_the_score(groups):
    made = owner(2, groups, rows=1, gaps=0)
    rates = (1 + made.means) / 2
    if groups:
        rates = made.variables.normalised(rates)
    rng = np.random.default_rng(3)
    x = np.where(rng.random((200_000, N)) < rates[0], 1.0, -1.0)
    for group in groups:
        x[:, group] = 2 * np.eye(len(group))[rng.choice(len(group), len(x), p=rates[0, group])] - 1
    by_sign, by_seen, information = _between(made, 0)
    score = x @ by_sign + by_seen.sum(axis=0)
    np.testing.assert_allclose((score**2).mean(axis=0), information.sum(axis=0), rtol=0.03)
    np.testing.assert_allclose(score.mean(axis=0), 0, atol=0.02)


def test_packed_rows_say_the_same():
    made = owner(4)
    packed = Owner(kernels.pack_masked(made.rows))
    packed.learn(made.means, np.full(K, 1 / K))
    np.testing.assert_allclose(
        leaning_sums(packed, {})["gained"], leaning_sums(made, {})["gained"], rtol=1e-5
    )
    alone = Owner(made.rows)
    alone.learn(made.means[:1], np.ones(1))
    assert leaning_sums(alone, {})["gained"] == 0
