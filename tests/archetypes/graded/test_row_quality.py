"""Classes that are others in rows of lower quality are told as that."""

import numpy as np
import pytest
from graded_tables import classes, fitted, judged
from helpers import rest_slow

from hopfed.archetypes.judging import CHANCE, gain_of_chance, weaker_forms
from hopfed.recovery.recover import run_recovery

N, M = 120, 1500


def rows(seed, levels, parts, M=M, N=N):
    """Rows (M, N) of three kinds, each row of its own quality."""
    rng = np.random.default_rng(seed)
    T, y = rng.uniform(-1, 1, (3, N)), rng.integers(3, size=M)
    quality = rng.choice(levels, M, p=parts)[:, None]
    return np.where(rng.random((M, N)) < (1 + quality * T[y]) / 2, 1, -1)


def test_kinds_at_two_qualities():
    owners, fit = fitted(rows(1, [1, 0.5], [0.5, 0.5]))
    qualities = weaker_forms(fit)[1]
    assert fit.size == 6
    assert np.isnan(qualities).sum() == 3
    np.testing.assert_allclose(qualities[~np.isnan(qualities)], 0.5, atol=0.05)
    said = judged(owners, fit)
    assert said.status != "ok" or "3 of these classes" in said.advice


def test_careless_rows_are_one_class_of_coins():
    owners, fit = fitted(rows(2, [1, 0], [0.8, 0.2]))
    qualities = weaker_forms(fit)[1]
    assert fit.size == 4
    assert qualities[~np.isnan(qualities)].tolist() == [0.0]
    assert abs(fit.classes.means[np.flatnonzero(qualities == 0)]).mean() < 0.06
    assert "coins" in judged(owners, fit).advice


@pytest.mark.parametrize(
    ("shape", "K", "M"),
    rest_slow([((5, 5), 5, 400), ((1, 1), 2, 1000), ((1, 4), 8, 1000), ((5, 5), 8, 1000)], 1),
)
def test_classes_of_their_own_are_none_of_this(shape, K, M):
    _, fit = fitted(classes(K, N, M, K, shape=shape, missing=0.2)[2])
    assert np.isnan(weaker_forms(fit)).all(), weaker_forms(fit)


@pytest.mark.parametrize("seed", rest_slow([10, 11], 1))
def test_weak_rows_of_all_kinds_in_one_class_are_told_by_its_means(seed):
    """No test of rows can: the likelihoods differ by two nats, all parameters known."""
    owners, fit = fitted(rows(seed, [0.9, 0.15], [0.5, 0.5], 1000, 50))
    qualities = weaker_forms(fit)[0]
    assert fit.size == 4
    assert np.flatnonzero(~np.isnan(qualities)) == fit.sums.counts.sum(axis=0).argmax()
    assert np.nanmax(qualities) == pytest.approx(0.15, abs=0.06)
    said = judged(owners, fit)
    assert said.status == "structure, but not classes"
    assert max(abs(z) for z in said.rows.values()) < 4
    assert "put together" in said.advice


def test_coins_in_their_place_are_a_class():
    owners, fit = fitted(rows(12, [0.9, 0], [0.5, 0.5], 1000, 50))
    assert fit.size == 4
    assert np.isnan(weaker_forms(fit)[0]).all()
    said = judged(owners, fit)
    assert said.status == "ok"
    assert "coins" in said.advice


def test_weak_rows_of_one_kind_are_that_kind_faded():
    rng = np.random.default_rng(13)
    T = rng.uniform(-1, 1, (3, N))
    T = np.vstack([T, 0.4 * T[:1]])
    _, fit = fitted(np.where(rng.random((M, N)) < (1 + T[rng.integers(4, size=M)]) / 2, 1, -1))
    assert fit.size == 4
    assert np.nanmax(weaker_forms(fit)[1]) == pytest.approx(0.4, abs=0.05)
    assert np.isnan(weaker_forms(fit)[0]).all()


@pytest.mark.parametrize("others", [1, 3, 8])
def test_the_gain_of_chance_is_passed_as_often_as_it_says(others):
    z = np.random.default_rng(14).standard_normal((200_000, others))
    passed = ((np.maximum(z, 0) ** 2).sum(axis=1) > gain_of_chance(others)).mean()
    assert passed == pytest.approx(CHANCE, abs=4 * np.sqrt(CHANCE / 200_000))


SIZE = 1000, 50
TOGETHER = "put together"


def signs(means, rng, missing=0.0):
    x = np.where(rng.random(means.shape) < (1 + means) / 2, 1, -1).astype(np.int8)
    x[rng.random(x.shape) < missing] = 0
    return x


def weak(seed, low=0.15):
    """Three graded kinds, of which half of the rows are weak: of quality `low`, or coins at 0."""
    rng, (M, N) = np.random.default_rng([seed, 6]), SIZE
    T, quality = rng.uniform(-1, 1, (3, N)), rng.choice([0.9, low], (M, 1))
    return signs(quality * T[rng.integers(3, size=M)], rng)


def right(kind, missing, M, seed):
    """Tables of classes: graded, symmetric or by column."""
    rng, N = np.random.default_rng([seed, 7]), SIZE[1]
    xi, flips = rng.choice([-1, 1], (6, N)), rng.uniform(0, 0.4, N)
    T = {
        "graded": 2 * rng.beta(1, 1, (3, N)) - 1,
        "close": 2 * rng.beta(2, 2, (5, N)) - 1,
        "symmetric": 0.6 * xi,
        "by column": (1 - 2 * flips) * xi,
    }[kind]
    return signs(T[rng.integers(len(T), size=M)], rng, missing)


KINDS = ("graded", "close", "symmetric", "by column")


def verdict_of(x, seed):
    found = run_recovery(x, seed=seed).archetypes
    return found.status, found.advice


@pytest.mark.slow
def test_rows_of_two_qualities_are_hardly_ever_ok():
    said = [verdict_of(weak(seed), seed) for seed in range(50)]
    assert sum(status == "ok" for status, _ in said) <= 1, said
    assert sum(TOGETHER in advice for _, advice in said) >= 36, said


@pytest.mark.slow
def test_coins_in_their_place_stay_ok():
    said = [verdict_of(weak(seed, 0.0), seed) for seed in range(50, 70)]
    assert sum(TOGETHER in advice for _, advice in said) <= 1, said
    named = ("ok", "detected, not resolved")
    assert sum(status in named for status, _ in said) >= 18, said


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_classes_have_no_weak_rows_put_together(kind, missing):
    said = [verdict_of(right(kind, missing, M, M), 0) for M in (1000, 3000)]
    assert not any(TOGETHER in advice for _, advice in said), said
    assert any(status == "ok" for status, _ in said), said
