"""Evidence over rounds: sums, the law of its noise, and the size of the test under it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.hopfield.encoding import decode, encode
from hopfed.hopfield.evidence import Evidence
from hopfed.spectral.rank import TracyWidom


def noise(M, N, *path):
    return np.sign(np.random.default_rng(path).standard_normal((M, N))).astype(np.int8)


def gathered(batches, N, discount, weights=None):
    """Evidence of one batch a round, all of one client."""
    evidence = Evidence(N)
    for i, x in enumerate(batches):
        op = decode(encode(kernels.pack(x)), N)
        w = 1.0 if weights is None else weights[i]
        message = {"columns": x.sum(axis=0).astype(float)}
        evidence = evidence.discounted(discount).extend({0: op}, {0: message}, {0: w})
    return evidence


@given(
    st.floats(0.1, 1),
    st.lists(st.tuples(st.integers(1, 9), st.floats(0.05, 1)), min_size=1, max_size=5),
)
def test_evidence_is_the_weighted_sum_of_its_batches(discount, rounds):
    batches = [noise(m, 8, i) for i, (m, _) in enumerate(rounds)]
    weights = [w for _, w in rounds]
    evidence = gathered(batches, 8, discount, weights)
    ages = np.arange(len(rounds))[::-1]
    total = sum(
        w * discount**age * x.T.astype(float) @ x
        for w, age, x in zip(weights, ages, batches, strict=True)
    )
    row_weights = np.concatenate(
        [np.full(len(x), w * discount**a) for w, a, x in zip(weights, ages, batches, strict=True)]
    )
    np.testing.assert_allclose(evidence.operator.matrix, total, atol=1e-9)
    np.testing.assert_allclose(evidence.operator.mass, row_weights.sum())
    np.testing.assert_allclose(evidence.n_examples, row_weights.sum() ** 2 / (row_weights**2).sum())
    profile = evidence.profile()
    np.testing.assert_allclose(profile.weights.sum(), 1)
    np.testing.assert_allclose(profile.weights @ profile.gains, 1)


def test_it_survives_being_flattened():
    evidence = gathered([noise(9, 20, i) for i in range(3)], 20, 0.5)
    again = Evidence.unflatten(20, evidence.flatten())
    X = np.random.default_rng(0).standard_normal((20, 2))
    np.testing.assert_array_equal(again.operator.matmat(X), evidence.operator.matmat(X))
    np.testing.assert_array_equal(again.weights, evidence.weights)
    assert again.n_examples == evidence.n_examples
    assert Evidence.unflatten(20, {}).operator is None


@pytest.mark.slow
def test_the_size_of_the_test_under_fading_weights():
    """At 5% and 400 draws the share of false alarms has a standard error of 1.1%."""
    N, draws, alpha = 150, 400, 0.05
    hits = equal = 0
    for draw in range(draws):
        evidence = gathered([noise(100, N, draw, i) for i in range(6)], N, 0.5)
        values = np.linalg.eigvalsh(evidence.operator.matrix / evidence.operator.mass)[::-1]
        sample = evidence.sample(np.maximum(values, 0), True)
        hits += TracyWidom(alpha)(sample).n_detected > 0
        equal += TracyWidom(alpha)(replace(sample, profile=None)).n_detected > 0
    assert 0.01 < hits / draws < 0.085
    assert equal / draws > 0.4  # what mass^2 / sum w^2 equal examples would have said
