"""Operators as messages: what travels, what it costs, what it loses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.federation.messages import malformed
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.encoding import FORMS, Encoding, pack_patterns, unpack_patterns
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import FactorOperator


def examples(M, N, seed=0, r=0.8, K=3):
    rng = np.random.default_rng(seed)
    return draw_examples(rademacher(K, N, rng), M, r, rng)[0]


@given(st.integers(1, 30), st.integers(2, 40), st.integers(0, 99))
def test_counts_are_exact(M, N, seed):
    x = np.sign(np.random.default_rng(seed).standard_normal((M, N))).astype(np.int8)
    encoding = Encoding(N, width=1)
    message = encoding.encode(kernels.pack(x))
    assert malformed(message, encoding.spec) is None
    np.testing.assert_array_equal(encoding.decode(message).matrix, x.T.astype(int) @ x)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_mass_and_the_leading_eigenpairs(form):
    x = examples(150, 200)
    encoding = Encoding(200, form, width=40)
    decoded = encoding.decode(encoding.encode(kernels.pack(x)))
    assert decoded.mass == decoded.sum_sq_weights == 150
    exact = eigenpairs(FactorOperator.from_examples(x), 3)
    found = eigenpairs(decoded, 3)
    np.testing.assert_allclose(found.values[:3], exact.values[:3], rtol=1e-6)
    overlap = np.linalg.svd(exact.vectors.T @ found.vectors)[1]
    assert overlap.min() > 1 - 1e-6


@given(st.integers(0, 5), st.integers(1, 40))
def test_patterns_survive_packing(K, N):
    x = rademacher(K, N, np.random.default_rng(N))
    packed = pack_patterns(x)
    assert packed.nbytes == K * -(-N // 8)
    np.testing.assert_array_equal(unpack_patterns(packed, N), x)


def test_factors_that_no_examples_have_weigh_what_some_could():
    encoding = Encoding(60, width=4, form="factors")
    x = kernels.pack(examples(30, 60))
    honest = encoding.encode(x)
    liar = {**honest, "values": honest["values"] * 1000, "vectors": honest["vectors"] * 7}
    assert encoding.decode(liar).trace <= 60 * (1 + 1e-4)
    values, vectors = honest["values"].astype(float) * 30, honest["vectors"]
    np.testing.assert_array_equal(encoding.decode(honest).weights, values)
    assert encoding.decode(honest).rows is vectors
