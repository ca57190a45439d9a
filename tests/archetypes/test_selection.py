from dataclasses import replace

import numpy as np
from helpers import sample, subspace
from hypothesis import given, settings
from hypothesis import strategies as st

from hopfed.hopfield.channel import rademacher
from hopfed.theory.resolution import expected_overlap


@settings(max_examples=4)
@given(st.integers(0, 2**32))
def test_theory_predicts_the_score_of_archetypes_and_refuses_what_is_none(seed):
    xi, eta = sample(8, 400, 1600, 0.6, seed)
    space = subspace(eta)
    gap = (np.subtract(*space.judged(xi))) * np.sqrt(400)
    assert np.abs(gap).max() < 0.5
    assert space.accepted(xi).all()
    strangers = rademacher(50, 400, np.random.default_rng(seed + 1))
    assert not space.accepted(strangers).any()
    mixtures = np.sign(xi[:3].sum(axis=0, keepdims=True)).astype(np.int8)
    assert not space.accepted(mixtures).any()


def test_the_fit_gives_exposures_and_drops_what_is_not_needed():
    exposures = np.array([0.4, 0.3, 0.2, 0.1])
    xi, eta = sample(4, 500, 4000, 0.7, 0, exposures=exposures)
    space = subspace(eta)
    combination = np.sign(xi[0].astype(int) + xi[1] + xi[2]).astype(np.int8)
    kept, fit = space.select(np.vstack([combination, xi]))
    np.testing.assert_array_equal(kept, xi)  # heaviest first, the combination gone
    np.testing.assert_allclose(fit.weights / 0.49, exposures, atol=0.03)
    np.testing.assert_allclose(fit.shares, 1, atol=0.05)
    assert fit.explained > 0.99


def test_polish_rests_at_archetypes():
    xi, eta = sample(5, 400, 2000, 0.8, 4)
    space = subspace(eta)
    noisy = np.where(np.random.default_rng(5).random(xi.shape) < 0.15, -xi, xi)
    np.testing.assert_array_equal(space.polish(noisy), xi)
    assert space.polish(xi).dtype == np.int8
    for tiny in (1e-17, -1e-17):  # a column of which the eigenvectors say nothing
        blind = replace(space, vectors=np.vstack([space.vectors, np.full((1, space.dim), tiny)]))
        found = blind.polish(np.hstack([noisy, -np.ones((5, 1), np.int8)]))
        np.testing.assert_array_equal(found, np.hstack([xi, np.ones((5, 1), np.int8)]))


def blur(xi, overlap, rng):
    """Patterns of that overlap with `xi`, in expectation."""
    return np.where(rng.random(xi.shape) < (1 + overlap) / 2, xi, -xi).astype(np.int8)


def test_the_overlap_with_the_archetype_is_the_expected_one():
    """In evidence in which archetypes are blurred, r = .11; the spread of a draw is .011."""
    gaps = []
    for seed in range(8):
        xi, eta = sample(4, 600, 1500, 0.11, seed)
        space = subspace(eta)
        states = space.polish(xi)
        expected = expected_overlap(space.judged(states)[1]).mean()
        assert 0.6 < expected < 0.99
        gaps.append((states * xi).mean() - expected)
    assert abs(np.mean(gaps)) < 0.01
    assert max(map(abs, gaps)) < 0.05


def test_what_is_surer_than_the_operator_stays_as_it_is():
    xi, eta = sample(3, 400, 600, 0.2, 0)
    space = subspace(eta)
    candidates, rows = space.match_known(xi, np.ones(3))
    np.testing.assert_array_equal(candidates[rows], xi)
    falls = space.polish(xi)
    assert (falls != xi).any()
    candidates, rows = space.match_known(xi, np.full(3, 0.5))
    np.testing.assert_array_equal(candidates[rows], falls)


@settings(max_examples=4)
@given(st.integers(0, 2**32), st.sampled_from([0.4, 0.8, 1.0]))
def test_of_what_is_not_exposed_the_operator_says_nothing(seed, m):
    rng = np.random.default_rng(seed)
    xi, eta = sample(5, 600, 3000, 0.5, seed)
    strangers = rademacher(3, 600, np.random.default_rng(seed + 1))
    strangers = blur(strangers, m, rng)
    candidates, rows = subspace(eta).match_known(np.vstack([strangers, xi[:2]]), np.full(5, m))
    assert (rows[:3] == -1).all()
    assert (rows[3:] >= 0).all()
    assert len(candidates) == 2


def test_estimates_of_one_archetype_become_one_and_likenesses_do_not():
    rng = np.random.default_rng(3)
    xi, eta = sample(2, 600, 3000, 0.5, 1)
    like = xi[0].copy()
    like[: 600 // 8] *= -1  # overlap 3/4 with an archetype that is exposed, and not exposed itself
    known = np.vstack([blur(xi[:1], 0.6, rng), blur(xi[:1], 0.7, rng), like])
    candidates, rows = subspace(eta).match_known(known, np.array([0.6, 0.7, 1.0]))
    assert rows.tolist() == [0, 0, -1]
    np.testing.assert_array_equal(candidates, xi[:1])
