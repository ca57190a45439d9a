"""Rows and archetypes: against dense double precision, theory, planted and real labels."""

import numpy as np
import pytest
from graded_tables import made
from helpers import filled, rest_slow
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

import hopfed
from hopfed.archetypes import assignment
from hopfed.errors import ArgumentError, DataError
from hopfed.hopfield.channel import draw_examples, rademacher


def draw(T, shares, M, missing, rng):
    y = rng.choice(len(T), M, p=shares)
    x = np.where(rng.random((M, T.shape[1])) < (1 + T[y]) / 2, 1, -1).astype(np.int8)
    x[rng.random(x.shape) < missing] = 0
    return x, y


def dense(T, shares, x):
    """(M, K) log of the joint probability, entry by entry in double precision."""
    T = np.clip(T, -1 + 1e-6, 1 - 1e-6)
    p = np.where(x[:, None] == 0, 1.0, (1 + x[:, None] * T[None]) / 2)
    return np.log(p).sum(axis=2) + np.log(shares)


def tables():
    """(means, shares, rows), with gaps or without, some rows empty."""

    @st.composite
    def make(draw_):
        rng = np.random.default_rng(draw_(st.integers(0, 10**6)))
        K, N, M = (draw_(st.integers(1, top)) for top in (6, 90, 40))
        T = rng.choice([2 * rng.beta(0.3, 0.3, (K, N)) - 1, np.sign(rng.normal(size=(K, N)))])
        x = rng.choice([-1, 0, 1], (M, N), p=rng.dirichlet([3, 1, 3])).astype(np.int8)
        x[:: draw_(st.integers(1, 9))] *= draw_(st.sampled_from([0, 1]))
        x[-1, 0] = -1  # so that 0 is missing
        return T, rng.dirichlet(np.ones(K)), x

    return make()


@given(tables())
def test_all_answers_are_those_of_dense_double_precision(table):
    T, shares, x = table
    found = made(T, shares)
    logs = dense(T, shares, x)
    likelihood = logsumexp(logs, axis=1)
    weights = np.exp(logs - likelihood[:, None])
    np.testing.assert_allclose(found.score(x), likelihood, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.probabilities(x), weights, rtol=1e-7, atol=1e-9)
    archetype, probability = found.assign(x, alpha=0)
    np.testing.assert_allclose(probability, weights.max(axis=1), rtol=1e-7)
    np.testing.assert_allclose(weights[np.arange(len(x)), archetype], probability, rtol=1e-7)
    mean = weights @ np.clip(T, -1 + 1e-6, 1 - 1e-6)
    sure = np.abs(mean) > 1e-6
    np.testing.assert_array_equal(found.denoise(x)[sure], np.sign(mean)[sure])
    values, probability = found.complete(x)
    np.testing.assert_array_equal(values[x != 0], x[x != 0])
    np.testing.assert_array_equal(probability[x != 0], 1)
    gap = (x == 0) & sure
    np.testing.assert_array_equal(values[gap], np.sign(mean)[gap])
    np.testing.assert_allclose(probability[gap], (1 + np.abs(mean))[gap] / 2, rtol=1e-5)


@given(tables())
def test_probabilities_sum_to_one_and_rows_of_nothing_get_the_shares(table):
    T, shares, x = table
    found = made(T, shares)
    np.testing.assert_allclose(found.probabilities(x).sum(axis=1), 1)
    empty = np.full((2, x.shape[1]), np.nan)
    np.testing.assert_allclose(found.probabilities(empty), [shares, shares])
    assert found.assign(empty).archetype.tolist() == [-1, -1]
    archetype, probability = found.assign(empty, alpha=0)
    np.testing.assert_allclose(shares[archetype], shares.max())
    np.testing.assert_allclose(probability, shares.max())
    np.testing.assert_allclose(found.score(empty), 0, atol=1e-12)


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(4)
    T = rng.uniform(-1, 1, (5, 80))
    x, _ = draw(T, np.full(5, 0.2), 700, 0.2, rng)
    found = made(T)
    whole = (*found.assign(x), found.score(x), *found.complete(x), found.denoise(x))
    monkeypatch.setattr(assignment, "BLOCK", 1)
    parts = (*found.assign(x), found.score(x), *found.complete(x), found.denoise(x))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("shape", "missing"), rest_slow([(1.0, 0.3), (0.2, 0.0)], 1))
def test_rows_of_the_model_are_rejected_as_often_as_is_said(shape, missing):
    rng = np.random.default_rng(5)
    T = np.clip(2 * rng.beta(shape, shape, (4, 120)) - 1, -0.999, 0.999)
    shares = rng.dirichlet(np.full(4, 3))
    x, y = draw(T, shares, 40_000, missing, rng)
    found = made(T, shares)
    for alpha in (0.001, 0.01, 0.05):
        archetype = found.assign(x, alpha=alpha).archetype
        rejected = (archetype < 0).mean()
        slack = 4 * np.sqrt(alpha / len(x))
        assert 0.4 * alpha - slack < rejected < 1.1 * alpha + slack
        assert (archetype[archetype >= 0] == y[archetype >= 0]).mean() > 0.999
    noise = rng.choice([-1, 1], (500, 120)).astype(np.int8)
    assert (found.assign(noise).archetype < 0).mean() > 0.95


