"""Noise: the sampler of integers, operators with noise, and what is counted beside it."""

import json
import sys

import numpy as np
import pytest
from helpers import rest_slow, sample
from scipy import stats

from hopfed.errors import ArgumentError, BackendError
from hopfed.privacy.integer_noise import Coins, discrete_gaussian, noise_bound, norm_bound
from hopfed.privacy.private_operator import PrivateOperator, accountant, privatise_operator
from hopfed.privacy.private_spectrum import private_spectrum
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, pool
from hopfed.spectral.rank import Sample, TracyWidom
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
    furthest = noise_bound(variance, len(noise))
    assert np.abs(noise).max() < furthest
    # A tail of the normal law at the reach, over all counts: what an honest client risks.
    assert 1e-12 < 2 * stats.norm.sf(furthest / variance**0.5) * len(noise) < 1e-9
    matrix = np.zeros((256, 256))
    matrix[np.tri(256, k=-1, dtype=bool)] = noise
    assert 0.7 < np.linalg.norm(matrix + matrix.T, 2) / norm_bound(variance, 256) < 1


Z = private.noise_multiplier(1.0, 1e-5)


def operator(N=60, M=300, quality=0.6, seed=0, K=2):
    return DenseOperator.from_examples(sample(K, N, M, quality, seed)[1])


@pytest.mark.parametrize("diagonal", [False, True])
def test_noise_is_symmetric_of_the_scale_and_on_the_diagonal_where_rows_are_no_signs(diagonal):
    own = operator(N=200)
    got = privatise_operator(own, Z * 200, np.random.default_rng(1), diagonal)
    draw = got.matrix - own.matrix
    np.testing.assert_array_equal(draw, draw.T)
    spread = np.std(np.diag(draw)) / (Z * 200)
    assert spread == (pytest.approx(np.sqrt(2), rel=0.2) if diagonal else 0)
    above = draw[np.triu_indices(200, 1)]
    assert np.std(above) == pytest.approx(Z * 200, rel=0.03)  # 6 standard errors
    assert abs(np.mean(above)) < 4 * Z * 200 / np.sqrt(200 * 199 / 2)
    assert np.linalg.eigvalsh(draw / got.mass)[-1] == pytest.approx(got.radius, rel=0.05)


def test_pooled_noise_has_the_predicted_radius():
    owners = [operator(seed=s) for s in range(5)]
    rng = np.random.default_rng(2)
    pooled = pool([privatise_operator(own, Z * 60, rng) for own in owners])
    assert pooled.radius == pytest.approx(float(private.noise_radius(Z, 60, 1500, clients=5)))
    assert pool([pooled], [0.1]).radius == pytest.approx(pooled.radius)
    draw = (pooled.matrix - pool(owners).matrix)[np.triu_indices(60, 1)]
    assert np.std(draw) == pytest.approx(np.sqrt(pooled.noise), rel=0.1)
    with pytest.raises(ArgumentError, match="one form"):
        pool([pooled, owners[0]])
    for own in (pooled, pool(owners[:1], [0.5]), DenseOperator(60, 300.0, 300.0, np.eye(60))):
        with pytest.raises(ArgumentError, match=r"operator must be without noise, over \+-1"):
            privatise_operator(own, Z, rng)


@pytest.mark.parametrize(("epsilon", "rounds"), [(0.5, 1), (2.0, 100)])
def test_the_library_agrees_with_the_closed_form(epsilon, rounds, monkeypatch):
    pytest.importorskip("dp_accounting")
    z = private.noise_multiplier(epsilon, 1e-5, rounds)
    assert accountant(z, rounds, delta=1e-5) == pytest.approx(epsilon, rel=1e-4)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(BackendError, match=r"pip install 'hopfed\[privacy\]'"):
        accountant(1.0, delta=1e-5)


def test_without_noise_the_count_is_that_of_the_clean_rule():
    for seed in range(2):
        own = operator(N=150, M=400, quality=0.7, seed=seed, K=4)
        clean = TracyWidom(0.01)(Sample(eigenpairs(own, 0).values, 150, 400))
        got = private_spectrum(PrivateOperator(**vars(own)), 0.01)[1]
        assert got.n_detected == clean.n_detected == 4
        for name in ("variance", "strengths", "overlaps", "threshold"):
            np.testing.assert_allclose(getattr(got, name), getattr(clean, name), rtol=1e-3)


def test_false_alarms_beside_noise_near_the_stated_rate_and_spikes_debiased_for_it():
    # 40 nulls at 20%: two and a half standard errors are 16 points.
    alarms, scale = 0, 50 * private.noise_multiplier(2.0, 1e-5)
    for seed in range(40):
        own = operator(N=50, M=150, quality=0.0, seed=seed, K=1)
        got = privatise_operator(own, scale, np.random.default_rng(seed))
        alarms += private_spectrum(got, 0.2)[1].n_detected > 0
    assert 0.04 < alarms / 40 < 0.36
    own = operator(150, 30_000, 0.5, 1, K=1)
    rank = private_spectrum(privatise_operator(own, 150 * Z, np.random.default_rng(9)))[1]
    assert (rank.n_detected, rank.quality) == (1, pytest.approx(0.5, abs=0.02))
    assert rank.variance * rank.strengths[0] == pytest.approx(150 * 0.25, rel=0.05)


def test_the_plan_with_privacy_is_that_of_theory(hopfed):
    line = "--r 0.4 --N 60 --exposure 0.5 --epsilon 1 --delta 1e-6 --clients 20 --rounds 4 --json"
    got = json.loads(hopfed.done("theory", "plan", *line.split())[0])
    z = private.noise_multiplier(1.0, 1e-6, 4)
    want = private.plan(0.4, [0.5], 60, z, 20)
    assert [row["M"] for row in got["private_plan"]] == want.samples.tolist()
    about = {"epsilon": 1.0, "delta": 1e-6, "clients": 20, "rounds": 4, "noise_multiplier": z}
    assert got["privacy"][0] == about
