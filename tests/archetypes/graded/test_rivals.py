"""What is gained where rows lie between classes, or are weaker: its arithmetic, and its power."""

from itertools import product

import numpy as np
import pytest
from graded_tables import classes, fitted
from graded_tables import judged as judged_fit
from helpers import rest_slow
from scipy.optimize import minimize

from hopfed import kernels
from hopfed.archetypes.class_questions import (
    NEARER,
    QUALITIES,
    WIDTH,
    axes,
    points_between,
    weaker_points,
    weighted_sums,
)
from hopfed.archetypes.mixture import ClassSums
from hopfed.archetypes.rivals import EXCHANGES, leaning, most_gained
from hopfed.archetypes.session import Owner, Session, Variables
from hopfed.federation.messages import Traffic

K, N = 3, 9
GROUPS = [(0, 1, 2)]
SHARES = np.array([0.5, 0.3, 0.2])
USUAL = np.linspace(-0.5, 0.5, N)
groups_or_none = pytest.mark.parametrize("groups", [(), GROUPS], ids=["columns", "levels"])


def table(*owners):
    return Session(list(owners), 0, Traffic(len(owners)))


def owner(rows, seed=1, groups=()):
    made = Owner(kernels.pack_masked(rows), 0, Variables.of(groups, N) if groups else None)
    made.numbers = None  # as of a large table
    made.learn(np.random.default_rng(seed).uniform(-0.8, 0.8, (K, N)), SHARES)
    return made


def packed(made):
    held = Owner(made.rows, 0, made.variables)
    held.learn(made.means, SHARES)
    return held


def between(made, shifts=0.0):
    directions = axes(made)
    told = {"axes": directions, "shifts": np.full((len(directions), len(made.means)), shifts)}
    return points_between(made, told)


def weak(made):
    return weaker_points(made, {"usual": USUAL})


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
    x = kernels.unpack(made.rows)[:, None]
    return np.where(x > 0, p, np.where(x < 0, down, 1)).prod(axis=2)


def between_by_hand(made, shifted):
    """The ratios with every likelihood computed from the rates."""
    directions = axes(made)
    p, seen = rates(made), (kernels.unpack(made.rows) != 0).mean(axis=0)
    inside = np.zeros(N, bool) if made.variables is None else made.variables.inside
    noise = np.where(inside, p, 4 * p * (1 - p)) * seen
    at, off = likelihoods(made, p) @ SHARES, np.zeros((len(directions), len(made.rows)))
    for d, v in enumerate(directions):
        steps = WIDTH / np.sqrt(noise @ v**2)
        for sign in (-1, 1):
            shift = sign * steps[:, None] * v
            there = likelihoods(made, rates(made, shift)) * np.exp(-sign * steps * shifted)
            off[d] += there @ SHARES / 2
    return (off / at).T


@pytest.mark.parametrize("shifted", [0.0, 0.2])
@groups_or_none
def test_ratios_between_are_those_of_the_likelihoods(groups, shifted):
    made = owner(drawn(1, groups), 2, groups)
    assert between(made, shifted).shape == (40, 2)
    np.testing.assert_allclose(between(made, shifted), between_by_hand(made, shifted), rtol=1e-4)
    np.testing.assert_allclose(between(packed(made)), between(made), rtol=1e-4)


def test_ratios_of_weaker_rows_are_those_of_the_likelihoods():
    made = owner(np.random.default_rng(2).integers(-1, 2, (40, N)))
    at = likelihoods(made, rates(made)) @ SHARES
    rest = SHARES * (np.arange(K) != (made.means**2).sum(axis=1).argmin())
    rest /= rest.sum()
    by_hand = [likelihoods(made, rates(made)) @ rest / at]
    for centre, q in [(0, q) for q in QUALITIES] + [(USUAL, q) for q in NEARER]:
        there = likelihoods(made, (1 + centre + q * (made.means - centre)) / 2)
        by_hand += [there @ SHARES / at, there @ rest / at]
    np.testing.assert_allclose(weak(made), np.transpose(by_hand), rtol=1e-4)
    np.testing.assert_allclose(weak(packed(made)), np.transpose(by_hand), rtol=1e-4)


@pytest.mark.parametrize("points", [between, weak])
def test_points_are_as_likely_as_the_classes_in_the_mean_of_all_rows(points):
    made = owner(np.array(list(product([-1, 1], repeat=N))), 3)
    p = likelihoods(made, rates(made)) @ SHARES
    assert p.sum() == pytest.approx(1)
    np.testing.assert_allclose(p @ points(made), 1, atol=1e-4)


def test_axes_span_what_tells_the_classes_apart():
    made = owner(drawn(4), 5)
    directions, odds = axes(made), np.arctanh(made.means)
    assert directions.shape == (K - 1, N)
    apart = odds - odds.mean(axis=0)
    inside = np.linalg.lstsq(directions.T, apart.T, rcond=None)
    np.testing.assert_allclose(directions.T @ inside[0], apart.T, atol=1e-8)
    made.learn(np.repeat(made.means[:1], 2, axis=0), np.array([0.5, 0.5]))
    assert len(axes(made)) == 0


