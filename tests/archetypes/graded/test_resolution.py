"""Classes of few rows are there, but nobody can say what they are like: that is not "ok"."""

import numpy as np
import pytest
from helpers import rest_slow

from hopfed import recover
from hopfed.archetypes.channel import Channel, expected_overlaps, hidden, nearness
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


def test_the_overlap_expected_of_signs_is_that_of_their_posterior():
    rng = np.random.default_rng(720)
    r, n, N = 0.3, 20, 4000
    votes = (rng.random((n, N)) < (1 + r) / 2).sum(axis=0) * 2 - n  # of a pattern of ones
    sign = np.tanh(np.arctanh(r) * votes)
    expected = expected_overlaps(
        r * sign[None], r * np.sqrt(1 - sign**2)[None], np.ones(1), "symmetric"
    )
    true = float((np.sign(votes) + (votes == 0) * rng.choice([-1, 1], N)).mean())
    assert abs(expected[0] - true) < 4 / np.sqrt(N)


def test_what_a_hidden_class_may_add_counts_where_rows_say_little():
    signs = np.random.default_rng(740).choice([-1, 1], (2, 400))
    for r, little, much in ((0.05, 1.0, 10.0), (0.3, 0.03, 0.3), (0.9, 1e-3, 1e-2)):
        added = hidden(r * signs, TWO, 1.0)
        assert (added > little).all()
        assert (added < much).all()
        np.testing.assert_allclose(hidden(r * signs, TWO, 0.25), 4 * added)
        means, errors = r * signs, np.full(signs.shape, 0.3 * r)
        with_gaps, complete = (expected_overlaps(means, errors, TWO, "graded", p) for p in (0.2, 1))
        assert (with_gaps < complete).all()
    assert hidden(0.5 * signs[:1], np.ones(1)).tolist() == [0.0]


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
    needed = round(nearness(Channel(channel, means, errors, None), shares, 30.0).rows)
    assert expected_overlaps(*posterior(needed, channel, rng)).min() > sure_level(300) - 0.02
    assert needed < 3000
