"""What is gained where rows lie between classes, or are weaker: its arithmetic, and its power."""

import numpy as np
import pytest

from hopfed import kernels
from hopfed.archetypes.class_sums import ClassSums, first_parts, mixture_sums, ratios, weighted_sums
from hopfed.archetypes.class_tests import fit_points, gain_beside, points_beside
from hopfed.archetypes.session import NONE, Owner, Owners, Variables
from hopfed.federation.messages import Traffic

K, N = 3, 9
GROUPS = [(0, 1, 2)]
SHARES = np.array([0.5, 0.3, 0.2])
groups_or_none = pytest.mark.parametrize("groups", [(), GROUPS], ids=["columns", "levels"])


def owner(rows, seed=1, groups=(), means=None):
    made = Owner(kernels.pack_masked(rows), 0, Variables.of(groups, N) if groups else NONE)
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
    p = made.variables.normalised(p)
    down = np.where(made.variables.inside, 1, 1 - p)  # of levels that of the row
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


def test_rows_that_lie_off_a_shrunk_class_all_together_gain_nothing():
    rng = np.random.default_rng(9)
    x = np.where(rng.random((400, N)) < np.repeat([[0.9], [0.1]], 200, axis=0), 1, -1)
    made = owner(x, means=np.repeat([[0.5], [-0.5]], N, axis=1))
    found, one = summed(made), Owners([made], 0, Traffic(1))
    as_means_say = ClassSums(found.counts, found.seen * made.means, found.seen)
    assert gain_beside(one, as_means_say)[0] > 10
    assert gain_beside(one, found)[0] < 1


class Given(Owners):
    """An owner whose rows like points as is told."""

    def ask(self, question, told, own=None, there=False):
        parts = told.get("parts", first_parts(self.members[0].ratios.shape[1]))
        return [mixture_sums(self.members[0], {"parts": parts})]


@pytest.mark.parametrize("most", [3.0, 1e20])  # a row that likes a point so much drowns the others
def test_the_gain_is_that_of_the_best_parts(most):
    one = Owner(kernels.pack(np.ones((3, 1))))
    one.ratios = np.array([[most, 1e-9], [1e-9, 1e-9], [1e-9, 1e-9]])
    e = np.linspace(0, 1, 100_001)[:-1]
    best = (np.log(1 - e + e * most) + 2 * np.log(1 - e + e * 1e-9)).max()
    assert fit_points(Given([one], 0, Traffic(1)), {})[0] == pytest.approx(best, abs=0.1)
