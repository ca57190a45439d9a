"""Memories made of examples, against brute force: neighbours, Hopfield retrieval, prototypes."""

import numpy as np
import pytest
from clouds import examples
from hypothesis import given
from hypothesis import strategies as st

from hopfed.neural.memory import (
    GRID,
    MIXINGS,
    Hopfield,
    Index,
    Neighbours,
    Prototypes,
    choose_weight,
    mix,
    unit,
)


def test_hopfield_retrieval_is_the_programs_kernel_on_keys_of_one_norm():
    keys, labels, queries, _ = examples()
    beta, d = 7.0, keys.shape[1]
    memory = Hopfield(keys, labels, 4, beta)
    # The update of a modern Hopfield network, as in Ramsauer et al. (2021).
    X, q = memory.keys, unit(queries - keys.mean(axis=0, dtype=float))
    e = np.exp(beta * q @ X.T)
    attention = e / e.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(memory.weights(queries), attention, atol=1e-12)
    np.testing.assert_allclose(memory(queries), attention @ np.eye(4)[labels], atol=1e-12)
    # And so kNN-Per with all keys as neighbours, up to the float32 of its index.
    all_of = Neighbours(Index(X), labels, 4, len(X), "program", 2 / (beta * d))
    np.testing.assert_allclose(memory(queries), all_of(q), atol=1e-5)


def test_prototypes_learn_what_k_means_cannot_see():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=300)
    x = rng.standard_normal((300, 10)) * np.r_[0.4, 5 * np.ones(9)]  # the classes lie in axis 0
    x[:, 0] += 2 * labels - 1
    # A quarter of the examples is kept apart.
    train, test = slice(75, None), slice(75)

    def right(**settings):
        made = Prototypes(x[train], labels[train], 2, count=6, **settings)
        return (made(x[test]).argmax(axis=1) == labels[test]).mean(), made

    (blind, _), (learned, made) = right(steps=0), right(steps=150)
    assert learned > max(blind + 0.1, 0.85)
    np.testing.assert_allclose(made(x[test]).sum(axis=1), 1)
    assert len(made) == 6
    again = Prototypes(x[train], labels[train], 2, count=6, steps=150)
    np.testing.assert_array_equal(made(x[test]), again(x[test]))


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_examples_make_a_memory(n):
    x, labels = np.ones((n, 3)), np.arange(n)
    for memory in (
        Prototypes(x, labels, 2, count=5),
        Hopfield(x, labels, 2, 3.0),
        Neighbours(Index(x), labels, 2),
    ):
        p = memory(np.array([[1.0, 2.0, 3.0]]))
        np.testing.assert_allclose(p, [np.bincount(labels, minlength=2) / n], atol=0.1)


def brute(queries, keys, k):
    """All pairs in float64; ties to the row that came first."""
    queries, keys = (np.asarray(a, np.float32).astype(float) for a in (queries, keys))
    squared = ((queries[:, None] - keys) ** 2).sum(axis=2)
    rows = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squared, rows, axis=1), rows


@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 70), st.integers(0, 10**6))
def test_exact_search_is_all_pairs_compared(n, d, k, seed):
    rng = np.random.default_rng(seed)
    # Few values: many ties, of which any row may be taken, each once.
    keys, queries = rng.integers(-2, 3, (n, d)), rng.integers(-2, 3, (7, d))
    squared, rows = Index(keys).search(queries, k)
    expected, _ = brute(queries, keys, min(k, n))
    np.testing.assert_array_equal(squared, expected)
    far = ((queries[:, None] - keys[rows]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(far, expected)
    assert all(len(set(row)) == len(row) for row in rows.tolist())


def test_exact_search_does_not_rely_on_sums_in_float32():
    rng = np.random.default_rng(0)
    keys = (1000 + 0.01 * rng.standard_normal((400, 64))).astype(np.float32)
    queries = (1000 + 0.01 * rng.standard_normal((20, 64))).astype(np.float32)
    expected, where = brute(queries, keys, 10)
    squared, rows = Index(keys).search(queries, 10)
    np.testing.assert_array_equal(rows, where)
    np.testing.assert_allclose(squared, expected, rtol=1e-12)


logits_and_p = st.integers(0, 10**6).map(
    lambda seed: (
        np.random.default_rng(seed).normal(0, 3, (6, 4)).astype(np.float32),
        np.random.default_rng(seed + 1).dirichlet(np.ones(4), 6),
    )
)


@given(logits_and_p, st.floats(0, 1), st.sampled_from(MIXINGS))
def test_a_mix_is_a_law_between_its_ends(both, weight, mixing):
    logits, p = both
    model = mix(logits, p, 0, mixing)
    np.testing.assert_array_equal(model, mix(logits, np.empty(0), 0.0, mixing))
    np.testing.assert_array_equal(mix(logits, p, 1, mixing), np.log(p))
    found = np.exp(mix(logits, p, weight, mixing))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    if mixing == "probabilities":
        expected = weight * p + (1 - weight) * np.exp(model)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_mixed_logits_are_the_programs_scores():
    logits, p = np.array([[2.0, 0.0, 1.0]]), np.array([[0.0, 0.9, 0.1]])
    found = mix(logits, p, 0.7, "logits")
    scores = 0.7 * p + 0.3 * logits
    np.testing.assert_allclose(found - found[:, :1], scores - scores[:, :1])


def test_of_tied_weights_the_middle_one_is_taken():
    logits = np.zeros((1, 3), np.float32)
    assert choose_weight(logits, np.array([[1.0, 0, 0]]), np.array([0])) == 0.5  # all of them
    assert choose_weight(logits, np.array([[1.0, 0, 0]]), np.array([2])) == 0.5
    sure = np.array([[10.0, 0, 0]], np.float32)
    # Right from .5 on: .5, .7, .9, 1, of which the lower middle one.
    assert choose_weight(sure, np.array([[0, 1.0, 0]]), np.array([1])) == 0.7
    assert choose_weight(sure, np.array([[0, 1.0, 0]]), np.array([0])) == 0.1
    assert {0.0, 1.0} < set(GRID)
