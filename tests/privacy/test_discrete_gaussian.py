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


@pytest.mark.parametrize("variance", rest_slow([65, 64, 100, 1000], 1))
def test_the_probabilities_are_those_of_the_law_and_of_no_law_that_is_near(variance):
    """Such as the continuous law cut off to integers, and a variance 3% off."""
    law = np.arange(-40 * 32, 40 * 32 + 1)
    cut = np.trunc(variance**0.5 * np.random.default_rng(0).standard_normal(DRAWS)).astype(int)
    drawn = discrete_gaussian(variance, DRAWS, b"law")
    for y, near in ((drawn, 1), (drawn, 1.03), (cut, 1)):
        chances = np.exp(-(law**2) / (2 * variance * near))
        right = y is drawn and near == 1
        assert (fit(np.bincount(y - law[0], minlength=len(law)), chances) > 1e-3) == right


@pytest.mark.parametrize("variance", rest_slow([912_106, 1 << 48, 1 << 40], 1))
def test_moments_and_tails_of_wide_noise(variance):
    y = discrete_gaussian(variance, DRAWS, b"moments") / np.sqrt(variance)
    for power, mean, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((y**power).mean() - mean) < 4 * np.sqrt(spread / DRAWS)
    assert stats.kstest(y, "norm").pvalue > 1e-3
    for level in (2.0, 3.0, 4.0):
        beyond, chance = (np.abs(y) > level).sum(), 2 * stats.norm.sf(level)
        assert stats.binomtest(int(beyond), DRAWS, chance).pvalue > 1e-3
    assert set((discrete_gaussian(variance, 2000, b"last bits") % 4).tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize(("a", "b"), [(0, 7), (1, 3), (7, 7), (9, 2), (10**14, 10**14 - 1)])
def test_coins_of_exact_probability(a, b):
    heads = Coins(b"coins").exp(np.full(DRAWS, a), np.full(DRAWS, b)).sum()
    assert stats.binomtest(int(heads), DRAWS, min(1.0, np.exp(-a / b))).pvalue > 1e-3


def test_integers_below_a_limit_are_uniform_even_near_the_end_of_the_words():
    # Beyond the last multiple of 3 << 61 are a quarter of all words, which must be drawn again.
    for limit, shift in ((1, 0), (3, 0), (10, 0), (64, 0), (3 << 61, 61)):
        drawn = Coins(b"below").below(np.full(60_000, limit)) >> shift
        assert limit == 1 or fit(np.bincount(drawn), np.ones(limit >> shift)) > 1e-3
        assert drawn.max() < limit >> shift
    assert stats.kstest(Coins(b"normal").standard_normal(DRAWS), "norm").pvalue > 1e-3


def test_the_key_decides_and_nothing_else():
    whole = discrete_gaussian(912_106, 3_000, b"one")
    assert (discrete_gaussian(912_106, 3_000, b"one") == whole).all()
    for key in (b"two", b"one\0", b""):
        other = discrete_gaussian(912_106, 3_000, key)
        assert abs(np.corrcoef(whole, other)[0, 1]) < 4 / np.sqrt(3_000)
    for variance, size, argument in ((63, 1, "variance"), (64, -1, "size")):
        with pytest.raises(ArgumentError, match=argument):
            discrete_gaussian(variance, size, b"")


def test_the_mechanism_adds_what_its_budget_asks():
    variance, z = least_variance(1.0, 1e-5, 256), private.noise_multiplier(1.0, 1e-5)
    assert 256 * z < variance**0.5 < 256 * z * (1 + 1e-5)
    noise = discrete_gaussian(variance, 256 * 255 // 2, b"key")
    assert np.std(noise) == pytest.approx(variance**0.5, rel=0.02)
    furthest = reach(variance, len(noise))
    assert np.abs(noise).max() < furthest
    # A tail of the normal law at the reach, over all counts: what an honest client risks.
    assert 1e-12 < 2 * stats.norm.sf(furthest / variance**0.5) * len(noise) < 1e-9
    matrix = np.zeros((256, 256))
    matrix[np.tri(256, k=-1, dtype=bool)] = noise
    assert 0.7 < np.linalg.norm(matrix + matrix.T, 2) / norm(variance, 256) < 1
