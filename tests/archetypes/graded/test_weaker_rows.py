"""What is gained where rows may be weaker than their class: its arithmetic, and its power."""

from itertools import product

import numpy as np
import pytest
from graded_tables import classes, fitted
from graded_tables import judged as judged_fit

from hopfed import kernels
from hopfed.archetypes.rivals import NEARER, QUALITIES, weaker_points
from hopfed.archetypes.session import Owner

K, N = 3, 9
SHARES = np.array([0.5, 0.3, 0.2])
USUAL = np.linspace(-0.5, 0.5, N)


def owner(rows, seed=1):
    made = Owner(np.asarray(rows, np.float32))
    made.learn(np.random.default_rng(seed).uniform(-0.8, 0.8, (K, N)), SHARES)
    return made


def ratios(made):
    return weaker_points(made, {"usual": USUAL})


def likelihoods(rows, T, shares=SHARES):
    """(M,) of rows of -1, 0 and +1 under means (K, N)."""
    x = np.asarray(rows)[:, None]
    return np.where(x == 0, 1, (1 + x * T) / 2).prod(axis=2) @ shares


def test_ratios_are_those_of_the_likelihoods():
    rows = np.random.default_rng(2).integers(-1, 2, (40, N))
    made = owner(rows)
    at = likelihoods(rows, made.means)
    rest = SHARES * (np.arange(K) != (made.means**2).sum(axis=1).argmin())
    rest /= rest.sum()
    by_hand = [likelihoods(rows, made.means, rest) / at]
    for centre, q in [(0, q) for q in QUALITIES] + [(USUAL, q) for q in NEARER]:
        means = centre + q * (made.means - centre)
        by_hand += [likelihoods(rows, means) / at, likelihoods(rows, means, rest) / at]
    np.testing.assert_allclose(ratios(made), np.transpose(by_hand), rtol=1e-4)
    packed = Owner(kernels.pack_masked(made.rows))
    packed.learn(made.means, SHARES)
    np.testing.assert_allclose(ratios(packed), np.transpose(by_hand), rtol=1e-4)


def test_points_are_as_likely_as_the_classes_in_the_mean_of_all_rows():
    every = np.array(list(product([-1, 1], repeat=N)))
    made = owner(every)
    p = likelihoods(every, made.means)
    assert p.sum() == pytest.approx(1)
    np.testing.assert_allclose(p @ ratios(made), 1, atol=1e-4)


def test_rows_of_one_class_may_be_weaker_too():
    rng = np.random.default_rng(5)
    quality = rng.choice([1, 0.2], (400, 1))
    alone = Owner(np.where(rng.random((400, 40)) < (1 + 0.8 * quality) / 2, 1.0, -1.0))
    alone.learn(np.full((1, 40), 0.8), np.ones(1))
    assert weaker_points(alone, {"usual": np.zeros(40)}).shape == (400, 4)


def judged(x):
    return judged_fit(*fitted(x, [len(x) // 2]))


def of_two_qualities(seed, M=3000, n=50, low=0.3, part=0.2):
    rng = np.random.default_rng([seed, 3])
    T = 2 * rng.random((3, n)) - 1
    quality = rng.choice([1, low], M, p=[1 - part, part])[:, None]
    return np.where(rng.random((M, n)) < (1 + quality * T[rng.integers(3, size=M)]) / 2, 1, -1)


@pytest.mark.parametrize("seed", [900, 901, 902])
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


@pytest.mark.parametrize("seed", [1002, 1010])
def test_coins_that_are_weak_rows_of_all_patterns_are_told(seed):
    found = judged(of_six_patterns(seed))
    assert found.rows["weaker"] > 4
    assert found.status == "structure, but not classes"


@pytest.mark.parametrize(("shape", "missing"), [((1, 1), 0.0), ((5, 5), 0.3), ((0.5, 5), 0.0)])
def test_rows_of_true_classes_are_not(shape, missing):
    found = judged(classes(3, 50, 3000, 903, shape=shape, missing=missing)[2])
    assert found.status == "ok", found.advice
    assert found.rows["weaker"] < 2
