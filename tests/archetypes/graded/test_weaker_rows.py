"""What is gained where rows may be weaker than their class: its arithmetic, and its power."""

from itertools import product

import numpy as np
import pytest
from graded_tables import classes, whiten

from hopfed import kernels
from hopfed.archetypes.graded.owners import Owner, Owners
from hopfed.archetypes.graded.search import Search, find_classes
from hopfed.archetypes.graded.verdict import Judging, judge
from hopfed.archetypes.graded.weaker_rows import QUALITIES, SOME, weaker_sums

K, N = 3, 9
SHARES = np.array([0.5, 0.3, 0.2])
USUAL = np.linspace(-0.5, 0.5, N)


def owner(rows, seed=1):
    made = Owner(np.asarray(rows, np.float32))
    made.learn(np.random.default_rng(seed).uniform(-0.8, 0.8, (K, N)), SHARES)
    return made


def gains(made):
    return weaker_sums(made, {"usual": USUAL})["gained"]


def likelihoods(rows, T):
    """(M,) of rows of -1, 0 and +1 under means (K, N)."""
    x = np.asarray(rows)[:, None]
    return np.where(x == 0, 1, (1 + x * T) / 2).prod(axis=2) @ SHARES


def test_gains_are_those_of_the_likelihoods():
    rows = np.random.default_rng(2).integers(-1, 2, (40, N))
    made = owner(rows)
    by_hand, at = [], likelihoods(rows, made.means)
    for centre in (0, USUAL):
        for q in QUALITIES:
            ratio = likelihoods(rows, centre + q * (made.means - centre)) / at
            by_hand.append([np.log(1 - e + e * ratio).sum() for e in SOME])
    np.testing.assert_allclose(gains(made), by_hand, atol=1e-4)
    packed = Owner(kernels.pack_masked(made.rows))
    packed.learn(made.means, SHARES)
    np.testing.assert_allclose(gains(packed), by_hand, atol=1e-4)


def test_nothing_is_gained_on_average_where_rows_are_of_the_classes():
    every = np.array(list(product([-1, 1], repeat=N)))
    p = likelihoods(every, owner(every).means)
    assert p.sum() == pytest.approx(1)
    gained = np.array([gains(owner(row[None])).ravel() for row in every])
    assert (p @ gained < 0).all()
    np.testing.assert_allclose(p @ ((np.exp(gained) - 1) / np.tile(SOME, 4)), 0, atol=1e-4)


def judged(x):
    white, owners = whiten([x]), Owners.of([x[: len(x) // 2], x[len(x) // 2 :]], 0)
    fit = find_classes(owners, white.spectrum.vectors, white.variances, Search())
    return judge(owners, fit, Judging())


def of_two_qualities(seed, M=3000, n=50, low=0.3, part=0.2):
    rng = np.random.default_rng([seed, 3])
    T = 2 * rng.random((3, n)) - 1
    quality = rng.choice([1, low], M, p=[1 - part, part])[:, None]
    return np.where(rng.random((M, n)) < (1 + quality * T[rng.integers(3, size=M)]) / 2, 1, -1)


@pytest.mark.parametrize("seed", [900, 901, 902])
def test_weak_rows_of_all_kinds_in_one_class_are_told(seed):
    found = judged(of_two_qualities(seed))
    assert found.rows["leaning"] < 4  # which looks along the axes of classes, and misses them
    assert found.rows["weaker"] > 4
    assert found.status == "structure, but not classes"
    assert "weaker than their class" in found.advice


@pytest.mark.parametrize(("shape", "missing"), [((1, 1), 0.0), ((5, 5), 0.3), ((0.5, 5), 0.0)])
def test_rows_of_true_classes_are_not(shape, missing):
    found = judged(classes(3, 50, 3000, 903, shape=shape, missing=missing)[2])
    assert found.status == "ok", found.advice
    assert found.rows["weaker"] < 2