@pytest.mark.parametrize("quality", rest_slow([0.99, 0.999, 0.9, 0.4], 1))
def test_where_rows_hardly_differ_the_level_is_not_passed(quality):
    """Few columns ever err: the law of what a row lacks has steps, and no more than its level."""
    rng = np.random.default_rng(int(1000 * quality))
    xi = rademacher(2, 20, rng)
    x, _ = draw_examples(xi, 40_000, quality, rng)
    found = made(quality * xi)
    for alpha in (0.001, 0.01, 0.05):
        rejected = (found.assign(x, alpha=alpha).archetype < 0).mean()
        assert rejected < alpha + 4 * np.sqrt(alpha / len(x))
    assert found.assign(xi).archetype.tolist() == [0, 1]


def test_hidden_votes_are_filled_as_surely_as_is_said(votes):
    x = votes[0]
    hidden = (np.random.default_rng(0).random(x.shape) < 0.1) & ~np.isnan(x)
    given_ = np.where(hidden, np.nan, x)
    values, probability = hopfed.recover(given_, seed=0).complete(given_)
    right = values[hidden] == x[hidden]
    commonest = np.sign(np.nanmean(given_, axis=0))[None].repeat(len(x), 0)[hidden] == x[hidden]
    assert right.mean() > commonest.mean() + 0.2
    assert right.mean() == pytest.approx(probability[hidden].mean(), abs=0.03)


def test_what_cannot_be_answered_is_refused_in_a_line():
    found = made(np.zeros((2, 4)) + 0.5)
    for rows, message in (
        (np.ones((5, 3)), r"^rows: 3 columns, but the archetypes have 4$"),
        ([[1, 7, 1, 1]], "row 1, column 2"),
        (np.ones(4), "rows of a table"),
        (np.ones((0, 4)), "at least 1 example"),
    ):
        with pytest.raises(DataError, match=message):
            found.assign(rows)
    for alpha in (-0.1, 1.0, np.nan):
        with pytest.raises(ArgumentError, match="alpha must be in"):
            found.assign(np.ones((1, 4)), alpha=alpha)


def test_without_archetypes_rows_are_none_of_them_and_no_gap_is_filled():
    none = made(np.zeros((0, 4)))
    x = np.array([[1, -1, 0, 1], [1, 1, 1, 1]])
    archetype, probability = none.assign(x)
    assert (archetype.tolist(), probability.tolist()) == ([-1, -1], [0, 0])
    assert none.probabilities(x).shape == (2, 0)
    np.testing.assert_allclose(none.score(x), [-3 * np.log(2), -4 * np.log(2)])
    for answer in (none.complete, none.denoise):
        with pytest.raises(DataError, match="no archetypes were found \\(no signal\\)"):
            answer(x)


def test_levels_of_a_variable_count_once():
    """Two classes of four variables of three levels: exact probabilities, and few outliers."""
    rng = np.random.default_rng(3)
    rates = rng.dirichlet(np.ones(3), (2, 8))
    label = rng.integers(2, size=600)
    levels = np.array([[rng.choice(3, p=rates[k, v]) for v in range(8)] for k in label])
    table = {f"v{v}": np.array(["a", "b", "c"])[levels[:, v]] for v in range(8)}
    found = hopfed.recover(table)
    assert (len(found), found.status) == (2, "ok")
    p = ((1 + found.means) / 2).reshape(2, 8, 3)
    p /= p.sum(axis=2, keepdims=True)
    logs = np.log(found.shares) + np.log(p[:, np.arange(8), levels]).sum(axis=2).T
    exact = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
    np.testing.assert_allclose(found.probabilities(table), exact, atol=1e-6)
    np.testing.assert_allclose(found.score(table), np.logaddexp.reduce(logs, axis=1), atol=1e-5)
    assert (found.assign(table, alpha=0.01).archetype == -1).mean() < 0.03


def test_filled_counts_cells_and_leaves_empty_rows_blank():
    rng = np.random.default_rng(4)
    kind = rng.integers(2, size=300)
    letters = np.array([list("abcabc"), list("bcabca")])[kind].astype(object)
    changed = rng.random(letters.shape) < 0.1
    letters[changed] = rng.choice(list("abc"), changed.sum())
    letters[::30] = ""
    letters[1, :2] = ""
    table = {f"v{j}": letters[:, j].tolist() for j in range(6)}
    part = filled(hopfed.recover(table), table)
    assert (part.cells, part.filled, part.blank) == (1800, 2, 10)
    assert 1.6 < part.right < 2
    cells = dict(part.columns)["v0"].to_pylist()
    assert all(not word for word in cells[::30])
    assert cells[1] == "ab"[kind[1]]
