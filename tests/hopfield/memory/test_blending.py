"""Blending evidence with memory on a common scale, and literally."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.encoding import decode, encode
from hopfed.hopfield.evidence import Counted, Evidence, blended, counting_of

N, K, M, R = 120, 3, 200, 0.8


def setting(weights, seed=0, qualities=(R,) * 4):
    """Evidence of clients of these weights and qualities, operators, and the archetypes."""
    rng = np.random.default_rng(seed)
    xi = rademacher(K, N, rng)
    evidence, operators = Evidence(N), {}
    for c, w in enumerate(weights):
        x = draw_examples(xi, M, qualities[c], rng)[0]
        operators[c] = decode(encode(kernels.pack(x)), N)
        message = {"columns": x.sum(axis=0).astype(float)}
        evidence = evidence.extend({c: operators[c]}, {c: message}, {c: w})
    return evidence, operators, xi


@given(st.lists(st.floats(0.05, 0.95), min_size=1, max_size=4))
def test_the_literal_blend_is_the_mean_of_the_clients_own_blends(weights):
    """Blending at the server is what clients of the paper do before they send (30, 28)."""
    evidence, operators, xi = setting(weights)
    w = dict(enumerate(weights))
    both = blended("literal", evidence, xi, w, 1e-3)[0].matmat(np.eye(N)) / N
    memory = xi.T.astype(float) @ xi / N
    local = [operators[c].matmat(np.eye(N)) / N for c in operators]
    paper = np.mean([(1 - w[c]) * memory + w[c] * J for c, J in enumerate(local)], axis=0)
    scale = np.mean(weights)  # the blend is divided by the evidence's own factor
    np.testing.assert_allclose(both * scale, paper, atol=1e-9)


def test_the_common_scale_gives_both_sides_a_mean_signal_eigenvalue_of_one():
    evidence, operators, xi = setting([0.5, 0.5])
    both, quality = blended("common", evidence, xi, {0: 0.5, 1: 0.5}, 1e-3)
    theta = N * R**2 / K
    np.testing.assert_allclose(quality, R, rtol=0.05)
    added = both.matmat(np.eye(N)) - evidence.operator.matmat(np.eye(N))
    values = np.linalg.eigvalsh(added)[::-1][:K]
    np.testing.assert_allclose(values.mean(), theta, rtol=0.1)


@pytest.mark.parametrize("memory", ["separate", "common", "literal"])
def test_fresh_evidence_alone_is_counted_right_under_every_memory(memory):
    evidence, operators, xi = setting([0.9, 0.9])
    counted = Counted.of(evidence, operators, {0: 0.9, 1: 0.9}, 1e-3, memory, xi[:2])
    assert counted.rank.n_detected == K
    assert counted.spectrum.vectors.shape == (N, K)
    for variance in counted.variances.values():
        np.testing.assert_allclose(variance, 1 - R**2, rtol=0.1)


def test_a_noisy_client_does_not_raise_the_count():
    evidence, operators, xi = setting([1.0] * 3, seed=3, qualities=(0.95, 0.95, 0.0))
    counted = Counted.of(evidence, operators, dict.fromkeys(operators, 1.0), 1e-3)
    assert counted.rank.n_detected == K
    values = np.linalg.eigvalsh(evidence.operator.matrix / evidence.operator.mass)[::-1]
    assert counting_of(evidence, 1e-3)(values, True) > K
    variances = [counted.variances[c] for c in range(3)]
    np.testing.assert_allclose(variances, [0.0975, 0.0975, 1], atol=0.03)
