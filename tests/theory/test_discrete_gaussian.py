"""What discrete Gaussian noise guarantees, against sums over all outcomes."""

import numpy as np
import pytest

from hopfed.theory import private
from hopfed.theory.discrete_gaussian import EPSILON, delta_bound, least_variance


def exact_delta(epsilon, variance, N):
    """Smallest delta of the release: over the laws of sums of k draws, found by convolution."""
    reach = int(14 * np.sqrt(variance))
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    one /= one.sum()
    worst, law, k = 0.0, np.ones(1), 0
    for changed in sorted({a * (N - a) for a in range(1, N)}):
        while k < changed:
            law, k = np.convolve(law, one), k + 1
            middle, wide = len(law) // 2, min(len(law) // 2, int(14 * np.sqrt(k * variance)))
            law = law[middle - wide : middle + wide + 1]
        moved = np.concatenate([np.zeros(2 * k), law])[: len(law)]
        worst = max(worst, np.maximum(law - np.exp(epsilon) * moved, 0).sum())
    return worst


@pytest.mark.parametrize("N", [2, 3, 6, 9])
@pytest.mark.parametrize("variance", [64, 200, 900])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 3.0])
def test_the_bound_holds_and_is_near_what_is_exact(N, variance, epsilon):
    exact = exact_delta(epsilon, variance, N)
    bound = delta_bound(epsilon, variance, N)
    assert exact <= bound * (1 + 1e-9) + 1e-14  # what the convolution itself rounds
    if N >= 6 and exact > 1e-6:
        assert bound < 1.3 * exact


def test_one_count_is_the_theorem_of_the_source():
    """Theorem 7 of arXiv:2004.00010, sensitivity 2: the convolution above is right."""
    epsilon, s = 0.2, 100
    y = np.arange(-200, 201)
    p = np.exp(-(y**2) / (2 * s))
    p /= p.sum()
    theorem = p[y > epsilon * s / 2 - 1].sum() - np.exp(epsilon) * p[y > epsilon * s / 2 + 1].sum()
    assert exact_delta(epsilon, s, 2) == pytest.approx(theorem, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-5), (1.0, 1e-9), (8.0, 1e-6)])
@pytest.mark.parametrize("N", [2, 40, 784])
def test_the_variance_is_enough_and_no_more(epsilon, delta, N):
    s = least_variance(epsilon, delta, N)
    assert delta_bound(epsilon, s, N) <= delta
    assert s <= 66 or delta_bound(epsilon, s * (1 - 1e-6) - 2, N) > delta


def test_integers_cost_next_to_nothing():
    for N in (100, 256, 784):
        z = private.noise_multiplier(1.0, 1e-5)
        assert z < least_variance(1.0, 1e-5, N) ** 0.5 / N < z * (1 + 1e-5)


def test_the_library_agrees():
    accounting = pytest.importorskip("dp_accounting")
    del accounting
    from hopfed.privacy.private_operator import accountant

    for epsilon, N in ((0.5, 64), (1.0, 256), (4.0, 256)):
        z = least_variance(epsilon, 1e-5, N) ** 0.5 / N
        assert accountant(z, delta=1e-5) == pytest.approx(epsilon, rel=1e-3)


def test_a_large_epsilon_is_guaranteed_by_a_smaller_one():
    assert delta_bound(1e6, 64, 30) == delta_bound(EPSILON, 64, 30)
