"""Classes of few rows are there, but nobody can say what they are like: that is not "ok"."""

import numpy as np
import pytest
from helpers import rest_slow
from scipy.optimize import linear_sum_assignment

import hopfed
from hopfed import recover
from hopfed.archetypes.channel_and_replicas import (
    Channel,
    choose_channel,
    expected_overlaps,
    nearness,
)
from hopfed.archetypes.class_sums import ClassSums, Fit, Mixture, Prior
from hopfed.theory.resolution import RESOLVED, sure_level

SHARES = np.array([0.5, 0.2, 0.12, 0.1, 0.04, 0.04])

KINDS = np.array([0.5, 0.3, 0.2])


def patterns_and_rows(seed, N=400, M=1000, r=0.3):
    rng = np.random.default_rng(seed)
    xi = np.where(rng.random((len(SHARES), N)) < 0.5, 1, -1)
    own = rng.choice(len(SHARES), size=M, p=SHARES)
    return xi, np.where(rng.random((M, N)) < (1 + r) / 2, xi[own], -xi[own])


def classes_and_rows(seed, N=60, M=400, spread=0.9):
    rng = np.random.default_rng(seed)
    means = rng.uniform(-1, 1, N) * 0.3 + rng.uniform(-1, 1, (len(KINDS), N)) * spread / 2
    own = rng.choice(len(KINDS), size=M, p=KINDS)
    return means, np.where(rng.random((M, N)) < (1 + means[own]) / 2, 1, -1)


@pytest.mark.parametrize("seed", rest_slow([700, 701, 702], 1))
def test_patterns_of_few_rows_are_detected_and_not_resolved(seed):
    xi, rows = patterns_and_rows(seed)
    found = recover([rows[::2], rows[1::2]])
    overlaps = (np.abs(found.patterns @ xi.T) / xi.shape[1]).max(axis=1)
    assert found.status == "detected, not resolved" or overlaps.min() >= RESOLVED
    if found.channel == "symmetric" and found.graded_means is not None:
        assert "with the true ones" in found.advice
        np.testing.assert_allclose(found.expected_overlaps, overlaps, atol=0.15)
        assert abs((found.expected_overlaps - overlaps).mean()) < 0.03


@pytest.mark.parametrize("seed", rest_slow([710, 711], 1))
def test_profiles_are_as_near_as_expected(seed):
    means, rows = classes_and_rows(seed)
    found = recover(rows)
    assert found.channel == "graded"
    own = found.means - found.shares @ found.means
    true = means - KINDS @ means
    cosines = (own @ true.T) / np.outer(np.linalg.norm(own, axis=1), np.linalg.norm(true, axis=1))
    assert abs((found.expected_overlaps - cosines.max(axis=1)).mean()) < 0.05
    assert found.status != "ok" or cosines.max(axis=1).min() > RESOLVED - 0.05


@pytest.mark.parametrize(("seen", "name"), [(80, "graded"), (20, "symmetric")])
def test_one_column_that_answers_otherwise_ends_what_columns_share(seen, name):
    """Its rate of 100% was said to be 84%, and known within 4 points."""
    n = np.full((3, 15), 200.0)
    n[2] = seen
    signed = 0.7 * n
    signed[2, 14] = seen
    prior = Prior(np.full(15, 0.5), np.ones(15))
    sums = ClassSums(n[:, :1].T, signed, n)
    fit = Fit(Mixture(signed / n, n[:, :1].T / n[:, 0].sum()), sums, prior.fitted(sums))
    channel = choose_channel(fit, np.ones_like(n))
    assert channel.name == name
    assert choose_channel(fit, np.ones_like(n), graded=True).name == "graded"
    held = np.abs(channel.means - signed / n) <= 3 * channel.errors
    assert held.all() == (name == "graded")


TWO = np.array([0.6, 0.4])


def posterior(rows, channel, rng, N=300, r=0.2):
    """Means and errors of two patterns from so many rows, each sure of its pattern."""
    signs = rng.choice([-1, 1], (2, N))
    n = np.round(rows * TWO).astype(int)[:, None]
    total = 2 * rng.binomial(n, (1 + r * signs) / 2) - n
    if channel == "symmetric":
        sign = np.tanh(np.arctanh(r) * total)
        return r * sign, r * np.sqrt(1 - sign**2), TWO, channel
    means = total / (n + 1 / r**2)  # with a prior as wide as the means are
    return means, np.sqrt((1 - means**2) / (n + 1 / r**2)), TWO, channel


@pytest.mark.parametrize("channel", ["symmetric", "by column", "graded"])
def test_so_many_rows_as_it_names_would_do(channel):
    rng = np.random.default_rng(730)
    means, errors, shares, _ = posterior(30, channel, rng)
    needed = round(nearness(Channel(channel, means, errors), shares, 30.0).rows)
    assert expected_overlaps(*posterior(needed, channel, rng)).min() > sure_level(300) - 0.02
    assert needed < 3000


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), [(0.82, 0.92), (0.85, 0.85)])
def test_intervals_of_one_quality_hold_rates_that_differ_a_little(low, high):
    """The simplest channel wins until rows tell otherwise; its intervals held a third of these."""
    held = []
    for seed in range(8):
        rng = np.random.default_rng([seed, 71])
        patterns = rng.choice([-1, 1], (2, 12))
        true = patterns * (2 * rng.uniform(low, high, (2, 12)) - 1)
        rows = np.where(rng.random((400, 12)) < (1 + true[rng.integers(2, size=400)]) / 2, 1, -1)
        found = hopfed.recover(rows, seed=seed)
        if found.channel == "graded" or len(found) != 2:
            continue
        apart = np.abs(found.means[:, None] - true[None]).mean(axis=2)
        off = np.abs(found.means - true[apart.argmin(axis=1)])
        held.append((off <= 1.96 * found.errors).mean())
    assert len(held) >= 5
    assert np.mean(held) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize(("K", "N", "M", "missing"), [(3, 16, 4000, 0.4), (4, 12, 6000, 0.0)])
def test_intervals_hold_as_often_as_they_say(K, N, M, missing):
    inside = []
    for seed in range(3):
        rng = np.random.default_rng([seed, K])
        p = rng.uniform(0.1, 0.9, (K, N))
        x = np.where(rng.random((M, N)) < p[rng.integers(K, size=M)], 1, -1)
        x[rng.random((M, N)) < missing] = 0
        found = hopfed.recover(np.where(x == 0, np.nan, x), seed=0)
        if len(found) != K:
            continue
        T = 2 * p - 1
        i, j = linear_sum_assignment(((found.means[:, None] - T[None]) ** 2).sum(axis=2))
        inside.append(np.abs(found.means[i] - T[j]) < 1.96 * found.errors[i])
    assert len(inside) >= 2
    assert 0.92 < np.mean(inside) <= 1
