"""Assignment of rows to graded classes, and the errors of their means: against simulation."""

import numpy as np
import pytest
from graded_tables import draw_rows, responsibilities
from scipy.stats import binom

from hopfed.theory import assignment
from hopfed.theory.graded import Classes


def beta(seed, a, K, N, shares, observed=1.0):
    rng = np.random.default_rng(seed)
    return Classes(2 * rng.beta(a, a, (K, N)) - 1, shares, observed)


@pytest.mark.parametrize(("n", "r"), [(21, 0.3), (60, 0.2), (101, 0.1), (200, 0.15)])
def test_equal_classes_of_signs_are_told_apart_as_the_binomial_says(n, r):
    """The ratio counts agreements in the columns that differ; ties are split."""
    agree = np.full((2, 7), r)
    means = np.hstack([agree, np.array([[r], [-r]]).repeat(n, axis=1)])
    found = assignment.assign(Classes(means, [0.5, 0.5]))
    law = binom(n, (1 + r) / 2)
    exact = law.sf(n / 2) + law.pmf(n // 2) / 2 * (n % 2 == 0)
    assert found.accuracy == pytest.approx([exact, exact], abs=0.06 / n)
    # The halfway law gives the exact coefficient: (sqrt(1 - r^2))^n.
    assert found.distances[0, 1] == pytest.approx(-n / 2 * np.log(1 - r**2), rel=1e-12)


@pytest.mark.parametrize(
    ("seed", "a", "N", "share", "observed"),
    [(3, 2, 30, 0.5, 0.8), (4, 5, 60, 0.7, 0.8), (5, 8, 60, 0.7, 0.6), (6, 1, 20, 0.9, 0.4)],
)
def test_accuracy_and_confusion_of_two_classes_match_simulation(seed, a, N, share, observed):
    classes = beta(seed, a, 2, N, [share, 1 - share], observed)
    want = assignment.assign(classes)
    rows, labels = draw_rows(classes, 40_000, np.random.default_rng(seed))
    found = responsibilities(rows, classes.means, classes.shares)
    for k in range(2):
        mine = found[labels == k].argmax(axis=1) == k
        error = mine.std() / np.sqrt(mine.size)
        assert mine.mean() == pytest.approx(want.accuracy[k], abs=4 * error + 1e-3)
    product = found[:, 0] * found[:, 1]
    error = product.std() / np.sqrt(product.size)
    assert product.mean() == pytest.approx(want.confusions[0, 1], abs=4 * error + 1e-4)
    bound = np.sqrt(share * (1 - share)) * np.exp(-want.distances[0, 1])
    assert 1 - want.total < bound  # Bhattacharyya
    assert want.confusions[0, 1] < bound / 2


def test_errors_with_true_labels_match_simulation():
    classes = beta(8, 1, 2, 40, [0.6, 0.4], np.linspace(0.2, 1, 40))
    rng, M, draws = np.random.default_rng(9), 200, 400
    want = assignment.mean_errors(classes, M)
    squares = np.zeros_like(want)
    for _ in range(draws):
        rows, labels = draw_rows(classes, M, rng)
        for k in range(2):
            mine = rows[labels == k]
            squares[k] += (mine.sum(axis=0) / np.abs(mine).sum(axis=0) - classes.means[k]) ** 2
    ratio = squares / draws / want**2  # chi-squared over its degrees of freedom, one an entry
    assert ratio.mean() == pytest.approx(1, abs=4 * np.sqrt(2 / draws / ratio.size))
    assert np.abs(ratio - 1).max() < 5 * np.sqrt(2.5 / draws)
    first = np.sqrt((1 - classes.means**2) / (1e9 * classes.shares[:, None] * classes.observed))
    np.testing.assert_allclose(assignment.mean_errors(classes, 1e9), first, rtol=1e-6)
