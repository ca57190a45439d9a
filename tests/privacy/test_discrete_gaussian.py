"""The sampler of integer noise: exact probabilities, moments, tails, and what the key decides."""

import numpy as np
import pytest
from helpers import rest_slow
from scipy import stats

from hopfed.errors import ArgumentError
from hopfed.privacy.discrete_gaussian import Coins, discrete_gaussian, norm, reach
from hopfed.theory import private
from hopfed.theory.discrete_gaussian import least_variance

DRAWS = 400_000


def fit(drawn, chances):
    """P-value of how often each kind was drawn; kinds that are rare are put together."""
    expected = drawn.sum() * chances / chances.sum()
    rare = expected < 20
    if rare.any():
        drawn = np.append(drawn[~rare], drawn[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return stats.chisquare(drawn, expected).pvalue


def law_of(variance, reach):
    return np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))


@pytest.mark.parametrize("variance", rest_slow([65, 64, 100, 1000], 1))
def test_the_probabilities_are_those_of_the_law(variance):
    drawn = discrete_gaussian(variance, DRAWS, b"law")
    reach = 40 * int(np.sqrt(variance))
    numbers = np.bincount(drawn + reach, minlength=2 * reach + 1)
    assert fit(numbers, law_of(variance, reach)) > 1e-3


def test_a_law_that_is_a_little_different_fails_the_same_test():
    """The continuous law cut off to integers, and a variance 3% off."""
    rng = np.random.default_rng(0)
    cut = np.trunc(8 * rng.standard_normal(DRAWS)).astype(int)
    near = discrete_gaussian(66, DRAWS, b"near")
    for drawn in (cut, near):
        assert fit(np.bincount(drawn + 320, minlength=641), law_of(64, 320)) < 1e-3


@pytest.mark.parametrize("variance", rest_slow([912_106, 1 << 48, 8_554_545, 1 << 40], 2))
def test_moments_and_tails_of_wide_noise(variance):
    y = discrete_gaussian(variance, DRAWS, b"moments") / np.sqrt(variance)
    root = np.sqrt(DRAWS)
    assert abs(y.mean()) * root < 4
    assert abs((y**2).mean() - 1) * root / np.sqrt(2) < 4
    assert abs((y**3).mean()) * root / np.sqrt(15) < 4
    assert abs((y**4).mean() - 3) * root / np.sqrt(96) < 4
    assert stats.kstest(y, "norm").pvalue > 1e-3
    for level in (2.0, 3.0, 4.0):
        beyond, chance = (np.abs(y) > level).sum(), 2 * stats.norm.sf(level)
        assert stats.binomtest(int(beyond), DRAWS, chance).pvalue > 1e-3
    assert set((discrete_gaussian(variance, 2000, b"last bits") % 4).tolist()) == {0, 1, 2, 3}


def test_normal_numbers_have_the_normal_law():
    drawn = Coins(b"normal").standard_normal(DRAWS)
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    assert np.isfinite(drawn).all()
    np.testing.assert_array_equal(Coins(b"normal").standard_normal(DRAWS), drawn)


@pytest.mark.parametrize(("a", "b"), [(0, 7), (1, 3), (7, 7), (5, 2), (9, 2), (10**14, 10**14 - 1)])
def test_coins_of_exact_probability(a, b):
    heads = Coins(b"coins").exp(np.full(DRAWS, a), np.full(DRAWS, b)).sum()
    assert stats.binomtest(int(heads), DRAWS, min(1.0, np.exp(-a / b))).pvalue > 1e-3


def test_integers_below_a_limit_are_uniform_even_near_the_end_of_the_words():
    assert (Coins(b"one").below(np.ones(100, int)) == 0).all()
    for limit in (3, 10, 64):
        drawn = Coins(b"below").below(np.full(60_000, limit))
        assert fit(np.bincount(drawn, minlength=limit), np.ones(limit)) > 1e-3
    far = 3 << 61  # words beyond its last multiple, a quarter of all, must be drawn again
    drawn = Coins(b"far").below(np.full(60_000, far)) >> 61
    assert fit(np.bincount(drawn, minlength=3), np.ones(3)) > 1e-3


def test_the_key_decides_and_nothing_else():
    whole = discrete_gaussian(912_106, 3_000, b"one")
    assert (discrete_gaussian(912_106, 3_000, b"one") == whole).all()
    for key in (b"two", b"one\0", b""):
        other = discrete_gaussian(912_106, 3_000, key)
        assert (other == whole).mean() < 0.01
        assert abs(np.corrcoef(whole, other)[0, 1]) < 4 / np.sqrt(3_000)
    assert abs(np.corrcoef(whole[1:], whole[:-1])[0, 1]) < 4 / np.sqrt(3_000)


def test_the_mechanism_adds_what_its_budget_asks():
    variance, z = least_variance(1.0, 1e-5, 256), private.noise_multiplier(1.0, 1e-5)
    scale = variance**0.5
    assert 256 * z < scale < 256 * z * (1 + 1e-5)
    noise = discrete_gaussian(variance, 256 * 255 // 2, b"key")
    assert noise.dtype == np.int64
    assert np.std(noise) == pytest.approx(scale, rel=0.02)
    furthest = reach(variance, len(noise))
    assert np.abs(noise).max() < furthest
    # A tail of the normal law at the reach, over all counts: what an honest client risks.
    assert 1e-12 < 2 * stats.norm.sf(furthest / scale) * len(noise) < 1e-9
    matrix = np.zeros((256, 256))
    matrix[np.tri(256, k=-1, dtype=bool)] = noise
    assert 0.7 < np.linalg.norm(matrix + matrix.T, 2) / norm(variance, 256) < 1


def test_bad_arguments_are_named():
    for variance, size, argument in ((63, 1, "variance"), (64, -1, "size")):
        with pytest.raises(ArgumentError, match=argument):
            discrete_gaussian(variance, size, b"")