def summed(made):
    sums = weighted_sums(made, made.weights)
    return ClassSums(sums["counts"][None], sums["signed"], sums["seen"])


def test_one_class_leaves_nothing_to_lean_to_and_its_rows_may_be_weaker():
    alone = Owner(kernels.pack_masked(drawn(8)))
    alone.learn(np.zeros((1, N)), np.ones(1))
    assert between(alone).shape == (40, 0)
    assert leaning(table(alone), summed(alone)) == 0
    assert weak(alone).shape == (40, 4)


def test_rows_that_lie_off_a_shrunk_class_all_together_gain_nothing():
    rng = np.random.default_rng(9)
    x = np.where(rng.random((400, N)) < np.repeat([[0.9], [0.1]], 200, axis=0), 1, -1)
    made = Owner(kernels.pack_masked(x))
    made.learn(np.repeat([[0.5], [-0.5]], N, axis=1), np.array([0.5, 0.5]))
    found = summed(made)
    as_means_say = ClassSums(found.counts, found.seen * made.means, found.seen)
    assert leaning(table(made), as_means_say) > 10
    assert leaning(table(made), found) < 1


def gained(*parts):
    """The most that rows gain whose ratios are given, and the exchanges that it took."""
    rows = (kernels.pack(np.ones((len(part), 1))) for part in parts)
    owners = table(*(Owner(own, i) for i, own in enumerate(rows)))
    return most_gained(owners, lambda owner, _: parts[owner.index], {}), owners.exchanges


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


@pytest.mark.parametrize(("seed", "part"), [(0, 0.0), (1, 0.05), (2, 0.5), (3, 1.0)])
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


def judged(x):
    return judged_fit(*fitted(x, [len(x) // 2]))


@pytest.mark.parametrize(("M", "alpha"), rest_slow([(1000, 0.3), (3000, 0.3), (3000, 0.7)], 1))
def test_mixed_memberships_of_few_columns_are_told(M, alpha):
    rng = np.random.default_rng(200)
    p = rng.dirichlet(np.full(4, alpha), M) @ rng.uniform(0.1, 0.9, (4, 50))
    found = judged(np.where(rng.random((M, 50)) < p, 1, -1))
    assert found.status == "structure, but not classes", found
    assert found.rows["leaning"] > 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1000, 1007])
def test_one_factor_with_gaps_is_told(seed):
    rng = np.random.default_rng([seed, 5])
    z = 1.7 * rng.standard_normal((3000, 1)) * rng.standard_normal(50) - rng.standard_normal(50)
    x = np.where(rng.random(z.shape) < 1 / (1 + np.exp(-z)), 1, -1)
    x[rng.random(x.shape) < 0.5] = 0
    found = judged(x)
    assert found.rows["leaning"] > 10
    assert found.status == "structure, but not classes", found


def of_two_qualities(seed, M=3000, n=50, low=0.3, part=0.2):
    rng = np.random.default_rng([seed, 3])
    T = 2 * rng.random((3, n)) - 1
    quality = rng.choice([1, low], M, p=[1 - part, part])[:, None]
    return np.where(rng.random((M, n)) < (1 + quality * T[rng.integers(3, size=M)]) / 2, 1, -1)


@pytest.mark.parametrize("seed", rest_slow([900, 901, 902], 1))
def test_weak_rows_of_all_kinds_in_one_class_are_told(seed):
    found = judged(of_two_qualities(seed))
    assert found.rows["weaker"] > 10
    assert found.rows["leaning"] < found.rows["weaker"] / 2  # which looks along the axes of classes
    assert found.status == "structure, but not classes"
    assert "weaker than their class" in found.advice


def of_six_patterns(seed, M=1000, n=50):
    """Half of the rows at quality .9, half at .15: these are one class, of coins."""
    rng = np.random.default_rng([seed, 4])
    xi, quality = rng.choice([-1, 1], (6, n)), rng.choice([0.9, 0.15], M)[:, None]
    return np.where(rng.random((M, n)) < (1 + quality * xi[rng.integers(6, size=M)]) / 2, 1, -1)


@pytest.mark.parametrize("seed", rest_slow([1002, 1010], 1))
def test_coins_that_are_weak_rows_of_all_patterns_are_told(seed):
    found = judged(of_six_patterns(seed))
    assert found.rows["weaker"] > 4
    assert found.status == "structure, but not classes"


@pytest.mark.parametrize(
    ("K", "seed", "shape", "missing"),
    rest_slow(
        [
            (3, 903, (5, 5), 0.3),
            (4, 29, (1, 1), 0.0),
            (3, 903, (1, 1), 0.0),
            (3, 903, (0.5, 5), 0.0),
            (4, 29, (1, 1), 0.3),
        ],
        1,
    ),
)
def test_rows_of_true_classes_are_neither(K, seed, shape, missing):
    found = judged(classes(K, 50, 3000, seed, shape=shape, missing=missing)[2])
    assert found.status == "ok", found.advice
    assert max(found.rows["weaker"], found.rows["leaning"]) < 3
