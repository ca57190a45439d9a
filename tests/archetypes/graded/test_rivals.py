"""What is gained where rows lie between classes, or are weaker: its arithmetic, and its power."""

from itertools import product

import numpy as np
import pytest
from graded_tables import fitted
from graded_tables import judged as judged_fit
from helpers import rest_slow
from scipy.optimize import minimize

from hopfed import kernels
from hopfed.archetypes.class_questions import (
    beginning,
    mixture_sums,
    offered,
    ratios,
    weighted_sums,
)
from hopfed.archetypes.judging import (
    EXCHANGES,
    NEARER,
    QUALITIES,
    gain_beside,
    most_gained,
    points_beside,
)
from hopfed.archetypes.mixture import ClassSums
from hopfed.archetypes.session import Owner, Owners, Variables
from hopfed.federation.messages import Traffic

K, N = 3, 9
GROUPS = [(0, 1, 2)]
SHARES = np.array([0.5, 0.3, 0.2])
groups_or_none = pytest.mark.parametrize("groups", [(), GROUPS], ids=["columns", "levels"])


def owner(rows, seed=1, groups=(), means=None):
    made = Owner(kernels.pack_masked(rows), 0, Variables.of(groups, N) if groups else None)
    made.dense = None  # as of a large table
    means = np.random.default_rng(seed).uniform(-0.8, 0.8, (K, N)) if means is None else means
    made.learn(means, SHARES if len(means) == K else np.full(len(means), 1 / len(means)))
    return made


def summed(made):
    sums = weighted_sums(made, made.weights)
    return ClassSums(sums["counts"][None], sums["signed"], sums["seen"])


def points(made, sums=None):
    told = points_beside(made.means, sums or summed(made), made.variables)
    return told["points"], told["more"]


def drawn(seed, groups=(), M=40, gaps=0.3):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((M, N)) < 0.5, 1, -1)
    missing = rng.random((M, N)) < gaps
    for group in groups:
        x[:, group] = 2 * np.eye(len(group))[rng.integers(len(group), size=M)] - 1
        missing[:, group] = missing[:, group[:1]]
    return np.where(missing, 0, x)


def likelihoods(made, means):
    """(M, K) of the rows at means (K, N)."""
    p, x = (1 + means) / 2, kernels.unpack(made.rows)[:, None]
    inside = np.zeros(N, bool) if made.variables is None else made.variables.inside
    p = p if made.variables is None else made.variables.normalised(p)
    down = np.where(inside, 1, 1 - p)  # of the levels of a variable the one that a row has counts
    return np.where(x > 0, p, np.where(x < 0, down, 1)).prod(axis=2)


@groups_or_none
def test_ratios_are_those_of_the_likelihoods(groups):
    made = owner(drawn(1, groups), 2, groups)
    there, more = points(made)
    at = likelihoods(made, made.means) @ SHARES
    by_hand = [
        likelihoods(made, means) @ (SHARES * np.exp(m)) / at
        for means, m in zip(there, more, strict=True)
    ]
    np.testing.assert_allclose(ratios(made, there, more), np.transpose(by_hand), rtol=1e-4)
    held = Owner(made.rows, 0, made.variables)  # unpacked, as of a small one
    held.learn(made.means, SHARES)
    np.testing.assert_allclose(ratios(held, there, more), np.transpose(by_hand), rtol=1e-4)


@groups_or_none
def test_points_lie_both_ways_on_the_axes_on_which_classes_differ_and_are_weaker(groups):
    made = owner(drawn(1, groups), 2, groups)
    there, more = points(made)
    assert there.shape == (2 * (K - 1) + 2 * (len(QUALITIES) + len(NEARER)) + 1, K, N)
    np.testing.assert_allclose(there[4:7], np.multiply.outer(QUALITIES, made.means), rtol=1e-5)
    assert (more[4:8] == 0).all()
    assert (SHARES * np.exp(more[8:]) @ np.ones(K)).tolist() == pytest.approx([1] * 5, rel=0.1)
    inside = np.zeros(N, bool) if made.variables is None else made.variables.inside
    odds = np.arctanh(made.means)[:, ~inside]
    steps = np.arctanh(there[:4])[:, :, ~inside] - odds
    np.testing.assert_allclose(steps[:2], -steps[2:], atol=1e-3)
    apart = np.linalg.lstsq((odds - odds.mean(axis=0)).T, steps[:, 0].T, rcond=None)[0]
    if not groups:  # they span what tells the classes apart
        np.testing.assert_allclose((odds - odds.mean(axis=0)).T @ apart, steps[:, 0].T, atol=1e-3)


def test_points_are_as_likely_as_the_classes_in_the_mean_of_all_rows():
    made = owner(np.array(list(product([-1, 1], repeat=N))), 3)
    there, more = points(made)
    p = likelihoods(made, made.means) @ SHARES
    np.testing.assert_allclose(p @ ratios(made, there, 0 * more), 1, atol=1e-4)


def test_one_class_and_classes_that_are_alike_have_weaker_points_alone():
    for means, least in ((np.zeros((1, N)), 4), (np.full((2, N), 0.3), 9)):
        assert len(points(owner(drawn(8), means=means))[0]) == least


