"""Search, kernels, votes and mixes against brute force."""

import numpy as np
import pytest
from clouds import examples
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.neural.memory import neighbours  # noqa: E402
from hopfed.neural.memory.neighbours import (  # noqa: E402
    GRID,
    Index,
    Neighbours,
    choose_weight,
    log_kernel,
    mix,
)
from hopfed.neural.memory.prototypes import fit_prototypes  # noqa: E402


def brute(queries, keys, k):
    """All pairs in float64; ties to the row that came first."""
    queries, keys = (np.asarray(a, np.float32).astype(float) for a in (queries, keys))
    squared = ((queries[:, None] - keys) ** 2).sum(axis=2)
    rows = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squared, rows, axis=1), rows


def brute_probabilities(queries, keys, labels, classes, k, kernel, sigma):
    """(6) and its variant, one query and one neighbour after the other."""
    squared, rows = brute(queries, keys, k)
    p = np.zeros((len(queries), classes))
    for q in range(len(queries)):
        for D, i in zip(squared[q], rows[q], strict=True):
            far = np.sqrt(D) / sigma if kernel == "paper" else D / (keys.shape[1] * sigma)
            p[q, labels[i]] += np.exp(-far)
    return p / p.sum(axis=1, keepdims=True)


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


def test_no_keys_leave_nothing():
    assert Index(np.ones((0, 3))).search(np.ones((2, 3)), 4)[1].shape == (2, 0)


def test_keys_are_copied_and_cannot_be_changed():
    keys, *_ = examples()
    held = Index(keys).keys
    assert not np.shares_memory(held, keys)
    assert not held.flags.writeable


@pytest.mark.parametrize(("kernel", "sigma"), [("paper", 1.0), ("paper", 0.3), ("program", 0.5)])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_probabilities_are_those_of_brute_force(kernel, sigma, k):
    keys, labels, queries, _ = examples()
    memory = Neighbours(Index(keys), labels, 4, k, kernel, sigma)
    expected = brute_probabilities(queries, keys, labels, 4, min(k, len(keys)), kernel, sigma)
    np.testing.assert_allclose(memory(queries), expected, atol=1e-6)
    np.testing.assert_allclose(memory(queries).sum(axis=1), 1)
    assert memory.nbytes == keys.nbytes + len(keys)


def test_a_kernel_too_narrow_for_floats_is_the_nearest_neighbour():
    keys, labels, queries, _ = examples()
    p = Neighbours(Index(keys), labels, 4, 10, "paper", 1e-6)(queries)
    np.testing.assert_array_equal(p.argmax(axis=1), labels[brute(queries, keys, 1)[1][:, 0]])
    assert np.isfinite(p).all()


logits_and_p = st.integers(0, 10**6).map(
    lambda seed: (
        np.random.default_rng(seed).normal(0, 3, (6, 4)).astype(np.float32),
        np.random.default_rng(seed + 1).dirichlet(np.ones(4), 6),
    )
)


@given(logits_and_p, st.floats(0, 1), st.sampled_from(neighbours.MIXINGS))
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Index(np.ones(3)), r"keys must be of shape \(n, d\)"),
        (lambda: Index(np.full((2, 2), np.nan)), "keys must be finite"),
        (lambda: Index(np.ones((2, 2))).search(np.ones((1, 2)), 0), "k must be at least 1"),
        (lambda: log_kernel(np.ones(1), "box", 1.0, 1), "kernel must be one of paper, program"),
        (lambda: mix(np.ones((1, 2)), np.ones((1, 2)), 0.5, "x"), "mixing must be one of prob"),
        (lambda: fit_prototypes(np.ones((2, 2)), np.zeros(2, int), 2, count=0), "count must be"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
