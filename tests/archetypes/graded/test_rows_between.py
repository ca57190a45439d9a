"""What is gained where rows may lie off their class: its arithmetic, and its power."""

from itertools import product

import numpy as np
import pytest
from graded_tables import classes, fitted
from graded_tables import judged as judged_fit

from hopfed import kernels
from hopfed.archetypes.mixture import ClassSums, weighted_sums
from hopfed.archetypes.rivals import WIDTH, axes, leaning, points_between
from hopfed.archetypes.session import Owner, Session, Variables
from hopfed.federation.messages import Traffic

K, N = 3, 9
GROUPS = [(0, 1, 2)]


def owner(rows, seed, groups=()):
    made = Owner(np.asarray(rows, np.float32), 0, Variables.of(groups, N) if groups else None)
    rng = np.random.default_rng(seed)
    made.learn(rng.uniform(-0.8, 0.8, (K, N)), np.array([0.5, 0.3, 0.2]))
    return made


def ratios(made, shifts=0.0):
    directions = axes(made)
    told = {"axes": directions, "shifts": np.full((len(directions), len(made.means)), shifts)}
    return points_between(made, told)


def summed(made):
    sums = weighted_sums(made, made.weights)
    return ClassSums(sums["counts"][None], sums["signed"], sums["seen"])


def drawn(seed, groups=(), M=40, gaps=0.3):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((M, N)) < 0.5, 1, -1)
    missing = rng.random((M, N)) < gaps
    for group in groups:
        x[:, group] = 2 * np.eye(len(group))[rng.integers(len(group), size=M)] - 1
        missing[:, group] = missing[:, group[:1]]
    return np.where(missing, 0, x)


def rates(made, shift=0.0):
    """(K, N) of +1 at a shift of the log-odds: of a level, of the logarithm of its rate."""
    p = (1 + made.means) / 2
    found = 1 / (1 + (1 - p) / p * np.exp(-2 * shift * np.ones_like(p)))
    if made.variables is not None:
        levels = made.variables.normalised(made.variables.normalised(p) * np.exp(shift))
        found = np.where(made.variables.inside, levels, found)
    return found


def likelihoods(made, p):
    """(M, K) of the rows at rates (K, N)."""
    inside = np.zeros(N, bool) if made.variables is None else made.variables.inside
    down = np.where(inside, 1, 1 - p)  # of the levels of a variable the one that a row has counts
    x = made.rows[:, None]
    return np.where(x > 0, p, np.where(x < 0, down, 1)).prod(axis=2)


def by_hand(made, shifted):
    """The ratios with every likelihood computed from the rates."""
    directions = axes(made)
    p, seen = rates(made), (made.rows != 0).mean(axis=0)
    inside = np.zeros(N, bool) if made.variables is None else made.variables.inside
    noise = np.where(inside, p, 4 * p * (1 - p)) * seen
    shares = np.array([0.5, 0.3, 0.2])
    at, off = likelihoods(made, p) @ shares, np.zeros((len(directions), len(made.rows)))
    for d, v in enumerate(directions):
        steps = WIDTH / np.sqrt(noise @ v**2)
        for sign in (-1, 1):
            shift = sign * steps[:, None] * v
            there = likelihoods(made, rates(made, shift)) * np.exp(-sign * steps * shifted)
            off[d] += there @ shares / 2
    return (off / at).T


@pytest.mark.parametrize("shifted", [0.0, 0.2])
@pytest.mark.parametrize("groups", [(), GROUPS], ids=["columns", "levels"])
def test_ratios_are_those_of_the_likelihoods(groups, shifted):
    made = owner(drawn(1, groups), 2, groups)
    assert ratios(made, shifted).shape == (40, 2)
    np.testing.assert_allclose(ratios(made, shifted), by_hand(made, shifted), rtol=1e-4)


def test_points_are_as_likely_as_the_classes_in_the_mean_of_all_rows():
    every = np.array(list(product([-1, 1], repeat=N)))
    made = owner(every, 3)
    p = likelihoods(made, rates(made)) @ [0.5, 0.3, 0.2]
    assert p.sum() == pytest.approx(1)
    np.testing.assert_allclose(p @ ratios(made), 1, atol=1e-4)
    assert ratios(made).max() > 2


def test_axes_span_what_tells_the_classes_apart():
    made = owner(drawn(4), 5)
    directions, odds = axes(made), np.arctanh(made.means)
    assert directions.shape == (K - 1, N)
    apart = odds - odds.mean(axis=0)
    inside = np.linalg.lstsq(directions.T, apart.T, rcond=None)
    np.testing.assert_allclose(directions.T @ inside[0], apart.T, atol=1e-8)
    alike = owner(drawn(4), 5)
    alike.learn(np.repeat(made.means[:1], 2, axis=0), np.array([0.5, 0.5]))
    assert len(axes(alike)) == 0


@pytest.mark.parametrize("groups", [(), GROUPS], ids=["columns", "levels"])
def test_packed_rows_say_the_same(groups):
    made = owner(drawn(6, groups), 7, groups)
    packed = Owner(kernels.pack_masked(made.rows), 0, made.variables)
    packed.learn(made.means, np.array([0.5, 0.3, 0.2]))
    np.testing.assert_allclose(ratios(packed), ratios(made), rtol=1e-4)


def test_one_class_leaves_nothing_to_lean_to():
    alone = Owner(drawn(8).astype(np.float32))
    alone.learn(np.zeros((1, N)), np.ones(1))
    assert ratios(alone).shape == (40, 0)
    assert leaning(Session([alone], 0, Traffic(1)), summed(alone)) == 0


def test_rows_that_lie_off_a_shrunk_class_all_together_gain_nothing():
    rng = np.random.default_rng(9)
    x = np.where(rng.random((400, N)) < np.repeat([[0.9], [0.1]], 200, axis=0), 1, -1)
    made = Owner(x.astype(np.float32))
    made.learn(np.repeat([[0.5], [-0.5]], N, axis=1), np.array([0.5, 0.5]))
    found, world = summed(made), Session([made], 0, Traffic(1))
    as_means_say = ClassSums(found.counts, found.seen * made.means, found.seen)
    assert leaning(world, as_means_say) > 10
    assert leaning(world, found) < 1


def judged(x):
    return judged_fit(*fitted(x, [len(x) // 2]))


@pytest.mark.parametrize(("M", "alpha"), [(3000, 0.3), (3000, 0.7), (1000, 0.3)])
def test_mixed_memberships_of_few_columns_are_told(M, alpha):
    rng = np.random.default_rng(200)
    p = rng.dirichlet(np.full(4, alpha), M) @ rng.uniform(0.1, 0.9, (4, 50))
    found = judged(np.where(rng.random((M, 50)) < p, 1, -1))
    assert found.status == "structure, but not classes", found
    assert found.rows["leaning"] > 4


@pytest.mark.parametrize("seed", [1000, 1007])
def test_one_factor_with_gaps_is_told(seed):
    rng = np.random.default_rng([seed, 5])
    z = 1.7 * rng.standard_normal((3000, 1)) * rng.standard_normal(50) - rng.standard_normal(50)
    x = np.where(rng.random(z.shape) < 1 / (1 + np.exp(-z)), 1, -1)
    x[rng.random(x.shape) < 0.5] = 0
    found = judged(x)
    assert found.rows["leaning"] > 10
    assert found.status == "structure, but not classes", found


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_classes_of_few_columns_are_not(missing):
    found = judged(classes(4, 50, 3000, 29, missing=missing)[2])
    assert found.status == "ok"
    assert found.rows["leaning"] < 3