def test_rows_that_lie_off_a_shrunk_class_all_together_gain_nothing():
    rng = np.random.default_rng(9)
    x = np.where(rng.random((400, N)) < np.repeat([[0.9], [0.1]], 200, axis=0), 1, -1)
    made = owner(x, means=np.repeat([[0.5], [-0.5]], N, axis=1))
    found, one = summed(made), Owners([made], 0, Traffic(1))
    as_means_say = ClassSums(found.counts, found.seen * made.means, found.seen)
    assert gain_beside(one, as_means_say)[0] > 10
    assert gain_beside(one, found)[0] < 1


class Offered:
    """Owners whose ratios are given."""

    def __init__(self, *parts):
        self.members = [Owner(kernels.pack(np.ones((len(part), 1)))) for part in parts]
        self.n_rows, self.exchanges, self.points = sum(map(len, parts)), 0, parts[0].shape[1]
        for one, part in zip(self.members, parts, strict=True):
            one.ratios = part

    def ask(self, question, told):
        self.exchanges += 1
        parts = beginning(self.points) if question is offered else told["parts"]
        return [mixture_sums(one, {"parts": parts}) for one in self.members]


def gained(*parts):
    """The most that rows gain whose ratios are given, and the exchanges that it took."""
    owners = Offered(*parts)
    return most_gained(owners, {})[0], owners.exchanges


def best(r):
    """The same by a search over log parts."""

    def less(z):
        e = np.exp(z - z.max())
        return -np.log((e[0] + r @ e[1:]) / e.sum()).sum()

    starts = np.random.default_rng(0).normal(size=(5, r.shape[1] + 1))
    return max(-minimize(less, z, method="BFGS").fun for z in starts)


def drawn_ratios(seed, M=400, S=4, part=0.2):
    """Of rows of which a part lies at the first point: exp(n . s - s^2 / 2) for normal n."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(S, 3))
    rows = rng.normal(size=(M, 3)) + (rng.random((M, 1)) < part) * points[0]
    return np.exp(rows @ points.T - (points**2).sum(axis=1) / 2)


@pytest.mark.parametrize(("seed", "part"), [(0, 0.0), (1, 0.05), (2, 0.5), (3, 1.0)])
def test_the_gain_is_that_of_the_best_parts(seed, part):
    r = drawn_ratios(seed, part=part)
    found, exchanges = gained(r)
    assert found == pytest.approx(best(r), abs=0.03, rel=0.005)
    assert exchanges <= EXCHANGES


def test_points_that_are_alike_and_rows_that_fit_one_alone():
    r = drawn_ratios(7)
    twice = np.concatenate([r, r], axis=1)
    assert gained(twice)[0] == pytest.approx(gained(r)[0], abs=0.02)
    far = np.array([[1e20, 1e-9], [1e-9, 1e-9], [1e-9, 1e-9]])
    assert gained(far)[0] == pytest.approx(best(far), abs=0.1)


def test_owners_together_find_what_one_finds():
    r = drawn_ratios(8)
    assert gained(r[:100], r[100:])[0] == pytest.approx(gained(r)[0], abs=0.01)


def test_points_that_no_row_likes_gain_nothing():
    assert gained(np.full((50, 3), 0.5))[0] == pytest.approx(0, abs=0.02)
    assert gained(np.ones((50, 0)))[0] == 0


def judged(x):
    return judged_fit(*fitted(x, [len(x) // 2]))


@pytest.mark.parametrize(("M", "alpha"), rest_slow([(1000, 0.3), (3000, 0.3), (3000, 0.7)], 1))
def test_mixed_memberships_of_few_columns_are_told(M, alpha):
    rng = np.random.default_rng(200)
    p = rng.dirichlet(np.full(4, alpha), M) @ rng.uniform(0.1, 0.9, (4, 50))
    found = judged(np.where(rng.random((M, 50)) < p, 1, -1))
    assert found.status == "structure, but not classes", found
    assert found.rows["beside"] > 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1000, 1007])
def test_one_factor_with_gaps_is_told(seed):
    rng = np.random.default_rng([seed, 5])
    z = 1.7 * rng.standard_normal((3000, 1)) * rng.standard_normal(50) - rng.standard_normal(50)
    x = np.where(rng.random(z.shape) < 1 / (1 + np.exp(-z)), 1, -1)
    x[rng.random(x.shape) < 0.5] = 0
    found = judged(x)
    assert found.rows["beside"] > 10
    assert found.status == "structure, but not classes", found


def of_two_qualities(seed, M=3000, n=50, low=0.3, part=0.2):
    rng = np.random.default_rng([seed, 3])
    T = 2 * rng.random((3, n)) - 1
    quality = rng.choice([1, low], M, p=[1 - part, part])[:, None]
    return np.where(rng.random((M, n)) < (1 + quality * T[rng.integers(3, size=M)]) / 2, 1, -1)


@pytest.mark.parametrize("seed", rest_slow([900, 901, 902], 1))
def test_weak_rows_of_all_kinds_in_one_class_are_told(seed):
    found = judged(of_two_qualities(seed))
    assert found.rows["beside"] > 10
    assert found.status == "structure, but not classes"
    assert "weaker than their class" in found.advice
